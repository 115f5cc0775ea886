/**
 * Invoices by a Lightning address (LUD-16, LUD-06), looked at by LUD-21 `verify`. It needs no credential at all. The provider chooses how long
 * an invoice is valid, and sees every amount.
 */
import { createHash } from 'node:crypto';
import { isOnion } from '#connections';
import type { Context } from '#context';
import { decodeInvoice } from '#core/bolt11';
import { asBoolean, asList, asText, asWhole, type StoredJson } from '#core/stored-json';
import {
  askJson,
  type BackEnd,
  BackEndError,
  type BackEndKind,
  type MadeInvoice,
  type OpenAccess,
  PROVIDER_PACE_MS,
  refuseAccess,
  vetUrl,
} from './back-end.ts';

/** LUD-16: these characters only. */
const ADDRESS = /^([a-z0-9._-]{1,64})@([a-z0-9.-]{1,253}(?::\d{1,5})?)$/;

/** A Lightning address, which needs no credential. */
export const ADDRESS_KIND: BackEndKind = {
  read: ({ address }) => {
    if (addressUrl(address) === null) refuseAccess('address', 'it is not a Lightning address, such as shop@example.com, in lower case');
    return { address, credential: '', certificate: null };
  },
  name: ({ address }) => address,
  open: openAddress,
  paceMs: PROVIDER_PACE_MS,
};

/** Where a Lightning address is asked for; null if the text is not one. */
function addressUrl(address: string): string | null {
  const [, user, host] = ADDRESS.exec(address) ?? [];
  if (user === undefined) return null;
  const url = new URL(`https://${host}/.well-known/lnurlp/${user}`);
  return isOnion(url.hostname) ? url.href.replace('https', 'http') : url.href;
}

type PayRequest = { callback: string; leastMsat: bigint; mostMsat: bigint; metadata: string };

function openAddress(ctx: Context, { merchantId, address }: OpenAccess): BackEnd {
  const get = async (url: string): Promise<StoredJson> => {
    const { status, body, restMs } = await askJson(ctx, { merchantId, url });
    // LUD-06: errors come with status 200 as well.
    if (asText(body.status)?.toUpperCase() === 'ERROR')
      throw new BackEndError(`it answers "${(asText(body.reason) ?? '').slice(0, 200)}"`, { restMs });
    if (status !== 200) throw new BackEndError(`it answers with status ${status}`, { isAnswer: status < 500, restMs });
    return body;
  };
  const ask = async () => readPayRequest(await get(addressUrl(address)!));
  const invoiceFor = async ({ callback, metadata, leastMsat, mostMsat }: PayRequest, msat: bigint): Promise<MadeInvoice> => {
    if (msat < leastMsat || msat > mostMsat) throw new BackEndError(`it takes ${leastMsat} to ${mostMsat} millisatoshis`);
    const body = await get(`${callback}${callback.includes('?') ? '&' : '?'}amount=${msat}`);
    const [bolt11, handle] = [asText(body.pr), asText(body.verify)];
    if (bolt11 === null) throw new BackEndError('its answer has no invoice');
    if (handle === null)
      throw new BackEndError('it does not say whether an invoice is paid (LUD-21 "verify"); use another provider or a node');
    // What could never be looked at must not be shown.
    await vetUrl(ctx, { merchantId, url: handle });
    return { bolt11, handle: `${handle} ${bolt11}`, descriptionHash: createHash('sha256').update(metadata).digest('hex') };
  };
  const look: BackEnd['look'] = async (handle) => {
    const [url, bolt11] = handle.split(' ');
    const body = await get(url!);
    if (asText(body.pr)?.toLowerCase() !== bolt11!.toLowerCase()) throw new BackEndError('it answers about another invoice');
    const settled = asBoolean(body.settled);
    if (settled === null) throw new BackEndError('it does not say whether the invoice is settled');
    return { state: settled ? 'settled' : 'open', preimage: asText(body.preimage), receivedMsat: null, settledAt: null };
  };
  return {
    check: async () => {
      const request = await ask();
      const { handle, bolt11 } = await invoiceFor(request, request.leastMsat);
      decodeInvoice(bolt11);
      if ((await look(handle)).state !== 'open') throw new BackEndError('it calls a new invoice paid');
      return { leastMsat: request.leastMsat, mostMsat: request.mostMsat, payee: null };
    },
    create: async ({ msat }) => invoiceFor(await ask(), msat),
    look,
  };
}

/** LUD-06: amounts are millisatoshis, and `metadata` is text that contains JSON. Errors: BackEndError. */
function readPayRequest(body: StoredJson): PayRequest {
  const bad = (what: string): never => {
    throw new BackEndError(`its answer is not a pay request: ${what}`);
  };
  if (body.tag !== 'payRequest') bad('the tag');
  const [callback, least, most, metadata] = [
    asText(body.callback),
    asWhole(body.minSendable),
    asWhole(body.maxSendable),
    asText(body.metadata),
  ];
  if (callback === null || callback.includes(' ') || callback.includes('#') || !URL.canParse(callback)) return bad('the callback');
  if (least === null || most === null || least < 1 || most < least) return bad('minSendable and maxSendable');
  if (metadata === null || !hasDescription(metadata)) return bad('the metadata');
  const needed = Object.values((body.payerData ?? {}) as object).some(
    (field: unknown) => (field as { mandatory?: unknown } | null)?.mandatory === true,
  );
  if (needed) bad('it requires data of the payer');
  return { callback, leastMsat: BigInt(least), mostMsat: BigInt(most), metadata };
}

function hasDescription(metadata: string): boolean {
  try {
    return asList(JSON.parse(metadata)).some((entry) => asList(entry)[0] === 'text/plain');
  } catch {
    // Not JSON.
    return false;
  }
}
