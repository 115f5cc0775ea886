/** Invoices of an LND node over REST, with a macaroon that can only receive. The node's own certificate is pinned. */
import type { Context } from '#context';
import { asBigint, asText, type StoredJson } from '#core/stored-json';
import {
  askJson,
  type BackEnd,
  BackEndError,
  type BackEndKind,
  type InvoiceLook,
  type OpenAccess,
  readNodeUrl,
  refuseAccess,
  refusedBy,
  testInvoice,
} from './back-end.ts';
import { decodeInvoice } from './bolt11.ts';
import { BAKE_MACAROON, spendingOf } from './macaroon.ts';

const ASK_MS = 5_000;
const STATES: Readonly<Record<string, InvoiceLook['state']>> = {
  OPEN: 'open',
  // Parts of it are here, and the payer may still get them back.
  ACCEPTED: 'open',
  SETTLED: 'settled',
  CANCELED: 'canceled',
};
/** LND takes at most 100,000 BTC. */
const MOST_MSAT = 10n ** 16n;

/** An LND node: `address` is its REST interface, `credential` a macaroon as hex. */
export const LND: BackEndKind = {
  read: (access) => {
    const address = readNodeUrl(access.address, { example: 'https://node.example.com:8080' });
    const credential = access.credential.toLowerCase();
    if (!/^([0-9a-f]{2}){20,4000}$/.test(credential)) refuseAccess('credential', 'it must be a macaroon of LND as hex');
    let excess: string[] = [];
    try {
      excess = spendingOf(Buffer.from(credential, 'hex'));
    } catch (error) {
      refuseAccess('credential', `it is not a macaroon of LND: ${(error as Error).message}`);
    }
    if (excess.length > 0)
      refuseAccess(
        'credential',
        `it can do more than receive (${excess.slice(0, 5).join(', ')}). Make one that can only receive: ${BAKE_MACAROON}`,
      );
    return { ...access, address, credential };
  },
  name: ({ address }) => new URL(address).host,
  open: openLnd,
  lookMs: 1_000,
};

function openLnd(ctx: Context, { merchantId, address, credential, certificate }: OpenAccess): BackEnd {
  const call = async (path: string, body?: object): Promise<StoredJson> => {
    const headers = { 'grpc-metadata-macaroon': credential };
    const reply = await askJson(ctx, {
      ...{ merchantId, url: `${address}${path}`, timeoutMs: ASK_MS, headers, certificate: certificate ?? undefined },
      ...(body && { body }),
    });
    if (reply.status === 200) return reply.body;
    throw refusedBy(reply, asText(reply.body.message), credential);
  };
  const create: BackEnd['create'] = async ({ msat, description, seconds }) => {
    // `private`: the invoice names a way over channels that are not announced.
    const body = await call('/v1/invoices', { memo: description, value_msat: msat.toString(), expiry: String(seconds), private: true });
    const bolt11 = asText(body.payment_request);
    if (bolt11 === null) throw new BackEndError('its answer has no invoice');
    return { bolt11, handle: decodeInvoice(bolt11).paymentHash, descriptionHash: null };
  };
  return {
    create,
    check: async () => {
      const { bolt11, handle } = await create(testInvoice(ctx, 1_000n));
      await lookUp(call, handle);
      return { leastMsat: 1_000n, mostMsat: MOST_MSAT, payee: decodeInvoice(bolt11).payee };
    },
    look: (handle) => lookUp(call, handle),
  };
}

async function lookUp(call: (path: string) => Promise<StoredJson>, hash: string): Promise<InvoiceLook> {
  const body = await call(`/v1/invoice/${hash}`);
  if (hexOf(body.r_hash) !== hash) throw new BackEndError('it answers about another invoice');
  const state = STATES[asText(body.state) ?? ''];
  if (state === undefined) throw new BackEndError('it does not say whether the invoice is settled');
  const [received, settled] = [asBigint(body.amt_paid_msat), asBigint(body.settle_date)];
  const isSettled = state === 'settled';
  if (isSettled && received === null) throw new BackEndError('it does not say how much was paid');
  return {
    state,
    preimage: hexOf(body.r_preimage),
    receivedMsat: isSettled ? received : null,
    settledAt: isSettled && settled !== null && settled > 0n ? new Date(Number(settled) * 1000) : null,
  };
}

/** Bytes are base64 in the JSON of LND. */
const hexOf = (value: unknown): string | null => {
  const text = asText(value);
  return text === null ? null : Buffer.from(text, 'base64').toString('hex');
};
