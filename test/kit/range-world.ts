/** A fast chain in memory with providers that lie, lag and limit, read by the follower of ranges step by step. */
import { randomBytes } from 'node:crypto';
import { checksumAddress } from '../../src/addresses/evm-address.ts';
import {
  type BlockRef,
  ChainError,
  type JoinedSource,
  type NamedSource,
  type NativeReader,
  type RangeReader,
  RangeRefused,
  type Sighting,
} from '../../src/chains/chain-source.ts';
import { checkedSource } from '../../src/chains/checked-source.ts';
import type { Context } from '../../src/context.ts';
import { COIN, type Coin, coinsBeside, isOfferable, settingOf, strayNativeOf } from '../../src/core/coin.ts';
import type { Trust } from '../../src/core/guard.ts';
import { newId } from '../../src/core/id.ts';
import { CursorMoved } from '../../src/follow/cursor.ts';
import { createRangeFollower } from '../../src/follow/follow-ranges.ts';
import { settleDuePayments } from '../../src/settling/settle-payments.ts';
import { startTestApp, type TestApp } from './app.ts';
import { giveWallet } from './shop.ts';

/** One transfer: in a coin of the chain, or null in a token that is not listed. */
export type Move = { to: string; units: bigint; coin?: Coin | null; from?: string; failed?: boolean };
export type Tx = { txid: string; moves: readonly Move[] };
export type WorldBlock = BlockRef & { txs: readonly Tx[] };

const keyOf = (address: string): string => address.replace('0x', '').toLowerCase();
let names = 0;
const hashOf = (): string => `0x${(++names).toString(16).padStart(64, '0')}`;
export const newTx = (...moves: readonly Move[]): Tx => ({ txid: hashOf(), moves });

/** What a provider does besides answering. */
export type Faults = {
  down: boolean;
  hangs: boolean;
  /** Its newest block has a number that is so much higher. */
  ahead: number;
  /** The blocks that it serves by hash, as it describes them. */
  describes: ((ref: BlockRef) => BlockRef) | null;
  /** Blocks that it lacks at the top. */
  lag: number;
  /** The newest blocks that its index of logs does not contain yet. */
  lateIndex: number;
  /** The longest range that it accepts, and how it says so. */
  span: number;
  omits: (height: number) => boolean;
  /** Heights at which it names transfers that do not exist. */
  invents: readonly number[];
  /** A chain of its own instead of the real one. */
  fork: readonly WorldBlock[] | null;
  /** It names other transactions in the receipts of blocks. */
  renames: boolean;
  /** It serves receipts with transfers that are not in the block, which its root refutes. */
  forgesReceipts: boolean;
  /** Its headers hash fields that are not known, so nothing proves their roots. */
  ownFields: boolean;
  /** Its receipts of a block contain more than the block, and it claims a root that fits them. */
  adds: ((block: WorldBlock) => readonly Tx[]) | null;
  wrongChain: boolean;
  future: boolean;
  safe: number | null;
  finalized: number | null;
  /** What it says that an account holds, which it really does; null: it tells no balances. */
  holds: ((units: bigint) => bigint) | null;
  /** What it cannot answer. */
  fails: readonly ('at' | 'search' | 'fetch' | 'identity' | 'tags' | 'natives')[];
  /** Transactions in no block that it still knows. */
  knows: readonly string[];
  /** It searches only this many of the newest blocks; null: all. */
  recent: number | null;
  /** It shows native balances of only this many of the newest blocks; null: of all. */
  state: number | null;
};
const HONEST: Faults = {
  ...{
    down: false,
    hangs: false,
    ahead: 0,
    describes: null,
    lag: 0,
    lateIndex: 0,
    span: 10_000,
    omits: () => false,
    invents: [],
    fork: null,
    renames: false,
  },
  ...{
    forgesReceipts: false,
    ownFields: false,
    adds: null,
    wrongChain: false,
    future: false,
    safe: null,
    finalized: null,
    holds: null,
    fails: [],
    knows: [],
    recent: null,
    state: null,
  },
};
export type Provider = { name: string; trust: Trust; faults: Faults; requests: number; heal(): void };

