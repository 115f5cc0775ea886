/** Between a Medusa store and Florin: answers of Florin can be lost, and webhooks are held until a test passes them on. */
import type { IncomingHttpHeaders } from 'node:http';
import { type Handler, passOn, serve } from './serve.ts';

type Webhook = { headers: IncomingHttpHeaders; body: string };
export type Between = {
  florinUrl: string;
  hooksUrl: string;
  /** The webhooks about the payments of a collection, in the order in which they arrived. */
  webhooksOf(collection: string): readonly Webhook[];
  /** Passes a webhook on to the store. */
  pass(webhook: Webhook): Promise<void>;
  /** Webhooks of this collection are passed on when they arrive, too. */
  passAll(collection: string): void;
  /** From now on, answers about this collection are lost as often as `isLost` says; null: none. */
  lose(collection: string, isLost: (() => boolean) | null): void;
  stop(): Promise<void>;
};

export async function startBetween({ florin, hooks }: { florin(): string; hooks(): string }): Promise<Between> {
  const webhooks = new Map<string, Webhook[]>();
  const direct = new Set<string>();
  const losing = new Map<string, () => boolean>();
  /** The collections of payments, learned from what passes. */
  const collections = new Map<string, string>();
  const learn = (json: any) => {
    for (const one of [json, ...[json?.data ?? []].flat()]) if (one?.invoice_id) collections.set(one.id, one.invoice_id);
  };
  const pass: Between['pass'] = async ({ headers, body }) => {
    const names = ['content-type', 'webhook-id', 'webhook-timestamp', 'webhook-signature'];
    const kept = Object.fromEntries(names.map((name) => [name, String(headers[name])]));
    await fetch(hooks(), { method: 'POST', headers: kept, body });
  };
  const forward: Handler = async (request, reply, body) => {
    const answer = await passOn(florin(), request, body);
    const sent = await answer.text();
    learn(JSON.parse(sent));
    const named = /paycol_\w+/.exec(`${request.url} ${body}`)?.[0] ?? collections.get(/pay_\w+/.exec(request.url!)?.[0] ?? '');
    if (losing.get(named ?? '')?.()) request.socket.destroy();
    else reply.writeHead(answer.status, { 'content-type': 'application/json' }).end(sent);
  };
  const keep: Handler = async (request, reply, sent) => {
    const body = sent.toString();
    const { data } = JSON.parse(body);
    learn(data);
    const collection = data.invoice_id ?? collections.get(data.payment_id);
    const webhook = { headers: request.headers, body };
    if (collection !== undefined) webhooks.set(collection, [...(webhooks.get(collection) ?? []), webhook]);
    reply.writeHead(200).end();
    if (direct.has(collection)) await pass(webhook);
  };
  // What is on its way while a side stops is lost, as on any network.
  const [toFlorin, toStore] = [await serve(forward), await serve(keep)];
  return {
    ...{ florinUrl: toFlorin.url, hooksUrl: toStore.url, pass },
    webhooksOf: (collection) => webhooks.get(collection) ?? [],
    passAll: (collection) => void direct.add(collection),
    lose: (collection, isLost) => void (isLost === null ? losing.delete(collection) : losing.set(collection, isLost)),
    stop: async () => {
      await toFlorin.stop();
      await toStore.stop();
    },
  };
}
