/** Fees that Electrum servers estimate. Nobody can prove an estimate: two operators must say about the same, and none can exceed a bound. */
import type { FeeTier } from '../../chain.ts';
import { amount } from '../core-calls.ts';
import { feeTier } from '../core-fees.ts';
import { PARAMS } from '../params.ts';
import { type Desk, lookupFailed, noteFailure } from './electrum-desk.ts';
import { ElectrumProofError } from './electrum-proof.ts';
import type { ElectrumSession } from './electrum-servers.ts';

/** Blocks within which a transaction should be mined, slowest first. */
const SPEEDS = [
  { speed: 'slow', blocks: 24 },
  { speed: 'normal', blocks: 6 },
  { speed: 'fast', blocks: 2 },
] as const;
/** Two estimates of different nodes for the same moment. */
const APART = 2n;
/** No estimate is more than this many times the lowest fee that is ever suggested. */
const MOST_TIMES = 10_000n;

/** Base units per 1,000 virtual bytes; 0 when there is no estimate. Errors: ProofError. */
function readRate(value: unknown, { family }: Desk): bigint {
  if (typeof value !== 'number') throw new ElectrumProofError('a fee that is not a number');
  if (value <= 0) return 0n;
  const rate = amount(String(value));
  const most = PARAMS[family].floorPerKilobyte * MOST_TIMES;
  return rate > most ? most : rate;
}

/** The lowest fee that the node behind a server relays. Errors: ServerError, AnswerError, ProofError. */
async function askFloor(desk: Desk, session: ElectrumSession): Promise<bigint> {
  if (!session.protocol.startsWith('1.6')) return readRate(await session.ask('blockchain.relayfee', []), desk);
  const info = await session.ask('mempool.get_info', []);
  const { mempoolminfee, minrelaytxfee } = (typeof info === 'object' && info !== null ? info : {}) as Record<string, unknown>;
  const [one, other] = [readRate(mempoolminfee, desk), readRate(minrelaytxfee, desk)];
  return one > other ? one : other;
}

/** Slowest first; the lowest fee last. */
const askRates = async (desk: Desk, session: ElectrumSession): Promise<bigint[]> =>
  Promise.all([
    ...SPEEDS.map(async ({ blocks }) => readRate(await session.ask('blockchain.estimatefee', [blocks]), desk)),
    askFloor(desk, session),
  ]);

const isNear = (one: bigint, other: bigint): boolean => one <= other * APART && other <= one * APART;
const higher = (one: bigint, other: bigint): bigint => (one > other ? one : other);

/** Errors: ChainError. */
export async function lookUpFees(desk: Desk): Promise<FeeTier[]> {
  const failures: string[] = [];
  const seen: bigint[][] = [];
  for await (const session of desk.servers.sessions(failures)) {
    try {
      const rates = await askRates(desk, session);
      const same = seen.find((other) => other.every((rate, i) => isNear(rate, rates[i]!)));
      if (same)
        return tiersOf(
          desk,
          same.map((rate, i) => higher(rate, rates[i]!)),
        );
      seen.push(rates);
    } catch (error) {
      noteFailure(error, session, failures);
    }
  }
  const what = seen.length < 2 ? 'fees need the estimates of two servers' : 'the servers estimate fees that differ by more than twice';
  throw lookupFailed(desk, what, failures);
}

function tiersOf({ family }: Desk, rates: readonly bigint[]): FeeTier[] {
  let above = higher(PARAMS[family].floorPerKilobyte, rates[SPEEDS.length]!);
  // From slow to fast, so fast is never below normal, nor normal below slow.
  return SPEEDS.map(({ speed }, i): FeeTier => {
    above = higher(above, rates[i]!);
    return { ...feeTier(family, above), speed, minutes: PARAMS[family].minutes[speed], source: rates[i]! > 0n ? 'estimate' : 'fallback' };
  }).toReversed();
}
