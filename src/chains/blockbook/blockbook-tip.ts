/** What a Blockbook server says about its chain: its tip, its headers, and its health. */
import type { Clock } from '../../core/clock.ts';
import type { Network } from '../../core/coin.ts';
import { type BlockRef, ChainError, type ChainHealth, orNull } from '../chain.ts';
import { type Fields, fields } from '../reply.ts';
import type { Get } from './blockbook-requests.ts';
import { incomplete, integer, text } from './replies.ts';

/** How long the tip is cached while the socket announces new blocks, because servers count requests. */
const TIP_FRESH_MS = 10_000;
const TIP_FRESH_HINTED_MS = 30_000;
/** Pages are numbered from 1. Beyond the last page the server returns the last one. */
const LAST_PAGE = 1_000_000;
/** Cached headers. */
const MAX_HEADERS = 500;

const NETWORK_OF: Readonly<Record<string, Network>> = {
  main: 'mainnet',
  mainnet: 'mainnet',
  '1': 'mainnet',
  test: 'testnet',
  testnet: 'testnet',
  testnet3: 'testnet',
  testnet4: 'testnet',
  signet: 'testnet',
  sepolia: 'testnet',
  hoodi: 'testnet',
  '11155111': 'testnet',
  regtest: 'regtest',
};

export type BlockbookTip = {
  tip(): Promise<BlockRef>;
  header(hash: string): Promise<BlockRef>;
  blockAt(height: number): Promise<BlockRef | null>;
  health(): Promise<ChainHealth>;
  /** Reads the tip again the next time. */
  forget(): void;
};

/** `isAlive`: whether the socket announces new blocks. */
export function createTip({
  server,
  network,
  get,
  clock,
  isAlive,
}: {
  server: string;
  network: Network;
  get: Get;
  clock: Clock;
  isAlive(): boolean;
}): BlockbookTip {
  const headers = new Map<string, BlockRef>();
  let about: { atMs: number; status: Fields; tipHash: string; height: number } | null = null;
  const readAbout = async (): Promise<NonNullable<typeof about>> => {
    const freshMs = network === 'regtest' ? 0 : isAlive() ? TIP_FRESH_HINTED_MS : TIP_FRESH_MS;
    if (about && clock.monotonicMs() - about.atMs < freshMs) return about;
    const atMs = clock.monotonicMs();
    const status = fields(await get('status'));
    const { bestHeight } = fields(status.blockbook);
    if (typeof bestHeight !== 'number') throw incomplete(server, 'its height');
    const tipHash = text(fields(await get(`v2/block-index/${bestHeight}`)).blockHash);
    if (tipHash === '') throw incomplete(server, 'the hash of its tip');
    const read = { atMs, status, tipHash, height: bestHeight };
    // An outage of the node behind it is not cached, because it returns sooner.
    if (fields(status.backend).error === undefined) about = read;
    return read;
  };
  const header = async (hash: string): Promise<BlockRef> => {
    const known = headers.get(hash);
    if (known) return known;
    const found = headerOf(fields(await get(`v2/block/${hash}?page=${LAST_PAGE}`)));
    if (found.hash !== hash) throw new ChainError('outage', `${server} answered another block than ${hash}`);
    for (const oldest of headers.keys()) if (headers.size >= MAX_HEADERS) headers.delete(oldest);
    headers.set(hash, found);
    return found;
  };
  const tip = async (): Promise<BlockRef> => header((await readAbout()).tipHash);
  return {
    tip,
    header,
    blockAt: async (height) => {
      const found = await orNull(
        get(`v2/block-index/${height}`).catch((error: ChainError) => {
          // Beyond its tip the server passes on the reply of its node.
          if (about && height > about.height) throw new ChainError('not_found', error.message, { cause: error });
          throw error;
        }),
      );
      const hash = text(fields(found).blockHash);
      return hash === '' ? null : header(hash);
    },
    health: async () => {
      const { status } = await readAbout();
      refuseOutage(status, server);
      return healthOf(status, await tip());
    },
    forget: () => {
      about = null;
    },
  };
}

const headerOf = (value: Fields): BlockRef => ({
  height: integer(value.height),
  hash: text(value.hash),
  parent: text(value.previousBlockHash),
  time: new Date(integer(value.time) * 1000),
});

function refuseOutage(status: Fields, server: string): void {
  const { error, chain } = fields(status.backend);
  if (error !== undefined || !chain) throw new ChainError('outage', `the node behind ${server} does not answer`);
}

/** The health from the server's status and its best block. */
export function healthOf(status: Fields, best: BlockRef): ChainHealth {
  const indexer = fields(status.blockbook);
  const backend = fields(status.backend);
  const chain = text(backend.chain).toLowerCase();
  // `inSync` is briefly false with every block, so only missing blocks count.
  return {
    tip: best,
    headers: Math.max(integer(backend.headers), integer(backend.blocks), best.height),
    syncing: indexer.initialSync === true || integer(backend.blocks) > best.height + 2,
    software: `Blockbook ${text(indexer.version)} on ${text(backend.subversion).replaceAll('/', '') || text(backend.version)}`,
    version: /^\d+$/.test(text(backend.version)) ? Number(backend.version) : 0,
    network: NETWORK_OF[chain] ?? chain,
    pruned: false,
    txindex: true,
    peers: null,
  };
}
