/**
 * A Lightning node as its merchants see it: a Lightning address with LUD-21, and the interfaces of LND, Core Lightning, phoenixd and LNbits, and
 * NWC, over one real node.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { decodeInvoice } from '../../src/core/bolt11.ts';
import type { LightningPair } from './lightning-node.ts';
import { type NostrRelay, startNostrRelay } from './nostr-relay.ts';

const [KEY, CERTIFICATE] = readFileSync('test/fixtures/node.example.pem', 'utf8').match(/-----BEGIN[\s\S]*?-----END[^\n]*/g)!;
/** The node's own certificate. */
export const NODE_CERTIFICATE = CERTIFICATE!;
const METADATA = JSON.stringify([
  ['text/plain', 'Shop'],
  ['text/identifier', 'shop@example.com'],
]);

/** Credentials of the fronts. */
export const PHOENIXD_PASSWORDS = { limited: '5f'.repeat(32), full: 'fa'.repeat(32) };
export const LNBITS_KEYS = { invoice: '1c'.repeat(16), admin: 'ad'.repeat(16) };

type Asked = { path: string; headers: Record<string, string | string[] | undefined>; body: any };
/** What a front answers: its status and its JSON, or text as it is, perhaps without an end. `null`: it keeps the caller waiting. */
export type FrontAnswer =
  | { status: number; json: any; headers?: Record<string, string> }
  | { status: number; text: string; location?: string; isEndless?: boolean }
  | null;
export type LightningFronts = {
  /** `shop@127.0.0.1:port`, and the address of the node. */
  address: string;
  url: string;
  /** A connection to the wallet, and the relay between. */
  nwc: string;
  relay: NostrRelay;
  asked: Asked[];
  /** Makes an invoice that nobody asked for. */
  make: Ledger['make'];
  /** Changes what the front answers from now on; without an argument it answers as it should. */
  behave(change?: (answer: { status: number; json: any }, asked: Asked) => FrontAnswer): void;
  stop(): Promise<void>;
};

