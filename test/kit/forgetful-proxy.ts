/** A router between a browser and the service: it can cut connections, or forget them, so that whatever is sent on them is swallowed. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export type ForgetfulProxy = {
  port: number;
  /** Ends every connection; both sides notice. */
  cut(): void;
  /** Both directions of every connection end in silence: no reset and no error. New connections work. */
  forget(): void;
  stop(): Promise<void>;
};

export async function startForgetfulProxy(targetPort: number): Promise<ForgetfulProxy> {
  const pairs = new Set<readonly [Socket, Socket]>();
  const server = createServer((client) => {
    const upstream = connect(targetPort, 'localhost');
    const pair = [client, upstream] as const;
    pairs.add(pair);
    for (const [from, to] of [pair, [upstream, client]] as const) {
      from.pipe(to);
      from.on('error', () => undefined);
      from.once('close', () => {
        pairs.delete(pair);
        to.destroy();
      });
    }
  });
  server.listen(0, 'localhost');
  await once(server, 'listening');
  const end = () => {
    for (const [client, upstream] of pairs) {
      client.destroy();
      upstream.destroy();
    }
  };
  return {
    port: (server.address() as AddressInfo).port,
    cut: end,
    forget: () => {
      for (const [client, upstream] of pairs) {
        client.unpipe(upstream).resume();
        upstream.unpipe(client).resume();
      }
    },
    stop: async () => {
      end();
      server.close();
      await once(server, 'close');
    },
  };
}
