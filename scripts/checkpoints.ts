/**
 * Moves the checkpoints of a release forward: `node scripts/checkpoints.ts BTC=127.0.0.1:8333 DOGE=peer.example:22556`. Reads headers from a
 * peer of each coin, best a node of your own, from the current checkpoint to the tip, checks all of them, and writes
 * `src/chains/bitcoin/checkpoints.ts`. Coins that are not named keep theirs. Compare the new hashes with another source before a release.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CHECKPOINTS, type Checkpoint, type CheckpointPlace, startOf } from '../src/chains/bitcoin/checkpoints.ts';
import { createHeaderChain, type HashWork } from '../src/chains/bitcoin/header-chain.ts';
import type { SentHeader } from '../src/chains/bitcoin/header-rules.ts';
import { connectPeer, peerNetwork } from '../src/chains/bitcoin/p2p/peer.ts';
import { PROOF_PARAMS, type ProofParams } from '../src/chains/bitcoin/proof-params.ts';
import { createWorkThreads } from '../src/chains/bitcoin/work-threads.ts';

const FILE = join(import.meta.dirname, '../src/chains/bitcoin/checkpoints.ts');
/** Blocks above a checkpoint: two days. No branch that long was ever replaced. */
const BURIED_SECONDS = 2 * 86_400;
/** Headers that the rule of a checkpoint's coin and the median time need. */
const CONTEXT = { period: 11, digishield: 11, gravity: 24, fixed: 1 } as const;

/** The highest block that is buried deeply enough, and that starts a period where there are periods: its time is all that the next one needs. */
export function heightFor({ retarget, spacingSeconds }: ProofParams, tip: number): number {
  const buried = tip - Math.ceil(BURIED_SECONDS / spacingSeconds);
  return retarget.kind === 'period' ? buried - (buried % retarget.interval) : buried;
}

/** Reads and checks all headers above a checkpoint, and returns the next one. Errors: HeaderError, and those of `read`. */
export async function advance(
  params: ProofParams,
  from: Checkpoint,
  {
    read,
    hashWork,
    nowSeconds,
    day,
  }: {
    /** The headers after the first known one of these hashes. */
    read(locator: readonly string[]): Promise<readonly SentHeader[]>;
    hashWork: HashWork;
    nowSeconds(): number;
    /** Today, for the note on where it is from. */
    day: string;
  },
): Promise<Checkpoint> {
  const chain = createHeaderChain({ params, start: startOf(from), hashWork, nowSeconds });
  while ((await chain.add(await read(chain.locator()))).added > 0);
  const height = heightFor(params, chain.tip().height);
  if (height <= from.height) return from;
  const count = Math.min(CONTEXT[params.retarget.kind], height - from.height);
  const headers = Array.from({ length: count }, (_, i) => chain.at(height - count + 1 + i)!.bytes.toString('hex'));
  const { earlier, ...before } = from;
  const source = `${day}: read from a peer, and checked from block ${from.height} on`;
  return { height, hash: chain.at(height)!.hash, headers, source, earlier: [before, ...earlier].slice(0, EARLIER) };
}

/** How many former checkpoints are kept, for installs that were not running since the release that had them. */
const EARLIER = 4;

/** The text of the file. */
export function render(checkpoints: Readonly<Record<string, Checkpoint>>): string {
  const text = (value: string) => `'${value.replaceAll("'", '’')}'`;
  const place = ({ height, hash, headers, source }: CheckpointPlace) => `    height: ${height},
    hash: ${text(hash)},
    headers: [
${headers.map((header) => `      ${text(header)},`).join('\n')}
    ],
    source: ${text(source)},`;
  const rows = Object.entries(checkpoints).map(
    ([coin, { earlier, ...newest }]) => `  ${coin}: {
${place(newest)}
    earlier: [${earlier.map((one) => `{\n${place(one)}\n},`).join('\n')}],
  },`,
  );
  return `/** Where the header chains of this release begin, on the main networks. Written by \`scripts/checkpoints.ts\`; renew it with every release. */
import type { Start } from './header-chain.ts';

export type CheckpointPlace = {
  height: number;
  hash: string;
  /** Consecutive headers in hex, the checkpoint last; those before it are what the rules for the next blocks need. */
  headers: readonly string[];
  source: string;
};
/** \`earlier\`: those of former releases, newest first. The chain begins at one of them where the last block that was read is older. */
export type Checkpoint = CheckpointPlace & { earlier: readonly CheckpointPlace[] };

/** Nothing below a checkpoint is ever replaced, and the work of a chain is counted from it. */
export const CHECKPOINTS = {
${rows.join('\n')}
} as const satisfies Readonly<Record<string, Checkpoint>>;

export const startOf = ({ height, headers }: CheckpointPlace): Start => ({ height, headers: headers.map((header) => Buffer.from(header, 'hex')) });
`;
}

async function main(peers: readonly string[]): Promise<void> {
  const clock = { now: () => new Date(), monotonicMs: () => performance.now() };
  const thread = createWorkThreads();
  const renewed: Record<string, Checkpoint> = { ...CHECKPOINTS };
  for (const named of peers) {
    const [, coin, host, port] = /^([A-Z]+)=(.+):(\d+)$/.exec(named) ?? [];
    if (!coin || !(coin in CHECKPOINTS)) throw new Error(`write COIN=host:port with ${Object.keys(CHECKPOINTS).join(', ')}, not ${named}`);
    const name = coin as keyof typeof CHECKPOINTS;
    const nothing = () => {};
    const peer = await connectPeer({
      endpoint: { host: host!, port: Number(port) },
      network: peerNetwork(name, 'mainnet'),
      wantsTransactions: false,
      handlers: { onHeaders: nothing, onItems: nothing, onTransaction: nothing, onAddresses: nothing, onClose: nothing },
      clock,
    });
    const nowSeconds = () => Math.floor(Date.now() / 1000);
    renewed[name] = await advance(PROOF_PARAMS[name].main, CHECKPOINTS[name], {
      read: async (locator) => {
        const headers = await peer.readHeaders(locator);
        process.stdout.write(`\r${coin}: ${headers.length} headers `);
        return headers;
      },
      hashWork: thread.hashWork,
      nowSeconds,
      day: new Date().toISOString().slice(0, 10),
    });
    peer.close('done');
    process.stdout.write(`\r${coin}: ${renewed[name]!.height} ${renewed[name]!.hash}\n`);
  }
  await thread.close();
  writeFileSync(FILE, render(renewed));
}

if (import.meta.main) await main(process.argv.slice(2));
