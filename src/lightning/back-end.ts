/**
 * What a node or a provider can do that makes invoices for a merchant, and how its answers are read. Nothing it says completes a payment:
 * `invoices.ts` judges each answer against the invoice that Florin itself decoded.
 */
import { isOnion } from '#connections';
import type { Context } from '#context';
import { decodeInvoice } from '#core/bolt11';
import { HOUR_MS, MINUTE_MS } from '#core/dates';
import { newId } from '#core/id';
import { Problem } from '#core/problem';
import { asObject, type StoredJson } from '#core/stored-json';

/**
 * How a back end is reached. `address`: a Lightning address or a URL; empty where the credential names it. `credential`: what it is asked with;
 * empty where it needs none. `certificate`: the only one that is accepted, as PEM; null: one that an authority signed.
 */
export type LightningAccess = { address: string; credential: string; certificate: string | null };
/** A back end of a merchant, whose look-ups are counted. */
export type OpenAccess = LightningAccess & { merchantId: string };
/** A kind of nodes or providers. */
export type BackEndKind = {
  /** The access in its stored form. Errors: parameter_invalid, for what can spend with the command that makes the right credential. */
  read(access: LightningAccess): LightningAccess;
  /** What people are shown of it. */
  name(access: LightningAccess): string;
  open(ctx: Context, access: OpenAccess): BackEnd;
  /** The least time between two looks at its server, whatever the invoices. Servers of providers serve many. */
  paceMs: number;
};

/** Of a node of the merchant, and of what serves others as well. */
export const [OWN_PACE_MS, PROVIDER_PACE_MS] = [50, 334] as const;

/** An invoice to ask for. `key`: the same for a second try of the same one. */
type WantedInvoice = { msat: bigint; description: string; seconds: number; key: string };
/** `handle`: what the back end is asked about later. `description`: what the invoice must name, where the back end chose it. */
export type MadeInvoice = { bolt11: string; handle: string; descriptionHash: string | null };
/**
 * What a back end says about an invoice. `settledAt`: null where it does not tell. `receivedMsat`: what the customer paid; null where it does
 * not tell. `feeMsat`: what it kept of that, where it keeps a part and tells.
 */
export type InvoiceLook = {
  state: 'open' | 'settled' | 'canceled';
  preimage: string | null;
  receivedMsat: bigint | null;
  feeMsat?: bigint;
  settledAt: Date | null;
};
/** What a back end takes at least and at most. `payee`: the key of its node, where it is the merchant's own. */
export type BackEndLimits = { leastMsat: bigint; mostMsat: bigint; payee: string | null };

export type BackEnd = {
  /** What it takes; also proves that the credential works. Errors: BackEndError. */
  check(): Promise<BackEndLimits>;
  /** Errors: BackEndError. */
  create(wanted: WantedInvoice): Promise<MadeInvoice>;
  /** Errors: BackEndError, also when it does not know the invoice. */
  look(handle: string): Promise<InvoiceLook>;
  /**
   * Learns from the back end which invoices were paid, until the signal: only a reason to look. Errors: BackEndError, when it hears nothing any
   * more.
   */
  listen?(paid: (paymentHash: string) => void, ended: AbortSignal): Promise<void>;
};

type Failing = { isAnswer?: boolean; canSpend?: boolean; restMs?: number; cause?: unknown };
/**
 * A back end that does not answer, or answers what cannot be used (`isAnswer`), or one whose credential can spend. `restMs`: how long its server
 * wants to be left alone. The text is for the merchant; no credential is in it.
 */
export class BackEndError extends Error {
  readonly isAnswer: boolean;
  readonly canSpend: boolean;
  readonly restMs: number;
  constructor(message: string, { isAnswer = true, canSpend = false, restMs = 0, ...options }: Failing = {}) {
    super(message, options);
    this.isAnswer = isAnswer;
    this.canSpend = canSpend;
    this.restMs = restMs;
  }
}

/** Refuses a field of an access. Errors: parameter_invalid. */
export const refuseAccess = (param: keyof LightningAccess, reason: string): never => {
  throw new Problem('parameter_invalid', { reason }, { param });
};

/** The URL of a node or a provider, without a final slash. Errors: parameter_invalid. */
export function readNodeUrl(text: string, { example, mayBePlain = false }: { example: string; mayBePlain?: boolean }): string {
  const url = URL.parse(text);
  const isKnown = url?.protocol === 'https:' || (url?.protocol === 'http:' && (mayBePlain || isOnion(url.hostname)));
  if (!isKnown || url.username !== '' || url.search !== '' || url.hash !== '')
    return refuseAccess('address', `it must be a URL such as ${example}`);
  return `${url.protocol}//${url.host}${url.pathname.endsWith('/') ? url.pathname.slice(0, -1) : url.pathname}`;
}

/** Text of a server. It may repeat what it was sent, so that is taken out. */
export const withoutSecret = (said: string | null, secret: string): string => (said ?? '').replaceAll(secret, '…').slice(0, 200);

