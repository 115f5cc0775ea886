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

type Options = {
  url: string;
  clock: Clock;
  log: Log;
  onBlock: () => void;
  onTransaction: (txid: string) => void;
  pingMs?: number;
  answerMs?: number;
};

/** The URL without credentials, and the header that carries them. */
export function targetOf(url: string): { target: URL; headers: { authorization: string } | null } {
  const target = new URL(url);
  const { username, password } = target;
  target.username = '';
  target.password = '';
  if (username === '') return { target, headers: null };
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return { target, headers: { authorization: `Basic ${Buffer.from(credentials).toString('base64')}` } };
}

/** Questions that wait for their answers, by id. */
export function createQuestions(answerMs: number) {
  const answers = new Map<string, (data: unknown) => void>();
  let nextId = 0;
  return {
    ask: (send: (text: string) => void, method: string, params: object): Promise<unknown> =>
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
          send(JSON.stringify({ id, method, params }));
        } catch (error) {
          clearTimeout(timer);
          answers.delete(id);
          reject(error as Error);
        }
      }),
    /** Whether this was the answer to a question. A subscription is confirmed with its id, and later reports use the same id. */
    answer: (id: unknown, data: unknown): boolean => {
      const waiting = typeof id === 'string' ? answers.get(id) : undefined;
      waiting?.(data);
      return waiting !== undefined;
    },
  };
}

/** When to connect again: after a growing pause, but soon after a connection that lasted. */
export function createPauses(): { next(lastedMs: number): number } {
  let retryMs = RETRY_MS;
  return {
    next: (lastedMs) => {
      if (lastedMs > GOOD_AFTER_MS) retryMs = RETRY_MS;
      const pauseMs = retryMs;
      retryMs = Math.min(retryMs * 2, MAX_RETRY_MS);
      return pauseMs;
    },
  };
}

type Message = { id?: unknown; data?: { hash?: unknown; height?: unknown; tx?: { txid?: unknown } } };
function readMessage(text: string): Message | null {
  try {
    return (JSON.parse(text) as Message | null) ?? {};
  } catch {
    // The caller ends the connection.
    return null;
  }
}

/** Takes messages apart. A flood of hints uses no memory: what is missed is seen in the block. */
function createHearing({
  questions,
  onBlock,
  onTransaction,
}: Pick<Options, 'onBlock' | 'onTransaction'> & { questions: Pick<ReturnType<typeof createQuestions>, 'answer'> }) {
  let hints = 0;
  return {
    /** False for what is not JSON. */
    hear: (text: string): boolean => {
      const message = readMessage(text);
      if (!message) return false;
      const { id, data } = message;
      if (questions.answer(id, data)) return true;
      if (typeof data?.tx?.txid === 'string') {
        if (hints++ < MAX_HINTS) onTransaction(data.tx.txid);
      } else if (data?.hash !== undefined) onBlock();
      return true;
    },
    rest: (): void => {
      hints = 0;
    },
  };
}

/** Hints may be lost or repeated; receivers poll. */
export function createHintSocket({ url, clock, log, onBlock, onTransaction, pingMs = PING_MS, answerMs = ANSWER_MS }: Options): HintSocket {
  const { target, headers } = targetOf(url);
  const questions = createQuestions(answerMs);
  const hearing = createHearing({ questions, onBlock, onTransaction });
  const pauses = createPauses();
  let socket: WebSocket | null = null;
  let readyAtMs: number | null = null;
  let closed = false;
  let retry: NodeJS.Timeout | null = null;
  let pinging: NodeJS.Timeout | null = null;
  let watched = '';

  const ask = (method: string, params: object): Promise<unknown> =>
    questions.ask(
      (text) => {
        if (!socket) throw new Error('there is no connection');
        socket.send(text);
      },
      method,
      params,
    );
  const drop = (reason: string): void => {
    const ended = socket;
    if (!ended) return;
    socket = null;
    if (pinging) clearInterval(pinging);
    const lastedMs = readyAtMs === null ? 0 : clock.monotonicMs() - readyAtMs;
    readyAtMs = null;
    watched = '';
    endSilently(ended);
    if (closed) return;
    const retryMs = pauses.next(lastedMs);
    log.debug({ host: target.host, reason, retryMs }, 'Blockbook notifications stopped; polling the server instead');
    retry = setTimeout(connect, retryMs).unref();
  };
  const subscribe = async (made: WebSocket): Promise<void> => {
    try {
      await ask('subscribeNewBlock', {});
    } catch {
      if (made === socket) drop('it does not subscribe');
      return;
    }
    if (made !== socket) return;
    readyAtMs = clock.monotonicMs();
    // Something may have happened while the connection was down.
    onBlock();
    pinging = setInterval(() => {
      hearing.rest();
      ask('ping', {}).catch(() => made === socket && drop('it does not answer'));
    }, pingMs).unref();
  };
  const connect = (): void => {
    retry = null;
    if (closed || socket) return;
    // The runtime's client accepts headers besides protocols, which its types lack.
    const made = new WebSocket(target, (headers ? { headers } : []) as string[]);
    socket = made;
    const giveUp = setTimeout(() => made === socket && readyAtMs === null && drop('it does not open'), answerMs);
    made.addEventListener('message', (event) => {
      if (made === socket && !hearing.hear(String(event.data))) drop('it sent something that is not JSON');
    });
    made.addEventListener('error', () => made === socket && drop('it failed'));
    made.addEventListener('close', () => made === socket && drop('it was closed'));
    made.addEventListener('open', () => {
      clearTimeout(giveUp);
      void subscribe(made);
    });
  };
  const watch: HintSocket['watch'] = async (addresses) => {
    if (readyAtMs === null) return false;
    const wanted = addresses.join();
    if (wanted === watched || addresses.length === 0) return true;
    try {
      const reply = (await ask('subscribeAddresses', { addresses })) as { subscribed?: unknown } | null;
      if (reply?.subscribed !== true) return false;
      watched = wanted;
      return readyAtMs !== null;
    } catch {
      return false;
    }
  };
  return {
    open: () => {
      if (!socket && !retry && !closed) connect();
    },
    alive: () => readyAtMs !== null,
    openedAtMs: () => readyAtMs ?? Number.NEGATIVE_INFINITY,
    watch,
    close: () => {
      closed = true;
      if (retry) clearTimeout(retry);
      drop('it is not needed any more');
    },
  };
}

function endSilently(socket: WebSocket): void {
  try {
    socket.close();
  } catch {
    // It was never open, so there is nothing to close.
  }
}
