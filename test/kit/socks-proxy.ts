/** A SOCKS5 proxy on loopback that really connects, and remembers what it was asked for. */
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

export type TestProxy = {
  url: string;
  port: number;
  /** What it was asked to connect to, as it was written: names stay names. */
  asked: string[];
  users: string[];
  /** Everything that was sent through it. */
  sent(): Buffer;
  close(): Promise<void>;
};

/** `where`: the port on loopback that a name leads to. `answers`: replaces every answer, byte for byte. */
export async function startSocksProxy({
  where = (_host: string, port: number) => port,
  method = 0,
  failure = 0,
  answers,
}: {
  where?: (host: string, port: number) => number;
  method?: number;
  failure?: number;
  answers?: Buffer;
} = {}): Promise<TestProxy> {
  const asked: string[] = [];
  const users: string[] = [];
  const sent: Buffer[] = [];
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    open.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => open.delete(socket));
    if (answers) {
      socket.write(answers);
      return;
    }
    void serve(socket);
  });
  const serve = async (socket: Socket): Promise<void> => {
    const part = async (): Promise<Buffer> => (await once(socket, 'data'))[0] as Buffer;
    await part();
    socket.write(Buffer.from([5, method]));
    if (method === 2) {
      const login = await part();
      users.push(login.toString('latin1', 2, 2 + login[1]!));
      socket.write(Buffer.from([1, 0]));
    }
    const request = await part();
    const isName = request[3] === 3;
    const host = isName ? request.toString('latin1', 5, 5 + request[4]!) : [...request.subarray(4, 8)].join('.');
    const port = request.readUInt16BE(request.length - 2);
    asked.push(`${host}:${port}`);
    const reply = Buffer.from([5, failure, 0, 1, 127, 0, 0, 1, 0, 0]);
    if (failure !== 0) {
      socket.write(reply);
      return;
    }
    const target = connect(where(host, port), isName ? '127.0.0.1' : host);
    open.add(target);
    target.on('error', () => socket.destroy());
    await once(target, 'connect');
    socket.write(reply);
    socket.on('data', (bytes: Buffer) => sent.push(bytes));
    socket.pipe(target).pipe(socket);
  };
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  return {
    url: `socks5://127.0.0.1:${port}`,
    port,
    asked,
    users,
    sent: () => Buffer.concat(sent),
    close: async () => {
      for (const socket of open) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