export function createWorld({ coin, now, height = 100 }: { coin: Coin; now(): Date; height?: number }) {
  const blocks: WorldBlock[] = [];
  const mine = (...txs: readonly Tx[]): WorldBlock => {
    const block = { height: blocks.length, hash: hashOf(), parent: blocks.at(-1)?.hash ?? `0x${'0'.repeat(64)}`, time: now(), txs };
    blocks.push(block);
    return block;
  };
  for (let i = 0; i <= height; i++) mine();
  return {
    coin,
    now,
    blocks,
    mine,
    mineEmpty: (count: number): void => {
      for (let i = 0; i < count; i++) mine();
    },
    /** Removes the newest blocks; returns their transactions, oldest first. */
    undo: (count: number): Tx[] => blocks.splice(Math.max(1, blocks.length - count)).flatMap(({ txs }) => txs),
    /** The chain goes over to another branch, which leaves it somewhere; returns the blocks that it leaves. */
    goOver: (branch: readonly WorldBlock[]): WorldBlock[] => {
      const left = blocks.splice(branch[0]!.height);
      blocks.push(...branch);
      return left;
    },
    /** A branch of as many blocks as the chain has, that leaves it some blocks ago. */
    branch: (depth: number, ...txs: readonly Tx[]): WorldBlock[] => {
      const branch = blocks.slice(0, blocks.length - depth);
      for (let i = 0; i < depth; i++)
        branch.push({ height: branch.length, hash: hashOf(), parent: branch.at(-1)!.hash, time: now(), txs: i === 0 ? txs : [] });
      return branch;
    },
  };
}
export type World = ReturnType<typeof createWorld>;

/** No log names it. */
const isNative = (move: Move, coin: Coin): boolean => move.coin !== undefined && move.coin === strayNativeOf(coin);
const sightingsOf = (txs: readonly Tx[], coin: Coin, has: (key: string) => boolean): Sighting[] =>
  txs.flatMap(({ txid, moves }) => {
    const places = new Map<string, number>();
    return moves.flatMap((move): Sighting[] => {
      const key = keyOf(move.to);
      if (
        move.failed ||
        move.coin === null ||
        isNative(move, coin) ||
        move.units === 0n ||
        !has(key) ||
        (move.from && has(keyOf(move.from)))
      )
        return [];
      const place = places.get(key) ?? 0;
      places.set(key, place + 1);
      return [
        {
          coin: move.coin ?? coin,
          key,
          ref: `${txid}:log:${key}:${place}`,
          txid,
          units: move.units,
          kind: 'token',
          spends: [],
          lock: null,
        },
      ];
    });
  });

const heldBy = ({ blocks, coin }: { blocks: readonly WorldBlock[]; coin: Coin }, account: string): bigint =>
  blocks
    .flatMap(({ txs }) => txs.flatMap(({ moves }) => moves))
    .reduce(
      (sum, { to, units, coin: moved = coin, failed }) => (keyOf(to) === account && moved === coin && !failed ? sum + units : sum),
      0n,
    );