/** Starts the fronts of the payee of a pair. Its certificate is trusted in this process, as if an authority had signed it. */
export async function startLightningFronts(pair: LightningPair): Promise<LightningFronts> {
  setDefaultCACertificates([...getCACertificates('default'), NODE_CERTIFICATE]);
  const asked: Asked[] = [];
  const made = new Map<string, Made>();
  let change: Parameters<LightningFronts['behave']>[0];
  let url = '';
  const ledger: Ledger = {
    url: () => url,
    make: (msat, { seconds, memo, key = '' }) => {
      const bolt11 = pair.invoice({ msat, seconds, description: memo });
      const { paymentHash } = decodeInvoice(bolt11);
      const one = { bolt11, paymentHash, msat, memo, seconds, key, createdMs: Date.now() };
      made.set(paymentHash, one);
      return one;
    },
    named: (key) => [...made.values()].find((one) => one.key === key) ?? null,
    known: (hash) => {
      const invoice = made.get(hash);
      const got = pair.received(hash);
      return invoice ? { ...invoice, got, isSettled: got?.isClaimed ?? false } : null;
    },
    size: () => made.size,
  };
  const answer = (one: Asked): { status: number; json: any } => {
    const { headers, path } = one;
    if (headers['grpc-metadata-macaroon'] !== undefined) return answerLnd(ledger, one);
    if (headers.rune !== undefined) return answerCln(ledger, one);
    if (headers.authorization !== undefined) return answerPhoenixd(ledger, one);
    if (headers['x-api-key'] !== undefined) return answerLnbits(ledger, one);
    return path.startsWith('/v1/') ? { status: 401, json: { code: 2, message: 'expected 1 macaroon, got 0' } } : answerAddress(ledger, one);
  };
  const server = createServer({ key: KEY!, cert: CERTIFICATE! }, (request, reply) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const content = Buffer.concat(parts).toString();
      const one = { path: request.url!, headers: request.headers, body: readBody(content, String(request.headers['content-type'])) };
      asked.push(one);
      const usual = answer(one);
      const said: FrontAnswer = change ? change(usual, one) : usual;
      if (said === null) return;
      const text = 'text' in said ? said.text : typeof said.json === 'string' ? said.json : JSON.stringify(said.json);
      const type = text.startsWith('{') ? 'application/json' : 'text/plain';
      const headers = { 'content-type': type, ...('headers' in said && said.headers) };
      const { location, isEndless = false } = 'text' in said ? said : {};
      reply.writeHead(said.status, { ...headers, ...(location !== undefined && { location }) });
      if (!isEndless) {
        reply.end(text);
        return;
      }
      const timer = setInterval(() => reply.write(text), 100);
      reply.on('close', () => clearInterval(timer));
    });
  });
  const relay = startNostrRelay(server, (method, params) => {
    const one = { path: `nwc:${method}`, headers: {}, body: params };
    asked.push(one);
    const usual = answerNwc(ledger, method, params);
    const said = change ? change(usual, one) : usual;
    return said === null || 'text' in said ? null : said.json;
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  url = `https://127.0.0.1:${port}`;
  return {
    address: `shop@127.0.0.1:${port}`,
    url,
    nwc: relay.connection(`wss://127.0.0.1:${port}`),
    relay,
    asked,
    make: ledger.make,
    behave: (next) => {
      change = next;
    },
    stop: () =>
      new Promise((resolve) => {
        relay.stop();
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

const ok = (json: object) => ({ status: 200, json });
const readBody = (text: string, type: string): any =>
  text === '' ? null : type.includes('form') ? Object.fromEntries(new URLSearchParams(text)) : JSON.parse(text);

type Made = { bolt11: string; paymentHash: string; msat: bigint; memo: string; seconds: number; key: string; createdMs: number };
/** The invoices of the node, over which every front stands. */
type Ledger = {
  url(): string;
  make(msat: bigint, how: { seconds: number; memo: string; key?: string }): Made;
  named(key: string): Made | null;
  known(hash: string): (Made & { got: ReturnType<LightningPair['received']>; isSettled: boolean }) | null;
  size(): number;
};
type Answer = { status: number; json: any };
const hashIn = (path: string): string => /([0-9a-f]{64})$/.exec(path)?.[1] ?? '';

function answerAddress({ url, make, known }: Ledger, { path }: Asked): Answer {
  const { pathname, searchParams } = new URL(path, url());
  if (pathname === '/.well-known/lnurlp/shop')
    return ok({ tag: 'payRequest', callback: `${url()}/callback?id=7`, minSendable: 1_000, maxSendable: 500_000_000, metadata: METADATA });
  if (pathname === '/callback') {
    const { bolt11, paymentHash } = make(BigInt(searchParams.get('amount')!), { seconds: 3_600, memo: 'Shop' });
    return ok({ status: 'OK', pr: bolt11, routes: [], verify: `${url()}/verify/${paymentHash}` });
  }
  const invoice = known(hashIn(pathname));
  return invoice
    ? ok({ status: 'OK', settled: invoice.isSettled, preimage: invoice.isSettled ? invoice.got!.preimage : null, pr: invoice.bolt11 })
    : ok({ status: 'ERROR', reason: 'Not found' });
}

const base64 = (hex: string): string => Buffer.from(hex, 'hex').toString('base64');

function answerLnd({ make, known, size }: Ledger, { path, body }: Asked): Answer {
  if (path === '/v1/invoices') {
    const { bolt11, paymentHash } = make(BigInt(body.value_msat), { seconds: Number(body.expiry), memo: body.memo });
    return ok({ r_hash: base64(paymentHash), payment_request: bolt11, add_index: String(size()) });
  }
  const invoice = path.startsWith('/v1/invoice/') ? known(hashIn(path)) : null;
  if (!invoice) return { status: 404, json: { code: 5, message: 'unable to locate invoice' } };
  const { got, isSettled, paymentHash } = invoice;
  return ok({
    ...{ memo: invoice.memo, r_hash: base64(paymentHash), value_msat: String(invoice.msat), payment_request: invoice.bolt11 },
    // LND shows a preimage for open invoices, too.
    r_preimage: base64(got?.preimage ?? createHash('sha256').update(paymentHash).digest('hex')),
    settle_date: isSettled ? String(Math.floor(Date.now() / 1000)) : '0',
    amt_paid_msat: isSettled ? String(got!.msat) : '0',
    state: isSettled ? 'SETTLED' : got ? 'ACCEPTED' : 'OPEN',
  });
}

/** clnrest: 201 for what worked, and 500 for every error of a command. */
function answerCln({ make, named, known, size }: Ledger, { path, body }: Asked): Answer {
  const shown = (hash: string) => {
    const { got, isSettled, ...one } = known(hash)!;
    const expires = Math.floor(one.createdMs / 1000) + one.seconds;
    return {
      ...{
        label: one.key,
        bolt11: one.bolt11,
        payment_hash: hash,
        amount_msat: Number(one.msat),
        created_index: size(),
        expires_at: expires,
      },
      ...{ status: isSettled ? 'paid' : expires * 1000 < Date.now() ? 'expired' : 'unpaid' },
      ...(isSettled && {
        ...{ pay_index: 1, amount_received_msat: Number(got!.msat), paid_at: Math.floor(Date.now() / 1000) },
        payment_preimage: got!.preimage,
      }),
    };
  };
  if (path === '/v1/invoice') {
    if (named(body.label)) return { status: 500, json: { code: 900, message: `Duplicate label '${body.label}'` } };
    const { bolt11, paymentHash } = make(BigInt(body.amount_msat), { seconds: body.expiry, memo: body.description, key: body.label });
    return {
      status: 201,
      json: { payment_hash: paymentHash, bolt11, expires_at: 0, created_index: size(), payment_secret: '00'.repeat(32) },
    };
  }
  if (path !== '/v1/listinvoices') return { status: 401, json: { code: 1502, message: 'Not permitted: method not allowed' } };
  const found = body.label === undefined ? known(body.payment_hash) : named(body.label);
  return { status: 201, json: { invoices: found ? [shown(found.paymentHash)] : [] } };
}

/** phoenixd, with its two passwords. */
function answerPhoenixd({ make, known }: Ledger, { path, headers, body }: Asked): Answer {
  const password = Buffer.from(String(headers.authorization).slice('Basic '.length), 'base64').toString().slice(1);
  if (path === '/payinvoice')
    return password === PHOENIXD_PASSWORDS.full
      ? { status: 400, json: 'Missing form parameter: invoice' }
      : { status: 401, json: 'Invalid authentication (use basic auth with the http password set in phoenix.conf)' };
  if (path === '/createinvoice') {
    const how = { seconds: Number(body.expirySeconds), memo: body.description, key: body.externalId };
    const { bolt11, paymentHash } = make(BigInt(body.amountSat) * 1_000n, how);
    return ok({ amountSat: Number(body.amountSat), paymentHash, serialized: bolt11 });
  }
  const invoice = known(hashIn(path));
  if (!invoice) return { status: 404, json: 'Not found' };
  const { got, isSettled, paymentHash, memo, bolt11, msat } = invoice;
  return ok({
    ...{ type: 'incoming_payment', subType: 'lightning', paymentHash, description: memo, invoice: bolt11, externalId: invoice.key },
    // It shows a preimage for open invoices, too.
    preimage: got?.preimage ?? createHash('sha256').update(paymentHash).digest('hex'),
    ...{ isPaid: isSettled, isExpired: false, requestedSat: Number(msat / 1_000n), createdAt: invoice.createdMs },
    ...{ receivedSat: isSettled ? Number(got!.msat / 1_000n) : 0, fees: 0, ...(isSettled && { completedAt: Date.now() }) },
  });
}

/** LNbits, with the invoice key and the admin key of one wallet. */
function answerLnbits({ make, known }: Ledger, { path, headers, body }: Asked): Answer {
  const isAdmin = headers['x-api-key'] === LNBITS_KEYS.admin;
  if (path === '/api/v1/payments') {
    if (body.out)
      return isAdmin ? { status: 400, json: { detail: 'Missing BOLT11 invoice' } } : { status: 403, json: { detail: 'Invalid key type' } };
    const { bolt11, paymentHash, msat } = make(BigInt(body.amount) * 1_000n, {
      seconds: body.expiry,
      memo: body.memo,
      key: body.extra.florin,
    });
    const shown = {
      checking_id: paymentHash,
      payment_hash: paymentHash,
      amount: Number(msat),
      fee: 0,
      bolt11,
      status: 'pending',
      preimage: null,
    };
    return { status: 201, json: shown };
  }
  const invoice = known(hashIn(path));
  if (!invoice) return { status: 404, json: { detail: 'Payment does not exist.' } };
  const { got, isSettled, paymentHash, bolt11 } = invoice;
  const details = { payment_hash: paymentHash, bolt11, amount: Number(got?.msat ?? invoice.msat), fee: 0 };
  return ok(isSettled ? { paid: true, preimage: got!.preimage, details } : { paid: false, status: 'pending', details });
}

/** A wallet over NIP-47. */
function answerNwc({ make, known }: Ledger, method: string, params: any): Answer {
  const failed = (code: string) => ok({ result_type: method, error: { code, message: 'no such thing' }, result: null });
  const shown = (hash: string) => {
    const { got, isSettled, bolt11, msat, createdMs, seconds } = known(hash)!;
    const created = Math.floor(createdMs / 1000);
    return ok({
      ...{ result_type: method, error: null },
      result: {
        ...{ type: 'incoming', state: isSettled ? 'settled' : got ? 'accepted' : 'pending', invoice: bolt11, payment_hash: hash },
        ...{ amount: Number(got?.msat ?? msat), fees_paid: 0, created_at: created, expires_at: created + seconds },
        ...(isSettled ? { preimage: got!.preimage, settled_at: Math.floor(Date.now() / 1000) } : { preimage: null }),
      },
    });
  };
  if (method === 'make_invoice') {
    const how = { seconds: params.expiry, memo: params.description, key: params.metadata.florin };
    return shown(make(BigInt(params.amount), how).paymentHash);
  }
  if (method !== 'lookup_invoice') return failed('NOT_IMPLEMENTED');
  return known(params.payment_hash) ? shown(params.payment_hash) : failed('NOT_FOUND');
}
