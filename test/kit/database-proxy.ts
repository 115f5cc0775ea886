/**
 * A proxy between the service and its database that notes statements, and that loses replies: the statement is executed, but the connection
 * ends before the reply arrives.
 */
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

export type DatabaseProxy = {
  url: string;
  /** The next connection that sends `text` loses the reply to it, or to the commit that follows. */
  loseReply(to: { text: string; at: 'statement' | 'commit' }): void;
  /** The next connection that sends `text` gets the reply to it, and then the end of the connection. */
  endAfter(text: string): void;
  /** Cuts every connection without notice, as a network does. */
  resetAll(): void;
  /** From now on connections stay open and are accepted, and no byte passes, as with a server whose storage stands still. */
  freeze(): void;
  /** Lets everything pass again, also what was sent meanwhile. */
  thaw(): void;
  /** How many replies have been lost. */
  lost(): number;
  /** The text of each statement that was executed, in order, with those that begin and end transactions. */
  statements: string[];
  stop(): Promise<void>;
};

/** Notes the statements in what a client sends: simple queries, and executions of what was parsed before. */
function noteStatements(statements: string[]): (bytes: Buffer) => void {
  const parsed = new Map<string, string>();
  const textAt = (body: Buffer, from: number) => body.subarray(from, body.indexOf(0, from)).toString();
  let bound = '';
  let rest: Buffer = Buffer.alloc(0);
  let isStarted = false;
  return (bytes) => {
    rest = Buffer.concat([rest, bytes]);
    for (;;) {
      // The first message has no type.
      const from = isStarted ? 1 : 0;
      if (rest.length < from + 4 || rest.length < from + rest.readInt32BE(from)) return;
      const body = rest.subarray(from + 4, from + rest.readInt32BE(from));
      const type = isStarted ? String.fromCharCode(rest[0]!) : '';
      rest = rest.subarray(from + 4 + body.length);
      isStarted = true;
      const name = type === 'P' || type === 'B' ? textAt(body, 0) : '';
      if (type === 'P') parsed.set(name, textAt(body, name.length + 1));
      if (type === 'B') bound = parsed.get(textAt(body, name.length + 1)) ?? '';
      if (type === 'E') statements.push(bound.replace(/\s+/g, ' ').trim());
      if (type === 'Q') statements.push(textAt(body, 0).replace(/\s+/g, ' ').trim());
    }
  };
}

export async function startDatabaseProxy({
  host,
  port,
  database,
  user,
}: {
  host: string;
  port: number;
  database: string;
  user: string;
}): Promise<DatabaseProxy> {
  let armed: { text: string; at: 'statement' | 'commit' | 'end' } | null = null;
  let lost = 0;
  const statements: string[] = [];
  const sockets = new Set<Socket>();
  const clients = new Set<Socket>();
  let isFrozen = false;
  const server = createServer((client) => {
    clients.add(client);
    const upstream = connect(`${host}/.s.PGSQL.${port}`);
    /** What this connection waits for before its replies are dropped. */
    let until: 'statement' | 'commit' | 'end' | null = null;
    let losing = false;
    const note = noteStatements(statements);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      if (isFrozen) socket.pause();
      socket.on('error', () => undefined);
      socket.once('close', () => {
        sockets.delete(socket);
        clients.delete(client);
        client.destroy();
        upstream.destroy();
      });
    }
    client.on('data', (bytes: Buffer) => {
      note(bytes);
      if (armed && bytes.includes(armed.text)) {
        until = armed.at;
        armed = null;
        if (until === 'statement') losing = true;
      }
      upstream.write(bytes);
    });
    upstream.on('data', (bytes) => {
      // The server reports the commit, and the reply is lost.
      if (until === 'commit' && bytes.includes('COMMIT\0')) losing = true;
      if (until === 'end') return void client.end(bytes);
      if (!losing) return void client.write(bytes);
      lost++;
      client.destroy();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address() as { port: number };
  return {
    url: `postgres://${user}@127.0.0.1:${address.port}/${database}`,
    loseReply: (to) => {
      armed = to;
    },
    endAfter: (text) => {
      armed = { text, at: 'end' };
    },
    resetAll: () => {
      for (const client of clients) client.resetAndDestroy();
    },
    freeze: () => {
      isFrozen = true;
      for (const socket of sockets) socket.pause();
    },
    thaw: () => {
      isFrozen = false;
      for (const socket of sockets) socket.resume();
    },
    lost: () => lost,
    statements,
    stop: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
