/**
 * The header chain of one network, shared by everything in a process that follows it: sources add what they read, one stored chain judges
 * it. It opens on first use, so processes that follow no chain never load it; they read what followers recorded.
 */
import type { BitcoinFamily, Network } from '#core/coin';
import type { Clock } from '#core/dates';
import type { Log } from '#log';
import type { ChainStore } from '../store.ts';
import { confirmationsAt, findWorkHolds, provenHeights, type WorkHold, workPerConfirmation } from './chain-work.ts';
import { CHECKPOINTS, type Checkpoint, startOf } from './checkpoints.ts';
import { createHeaderChain, type HashWork, type HeaderChain, type HeaderReader, type Start } from './header-chain.ts';
import { openHeaderChain } from './header-store.ts';
import { PROOF_PARAMS, type ProofParams } from './proof-params.ts';

/** The rules of a network, and where its chain of headers begins. `earlier`: where it began in former releases, newest first. */
export type ProofStart = { params: ProofParams; start: Start; earlier?: readonly Start[] };
/** Which networks have a proof. Tests begin other chains. */
export type ProofStarts = (family: BitcoinFamily, network: Network) => ProofStart | null;

/** The main networks, from the checkpoints of this release. */
export const MAIN_STARTS: ProofStarts = (family, network) => {
  if (network !== 'mainnet') return null;
  const checkpoint: Checkpoint = CHECKPOINTS[family];
  return { params: PROOF_PARAMS[family].main, start: startOf(checkpoint), earlier: checkpoint.earlier.map(startOf) };
};

type HeaderProgress = {
  height: number;
  /** How much of the time since the checkpoint the headers cover: 100 at the tip. */
  percent: number;
};

export type Headers = HeaderReader & {
  /** A block's confirmations: blocks from it to the tip, and how many confirmations their work is worth. */
  confirmationsAt(height: number): { blocks: number; proven: number };
  /** The highest blocks with 1, 2, 3 ... confirmations in work, at most this many of them. */
  provenHeights(most: number): number[];
  /** Why nothing may complete on this chain now. */
  holds(): WorkHold[];
  progress(): HeaderProgress;
  /** Calls back after the best chain changed, until the returned function is called. */
  onChange(listener: () => void): () => void;
};

export type HeaderService = {
  params: ProofParams;
  /** Loads the stored headers the first time. Errors: those of the store; the next call tries again. */
  open(): Promise<Headers>;
  /** Null in processes that do not follow the chain. */
  opened(): Headers | null;
  /** Waits until everything is stored. */
  close(): Promise<void>;
};

type Options = ProofStart & {
  /** Null: the headers are read again at each start, as on private test networks. */
  store: Pick<ChainStore, 'headers' | 'recordedHeight'> | null;
  hashWork: HashWork;
  clock: Clock;
  log: Log;
};
type Stored = { chain: HeaderChain; save(): Promise<void> };

/** A tip this many intervals old is as new as chance allows. */
const FRESH_INTERVALS = 12;

function progressOf({ chain, nowSeconds }: { chain: HeaderChain; nowSeconds: number }): HeaderProgress {
  const { height, timeSeconds } = chain.tip();
  const from = chain.work.timeAt(chain.checkpointHeight);
  const missing = nowSeconds - timeSeconds;
  if (missing <= FRESH_INTERVALS * chain.params.spacingSeconds) return { height, percent: 100 };
  return { height, percent: Math.max(0, Math.min(99, Math.floor((100 * (timeSeconds - from)) / (nowSeconds - from)))) };
}

/** Writes what is new while more may arrive. A failure is logged; the next change writes everything that is missing. */
function createSaver({ save }: Stored, log: Log, coin: string): { later(): void; finish(): Promise<void> } {
  let running: Promise<void> | null = null;
  let again = false;
  const run = async (): Promise<void> => {
    do {
      again = false;
      await save().catch((error: unknown) =>
        log.warn({ err: error, coin }, 'Headers could not be stored; trying again with the next ones'),
      );
    } while (again);
    running = null;
  };
  return {
    later: () => {
      again = true;
      running ??= run();
    },
    finish: async () => {
      await running;
    },
  };
}

