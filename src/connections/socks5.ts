/** Opens connections: directly, or through a SOCKS5 proxy (RFC 1928) such as Tor, which also resolves the names. */
import { randomBytes } from 'node:crypto';
import { connect, isIP, type Socket } from 'node:net';

/** Where a peer is. The host is an IP address or, for peers that the operator names, a host name. */
export type PeerAddress = { host: string; port: number };
export type SocksProxy = PeerAddress & { user: string; password: string };

const VERSION = 5;
const NO_AUTHENTICATION = 0;
const USER_AND_PASSWORD = 2;
const CONNECT = 1;
const TYPE = { ipv4: 1, name: 3, ipv6: 4 } as const;
const FAILURES = [
  ...['', 'the proxy failed', 'the proxy does not allow it', 'the network cannot be reached', 'the host cannot be reached'],
  ...['the connection was refused', 'the proxy gave up', 'the proxy cannot do this', 'the proxy does not know this kind of address'],
];

/** Reads `socks5://[user:password@]host:port`. Null: it is not such an address. */
export function readProxy(text: string): SocksProxy | null {
  if (!URL.canParse(text)) return null;
  const { protocol, hostname, port, username, password, pathname, search } = new URL(text);
  if (protocol !== 'socks5:' || hostname === '' || port === '' || search !== '' || !['', '/'].includes(pathname)) return null;
  return {
    host: hostname.replace(/^\[|\]$/g, ''),
    port: Number(port),
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
  };
}

type Opening = { to: PeerAddress; proxy: SocksProxy | null; timeoutMs: number; ended?: AbortSignal };
/** Connects, unless the time is over or `ended` is aborted first. Errors: an Error that says why there is no connection. */
export function openSocket({ to, proxy, timeoutMs, ended }: Opening): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: (proxy ?? to).host, port: (proxy ?? to).port, noDelay: true });
    const fail = (error: Error): void => {
      clearTimeout(timer);
      socket.destroy();
      reject(error);
    };
    const failClosed = (): void => fail(new Error('the connection was closed'));
    ended?.addEventListener('abort', failClosed, { once: true });
    const timer = setTimeout(() => fail(new Error(`no connection within ${timeoutMs / 1000} s`)), timeoutMs);
    const finish = (): void => {
      clearTimeout(timer);
      socket.off('close', failClosed);
      ended?.removeEventListener('abort', failClosed);
      resolve(socket);
    };
    // It stays: without a listener an error would end the process.
    socket.on('error', fail);
    socket.once('close', failClosed);
    socket.once('connect', () => {
      if (proxy) tunnel(socket, to, proxy).then(finish, fail);
      else finish();
    });
  });
}

/** Asks the proxy for a connection. */
async function tunnel(socket: Socket, to: PeerAddress, proxy: SocksProxy): Promise<void> {
  const read = createReader(socket);
  socket.write(Buffer.from([VERSION, 2, NO_AUTHENTICATION, USER_AND_PASSWORD]));
  const method = await read(2);
  if (method[0] !== VERSION) throw new Error('the proxy does not speak SOCKS5');
  if (method[1] === USER_AND_PASSWORD) {
    // Tor uses another circuit for each name, so that no exit sees all connections (IsolateSOCKSAuth).
    const user = Buffer.from(proxy.user || randomBytes(8).toString('hex'));
    const password = Buffer.from(proxy.password || randomBytes(8).toString('hex'));
    // RFC 1929.
    socket.write(Buffer.concat([Buffer.from([1, user.length]), user, Buffer.from([password.length]), password]));
    if ((await read(2))[1] !== 0) throw new Error('the proxy refuses the user and password');
  } else if (method[1] !== NO_AUTHENTICATION) throw new Error('the proxy refuses connections without authentication');
  socket.write(Buffer.concat([Buffer.from([VERSION, CONNECT, 0]), addressBytes(to)]));
  const [, failure, , type] = await read(4);
  if (failure !== 0) throw new Error(FAILURES[failure!] ?? `the proxy answers with code ${failure}`);
  // The address that the proxy used follows. A host name has at most 255 bytes, because one byte is its length.
  if (![TYPE.ipv4, TYPE.ipv6, TYPE.name].some((one) => one === type)) throw new Error('the proxy answers with an unknown kind of address');
  const length = type === TYPE.ipv4 ? 4 : type === TYPE.ipv6 ? 16 : (await read(1))[0]!;
  await read(length + 2);
  read.stop();
}

function addressBytes({ host, port }: PeerAddress): Buffer {
  const end = Buffer.from([port >>> 8, port & 0xff]);
  const kind = isIP(host);
  if (kind === 4) return Buffer.concat([Buffer.from([TYPE.ipv4, ...host.split('.').map(Number)]), end]);
  // A proxy resolves the text of an IPv6 address as well as its bytes.
  const name = Buffer.from(host);
  return Buffer.concat([Buffer.from([TYPE.name, name.length]), name, end]);
}

type Reader = ((length: number) => Promise<Buffer>) & { stop(): void };
/** Reads exactly as many bytes as asked for. What follows stays in the socket. */
function createReader(socket: Socket): Reader {
  let waiting: { length: number; give(bytes: Buffer): void } | null = null;
  const serve = (): void => {
    if (!waiting) return;
    const bytes = socket.read(waiting.length) as Buffer | null;
    if (!bytes) return;
    const { give } = waiting;
    waiting = null;
    give(bytes);
  };
  socket.on('readable', serve);
  const read = (length: number): Promise<Buffer> =>
    new Promise((give) => {
      waiting = { length, give };
      serve();
    });
  return Object.assign(read, { stop: () => void socket.off('readable', serve) });
}
