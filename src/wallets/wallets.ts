/** Watch-only wallets: a merchant's account key per family of coins, and the counter its deposit addresses come from. */
import { hash } from 'node:crypto';
import { deriveAddress, isBitcoinLike, PARAMS, parseAccountKey, type Script } from '#addresses';
import type { Context } from '#context';
import { COIN, type Coin, FAMILIES, type Family, type Network } from '#core/coin';
import { base62 } from '#core/id';
import { Problem } from '#core/problem';
import type { Fragment, Sql, Tx } from '#db';
import { startLoop } from '#loop';
import { notifyMembers } from '#notices';
import {
  compareIndexes,
  markName,
  markOf,
  RESERVED_AHEAD,
  readServer,
  readWalletIndexes,
  releaseIndexes,
  reserveIndex,
  serverRun,
} from './wallet-indexes.ts';

type DepositAddress = { family: Family; address: string; key: string; walletId: string; index: bigint };

/** Address types of a coin when the key prefix does not determine one, the usual one first. */
export function scriptsFor(coin: Coin): readonly Script[] {
  const { family } = COIN[coin];
  return isBitcoinLike(family) ? PARAMS[family].scripts : ['eoa'];
}

type NewWallet = { merchantId: string; coin: Coin; accountKey: string; script?: Script; firstIndex?: bigint };

/** Parses an account key with its address type. Errors: private_key_refused, account_key_invalid. */
export function readAccountKey(
  ctx: Context,
  { coin, accountKey, script: wanted }: Pick<NewWallet, 'coin' | 'accountKey' | 'script'>,
): ReturnType<typeof parseAccountKey> & { script: Script; network: Network } {
  const network = ctx.settings.networks[COIN[coin].chain];
  const parsed = parseAccountKey(accountKey, { coin, network });
  if (parsed.script && wanted && parsed.script !== wanted) {
    throw new Problem('account_key_invalid', { reason: `it is for ${parsed.script} addresses, not for ${wanted}` }, { param: 'script' });
  }
  const script = parsed.script ?? wanted;
  if (!script) {
    throw new Problem(
      'account_key_invalid',
      { reason: 'its prefix does not say the address type; name one of p2wpkh, p2tr, p2sh-p2wpkh, p2pkh' },
      { param: 'script' },
    );
  }
  return { ...parsed, script, network };
}

/** The first five addresses of a key, for the merchant to compare with their wallet. */
export const firstAddresses = (key: { chainKey: string; script: Script; network: Network }, coin: Coin): string[] =>
  [0n, 1n, 2n, 3n, 4n].map((index) => deriveAddress({ ...key, coin, index }).address);

/**
 * Imports an account key and makes it the coin's active wallet. The same key again resumes its counter; another merchant's key is
 * rejected, because two merchants with the same addresses would receive each other's payments. Returns the first five addresses for
 * the merchant to compare with their wallet. Errors: private_key_refused, account_key_invalid, parameter_invalid.
 */
export async function setWallet(
  ctx: Context,
  wanted: NewWallet,
): Promise<{ walletId: string; firstAddresses: string[]; nextIndex: bigint }> {
  const set = await ctx.db.begin((tx) => writeWallet(ctx, tx, wanted));
  return { ...set, firstAddresses: firstAddresses(readAccountKey(ctx, wanted), wanted.coin) };
}

/**
 * The ID of a wallet derives from its account, so that the file next to the database still knows its indexes when the database went back
 * to a time before the wallet was set, and the merchant sets it again.
 */
export function walletIdOf({ coin, chainKey, script }: { coin: string; chainKey: string; script: Script }): string {
  let block = 0;
  return `wal_${base62(24, () => hash('sha256', JSON.stringify([coin, chainKey, script, block++]), 'buffer'))}`;
}

/** The same in a transaction. It replaces a waiting key of the coin. */
export async function writeWallet(ctx: Context, tx: Tx, wanted: NewWallet): Promise<{ walletId: string; nextIndex: bigint }> {
  const { merchantId, coin, firstIndex = 0n } = wanted;
  const { network, chainKey, accountKey, script, path } = readAccountKey(ctx, wanted);
  const [merchant] = await tx`select 1 from merchants where id = ${merchantId} for update`;
  if (!merchant) throw new Problem('merchant_not_found', { id: merchantId }, { param: 'merchant' });
  await tx`delete from wallet_changes where merchant_id = ${merchantId} and family = ${coin}`;
  await tx`
    update wallets set active = false, paused_at = null
    where merchant_id = ${merchantId} and family = ${coin} and (active or paused_at is not null)`;
  const walletId = walletIdOf({ coin: COIN[coin].family, chainKey, script });
  // Of two merchants who set the same key at the same time, one gets its error.
  await tx`select pg_advisory_xact_lock(hashtextextended(${walletId}, 0))`;
  // The same key may come again with its origin, by which hardware wallets find it.
  const named = tx`wallets.merchant_id = excluded.merchant_id and excluded.path like 'm/%'`;
  const [stored] = await tx<{ id: string; merchantId: string; nextIndex: bigint }[]>`
    insert into wallets (id, merchant_id, family, network, chain_key, account_key, script, path, next_index, issued_on)
    values (${walletId}, ${merchantId}, ${coin}, ${network}, ${chainKey}, ${accountKey}, ${script}, ${path}, ${firstIndex},
      ${await readServer(tx)})
    on conflict (family, chain_key, script) do update
      set active = wallets.merchant_id = excluded.merchant_id, next_index = greatest(wallets.next_index, excluded.next_index),
        account_key = case when ${named} then excluded.account_key else wallets.account_key end,
        path = case when ${named} then excluded.path else wallets.path end,
        xid = pg_current_xact_id()
    returning id, merchant_id as "merchantId", next_index as "nextIndex"`;
  if (stored!.merchantId !== merchantId) {
    throw new Problem(
      'account_key_invalid',
      { reason: 'another merchant of this install already uses it; export the key of another account' },
      { param: 'key' },
    );
  }
  await notifyMembers(ctx, tx, [{ merchantId, mode: 'live', kind: 'wallet_changed', detail: { coin } }]);
  return { walletId: stored!.id, nextIndex: stored!.nextIndex };
}