/** Of an answer that is not what was asked for. `secret`: what it was asked with. */
export const refusedBy = ({ status, restMs }: Pick<JsonReply, 'status' | 'restMs'>, said: string | null, secret: string): BackEndError => {
  const text = withoutSecret(said, secret);
  return new BackEndError(`it answers with status ${status}${text === '' ? '' : ` and "${text}"`}`, { isAnswer: status < 500, restMs });
};

/**
 * Refuses a credential that was not refused when it was asked to pay nothing. `status`: of that answer. `advice`: where the right one is.
 * Errors: BackEndError.
 */
export function refuseSpending(status: number, { can, advice }: { can: string; advice: string }): void {
  if (status === 401 || status === 403) return;
  if (status >= 500 || status === 404 || status === 429)
    throw new BackEndError(`it does not say whether it can ${can}: it answers with status ${status}`);
  throw new BackEndError(`it can do more than receive (${can}). ${advice}`, { canSpend: true });
}

/** An invoice that is asked about by its hash. `bolt11`: null where the answer has none. Errors: BackEndError, InvoiceError. */
export function madeInvoice(bolt11: string | null): MadeInvoice {
  if (bolt11 === null) throw new BackEndError('its answer has no invoice');
  return { bolt11, handle: decodeInvoice(bolt11).paymentHash, descriptionHash: null };
}

/** What a node takes at most, where it does not say: 100,000 BTC. */
const MOST_MSAT = 10n ** 16n;

/** The invoice of a check, which nobody is shown. */
const testInvoice = (ctx: Context, msat: bigint): WantedInvoice => ({
  ...{ msat, description: 'Florin checks that it can receive', seconds: 60, key: newId('ln', ctx.random) },
});

/**
 * Proves that a back end makes invoices and shows them. `refuse`: refuses a credential once it made one. `ownsNode`: its invoices pay the
 * node of the merchant. Errors: BackEndError, InvoiceError, and those of `refuse`.
 */
export async function checkByInvoice(
  ctx: Context,
  { create, look }: Pick<BackEnd, 'create' | 'look'>,
  { ownsNode, mostMsat = MOST_MSAT, refuse }: { ownsNode: boolean; mostMsat?: bigint; refuse?: () => void },
): Promise<BackEndLimits> {
  const { bolt11, handle } = await create(testInvoice(ctx, 1_000n));
  refuse?.();
  await look(handle);
  return { leastMsat: 1_000n, mostMsat, payee: ownsNode ? decodeInvoice(bolt11).payee : null };
}

/** Whether a URL that a provider named can be asked, without asking it. Errors: BackEndError. */
export async function vetUrl(ctx: Context, target: { merchantId: string; url: string }): Promise<void> {
  try {
    await ctx.outgoing.vetMerchantUrl(target);
  } catch (error) {
    throw new BackEndError(`it names a URL that cannot be asked: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    });
  }
}

const LONGEST_ANSWER = 64 * 1024;
/** How long a server may take to answer. A first connection through Tor may take half a minute. */
export const askMs = (url: string): number => (isOnion(URL.parse(url)?.hostname ?? '') ? 30_000 : 5_000);
/** A server that is asked too much, or cannot answer now, rests as long as it says, within these. */
const [LEAST_REST_MS, MOST_REST_MS] = [10_000, HOUR_MS];

function restAfter({ status, headers }: { status: number; headers: Record<string, string> }): number {
  if (status !== 429 && status !== 503) return 0;
  const seconds = Number(headers['retry-after'] ?? 0);
  return Number.isFinite(seconds) ? Math.min(MOST_REST_MS, Math.max(LEAST_REST_MS, seconds * 1_000)) : MINUTE_MS;
}

const readJson = (bytes: Uint8Array): unknown => {
  try {
    return JSON.parse(Buffer.from(bytes).toString());
  } catch {
    // What is not JSON has no fields.
    return null;
  }
};

/** `restMs`: how long the server wants to be left alone. */
type JsonReply = { status: number; body: StoredJson; text: string; restMs: number };
/** Sends a request through the guard for merchants' URLs and reads the JSON object that answers it. Errors: BackEndError. */
export async function askJson(
  ctx: Context,
  request: {
    merchantId: string;
    url: string;
    body?: object | URLSearchParams;
    headers?: Record<string, string>;
    certificate?: string | undefined;
  },
): Promise<JsonReply> {
  const { body, headers, ...rest } = request;
  const isForm = body instanceof URLSearchParams;
  const sent = body && Buffer.from(isForm ? body.toString() : JSON.stringify(body));
  const type = isForm ? 'application/x-www-form-urlencoded' : 'application/json';
  try {
    const reply = await ctx.outgoing.requestMerchantUrl({
      ...{ ...rest, timeoutMs: askMs(rest.url), maxReplyBytes: LONGEST_ANSWER, over: 'refuse' as const },
      headers: { accept: 'application/json', 'cache-control': 'no-cache', ...(sent && { 'content-type': type }), ...headers },
      ...(sent && { method: 'POST' as const, body: sent }),
    });
    return {
      ...{ status: reply.status, body: asObject(readJson(reply.body)), text: Buffer.from(reply.body).toString() },
      restMs: restAfter(reply),
    };
  } catch (error) {
    throw new BackEndError(error instanceof Error ? error.message : String(error), { isAnswer: false, cause: error });
  }
}
