/** Invoices of phoenixd, with its limited password: the full one can spend, which a request without content finds out. */
import type { Context } from '#context';
import { asBoolean, asText, asWhole, type StoredJson } from '#core/stored-json';
import {
  askJson,
  type BackEnd,
  BackEndError,
  type BackEndKind,
  checkByInvoice,
  type InvoiceLook,
  madeInvoice,
  type OpenAccess,
  OWN_PACE_MS,
  readNodeUrl,
  refuseAccess,
  refusedBy,
  refuseSpending,
} from './back-end.ts';

/** Where the right one is. */
const LIMITED_PASSWORD =
  'Use http-password-limited-access of ~/.phoenix/phoenix.conf: grep http-password-limited-access ~/.phoenix/phoenix.conf';

/** phoenixd: `address` is that of its HTTP interface, which has no TLS of its own; `credential` is the limited password. */
export const PHOENIXD: BackEndKind = {
  read: (access) => {
    const address = readNodeUrl(access.address, { example: 'http://127.0.0.1:9740', mayBePlain: true });
    if (!/^[!-~]{8,200}$/.test(access.credential)) refuseAccess('credential', `it is not a password of phoenixd. ${LIMITED_PASSWORD}`);
    return { ...access, address };
  },
  name: ({ address }) => new URL(address).host,
  open: openPhoenixd,
  paceMs: OWN_PACE_MS,
};

function openPhoenixd(ctx: Context, { merchantId, address, credential, certificate }: OpenAccess): BackEnd {
  const basic = Buffer.from(`:${credential}`).toString('base64');
  const headers = { authorization: `Basic ${basic}` };
  const ask = (path: string, form?: Record<string, string>) =>
    askJson(ctx, {
      ...{ merchantId, url: `${address}${path}`, headers, certificate: certificate ?? undefined },
      ...(form && { body: new URLSearchParams(form) }),
    });
  const call: typeof ask = async (path, form) => {
    const reply = await ask(path, form);
    if (reply.status !== 200) throw refusedBy(reply, reply.text, basic);
    return reply;
  };
  const create: BackEnd['create'] = async ({ msat, description, seconds, key }) => {
    const form = { amountSat: String(msat / 1_000n), description, expirySeconds: String(seconds), externalId: key };
    const { body } = await call('/createinvoice', form);
    return madeInvoice(asText(body.serialized));
  };
  const look: BackEnd['look'] = async (hash): Promise<InvoiceLook> => {
    const { body } = await call(`/payments/incoming/${hash}`);
    if (asText(body.paymentHash) !== hash) throw new BackEndError('it answers about another invoice');
    const isPaid = asBoolean(body.isPaid);
    if (isPaid === null) throw new BackEndError('it does not say whether the invoice is settled');
    const completedAt = asWhole(body.completedAt);
    return {
      ...{ state: isPaid ? 'settled' : 'open', preimage: asText(body.preimage) },
      ...(isPaid ? readPaid(body) : { receivedMsat: null }),
      settledAt: completedAt !== null && completedAt > 0 ? new Date(completedAt) : null,
    };
  };
  return {
    create,
    look,
    check: async () => {
      // It has nothing to pay: the limited password is refused before that is seen.
      const { status } = await ask('/payinvoice', {});
      const refuse = () => refuseSpending(status, { can: 'pay invoices', advice: LIMITED_PASSWORD });
      return checkByInvoice(ctx, { create, look }, { ownsNode: true, refuse });
    },
  };
}

/**
 * `receivedSat` is what is left after the fees for channels, without parts of a satoshi. Where it is less than was asked for with the fees, the
 * rest went into a credit for fees: the customer has paid in full.
 */
function readPaid(body: StoredJson): Pick<InvoiceLook, 'receivedMsat' | 'feeMsat'> {
  const [received, asked, fees] = [asWhole(body.receivedSat), asWhole(body.requestedSat), Math.max(0, asWhole(body.fees) ?? 0)];
  if (received === null || asked === null) return { receivedMsat: null };
  const left = BigInt(received) * 1_000n;
  const receivedMsat = [BigInt(asked) * 1_000n, left + BigInt(fees)].reduce((most, one) => (one > most ? one : most));
  return { receivedMsat, feeMsat: receivedMsat - left };
}
