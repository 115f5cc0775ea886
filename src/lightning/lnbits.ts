/** Invoices of a wallet of LNbits, with its invoice key: the admin key can spend, which a payment of nothing finds out. */
import type { Context } from '#context';
import { asBoolean, asObject, asText, asWhole } from '#core/stored-json';
import {
  askJson,
  type BackEnd,
  BackEndError,
  type BackEndKind,
  checkByInvoice,
  type InvoiceLook,
  madeInvoice,
  type OpenAccess,
  PROVIDER_PACE_MS,
  readNodeUrl,
  refuseAccess,
  refusedBy,
  refuseSpending,
} from './back-end.ts';

/** LNbits takes at most 0.1 BTC, if its operator did not change that. */
const LNBITS_MSAT = 10_000_000_000n;
/** Where the right one is. */
const INVOICE_KEY = 'Use the "Invoice/read key" of the wallet, under "API docs", not its "Admin key"';
const PAYMENTS = '/api/v1/payments';

/** LNbits: `address` is that of the server, `credential` the invoice key of a wallet. */
export const LNBITS: BackEndKind = {
  read: (access) => {
    const address = readNodeUrl(access.address, { example: 'https://lnbits.example.com' });
    if (!/^[0-9A-Za-z_-]{16,100}$/.test(access.credential)) refuseAccess('credential', `it is not a key of LNbits. ${INVOICE_KEY}`);
    return { ...access, address };
  },
  name: ({ address }) => new URL(address).host,
  open: openLnbits,
  paceMs: PROVIDER_PACE_MS,
};

function openLnbits(ctx: Context, { merchantId, address, credential, certificate }: OpenAccess): BackEnd {
  const ask = (path: string, body?: object) =>
    askJson(ctx, {
      ...{ merchantId, url: `${address}${path}`, headers: { 'x-api-key': credential } },
      ...{ certificate: certificate ?? undefined, ...(body && { body }) },
    });
  const call: typeof ask = async (path, body) => {
    const reply = await ask(path, body);
    if (reply.status !== 200 && reply.status !== 201) throw refusedBy(reply, asText(reply.body.detail), credential);
    return reply;
  };
  const create: BackEnd['create'] = async ({ msat, description, seconds, key }) => {
    const wanted = { out: false, amount: Number(msat / 1_000n), unit: 'sat', memo: description, expiry: seconds, extra: { florin: key } };
    const { body } = await call(PAYMENTS, wanted);
    return madeInvoice(asText(body.bolt11));
  };
  const look: BackEnd['look'] = async (hash): Promise<InvoiceLook> => {
    const { body } = await call(`${PAYMENTS}/${hash}`);
    const isPaid = asBoolean(body.paid);
    if (isPaid === null) throw new BackEndError('it does not say whether the invoice is settled');
    const details = asObject(body.details);
    const about = asText(details.payment_hash);
    if (about !== null && about !== hash) throw new BackEndError('it answers about another invoice');
    const [amount, fee] = [asWhole(details.amount), asWhole(details.fee) ?? 0];
    return {
      ...{ state: isPaid ? 'settled' : 'open', preimage: asText(body.preimage), settledAt: null },
      receivedMsat: isPaid && amount !== null ? BigInt(amount) : null,
      // It has a sign in some versions, and is taken from the amount in all.
      feeMsat: BigInt(Math.abs(fee)),
    };
  };
  return {
    create,
    look,
    check: async () => {
      // It names nothing to pay: an invoice key is refused before that is seen.
      const { status } = await ask(PAYMENTS, { out: true });
      const refuse = () => refuseSpending(status, { can: 'pay invoices', advice: INVOICE_KEY });
      return checkByInvoice(ctx, { create, look }, { ownsNode: false, mostMsat: LNBITS_MSAT, refuse });
    },
  };
}