/** Public keys are visible to everyone, so payments created with them get at most this many addresses of a wallet per hour. */
export const PUBLIC_ADDRESSES_PER_HOUR = 200;

/**
 * Takes the next unused address of the active wallet of the coin's family. The counter row stays locked until the transaction ends,
 * so a rollback gives the index back and no address is ever given twice. Errors: coin_not_configured (param `currency`);
 * rate_limit_exceeded when the hour's addresses for payments by public keys are used up.
 */
export async function nextAddress(
  ctx: Context,
  tx: Tx,
  { merchantId, coin, createdWith }: { merchantId: string; coin: Coin; createdWith: 'secret' | 'public' },
): Promise<DepositAddress> {
  const [wallet] = await tx<
    {
      id: string;
      chainKey: string;
      script: Script;
      counter: bigint;
      issuedOn: string | null;
      run: string;
      publicAddresses: number;
      secondsLeft: number;
    }[]
  >`
    update wallets set next_index = next_index + 1, xid = pg_current_xact_id()
      ${
        createdWith === 'public'
          ? tx`, public_hour = date_trunc('hour', clock_timestamp()),
        public_addresses = case when public_hour = date_trunc('hour', clock_timestamp()) then public_addresses + 1 else 1 end`
          : tx``
      }
    where merchant_id = ${merchantId} and family = ${COIN[coin].family} and active
    returning id, chain_key as "chainKey", script, next_index - 1 as counter, issued_on as "issuedOn", ${serverRun(tx)} as run,
      public_addresses as "publicAddresses",
      ceil(extract(epoch from date_trunc('hour', clock_timestamp()) + interval '1 hour' - clock_timestamp()))::int as "secondsLeft"`;
  if (!wallet) throw new Problem('coin_not_configured', { coin }, { param: 'currency' });
  if (createdWith === 'public' && wallet.publicAddresses > PUBLIC_ADDRESSES_PER_HOUR) {
    const seconds = Math.max(1, wallet.secondsLeft);
    throw new Problem('rate_limit_exceeded', { seconds }, { retryAfterSeconds: seconds });
  }
  const { id: walletId, counter, issuedOn, run } = wallet;
  const index = await reserveIndex(ctx, tx, { counter: { walletId, index: counter, issuedOn }, run });
  if (index > counter) {
    await skip(ctx, tx, { walletId, from: counter, to: index });
    await tx`update wallets set next_index = ${(index + 1n).toString()} where id = ${walletId}`;
  }
  const { address, key } = deriveAddress({
    chainKey: wallet.chainKey,
    script: wallet.script,
    coin,
    network: ctx.settings.networks[COIN[coin].chain],
    index,
  });
  return { family: COIN[coin].family, address, key, walletId, index };
}

/**
 * Moves the counter past an index at which a deposit was found although no payment uses it. Skipped addresses are never issued and
 * stay watched. The wallet row stays locked until the transaction ends; a counter that is already past it stays.
 */
export async function burnIndexes(tx: Tx, { walletId, through }: { walletId: string; through: bigint }): Promise<void> {
  const [wallet] = await tx<{ next: bigint }[]>`select next_index as next from wallets where id = ${walletId} for update`;
  if (wallet!.next <= through) await jump(tx, { walletId, from: wallet!.next, to: through + 1n, reason: 'deposit' });
}

export type CounterJump = { walletId: string; coin: Coin; from: bigint; to: bigint };

/**
 * After a restore: moves every counter past all indexes that may have been issued since the backup: at least those reserved ahead,
 * and those in the file of the data folder.
 */
