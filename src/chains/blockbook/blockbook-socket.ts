/** The WebSocket of a Blockbook server, for hints only: new blocks, and transactions of watched addresses. Detects dead connections. */
import type { Clock } from '../../core/clock.ts';
import type { Log } from '../../log.ts';

/** How often the other end is pinged, because a half-open connection reports nothing. */
const PING_MS = 20_000;
const ANSWER_MS = 10_000;
const RETRY_MS = 1_000;
const MAX_RETRY_MS = 300_000;
/** After a connection that lasted this long, the next attempt starts without delay. */
const GOOD_AFTER_MS = 60_000;
const MAX_HINTS = 1_000;

export type HintSocket = {
  /** Connects unless connected, and again whenever the connection ends. */
  open(): void;
  /** Whether the connection is open and subscribed. */
  alive(): boolean;
  /** Since when, without interruption. */
  openedAtMs(): number;
  /** Replaces the watched addresses; true when the server has confirmed them. */
  watch(addresses: readonly string[]): Promise<boolean>;
  close(): void;
};

/** Hints may be lost or repeated; receivers poll. */
export function createHintSocket({
  url,
  clock,
  log,
  onBlock,
  onTransaction,
  pingMs = PING_MS,
  answerMs = ANSWER_MS,
}: {
  url: string;
  clock: Clock;
  log: Log;
  onBlock: () => void;
  onTransaction: (txid: string) => void;
  pingMs?: number;
  answerMs?: number;
}): HintSocket {
  const target = new URL(url);
  const authorization =
    target.username === ''
      ? undefined
      : `Basic ${Buffer.from(`${decodeURIComponent(target.username)}:${decodeURIComponent(target.password)}`).toString('base64')}`;
  target.username = '';
  target.password = '';
  let socket: WebSocket | null = null;
  let ready = false;
  let readyAtMs = 0;
  let closed = false;
  let retryMs = RETRY_MS;
  let retry: NodeJS.Timeout | null = null;
  let pinging: NodeJS.Timeout | null = null;
  let nextId = 0;
  let watched = '';
  const answers = new Map<string, (data: unknown) => void>();
  let hints = 0;

  const ask = (method: string, params: object): Promise<unknown> =>
    new Promise((resolve, reject) => {
      const id = String(nextId++);
      const timer = setTimeout(() => {
        answers.delete(id);
        reject(new Error(`no answer to ${method}`));
      }, answerMs);
      answers.set(id, (data) => {
        clearTimeout(timer);
        answers.delete(id);
        resolve(data);
      });
      try {
        socket!.send(JSON.stringify({ id, method, params }));
      } catch (error) {
        clearTimeout(timer);
        answers.delete(id);
        reject(error as Error);
      }
    });

  const drop = (reason: string): void => {
    const ended = socket;
    if (!ended) return;
    socket = null;
    if (pinging) clearInterval(pinging);
    if (ready && clock.monotonicMs() - readyAtMs > GOOD_AFTER_MS) retryMs = RETRY_MS;
    ready = false;
    watched = '';
    try {
      ended.close();
    } catch {
      // It was never open, so there is nothing to close.
    }
    if (closed) return;
    log.debug({ host: target.host, reason, retryMs }, 'Blockbook notifications stopped; polling the server instead');
    retry = setTimeout(connect, retryMs);
    retry.unref();
    retryMs = Math.min(retryMs * 2, MAX_RETRY_MS);
  };

  const hear = (text: string): void => {
    let message: { id?: unknown; data?: { hash?: unknown; height?: unknown; tx?: { txid?: unknown } } };
    try {
      message = JSON.parse(text);
    } catch {
      drop('it sent something that is not JSON');
      return;
    }
    const { id, data } = message ?? {};
    const answer = typeof id === 'string' ? answers.get(id) : undefined;
    // A subscription is confirmed with its id, and later reports use the same id.
    if (answer) answer(data);
    else if (typeof data?.tx?.txid === 'string') {
      // A flood of hints uses no memory. Missed transactions are seen in the block.
      if (hints++ < MAX_HINTS) onTransaction(data.tx.txid);
    } else if (data?.hash !== undefined) onBlock();
  };

  const connect = (): void => {
    retry = null;
    if (closed || socket) return;
    // The runtime's client accepts headers besides protocols, which its types lack.
    const made = new WebSocket(target, (authorization ? { headers: { authorization } } : []) as string[]);
    socket = made;
    const giveUp = setTimeout(() => made === socket && !ready && drop('it does not open'), answerMs);
    made.addEventListener('message', (event) => made === socket && hear(String(event.data)));
    made.addEventListener('error', () => made === socket && drop('it failed'));
    made.addEventListener('close', () => made === socket && drop('it was closed'));
    made.addEventListener('open', async () => {
      clearTimeout(giveUp);
      try {
        await ask('subscribeNewBlock', {});
        if (made !== socket) return;
        ready = true;
        readyAtMs = clock.monotonicMs();
        // Something may have happened while the connection was down.
        onBlock();
        pinging = setInterval(() => {
          hints = 0;
          ask('ping', {}).catch(() => made === socket && drop('it does not answer'));
        }, pingMs);
        pinging.unref();
      } catch {
        if (made === socket) drop('it does not subscribe');
      }
    });
  };

  return {
    open: () => {
      if (!socket && !retry && !closed) connect();
    },
    alive: () => ready,
    openedAtMs: () => readyAtMs,
    watch: async (addresses) => {
      if (!ready) return false;
      const wanted = addresses.join();
      if (wanted === watched || addresses.length === 0) return true;
      try {
        const reply = (await ask('subscribeAddresses', { addresses })) as { subscribed?: unknown; error?: unknown };
        if (reply?.subscribed !== true) return false;
        watched = wanted;
        return ready;
      } catch {
        return false;
      }
    },
    close: () => {
      closed = true;
      if (retry) clearTimeout(retry);
      drop('it is not needed any more');
    },
  };
}
