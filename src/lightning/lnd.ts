/** Invoices of an LND node over REST, with a macaroon that can only receive. The node's own certificate is pinned. */
import type { Context } from '#context';
import { asBigint, asText, type StoredJson } from '#core/stored-json';
import { askJson, type BackEnd, BackEndError, type InvoiceLook } from './back-end.ts';
import { decodeInvoice } from './bolt11.ts';

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

/** `macaroon`: as hex. `certificate`: the node's, as PEM; null: one that an authority signed. */
export type LndAccess = { url: string; macaroon: string; certificate: string | null };

/** A back end for the node. `merchantId`: whose look-ups are counted. */
export function openLnd(ctx: Context, { merchantId, url, macaroon, certificate }: LndAccess & { merchantId: string }): BackEnd {
  const call = async (path: string, body?: object): Promise<StoredJson> => {
    const headers = { 'grpc-metadata-macaroon': macaroon };
    const reply = await askJson(ctx, {
      ...{ merchantId, url: `${url}${path}`, timeoutMs: ASK_MS, headers, certificate: certificate ?? undefined },
      ...(body && { body }),
    });
    if (reply.status === 200) return reply.body;
    // The node may repeat what it was sent.
    const said = (asText(reply.body.message) ?? '').replaceAll(macaroon, '…').slice(0, 200);
    throw new BackEndError(`it answers with status ${reply.status}${said === '' ? '' : ` and "${said}"`}`, {
      isAnswer: reply.status < 500,
    });
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
      const { bolt11, handle } = await create({ msat: 1_000n, description: 'Florin checks that it can receive', seconds: 60 });
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
