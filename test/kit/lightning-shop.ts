/** A merchant that takes Lightning payments: the service, two real nodes with a channel, and what the merchant's node shows. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { OPERATOR_ACTOR } from '../../src/cli/command.ts';
import { type LightningKind, setLightning } from '../../src/lightning/access.ts';
import { getMerchantNow } from '../../src/merchants/merchants.ts';
import { eventually, type Reply, startTestApp, type TestApp } from './app.ts';
import { type LightningFronts, LNBITS_KEYS, NODE_CERTIFICATE, PHOENIXD_PASSWORDS, startLightningFronts } from './lightning-fronts.ts';
import { type LightningPair, startLightningPair } from './lightning-node.ts';
import { type Receiver, startReceiver } from './receiver.ts';

const { macaroons } = JSON.parse(readFileSync('test/fixtures/lightning/vectors.json', 'utf8'));
/** Invented macaroons in the form of LND, with what each may do. */
export const MACAROONS: { name: string; hex: string; receive_only: boolean; because?: string }[] = macaroons.cases;
export const INVOICE_MACAROON: string = MACAROONS[0]!.hex;

/** A rune with restrictions. The code that vouches for them is invented. */
export const runeOf = (restrictions: string): string =>
  Buffer.concat([createHash('sha256').update(restrictions).digest(), Buffer.from(restrictions)]).toString('base64url');
/** What each kind is asked with, as the commands in its errors make it. */
export const CREDENTIALS: Readonly<Record<Exclude<LightningKind, 'nwc'>, string>> = {
  address: '',
  lnd: INVOICE_MACAROON,
  cln: runeOf('=3&method=invoice|method=listinvoices'),
  phoenixd: PHOENIXD_PASSWORDS.limited,
  lnbits: LNBITS_KEYS.invoice,
};

/** The node of a coin that is never asked: it makes Bitcoin a configured coin. */
const ENVIRONMENT = { BTC_NETWORK: 'regtest', BTC_NODE_URL: 'http://florin:test@127.0.0.1:1', LOG_LEVEL: 'fatal' };

export type LightningShop = {
  app: TestApp;
  pair: LightningPair;
  fronts: LightningFronts;
  receiver: Receiver;
  /** Uses the front of a kind from now on, perhaps with another access. */
  use(kind: LightningKind, changed?: object): Promise<void>;
  create(amount?: string): Promise<string>;
  detail(id: string): Promise<any>;
  /** Chooses a network of Bitcoin, Lightning if none is named, as a browser without scripts does. Returns the page, and its size on the wire. */
  choose(id: string, network?: string): Promise<{ status: number; bytes: number; text: string }>;
  /** Makes a payment and chooses Lightning. Returns its ID and its invoice. */
  ask(amount?: string): Promise<{ id: string; invoice: string }>;
  reached(id: string, status: string): Promise<any>;
  eventsOf(id: string): string[];
  /** The row of the only invoice of a payment. */
  row(id: string): Promise<any>;
  /** Waits until the invoice of a payment was looked at again. */
  looked(id: string): Promise<any>;
  stop(): Promise<void>;
};

export const ok = (reply: Reply, status = 200): any => {
  assert.equal(reply.status, status, reply.text);
  return reply.json;
};

export async function startLightningShop(environment: Record<string, string> = {}): Promise<LightningShop> {
  const [app, pair, receiver] = await Promise.all([
    startTestApp({ ...ENVIRONMENT, ...environment }),
    startLightningPair(),
    startReceiver(),
  ]);
  const fronts = await startLightningFronts(pair);
  ok(await app.live.post('/v1/webhook_endpoints', { url: receiver.url, events: ['*'] }), 201);
  const { merchantId } = app.merchant;
  const detail = async (id: string): Promise<any> => ok(await app.live.get(`/api/payment/${id}`));
  const create = async (amount = '9.70'): Promise<string> =>
    ok(await app.live.post('/api/payment/create/simple', { amount_usd: amount, return_url: 'https://shop.example/' }), 201).transaction_id;
  const choose = async (id: string, network = 'lightning') => {
    const page = await (await fetch(`${app.url}/pay?id=${id}`)).text();
    const token = /name="token" value="([^"]+)"/.exec(page)?.[1] ?? '';
    const reply = await fetch(`${app.url}/pay/select`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ id, token, currency: 'BTC', 'network-BTC': network }).toString(),
    });
    const text = await reply.text();
    return { status: reply.status, bytes: gzipSync(text).length, text: text.slice(text.indexOf('<main')) };
  };
  const row = async (id: string): Promise<any> => {
    const rows = await app.app.ctx.db.sql`select * from lightning_invoices where payment_id = ${id}`;
    assert.equal(rows.length, 1);
    return { ...rows[0] };
  };
  return {
    ...{ app, pair, fronts, receiver, detail, create, choose, row },
    use: async (kind, changed = {}) => {
      const access = {
        ...{
          kind,
          address: kind === 'nwc' ? '' : kind === 'address' ? fronts.address : fronts.url,
          credential: kind === 'nwc' ? fronts.nwc : CREDENTIALS[kind],
        },
        ...{ certificate: kind === 'lnd' || kind === 'cln' ? NODE_CERTIFICATE : null, ...changed },
      };
      await setLightning(app.app.ctx, { merchantId, actor: OPERATOR_ACTOR, access });
      // Pages may show a merchant as it was a second ago.
      await getMerchantNow(app.app.ctx, { merchantId });
    },
    ask: async (amount) => {
      const id = await create(amount);
      const page = await choose(id);
      assert.equal(page.status, 200, page.text);
      return { id, invoice: (await detail(id)).payment_address };
    },
    reached: (id, status) =>
      eventually(
        () => detail(id),
        (one) => one.status === status,
      ),
    eventsOf: (id) => receiver.received.filter(({ event }) => event.data.id === id).map(({ event }) => event.type),
    looked: async (id) => {
      const before = fronts.asked.length;
      await eventually(
        async () => fronts.asked.length,
        (count) => count >= before + 2,
      );
      return detail(id);
    },
    stop: async () => {
      await app.stop();
      await fronts.stop();
      await receiver.stop();
    },
  };
}
