/** Replays what the plugins of shops send, from recordings, and checks what they read. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { serve } from './serve.ts';

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
/** The flows of BTCPay's plugins, and their platforms. */
export const PLUGIN_FLOWS = [
  ['woocommerce-2.8.0', 'woocommerce'],
  ['magento2-2.0.11', 'magento'],
  ['prestashop-6', 'prestashop'],
  ['opencart-4.2.2', 'opencart'],
] as const;
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

/** The body of an answer that a plugin takes for success: 200, and nothing else. */
export const ok = ({ status, json, text }: ShopReply): any => {
  assert.equal(status, 200, text);
  return json;
};

export type Hit = { path: string; signature: string; text: string; event: any };
export type Hook = { url: string; hits: Hit[]; answer(next: (hit: Hit) => number): void };
/** Receives the webhooks of a shop, with their signature from that header. Keeps those that it answers with success. */
export async function startHook(t: TestContext, header: string): Promise<Hook> {
  let answer: (hit: Hit) => number = () => 200;
  const hits: Hit[] = [];
  const server = await serve((request, reply, body) => {
    const text = body.toString();
    const hit = { path: String(request.url), signature: String(request.headers[header]), text, event: JSON.parse(text) };
    const status = answer(hit);
    if (status < 300) hits.push(hit);
    reply.writeHead(status).end();
  });
  t.after(server.stop);
  return {
    url: `${server.url}/wc-api/btcpaygf_default/`,
    hits,
    answer: (next) => {
      answer = next;
    },
  };
}
