/** Calls of the dashboard's API in test mode. Apart from `lib/api.ts`, which brings React with it. */
import type { Api } from '../generated/api.ts';

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
  const reply = await fetch(`/dashboard/api${pattern.replace(':mode', 'test').replace(':id', id)}`, {
    method,
    headers: { 'x-florin-dashboard': '1', ...(method === 'GET' ? {} : { 'content-type': 'application/json' }) },
    ...(method === 'GET' ? {} : { body: JSON.stringify(body) }),
  }).catch(() => {
    throw new Refusal('offline', 'The service cannot be reached.');
  });
  const answer = await reply.json().catch(() => null);
  if (reply.ok && answer !== null) return answer;
  throw new Refusal(answer?.error?.code ?? 'server_error', answer?.error?.message ?? 'The answer cannot be read.');
}
