/** Replays what the plugins of shops send, from recordings, and checks what they read. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export type FlowCall = {
  kind: 'call';
  request: { method: string; path: string; headers: Record<string, string>; body: any };
  reply: { status: number; body: any };
  plugin_reads: string[];
};
export type FlowWebhook = { kind: 'webhook'; request: { url: string; body: any } };
export type Flow = { steps: (FlowCall | FlowWebhook)[] };

export const readShopFile = (name: string): any =>
  JSON.parse(readFileSync(join(import.meta.dirname, '../fixtures/shops', `${name}.json`), 'utf8'));
export const readFlow = (name: string): Flow => readShopFile(name);

/** All values at a pointer such as `/*\/payments/*\/id`. */
function valuesAt(value: any, pointer: string): unknown[] {
  const parts = pointer.split('/').slice(1);
  return parts.reduce<any[]>(
    (found, part) => found.flatMap((one) => (part === '*' ? (Array.isArray(one) ? one : []) : [one?.[part]])),
    [value],
  );
}
const typeOf = (value: unknown): string => (value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value);

/** Checks that what the plugin reads is there, and of the same type as in the recording. */
export function checkReads({ plugin_reads: reads, reply }: FlowCall, body: unknown): void {
  for (const entry of reads) {
    const pointer = /^\/\S+/.exec(entry)?.[0];
    if (pointer === undefined) continue;
    const recorded = valuesAt(reply.body, pointer);
    const found = valuesAt(body, pointer);
    if (recorded.length === 0 || recorded[0] === undefined) continue;
    assert.ok(found.length > 0, `${pointer} is missing in ${JSON.stringify(body)}`);
    for (const value of found) assert.equal(typeOf(value), typeOf(recorded[0]), `${pointer} in ${JSON.stringify(body)}`);
  }
}

export type ShopReply = { status: number; text: string; json: any; headers: Headers };
export type ShopClient = (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<ShopReply>;

/** A client like the PHP library of the plugins: a token, JSON, no user agent. */
export const shopClient =
  (url: string, key: string | null): ShopClient =>
  async (method, path, body, headers = {}) => {
    const reply = await fetch(url + path, {
      method,
      redirect: 'manual',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json',
        ...(key !== null && { authorization: `token ${key}` }),
        ...headers,
      },
      ...(body !== undefined && body !== null && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await reply.text();
    let json: unknown = null;
    try {
      json = JSON.parse(text);
    } catch {}
    return { status: reply.status, text, json, headers: reply.headers };
  };
