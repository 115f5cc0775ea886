/** A proxy between the service and its node that lets a test act at the exact moment of a call. */
import { passOn, serve } from './serve.ts';

export type NodeProxy = {
  url: string;
  /** Runs `action` at the next call of this method, before the node receives it; settles when it is done. */
  beforeNext(method: string, action: () => Promise<unknown>): Promise<void>;
  /** Runs `action` when the node has answered the next call of this method, before the service receives the answer. */
  afterNext(method: string, action: () => Promise<unknown>): Promise<void>;
  stop(): Promise<void>;
};

export async function startProxy(nodeUrl: string): Promise<NodeProxy> {
  const target = new URL(nodeUrl);
  const before = new Map<string, () => Promise<void>>();
  const after = new Map<string, () => Promise<void>>();
  const { port, stop } = await serve(async (request, reply, body) => {
    const asked = JSON.parse(body.toString());
    const act = async (waiting: Map<string, () => Promise<void>>) => {
      for (const { method } of [asked].flat()) {
        const action = waiting.get(method);
        waiting.delete(method);
        await action?.();
      }
    };
    await act(before);
    const answer = await passOn(target.origin, request, body);
    const answered = Buffer.from(await answer.arrayBuffer());
    await act(after);
    reply.writeHead(answer.status).end(answered);
  });
  const next = (waiting: typeof before) => (method: string, action: () => Promise<unknown>) =>
    new Promise<void>((resolve, reject) => {
      waiting.set(method, () => action().then(() => resolve(), reject));
    });
  return {
    url: `http://${target.username}:${target.password}@127.0.0.1:${port}`,
    beforeNext: next(before),
    afterNext: next(after),
    stop,
  };
}
