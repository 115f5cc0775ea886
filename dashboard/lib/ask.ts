/** Requests with a time limit, and the JSON of their replies. */
import type { ErrorType } from '../generated/api.ts';

/** Reading is repeated once: a router or VPN that forgot a connection swallows what is sent on it, and the next try takes another one. */
export const READ_LIMITS_MS = [8_000, 60_000];
/** An action is sent once, and some of them wait for nodes. */
export const ACT_LIMITS_MS = [120_000];

/** The reply and its whole text. Rejects as fetch does, also when no answer came within the last limit. */
export async function ask(
  url: string,
  options: RequestInit,
  limitsMs: readonly number[],
  signal?: AbortSignal,
): Promise<{ reply: Response; text: string }> {
  const [ms, ...rest] = limitsMs;
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), ms);
  try {
    const reply = await fetch(url, { ...options, signal: signal ? AbortSignal.any([signal, late.signal]) : late.signal });
    return { reply, text: await reply.text() };
  } catch (error) {
    if (rest.length === 0 || signal?.aborted || !late.signal.aborted) throw error;
  } finally {
    clearTimeout(timer);
  }
  return ask(url, options, rest, signal);
}

/** The JSON of a reply; null for anything else, such as the page of a proxy. */
export function readBody(text: string): { error?: { type: ErrorType; code: string; message: string } } | null {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
