/** A proxy between the service and its node that lets a test act at the exact moment of a call. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

export type NodeProxy = {
  url: string;
  /** Runs `action` at the next call of this method, before the node receives it; settles when it is done. */
  beforeNext(method: string, action: () => Promise<unknown>): Promise<void>;
  stop(): Promise<void>;
};

export async function startProxy(nodeUrl: string): Promise<NodeProxy> {
  const target = new URL(nodeUrl);
  const waiting = new Map<string, () => Promise<void>>();
  const server = createServer(async (request, reply) => {
    try {
      const parts: Buffer[] = [];
      for await (const part of request) parts.push(part as Buffer);
      const body = Buffer.concat(parts);
      const asked = JSON.parse(body.toString());
      for (const { method } of [asked].flat()) {
        const action = waiting.get(method);
        waiting.delete(method);
        await action?.();
      }
      const answer = await fetch(`${target.origin}${request.url}`, {
        method: 'POST',
        headers: { authorization: request.headers.authorization ?? '' },
        body,
      });
      reply.writeHead(answer.status).end(Buffer.from(await answer.arrayBuffer()));
    } catch {
      reply.destroy();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://${target.username}:${target.password}@127.0.0.1:${(server.address() as AddressInfo).port}`,
    beforeNext: (method, action) =>
      new Promise((resolve, reject) => {
        waiting.set(method, () => action().then(() => resolve(), reject));
      }),
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
