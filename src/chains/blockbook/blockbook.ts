/**
 * A Blockbook server (HTTP API v2, WebSocket for hints): lookups of any address and transaction for all coins, and detection of
 * payments where no node is configured, except on Ethereum: its index of internal transfers shows reverted ones too.
 */
import type { Clock } from '../../core/clock.ts';
import { COIN, type Coin, type Network } from '../../core/coin.ts';
import { withoutEndSlashes } from '../../core/text.ts';
import type { Log } from '../../log.ts';
import type { Outgoing } from '../../outgoing.ts';
import { isBitcoinLike } from '../bitcoin/params.ts';
import type { ProofParams } from '../bitcoin/proof-params.ts';
import { ChainError, type ChainSource, type FeeTier, NO_FINALITY, orNull } from '../chain.ts';
import { fields } from '../reply.ts';
import { createAccountRules } from './blockbook-accounts.ts';
import { createBlockbookBlocks } from './blockbook-blocks.ts';
import { createMatch } from './blockbook-matching.ts';
import { createBlockbookMempool, isUnconfirmed } from './blockbook-mempool.ts';
import { createBlockbookOutlet } from './blockbook-outlet.ts';
import { createOutputRules } from './blockbook-outputs.ts';
import { createGet, type Get } from './blockbook-requests.ts';
import type { BlockbookRules } from './blockbook-rules.ts';
import { createHintSocket } from './blockbook-socket.ts';
import { createTip } from './blockbook-tip.ts';
import { decimalUnits, incomplete, text, unitsFrom } from './replies.ts';

/** Creates the reader of one server. The socket opens when payments are first read from it, not for lookups. */
export function createBlockbookSource({
  coin,
  network,
  url,
  proof = null,
  outgoing,
  log,
  clock,
}: {
  coin: Coin;
  network: Network;
  url: string;
  /** The rules that its blocks must follow; null on networks without proof. */
  proof?: ProofParams | null;
  outgoing: Outgoing;
  log: Log;
  clock: Clock;
}): ChainSource {
  const server = `the ${coin} Blockbook server`;
  const base = withoutEndSlashes(url);
  const { family } = COIN[coin];
  const listeners = new Set<() => void>();
  const wakeAll = (): void => {
    for (const wake of listeners) wake();
  };
  const get = createGet({ server, base, outgoing, clock });
  const units = unitsFrom(server);
  const match = createMatch({ coin, network, units });
  const socket = createHintSocket({
    url: `${base.replace(/^http/, 'ws')}/websocket`,
    clock,
    log,
    onBlock: () => {
      tips.forget();
      wakeAll();
    },
    onTransaction: (txid) => {
      mempool.hint(txid);
      wakeAll();
    },
  });
  const tips = createTip({ server, network, get, clock, isAlive: socket.alive });
  const mempool = createBlockbookMempool({ coin, network, get, clock, socket, match });
  const input = { server, get, units };
  const rules = isBitcoinLike(family) ? createOutputRules(family, input) : createAccountRules(input);
  const { header, health, tip, blockAt } = tips;
  const notFollowed = async (): Promise<never> => {
    throw new ChainError('unsupported', `payments in ${coin} are not read from a Blockbook server`);
  };
  return {
    coin,
    network,
    genesis: async () => text(fields(await get('v2/block-index/0')).blockHash),
    health,
    tip,
    blockAt,
    block: (hash) => orNull(header(hash)),
    ...(isBitcoinLike(family) ? createBlockbookBlocks({ family, server, get, log, proof, header, match }) : { fetchBlock: notFollowed }),
    fetchMempool: mempool.fetchMempool,
    txState: (txid) => readState(txid, get),
    finality: async () => NO_FINALITY,
    transaction: async (txid) => {
      const tx = await orNull(get(`v2/tx/${txid}`));
      if (tx === null) throw new ChainError('not_found', txid);
      return rules.describe(fields(tx));
    },
    addressSummary: rules.addressSummary,
    readUnspent: rules.readUnspent,
    fees: () => readFees({ server, get, rules, decimals: COIN[coin].decimals }),
    ...(isBitcoinLike(family) && { outlet: createBlockbookOutlet({ family, server, get }) }),
    onHint: (wake) => {
      listeners.add(wake);
      return () => listeners.delete(wake);
    },
    close: () => socket.close(),
  };
}

/** Where a transaction is. Locks count only when the operator's own node reports them. */
async function readState(txid: string, get: Get): ReturnType<ChainSource['txState']> {
  const tx = fields(await orNull(get(`v2/tx/${txid}`)));
  if (!tx.txid) return { state: 'unknown', blockHash: null, lock: null };
  return isUnconfirmed(tx)
    ? { state: 'mempool', blockHash: null, lock: null }
    : { state: 'mined', blockHash: text(tx.blockHash), lock: null };
}

/** Blocks within which a transaction should be mined, slowest first. */
const SPEEDS = [
  { speed: 'slow', blocks: 24 },
  { speed: 'normal', blocks: 6 },
  { speed: 'fast', blocks: 2 },
] as const;

async function readFees({
  server,
  get,
  rules,
  decimals,
}: {
  server: string;
  get: Get;
  rules: BlockbookRules;
  decimals: number;
}): Promise<FeeTier[]> {
  let above = rules.lowestRate ?? 0n;
  const tiers: FeeTier[] = [];
  // From slow to fast, so fast is never below normal, nor normal below slow.
  for (const { speed, blocks } of SPEEDS) {
    const given = decimalUnits(fields(await get(`v2/estimatefee/${blocks}?conservative=false`)).result, decimals);
    const estimated = given !== null && given > 0n;
    if (!estimated && rules.lowestRate === null) throw incomplete(server, 'a gas price');
    if (estimated && given > above) above = given;
    tiers.unshift({ speed, ...rules.tierAt(above), minutes: rules.minutes[speed], source: estimated ? 'estimate' : 'fallback' });
  }
  return tiers;
}
