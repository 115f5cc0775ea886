/** Connects to one of several checked addresses: whichever accepts first, as browsers do (RFC 8305). */
import { connect, type Socket } from 'node:net';
import type { Address } from '../names.ts';
import { OutgoingError } from '../outgoing.ts';
import { classify } from './classify.ts';

/** The next address is tried after this long, or as soon as all others have failed. The earlier ones may still win. */
const STAGGER_MS = 250;
/** The most addresses of one host that are tried. */
const MOST_TRIED = 32;

/** In order of preference, alternating between IPv4 and IPv6. */
function alternate(addresses: readonly Address[]): Address[] {
  const first = addresses.filter(({ family }) => family === addresses[0]?.family);
  const others = addresses.filter(({ family }) => family !== addresses[0]?.family);
  const order = Array.from({ length: Math.max(first.length, others.length) }, (_, i) => [first[i], others[i]]);
  return order.flat().filter((address) => address !== undefined);
}

/**
 * The first connection that is made. `tried` gets each address when it is tried. Errors: OutgoingError, when all have failed; none after
 * `ended`, which closes what is open.
 */
export function dial({
  addresses,
  port,
  tried,
  ended,
}: {
  addresses: readonly Address[];
  port: number;
  tried(address: string): void;
  ended: AbortSignal;
}): Promise<{ socket: Socket; address: string }> {
  const order = alternate(addresses).slice(0, MOST_TRIED);
  const open = new Set<Socket>();
  const failures: { address: string; error: OutgoingError }[] = [];
  return new Promise((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    const close = (kept?: Socket) => {
      clearTimeout(timer);
      ended.removeEventListener('abort', abort);
      for (const socket of open) if (socket !== kept) socket.destroy();
    };
    const abort = () => close();
    const next = () => {
      clearTimeout(timer);
      const at = order.shift();
      if (!at) {
        if (open.size > 0) return;
        close();
        return reject(asOne(failures));
      }
      tried(at.address);
      const socket = connect({ host: at.address, port, family: at.family, noDelay: true });
      open.add(socket);
      const failed = (cause: Error) => {
        open.delete(socket);
        failures.push({ address: at.address, error: classify(cause) });
        next();
      };
      socket.once('error', failed).once('connect', () => {
        close(socket);
        socket.off('error', failed);
        resolve({ socket, address: at.address });
      });
      if (order.length > 0) timer = setTimeout(next, STAGGER_MS);
    };
    ended.addEventListener('abort', abort, { once: true });
    next();
  });
}

/** One error for all: the most telling one. A machine without IPv6 has no route to any such address, which says nothing of the host. */
function asOne(failures: readonly { address: string; error: OutgoingError }[]): OutgoingError {
  const { error } = failures.find((one) => one.error.reason !== 'unreachable') ?? failures[0]!;
  const message = failures
    .map(({ address, error: { message } }) => (message.includes(address) ? message : `${address}: ${message}`))
    .join('; ');
  return new OutgoingError(error.class, message, { cause: error.cause, reason: error.reason });
}
