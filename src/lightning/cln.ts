/** Invoices of a Core Lightning node over its plugin clnrest, with a rune that can only receive. The node's own certificate is pinned. */
import type { Context } from '#context';
import { MINUTE_MS } from '#core/dates';
import { asList, asObject, asText, asWhole, type StoredJson } from '#core/stored-json';
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
} from './back-end.ts';

const STATES: Readonly<Record<string, InvoiceLook['state']>> = { unpaid: 'open', paid: 'settled', expired: 'open' };
/** The error of a label that another invoice has. */
const LABEL_TAKEN = 900;
/** So many labels are tried for one invoice. */
const MOST_LABELS = 5;

/** A Core Lightning node: `address` is that of clnrest, `credential` a rune. */
export const CLN: BackEndKind = {
  read: (access) => {
    const address = readNodeUrl(access.address, { example: 'https://node.example.com:3010' });
    let excess: string[] = [];
    try {
      excess = beyondReceiving(access.credential);
    } catch (error) {
      refuseAccess('credential', `it is not a rune of Core Lightning: ${(error as Error).message}`);
    }
    if (excess.length > 0)
      refuseAccess(
        'credential',
        `it can do more than receive (${excess.slice(0, 5).join(', ')}). Make one that can only receive: ${CREATE_RUNE}`,
      );
    return { ...access, address };
  },
  name: ({ address }) => new URL(address).host,
  open: openCln,
  paceMs: OWN_PACE_MS,
};

type Call = (method: string, body: object) => Promise<StoredJson>;

function openCln(ctx: Context, { merchantId, address, credential, certificate }: OpenAccess): BackEnd {
  const ask = (method: string, body: object) =>
    askJson(ctx, {
      ...{ merchantId, url: `${address}/v1/${method}`, headers: { rune: credential }, body },
      certificate: certificate ?? undefined,
    });
  const call: Call = async (method, body) => {
    const reply = await ask(method, body);
    if (isDone(reply)) return reply.body;
    throw refusedBy(reply, asText(reply.body.message), credential);
  };
  const create: BackEnd['create'] = async ({ msat, description, seconds, key }) => {
    for (let n = 1; n <= MOST_LABELS; n++) {
      const label = `florin-${key}-${n}`;
      const reply = await ask('invoice', { amount_msat: Number(msat), label, description, expiry: seconds });
      if (isDone(reply)) return madeOf(reply.body);
      if (asWhole(reply.body.code) !== LABEL_TAKEN) throw refusedBy(reply, asText(reply.body.message), credential);
      // An answer was lost, or the node was restored. An invoice that is as wanted is used.
      const known = await invoiceOf(call, { label });
      const isUsable = known.status === 'unpaid' && msatOf(known.amount_msat) === msat;
      if (isUsable && Number(known.expires_at) * 1000 > ctx.clock.now().getTime() + MINUTE_MS) return madeOf(known);
      ctx.log.warn({ merchantId, label }, 'The label of a Lightning invoice is taken');
    }
    throw new BackEndError('the labels of its invoices are taken');
  };
  const look: BackEnd['look'] = (handle) => lookUp(call, handle);
  return { create, look, check: () => checkByInvoice(ctx, { create, look }, { ownsNode: true }) };
}

/** Versions differ in which one they answer with. */
const isDone = ({ status }: { status: number }): boolean => status === 200 || status === 201;

function madeOf(body: StoredJson) {
  if (body.warning_capacity !== undefined || body.warning_offline !== undefined)
    throw new BackEndError('its channels cannot receive this amount now');
  return madeInvoice(asText(body.bolt11));
}

async function invoiceOf(call: Call, of: object): Promise<StoredJson> {
  const [invoice] = asList((await call('listinvoices', of)).invoices);
  if (invoice === undefined) throw new BackEndError('it does not know the invoice');
  return asObject(invoice);
}

async function lookUp(call: Call, hash: string): Promise<InvoiceLook> {
  const invoice = await invoiceOf(call, { payment_hash: hash });
  if (asText(invoice.payment_hash) !== hash) throw new BackEndError('it answers about another invoice');
  const state = STATES[asText(invoice.status) ?? ''];
  if (state === undefined) throw new BackEndError('it does not say whether the invoice is settled');
  const [received, paidAt] = [msatOf(invoice.amount_received_msat), asWhole(invoice.paid_at)];
  if (state === 'settled' && received === null) throw new BackEndError('it does not say how much was paid');
  return {
    state,
    preimage: asText(invoice.payment_preimage),
    receivedMsat: state === 'settled' ? received : null,
    settledAt: paidAt !== null && paidAt > 0 ? new Date(paidAt * 1000) : null,
  };
}

/** Whole numbers; older versions wrote `25000msat`. */
function msatOf(value: unknown): bigint | null {
  const whole = asWhole(value);
  if (whole !== null) return BigInt(whole);
  const [, digits] = /^(\d{1,20})(?:msat)?$/.exec(asText(value) ?? '') ?? [];
  return digits === undefined ? null : BigInt(digits);
}

// What a rune may do, read from the rune itself: one that is not limited to receiving is refused before it is stored.

/** What receiving needs at most. */
const ALLOWED: ReadonlySet<string> = new Set(['invoice', 'listinvoices', 'waitanyinvoice', 'waitinvoice', 'getinfo', 'decode', 'wait']);
/** Makes the right one. */
const CREATE_RUNE = `lightning-cli createrune restrictions='[["method=invoice","method=listinvoices"]]'`;
/** The code that vouches for the restrictions comes before them. */
const CODE_BYTES = 32;
/** A field and the condition, before what it is compared with. */
const ALTERNATIVE = /^[A-Za-z0-9_]*[!=/^$~<>{}#]/;

/** The methods beyond receiving; empty for a good one. Errors: the text is not a rune. */
function beyondReceiving(rune: string): string[] {
  if (!/^[A-Za-z0-9_-]{44,4000}={0,2}$/.test(rune)) throw new Error('it is not base64url');
  const bytes = Buffer.from(rune, 'base64url');
  // All restrictions must hold. One that only names methods is a limit, whatever the others say.
  const limits = split(bytes.subarray(CODE_BYTES).toString(), '&')
    .map((restriction) => split(restriction, '|').map(methodOf))
    .filter((methods) => methods.every((method) => method !== null)) as string[][];
  const excesses = limits.map((methods) => methods.filter((method) => !ALLOWED.has(method)));
  return excesses.find((names) => names.length === 0) ?? excesses[0] ?? ['every command'];
}

/** The method that an alternative allows; null if it is about something else. */
function methodOf(alternative: string): string | null {
  const found = ALTERNATIVE.exec(alternative);
  if (!found) throw new Error('it has a restriction that is not known');
  return found[0] === 'method=' ? alternative.slice(found[0].length) : null;
}

/** Parts of a text. A mark after a backslash is not one. */
function split(text: string, mark: string): string[] {
  const parts: string[] = [];
  let from = 0;
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '\\') at++;
    else if (text[at] === mark) {
      parts.push(text.slice(from, at));
      from = at + 1;
    }
  }
  return [...parts, text.slice(from)];
}
