/** Calls of the dashboard's API in test mode. Apart from `lib/api.ts`, which brings React with it. */
import type { Api } from '../generated/api.ts';
import { ACT_LIMITS_MS, READ_LIMITS_MS, readBody, ask as send } from '../lib/ask.ts';

/** A refusal as the service words it. */
export class Refusal extends Error {
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

export async function ask<E extends keyof Api>(endpoint: E, body: Api[E]['body'], id = ''): Promise<Api[E]['reply']> {
  const [method, pattern] = endpoint.split(' ') as [string, string];
  const isRead = method === 'GET';
  const { reply, text } = await send(
    `/dashboard/api${pattern.replace(':mode', 'test').replace(':id', id)}`,
    {
      method,
      headers: { 'x-florin-dashboard': '1', ...(isRead ? {} : { 'content-type': 'application/json' }) },
      ...(isRead ? {} : { body: JSON.stringify(body) }),
    },
    isRead ? READ_LIMITS_MS : ACT_LIMITS_MS,
  ).catch(() => {
    throw new Refusal('offline', 'The service cannot be reached.');
  });
  const answer = readBody(text);
  if (reply.ok && answer !== null) return answer as Api[E]['reply'];
  throw new Refusal(answer?.error?.code ?? 'server_error', answer?.error?.message ?? 'The answer cannot be read.');
}