/** One connection to the chain. */
export function createProvider(
  world: World,
  name: string,
  trust: Trust,
  { natives = false } = {},
): { provider: Provider; named: NamedSource } {
  const provider: Provider = {
    ...{ name, trust, faults: { ...HONEST }, requests: 0 },
    heal: () => {
      provider.faults = { ...HONEST };
    },
  };
  const shown = (): readonly WorldBlock[] => {
    const { fork, lag } = provider.faults;
    const all = fork ?? world.blocks;
    return all.slice(0, all.length - lag);
  };
  const ask = async <T>(answer: () => T, what?: Faults['fails'][number]): Promise<T> => {
    provider.requests++;
    if (what && provider.faults.fails.includes(what)) throw new ChainError('outage', `${name} cannot answer this`);
    if (provider.faults.down) throw new ChainError('outage', `${name} is away`);
    if (provider.faults.hangs) return new Promise<T>(() => {});
    return answer();
  };
  const refOf = ({ height, hash, parent, time }: WorldBlock): BlockRef => ({ height, hash, parent, time });
  const byHash = (hash: string): WorldBlock => {
    const found = shown().find((block) => block.hash === hash);
    if (!found) throw new ChainError('outage', `${name} does not have block ${hash}`);
    return found;
  };
  const txsOf = (block: WorldBlock): readonly Tx[] => [...block.txs, ...(provider.faults.adds?.(block) ?? [])];
  const namesOf = (block: WorldBlock): Tx[] =>
    provider.faults.renames ? txsOf(block).map((tx) => ({ ...tx, txid: `0x${'f'.repeat(32)}${tx.txid.slice(34)}` })) : [...txsOf(block)];
  const identityOf = (block: WorldBlock): string =>
    [provider.faults.adds ? 'its root' : 'root', ...namesOf(block).map(({ txid }) => txid)].join();
  const nativeCoin = strayNativeOf(world.coin);
  const native: NativeReader | null =
    natives && nativeCoin
      ? {
          coin: nativeCoin,
          balances: (accounts, hash) =>
            ask(() => {
              const { height } = byHash(hash);
              const { state } = provider.faults;
              if (state !== null && height < shown().length - state) return null;
              const blocks = shown().slice(0, height + 1);
              return accounts.map((account) => heldBy({ blocks, coin: nativeCoin }, account));
            }, 'natives'),
          paid: async () => [],
        }
      : null;
  const ranges: RangeReader = {
    native,
    head: () =>
      ask(() => {
        const head = refOf(shown().at(-1)!);
        if (provider.faults.ahead > 0) return { ...head, height: head.height + provider.faults.ahead, hash: hashOf(), parent: hashOf() };
        return provider.faults.future ? { ...head, time: new Date(head.time.getTime() + 3_600_000) } : head;
      }),
    at: (heights) => ask(() => heights.map((height) => (shown()[height] ? refOf(shown()[height]!) : null)), 'at'),
    search: ({ from, to }, accounts) =>
      ask(() => {
        const { span, omits, lateIndex, invents } = provider.faults;
        const { recent } = provider.faults;
        if (recent !== null && from < shown().length - recent) throw new RangeRefused('limited to a range of recent blocks');
        if (to - from + 1 > span) throw new RangeRefused(`limited to a ${span} range`);
        if (accounts.length > 1_000) throw new ChainError('outage', 'exceed max topics');
        const keys = new Set(accounts);
        const found = new Map<number, string>();
        const all = shown();
        for (let height = Math.max(0, from); height <= Math.min(to, all.length - 1 - lateIndex); height++) {
          const block = all[height]!;
          const pays = txsOf(block).some(({ moves }) =>
            moves.some((move) => keys.has(keyOf(move.to)) && move.coin !== null && !isNative(move, world.coin)),
          );
          if (pays && !omits(height)) found.set(height, block.hash);
        }
        for (const height of invents) if (height >= from && height <= to) found.set(height, hashOf());
        return found;
      }, 'search'),
    fetch: (hash) =>
      ask(() => {
        const block = byHash(hash);
        if (provider.faults.forgesReceipts)
          throw new ChainError('unproven', `block ${hash}: the receipts do not fit the header of their block`);
        return {
          ref: provider.faults.describes?.(refOf(block)) ?? refOf(block),
          proven: !provider.faults.ownFields,
          identity: identityOf(block),
          txids: new Set(namesOf(block).map(({ txid }) => txid)),
          sightings: (matcher) => sightingsOf(namesOf(block), world.coin, matcher.has),
        };
      }, 'fetch'),
    identity: (hash) => ask(() => identityOf(byHash(hash)), 'identity'),
    placeOf: (txid) =>
      ask(() => {
        const block = shown().find(({ txs }) => txs.some((tx) => tx.txid === txid));
        if (block) return { height: block.height, hash: block.hash };
        return provider.faults.knows.includes(txid) ? 'waiting' : null;
      }),
    tags: () =>
      ask(() => {
        const { safe, finalized } = provider.faults;
        const all = shown();
        const at = (height: number | null, depth: number) => all[height ?? Math.max(0, all.length - depth)] ?? null;
        return { safe: at(safe, 60), finalized: at(finalized, 120) };
      }, 'tags'),
    holdings: {
      get coins() {
        return provider.faults.holds === null ? [] : [world.coin];
      },
      read: (holders) => ask(() => holders.map(({ account }) => provider.faults.holds?.(heldBy(world, account)) ?? 0n)),
    },
    requests: () => provider.requests,
  };
  const source = {
    coin: world.coin,
    network: 'mainnet',
    genesis: async () => {
      if (provider.faults.wrongChain) throw new ChainError('wrong_network', `${name} is on another chain`);
      return '8453';
    },
    ranges,
  } as unknown as NamedSource['source'];
  return { provider, named: { name, trust, source: checkedSource(source, { name, clock: world }), follows: true } };
}

export type RangeShop = {
  app: TestApp;
  world: World;
  providers: Provider[];
  /** One poll and the work that follows from it; a failure is returned. `seconds` pass before it. */
  poll(times?: number, seconds?: number): Promise<Error | null>;
  create(coin?: Coin, amount?: number): Promise<{ id: string; address: string }>;
  /** The first through the API, the others as copies of its rows, each with an address of its own. */
  createMany(count: number): Promise<{ id: string; address: string }[]>;
  detail(id: string): Promise<any>;
  /** A follower that starts with nothing in memory. */
  restart(): void;
  stop(): Promise<void>;
};

