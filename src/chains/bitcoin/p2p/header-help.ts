/**
 * Peers that bring the headers of a chain whose sources cannot bring them in reasonable time, such as a pruned Dogecoin node.
 * They are not a source and have no vote. They are connected while they are needed.
 */
import type { Clock } from '../../../core/clock.ts';
import type { Log } from '../../../log.ts';
import type { SourceConnection } from '../../chain.ts';

const CHECK_MS = 1_000;
/** Nobody needs them any more when nobody asked for this long. */
const QUIET_MS = 120_000;
/** Once the headers are complete, a source that still asks for help shows something else than the peers: they cannot help it soon. */
const AGAIN_MS = 600_000;

export type HeaderHelp = {
  /** The sources of the chain need help now. */
  ask(): void;
  stop(): Promise<void>;
};

/** `connect` creates the connections, `left` is called when they are closed. */
export function createHeaderHelp({
  coin,
  connect,
  left,
  clock,
  log,
  checkMs = CHECK_MS,
}: {
  coin: string;
  connect(): SourceConnection;
  left(): Promise<void>;
  clock: Clock;
  log: Log;
  checkMs?: number;
}): HeaderHelp {
  let current: SourceConnection | null = null;
  let askedMs = 0;
  let notBeforeMs = Number.NEGATIVE_INFINITY;
  let timer: NodeJS.Timeout | null = null;
  let leaving: Promise<void> = Promise.resolve();
  let stopped = false;

  const leave = (why: string): Promise<void> => {
    if (timer) clearInterval(timer);
    timer = null;
    const ended = current;
    current = null;
    if (!ended) return leaving;
    log.info({ coin, reason: why }, 'The peers that brought headers are left');
    leaving = ended
      .stop()
      .then(left)
      .catch((error: unknown) => log.warn({ err: error, coin }, 'Could not leave the peers that brought headers'));
    return leaving;
  };
  const check = (): void => {
    if (current?.isReady()) {
      notBeforeMs = clock.monotonicMs() + AGAIN_MS;
      void leave('the headers are complete');
    } else if (clock.monotonicMs() - askedMs > QUIET_MS) void leave('the sources of this chain need no help');
  };
  const begin = async (connection: SourceConnection): Promise<void> => {
    // Those before may still write their last report.
    await leaving;
    if (current !== connection) return;
    await connection.start();
    if (current !== connection) await connection.stop();
  };
  return {
    ask: () => {
      askedMs = clock.monotonicMs();
      if (current || stopped || askedMs < notBeforeMs) return;
      log.info({ coin }, 'Headers are also read from peers, because the sources of this chain cannot bring them soon');
      const connection = connect();
      current = connection;
      timer = setInterval(check, checkMs);
      timer.unref();
      begin(connection).catch((error: unknown) => {
        log.warn({ err: error, coin }, 'Could not connect to peers for headers; trying again');
        if (current === connection) void leave('they could not be connected to');
      });
    },
    stop: () => {
      stopped = true;
      return leave('Florin is stopping');
    },
  };
}
