/**
 * What a node or a provider can do that makes invoices for a merchant, and how its answers are read. Nothing it says completes a payment:
 * `invoices.ts` judges each answer against the invoice that Florin itself decoded.
 */
import type { Context } from '#context';
import { asObject, type StoredJson } from '#core/stored-json';

/** An invoice to ask for. */
type WantedInvoice = { msat: bigint; description: string; seconds: number };
/** `handle`: what the back end is asked about later. `description`: what the invoice must name, where the back end chose it. */
export type MadeInvoice = { bolt11: string; handle: string; descriptionHash: string | null };
/** What a back end says about an invoice. `settledAt`: null where it does not tell. `receivedMsat`: null where it does not tell. */
export type InvoiceLook = {
  state: 'open' | 'settled' | 'canceled';
  preimage: string | null;
  receivedMsat: bigint | null;
  settledAt: Date | null;
};
/** What a back end takes at least and at most. `payee`: the key of its node, where it is the merchant's own. */
type BackEndLimits = { leastMsat: bigint; mostMsat: bigint; payee: string | null };

export type BackEnd = {
  /** What it takes; also proves that the credential works. Errors: BackEndError. */
  check(): Promise<BackEndLimits>;
  /** Errors: BackEndError. */
  create(wanted: WantedInvoice): Promise<MadeInvoice>;
  /** Errors: BackEndError, also when it does not know the invoice. */
  look(handle: string): Promise<InvoiceLook>;
};

/** A back end that does not answer, or answers what cannot be used (`isAnswer`). The text is for the merchant; no credential is in it. */
export class BackEndError extends Error {
  readonly isAnswer: boolean;
  constructor(message: string, { isAnswer = true, ...options }: { isAnswer?: boolean; cause?: unknown } = {}) {
    super(message, options);
    this.isAnswer = isAnswer;
  }
}

const LONGEST_ANSWER = 64 * 1024;

const readJson = (bytes: Uint8Array): unknown => {
  try {
    return JSON.parse(Buffer.from(bytes).toString());
  } catch {
    // What is not JSON has no fields.
    return null;
  }
};

/** Sends a request through the guard for merchants' URLs and reads the JSON object that answers it. Errors: BackEndError. */
export async function askJson(
  ctx: Context,
  request: {
    merchantId: string;
    url: string;
    timeoutMs: number;
    body?: object;
    headers?: Record<string, string>;
    certificate?: string | undefined;
  },
): Promise<{ status: number; body: StoredJson }> {
  const { body, headers, ...rest } = request;
  const sent = body && Buffer.from(JSON.stringify(body));
  try {
    const reply = await ctx.outgoing.requestMerchantUrl({
      ...{ ...rest, maxReplyBytes: LONGEST_ANSWER, over: 'refuse' as const },
      headers: { accept: 'application/json', 'cache-control': 'no-cache', ...(sent && { 'content-type': 'application/json' }), ...headers },
      ...(sent && { method: 'POST' as const, body: sent }),
    });
    return { status: reply.status, body: asObject(readJson(reply.body)) };
  } catch (error) {
    throw new BackEndError(error instanceof Error ? error.message : String(error), { isAnswer: false, cause: error });
  }
}