/**
 * At the newest checkpoint; where the last block that was read is below it, at the newest one below that block. So a newer release that is
 * installed after a pause, or with a restored backup, has the headers of the blocks in between.
 */
async function beginningOf({ params, start, earlier = [], store }: Options): Promise<{ start: Start; later: readonly Start[] }> {
  const last = store === null ? null : await store.recordedHeight(params.coin);
  const starts = [start, ...earlier];
  const used =
    last === null
      ? 0
      : Math.max(
          0,
          starts.findIndex(({ height }) => height <= last),
        );
  return { start: starts[used]!, later: starts.slice(0, used) };
}

async function openStored(given: Options): Promise<Stored> {
  const { params, store, hashWork, clock } = given;
  const options = { params, ...(await beginningOf(given)), hashWork, nowSeconds: () => Math.floor(clock.now().getTime() / 1000) };
  if (store === null) return { chain: createHeaderChain(options), save: async () => {} };
  return openHeaderChain({ pages: store.headers(params), ...options });
}

/** Creates the service of one network. Nothing is loaded before `open`. */
export function createHeaderService(options: Options): HeaderService {
  const { params, clock, log } = options;
  const listeners = new Set<() => void>();
  let opening: Promise<Headers> | null = null;
  let headers: Headers | null = null;
  let finish = async (): Promise<void> => {};

  const open = async (): Promise<Headers> => {
    const stored = await openStored(options);
    const { chain } = stored;
    const saver = createSaver(stored, log, params.coin);
    finish = saver.finish;
    const nowSeconds = () => Math.floor(clock.now().getTime() / 1000);
    const noticing = async <T>(change: Promise<T>): Promise<T> => {
      const before = chain.tip().hash;
      try {
        return await change;
      } finally {
        // What comes before a faulty header is kept.
        if (chain.tip().hash !== before) {
          saver.later();
          for (const listener of listeners) listener();
        }
      }
    };
    headers = {
      ...chain,
      add: (sent, giver, giving) => noticing(chain.add(sent, giver, giving)),
      setAside: (hash) => noticing(chain.setAside(hash)),
      admit: (hash, how) => noticing(chain.admit(hash, how)),
      confirmationsAt: (height) => confirmationsAt(chain.work, height, workPerConfirmation(chain.work, params, nowSeconds())),
      provenHeights: (most) => provenHeights(chain.work, params, { most, nowSeconds: nowSeconds() }),
      holds: () => findWorkHolds(chain.work, { ...params, nowSeconds: nowSeconds() }),
      progress: () => progressOf({ chain, nowSeconds: nowSeconds() }),
      onChange: (listener) => {
        listeners.add(listener);
        return () => void listeners.delete(listener);
      },
    };
    return headers;
  };
  return {
    params,
    open: () => {
      opening ??= open().catch((error: unknown) => {
        opening = null;
        throw error;
      });
      return opening;
    },
    opened: () => headers,
    close: async () => {
      await opening?.catch(() => {});
      await finish();
    },
  };
}

type HeaderServices = { of(family: BitcoinFamily, network: Network): HeaderService | null; close(): Promise<void> };

/** The services of one process: one for each network that has a proof. */
export function createHeaderServices({
  starts,
  ...rest
}: { starts: ProofStarts } & Pick<Options, 'store' | 'hashWork' | 'clock' | 'log'>): HeaderServices {
  const services = new Map<string, HeaderService | null>();
  return {
    of: (family, network) => {
      const key = `${family} ${network}`;
      if (!services.has(key)) {
        const start = starts(family, network);
        services.set(key, start && createHeaderService({ ...start, ...rest }));
      }
      return services.get(key)!;
    },
    close: async () => {
      for (const service of services.values()) await service?.close();
    },
  };
}