/** Copies pay to accounts that no wallet derives, with indexes far above those that wallets give. */
const COPIED_FROM_INDEX = 1_000_000;
let copied = COPIED_FROM_INDEX;
/** Payments like this one, which has a quote and an address but no transfers, in one statement for all. */
async function copyPayment({ db }: Context, paymentId: string, count: number): Promise<{ id: string; address: string }[]> {
  const copies = Array.from({ length: count }, () => ({
    id: newId('pay', randomBytes),
    key: randomBytes(20).toString('hex'),
    index: ++copied,
  })).map((copy, i) => ({ ...copy, address: checksumAddress(copy.key), place: i + 1 }));
  await db.sql`
    with copies as (
      select * from jsonb_to_recordset(${db.sql.json(copies)}) as c (id text, key text, address text, index bigint, place int)
    ), counters as (
      update payment_counters c set last_sequence = last_sequence + ${count}::int from payments p
      where p.id = ${paymentId} and c.merchant_id = p.merchant_id and c.mode = p.mode returning last_sequence - ${count}::int as before
    ), copied_payments as (
      insert into payments select (jsonb_populate_record(p, jsonb_build_object('id', c.id, 'sequence', before + c.place))).*
      from payments p, copies c, counters where p.id = ${paymentId}
    ), copied_quotes as (
      insert into quotes select (jsonb_populate_record(q, jsonb_build_object('payment_id', c.id, 'address', c.address))).*
      from quotes q, copies c where q.payment_id = ${paymentId}
    )
    insert into deposit_addresses select (jsonb_populate_record(d, jsonb_build_object('payment_id', c.id, 'key', c.key, 'address', c.address,
      'index', c.index, 'xid', pg_current_xact_id()::text))).*
    from deposit_addresses d, copies c where d.payment_id = ${paymentId}`;
  return copies.map(({ id, address }) => ({ id, address }));
}

/** A shop that reads the network of a coin, USDC on Base if none is given, from these providers. */
export async function openRangeShop(
  trusts: readonly Trust[],
  { coin = 'USDC@base' as Coin, height = 100, confirmations = '', natives = false } = {},
): Promise<RangeShop> {
  const setting = settingOf(coin);
  const app = await startTestApp(
    {
      ...{ [`${setting}_NODE_URL`]: 'http://127.0.0.1:1', [`${setting}_TRUST`]: 'untrusted', [`${setting}_CONFIRMATIONS`]: confirmations },
      ...{ ETH_NODE_URL: 'http://127.0.0.1:1', LOG_LEVEL: 'silent', PRICES: 'static:ETH=2500.00,USDC=1.00,EURC=1.00' },
    },
    { roles: ['api'] },
  );
  const { ctx } = app.app;
  const { changeSettings } = await import('../../src/merchants/merchants.ts');
  await giveWallet(app, 'ETH');
  await changeSettings(ctx, { merchantId: app.merchant.merchantId, settings: { tokens: coinsBeside(coin).filter(isOfferable) } });
  const monotonicMs = ctx.clock.monotonicMs.bind(ctx.clock);
  let skippedMs = 0;
  Object.assign(ctx.clock, { monotonicMs: () => monotonicMs() + skippedMs });
  const world = createWorld({ coin, now: () => ctx.clock.now(), height });
  const made = trusts.map((trust, i) => createProvider(world, `provider${i + 1}.example`, trust, { natives }));
  const chain = { coin, network: 'mainnet', sources: made.map(({ named }) => named) } as unknown as JoinedSource;
  let follower = createRangeFollower(ctx, chain);
  const shop: RangeShop = {
    ...{ app, world, providers: made.map(({ provider }) => provider) },
    poll: async (times = 1, seconds = 25) => {
      let failure: Error | null = null;
      for (let i = 0; i < times; i++) {
        skippedMs += seconds * 1_000;
        try {
          while (await follower.step());
        } catch (error) {
          if (!(error instanceof ChainError || error instanceof CursorMoved)) throw error;
          failure = error;
        }
        while ((await settleDuePayments(ctx, { limit: 100 })) > 0);
      }
      return failure;
    },
    create: async (asked = coin, amount = 25.5) => {
      // A follower looks every few seconds, however long ago this test polled on a busy machine.
      await ctx.db.sql`update tips set looked_at = clock_timestamp() where looked_at < clock_timestamp()`;
      const reply = await app.live.post('/v1/transactions/create', {
        ...{ amount, currency_fiat: 'USD', crypto: COIN[asked].asset, network: COIN[asked].chain },
      });
      if (reply.status !== 201) throw new Error(reply.text);
      return { id: reply.json.id, address: reply.json.payment_address };
    },
    createMany: async (count) => {
      const first = await shop.create();
      return [first, ...(await copyPayment(ctx, first.id, count - 1))];
    },
    detail: async (id) => (await app.live.get(`/api/payment/${id}`)).json,
    restart: () => {
      follower = createRangeFollower(ctx, chain);
    },
    stop: () => app.stop(),
  };
  await shop.poll();
  return shop;
}
