/** A Lightning node as its merchants see it: a Lightning address with LUD-21, and the REST interface of LND, over one real node. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { decodeInvoice } from '../../src/lightning/bolt11.ts';
import type { LightningPair } from './lightning-node.ts';

const [KEY, CERTIFICATE] = readFileSync('test/fixtures/node.example.pem', 'utf8').match(/-----BEGIN[\s\S]*?-----END[^\n]*/g)!;
/** The node's own certificate. */
export const NODE_CERTIFICATE = CERTIFICATE!;
const METADATA = JSON.stringify([
  ['text/plain', 'Shop'],
  ['text/identifier', 'shop@example.com'],
]);

type Asked = { path: string; headers: Record<string, string | string[] | undefined>; body: any };
/** What a front answers: its status and its JSON, or text as it is. `null`: it keeps the caller waiting. */
export type FrontAnswer = { status: number; json: any } | { status: number; text: string } | null;
export type LightningFronts = {
  /** `shop@127.0.0.1:port`, and the address of the node. */
  address: string;
  url: string;
  asked: Asked[];
  /** Changes what the front answers from now on; without an argument it answers as it should. */
  behave(change?: (answer: { status: number; json: any }, asked: Asked) => FrontAnswer): void;
  stop(): Promise<void>;
};

/** Starts the fronts of the payee of a pair. Its certificate is trusted in this process, as if an authority had signed it. */
export async function startLightningFronts(pair: LightningPair): Promise<LightningFronts> {
  setDefaultCACertificates([...getCACertificates('default'), NODE_CERTIFICATE]);
  const asked: Asked[] = [];
  const made = new Map<string, { bolt11: string; msat: bigint; memo: string; seconds: number; createdMs: number }>();
  let change: Parameters<LightningFronts['behave']>[0];
  let url = '';
  const make = (msat: bigint, seconds: number, memo: string) => {
    const bolt11 = pair.invoice({ msat, seconds, description: memo });
    const { paymentHash } = decodeInvoice(bolt11);
    made.set(paymentHash, { bolt11, msat, memo, seconds, createdMs: Date.now() });
    return { bolt11, paymentHash };
  };
  const answer = ({ path, headers, body }: Asked): { status: number; json: any } => {
    const { pathname, searchParams } = new URL(path, url);
    const [, hash] = /([0-9a-f]{64})$/.exec(pathname) ?? [];
    if (pathname === '/.well-known/lnurlp/shop')
      return ok({ tag: 'payRequest', callback: `${url}/callback?id=7`, minSendable: 1_000, maxSendable: 500_000_000, metadata: METADATA });
    if (pathname === '/callback') {
      const { bolt11, paymentHash } = make(BigInt(searchParams.get('amount')!), 3_600, 'Shop');
      return ok({ status: 'OK', pr: bolt11, routes: [], verify: `${url}/verify/${paymentHash}` });
    }
    const invoice = made.get(hash ?? '');
    const got = pair.received(hash ?? '');
    const isSettled = got?.isClaimed ?? false;
    if (pathname.startsWith('/verify/'))
      return invoice
        ? ok({ status: 'OK', settled: isSettled, preimage: isSettled ? got!.preimage : null, pr: invoice.bolt11 })
        : ok({ status: 'ERROR', reason: 'Not found' });
    if (headers['grpc-metadata-macaroon'] === undefined) return { status: 401, json: { code: 2, message: 'expected 1 macaroon, got 0' } };
    if (pathname === '/v1/invoices') {
      const { bolt11, paymentHash } = make(BigInt(body.value_msat), Number(body.expiry), body.memo);
      return ok({ r_hash: Buffer.from(paymentHash, 'hex').toString('base64'), payment_request: bolt11, add_index: String(made.size) });
    }
    if (!pathname.startsWith('/v1/invoice/') || !invoice) return { status: 404, json: { code: 5, message: 'unable to locate invoice' } };
    return ok({
      ...{
        memo: invoice.memo,
        r_hash: Buffer.from(hash!, 'hex').toString('base64'),
        value_msat: String(invoice.msat),
        payment_request: invoice.bolt11,
      },
      // LND shows a preimage for open invoices, too.
      r_preimage: (got ? Buffer.from(got.preimage, 'hex') : createHash('sha256').update(hash!).digest()).toString('base64'),
      settle_date: isSettled ? String(Math.floor(Date.now() / 1000)) : '0',
      amt_paid_msat: isSettled ? String(got!.msat) : '0',
      state: isSettled ? 'SETTLED' : got ? 'ACCEPTED' : 'OPEN',
    });
  };
  const server = createServer({ key: KEY!, cert: CERTIFICATE! }, (request, reply) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const text = Buffer.concat(parts).toString();
      const one = { path: request.url!, headers: request.headers, body: text === '' ? null : JSON.parse(text) };
      asked.push(one);
      const usual = answer(one);
      const said = change ? change(usual, one) : usual;
      if (said === null) return;
      reply.writeHead(said.status, { 'content-type': 'application/json' }).end('text' in said ? said.text : JSON.stringify(said.json));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  url = `https://127.0.0.1:${port}`;
  return {
    address: `shop@127.0.0.1:${port}`,
    url,
    asked,
    behave: (next) => {
      change = next;
    },
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

const ok = (json: object) => ({ status: 200, json });