export async function jumpRestored(tx: Tx, { dataFolder }: { dataFolder: string }): Promise<CounterJump[]> {
  const noted = await readWalletIndexes(dataFolder);
  const server = await readServer(tx);
  const wallets = await tx<
    { id: string; family: Family; next: bigint }[]
  >`select id, family, next_index as next from wallets where family = any(${FAMILIES as Family[]}::text[]) order by id for update`;
  const jumps: CounterJump[] = [];
  for (const { id: walletId, family: coin, next: from } of wallets) {
    const issued = noted.get(walletId) ?? 0n;
    const to = issued > from + RESERVED_AHEAD ? issued : from + RESERVED_AHEAD;
    await jump(tx, { walletId, from, to, reason: 'restore' });
    jumps.push({ walletId, coin, from, to });
  }
  await tx`update wallets set issued_on = ${server}`;
  return jumps;
}

async function jump(
  tx: Tx,
  { walletId, from, to, reason }: { walletId: string; from: bigint; to: bigint; reason: 'restore' | 'deposit' | 'database' },
): Promise<void> {
  await tx`
    insert into skipped_indexes (wallet_id, first_index, end_index, reason)
    values (${walletId}, ${from.toString()}, ${to.toString()}, ${reason})`;
  await tx`update wallets set next_index = ${to.toString()}, xid = pg_current_xact_id() where id = ${walletId}`;
}

async function skip(ctx: Context, tx: Tx, range: { walletId: string; from: bigint; to: bigint }): Promise<void> {
  await jump(tx, { ...range, reason: 'database' });
  ctx.log.warn(
    { wallet: range.walletId, from: Number(range.from), to: Number(range.to) },
    'The database does not know the addresses that may have been issued last, so this wallet skips them; run: ./florin doctor',
  );
}

/** How often the file learns what other processes issued. */
const FENCE_MS = 2_000;
/** Wallets that are compared in one transaction. */
const AT_ONCE = 100;

type Seen = { id: string; next: bigint; issuedOn: string | null };

/** Another number that is compared with the data folder, and read in the same statement. */
export type Fence = { reads(sql: Sql): Fragment; check(ctx: Context, number: bigint): Promise<void> };

/**
 * Keeps the file of address indexes ahead of the counters, no matter which process issues, and after a failover or a restore moves the
 * counters past what may have been issued. `alone`: no other process serves this database.
 */
export function startAddressFence(ctx: Context, { alone, beside }: { alone: boolean; beside?: Fence }): { stop(): Promise<void> } {
  let readFrom = '0';
  let lastRun = '';
  const loop = startLoop({
    pollMs: FENCE_MS,
    failed: (error, failures) =>
      ctx.log.error({ err: error, failures }, 'Could not compare the address indexes and signing files with the data folder; retrying'),
    round: async () => {
      const { sql } = ctx.db;
      const [now] = await sql<{ run: string; from: string; hasChanged: boolean; other: bigint }[]>`
        select ${serverRun(sql)} as run, pg_snapshot_xmin(pg_current_snapshot())::text as from,
          exists (select 1 from wallets where xid >= ${readFrom}::xid8) as "hasChanged", ${beside?.reads(sql) ?? sql`0::bigint`} as other`;
      const { run, from, hasChanged, other } = now!;
      if (hasChanged || run !== lastRun) {
        // Another server may count transactions from further back.
        const since = run === lastRun ? readFrom : '0';
        const changed = await sql<Seen[]>`
          select id, next_index as next, issued_on as "issuedOn" from wallets where xid >= ${since}::xid8 order by id`;
        if (changed.length > 0) await compare(ctx, changed, run);
      }
      readFrom = from;
      lastRun = run;
      await beside?.check(ctx, other);
      return false;
    },
  });
  return {
    stop: async () => {
      await loop.stop();
      if (alone) await releaseIndexes(ctx).catch((error) => ctx.log.warn({ err: error }, 'Could not give back reserved address indexes'));
    },
  };
}

async function compare(ctx: Context, changed: readonly Seen[], run: string): Promise<void> {
  const stored = await readWalletIndexes(ctx.settings.dataFolder);
  const server = await ctx.db.begin(readServer);
  const due = changed.filter(({ id, next, issuedOn }) => {
    const end = stored.get(id) ?? 0n;
    return (issuedOn !== null && issuedOn !== server) || next > end || (next < end && stored.get(markName(id)) !== markOf(run));
  });
  for (let at = 0; at < due.length; at += AT_ONCE) {
    const ids = due.slice(at, at + AT_ONCE).map(({ id }) => id);
    await ctx.db.begin(async (tx) => {
      const rows = await tx<(Seen & { run: string })[]>`
        select id, next_index as next, issued_on as "issuedOn", ${serverRun(tx)} as run from wallets where id = any(${ids}::text[])
        order by id for update`;
      // The database failed over meanwhile: the next round compares all.
      if (rows.some((row) => row.run !== run)) return;
      const counters = rows.map(({ id, next, issuedOn }) => ({ walletId: id, index: next, issuedOn }));
      const reserved = await compareIndexes(ctx, tx, { counters, run, issues: false });
      for (const { id, next } of rows) {
        const to = reserved.get(id)!;
        if (to > next) await skip(ctx, tx, { walletId: id, from: next, to });
      }
    });
  }
}
