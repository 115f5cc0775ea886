/** Importing account keys: preview, validation, and the waiting period before a key replaces another one. */
import { isBitcoinLike, keysOf, parseAccountKey, policyOf, type Script, type Signer, signersOf } from '#addresses';
import type { Context } from '#context';
import { ALL_COINS, COIN, type Coin, type Family, NATIVE_COINS, type Network } from '#core/coin';
import { Problem } from '#core/problem';
import { type Action, mayDo } from '#core/roles';
import type { Fragment, Sql, Tx } from '#db';
import { notifyMembers } from '#notices';
import { type Actor, checkStanding, type Departure, standsFor, writeAudit } from '#people';
import { firstAddresses, readAccountKey, scriptsFor, writeWallet } from './wallets.ts';

/** How long a new key waits before it replaces another one, so that owners notice a key they did not add. */
export const CHANGE_WAIT_HOURS = 24;

/** A shortened key, long enough to recognize it. */
const maskAccountKey = (accountKey: string): string => {
  const key = /[1-9A-HJ-NP-Za-km-z]{100,}/.exec(accountKey)?.[0] ?? accountKey;
  return key.length < 24 ? key : `${key.slice(0, 8)}…${key.slice(-6)}`;
};
/** A key as the audit log shows it. */
const showKey = (coin: Coin, { accountKey, script }: { accountKey: string; script: Script }) => ({
  currency: coin,
  key: maskAccountKey(accountKey),
  script,
});
/** Who signs for a wallet: the fingerprint of its root, if a descriptor names it, and those of several keys. */
function signingOf(stored: { accountKey: string; path: string; chainKey: string }): Pick<WalletCard, 'fingerprint' | 'signers'> {
  const { required, chainKeys } = keysOf(stored.chainKey);
  const signers = signersOf(stored);
  return chainKeys.length === 1
    ? { fingerprint: signers[0]!.fingerprint, signers: null }
    : { fingerprint: null, signers: { required, signers } };
}

/** Why a key waits before it receives payments. */
type WaitReason = 'changed_key' | 'further_coin';
type KeyPreview = {
  network: Network;
  script: Script;
  /** More than one when the key does not determine the address type. */
  scripts: readonly Script[];
  path: string;
  fingerprint: string | null;
  signers: WalletCard['signers'];
  addresses: { path: string; address: string }[];
  /** Whether the key is new, active, used before by this merchant, or used by another merchant. */
  standing: 'new' | 'active' | 'known' | 'foreign';
  /** Null: it takes effect immediately. */
  waits: WaitReason | null;
};

/** Previews an account key without storing it. Errors: private_key_refused, account_key_invalid. */
export async function previewAccountKey(
  ctx: Context,
  { merchantId, coin, accountKey, script }: { merchantId: string; coin: Coin; accountKey: string; script: Script | null },
): Promise<KeyPreview> {
  const named = parseAccountKey(accountKey, { coin, network: ctx.settings.networks[COIN[coin].chain] }).script;
  const chosen = script ?? named ?? scriptsFor(coin)[0]!;
  const key = readAccountKey(ctx, { coin, accountKey, script: chosen });
  const [stored] = await ctx.db.sql<{ merchantId: string; active: boolean }[]>`
    select merchant_id as "merchantId", active from wallets
    where family = ${coin} and chain_key = ${key.chainKey} and script = ${key.script}`;
  return {
    network: key.network,
    script: key.script,
    scripts: named ? [named] : scriptsFor(coin),
    path: key.path,
    ...signingOf(key),
    addresses: firstAddresses(key, coin).map((address, index) => ({
      path: [key.path, index].filter((part) => part !== '').join('/'),
      address,
    })),
    standing: !stored ? 'new' : stored.merchantId !== merchantId ? 'foreign' : stored.active ? 'active' : 'known',
    waits: (await readCurrent(ctx.db.sql, { merchantId, coin, key })).waits,
  };
}

/** SQL conditions on a row that waits until its `due_at`: its asker may still ask for it; it is in effect. */
export function inEffect(
  sql: Sql | Tx,
  table: 'wallet_waits_off' | 'sweep_destinations',
  action: Action,
): { stands: Fragment; isOver: Fragment } {
  const row = sql(table);
  const stands = standsFor(sql, { merchantId: sql`${row}.merchant_id`, userId: sql`${row}.asked_by`, action });
  return { stands, isOver: sql`(due_at <= clock_timestamp() and (settled_at is not null or asked_by is null or ${stands}))` };
}
const waitOff = (sql: Sql | Tx) => inEffect(sql, 'wallet_waits_off', 'wallets.wait');

type WaitOff = { askedBy: string; askedByName: string; dueAt: Date; isOff: boolean };
/** Whether the waiting period is off, or will be; null: it is on. */
export async function readWaitOff(sql: Sql | Tx, { merchantId }: { merchantId: string }): Promise<WaitOff | null> {
  const [row] = await sql<WaitOff[]>`
    select asked_by as "askedBy", asked_by_name as "askedByName", due_at as "dueAt", ${waitOff(sql).isOver} as "isOff"
    from wallet_waits_off where merchant_id = ${merchantId}`;
  return row ?? null;
}

/** All changes of a merchant's wallets, and of where their money goes, lock its row. */
export const lockMerchant = (tx: Tx, { merchantId }: { merchantId: string }) =>
  tx`select 1 from merchants where id = ${merchantId} for update`;

/** Who asked for a change must still be a member who may ask for it when it takes effect. Errors: nothing_to_confirm. */
export async function checkAsker(tx: Tx, asker: { merchantId: string; userId: string; action: Action }): Promise<void> {
  const [asked] = await tx<{ stands: boolean }[]>`select ${standsFor(tx, asker)} as stands`;
  if (!asked!.stands) throw new Problem('nothing_to_confirm');
}

/**
 * A second owner is a different person who has been an owner for at least the waiting period. Otherwise someone who takes over a
 * session could invite a second owner. Errors: second_owner_required.
 */
export async function checkSecondOwner(
  tx: Tx,
  { merchantId, actor, askedBy }: { merchantId: string; actor: Actor; askedBy: string },
): Promise<void> {
  const [second] = await tx`
    select 1 from members where merchant_id = ${merchantId} and user_id = ${actor.userId} and user_id <> ${askedBy} and role = 'owner'
      and role_since <= clock_timestamp() - make_interval(hours => ${CHANGE_WAIT_HOURS})`;
  if (!second) throw new Problem('second_owner_required');
}

/**
 * Turns the waiting period for changed keys on or off. Turning it on takes effect immediately. Turning it off takes as long as a key
 * change, because someone who takes over a session would turn it off first. Returns when it will be off, or null when it is on.
 */
export const setWait = (
  ctx: Context,
  { merchantId, waits, actor }: { merchantId: string; waits: boolean; actor: Actor },
): Promise<{ dueAt: Date | null }> =>
  ctx.db.begin(async (tx) => {
    await lockMerchant(tx, { merchantId });
    await checkStanding(tx, { merchantId, actor, action: 'wallets.wait' });
    const audit = { merchantId, mode: 'live', actor, object: merchantId } as const;
    const stands = await readWaitOff(tx, { merchantId });
    if (waits && stands) {
      await tx`delete from wallet_waits_off where merchant_id = ${merchantId}`;
      await writeAudit(tx, { ...audit, action: 'wallet.wait_on', before: { asked_by: stands.askedByName, off_from: stands.dueAt } });
    }
    if (waits || stands) return { dueAt: waits ? null : stands!.dueAt };
    const [asked] = await tx<{ dueAt: Date }[]>`
      insert into wallet_waits_off (merchant_id, asked_by, asked_by_name, due_at)
      values (${merchantId}, ${actor.userId}, ${actor.name}, clock_timestamp() + make_interval(hours => ${CHANGE_WAIT_HOURS}))
      returning due_at as "dueAt"`;
    const { dueAt } = asked!;
    await writeAudit(tx, { ...audit, action: 'wallet.wait_off_asked', after: { off_from: dueAt } });
    const detail = { asked_by: actor.name, due_at: dueAt.toISOString() };
    await notifyMembers(ctx, tx, [{ merchantId, mode: 'live', kind: 'wallet_changed', detail }]);
    return { dueAt };
  });

/** A second owner turns the waiting period off immediately. Errors: nothing_to_confirm, second_owner_required. */
export const confirmWaitOff = (ctx: Context, { merchantId, actor }: { merchantId: string; actor: Actor }): Promise<void> =>
  ctx.db.begin(async (tx) => {
    await lockMerchant(tx, { merchantId });
    const asked = await readWaitOff(tx, { merchantId });
    if (!asked || asked.isOff) throw new Problem('nothing_to_confirm');
    await checkAsker(tx, { merchantId, userId: asked.askedBy, action: 'wallets.wait' });
    await checkSecondOwner(tx, { merchantId, actor, askedBy: asked.askedBy });
    await tx`update wallet_waits_off set due_at = clock_timestamp(), settled_at = clock_timestamp() where merchant_id = ${merchantId}`;
    await writeAudit(tx, {
      ...{ merchantId, mode: 'live', actor, action: 'wallet.wait_off_confirmed', object: merchantId },
      after: { asked_by: asked.askedByName },
    });
    await notifyMembers(ctx, tx, [{ merchantId, mode: 'live', kind: 'wallet_changed', detail: {} }]);
  });

/**
 * SQL condition on the wallet row `w`: customers may be using it, because it has issued an address or has existed for at least the
 * waiting period. When a merchant first sets up its coins, no wallet matches, so all of them can be used immediately.
 */
const IS_LIVE = (sql: Sql | Tx) => sql`
  ((w.active or w.paused_at is not null) and (w.created_at <= clock_timestamp() - make_interval(hours => ${CHANGE_WAIT_HOURS})
    or exists (select 1 from deposit_addresses d where d.wallet_id = w.id)))`;

/** Whether customers may be using a wallet of the merchant. */
export async function hasLiveWallet(sql: Sql | Tx, { merchantId }: { merchantId: string }): Promise<boolean> {
  const [live] = await sql`select 1 from wallets w where w.merchant_id = ${merchantId} and ${IS_LIVE(sql)} limit 1`;
  return live !== undefined;
}

type Current = { chainKey: string; script: Script; accountKey: string };
/**
 * The current key of a coin, and whether another one would wait. A key that replaces another one always waits; the first key of a
 * coin waits once another coin is live. Otherwise someone who takes over a session could add a coin with their own key and offer it
 * to every customer.
 */
async function readCurrent(
  sql: Sql | Tx,
  { merchantId, coin, key }: { merchantId: string; coin: Coin; key: { chainKey: string; script: Script } },
): Promise<{ current: Current | null; waits: WaitReason | null }> {
  const [current = null] = await sql<Current[]>`
    select chain_key as "chainKey", script, account_key as "accountKey" from wallets
    where merchant_id = ${merchantId} and family = ${coin} and (active or paused_at is not null)`;
  if (current && current.chainKey === key.chainKey && current.script === key.script) return { current, waits: null };
  if ((await readWaitOff(sql, { merchantId }))?.isOff) return { current, waits: null };
  if (current) return { current, waits: 'changed_key' };
  const [other] = await sql`
    select 1 from wallets w where w.merchant_id = ${merchantId} and w.family <> ${coin} and ${IS_LIVE(sql)}
    union all select 1 from lightning_backends where merchant_id = ${merchantId} and active
      and created_at <= clock_timestamp() - make_interval(hours => ${CHANGE_WAIT_HOURS}) limit 1`;
  return { current, waits: other ? 'further_coin' : null };
}

/**
 * Imports an account key. The first key and the current key take effect immediately. A key that replaces another one waits, and so
 * does the first key of another coin once one is live, unless the merchant turned waiting off. A later import replaces the waiting
 * key. `ends` are the last six characters of one of the first five addresses in the merchant's wallet, which rules out a wrong key or
 * address type. Errors: private_key_refused, account_key_invalid, address_ends_differ.
 */
export async function importAccountKey(
  ctx: Context,
  {
    merchantId,
    coin,
    accountKey,
    script,
    ends,
    actor,
  }: { merchantId: string; coin: Coin; accountKey: string; script: Script; ends: string; actor: Actor },
): Promise<{ dueAt: Date | null }> {
  const key = readAccountKey(ctx, { coin, accountKey, script });
  if (!firstAddresses(key, coin).some((address) => address.slice(-6).toLowerCase() === ends.trim().toLowerCase()))
    throw new Problem('address_ends_differ', {}, { param: 'ends' });
  const shown = showKey(coin, { accountKey: key.accountKey, script });
  return ctx.db.begin(async (tx) => {
    await lockMerchant(tx, { merchantId });
    await checkStanding(tx, { merchantId, actor, action: 'wallets.change' });
    const { current, waits: reason } = await readCurrent(tx, { merchantId, coin, key });
    const before = current && showKey(coin, current);
    if (reason !== null) {
      const [foreign] = await tx`
        select 1 from wallets where family = ${coin} and chain_key = ${key.chainKey} and script = ${key.script} and merchant_id <> ${merchantId}`;
      if (foreign)
        throw new Problem(
          'account_key_invalid',
          { reason: 'another merchant of this install already uses it; export the key of another account' },
          { param: 'key' },
        );
      const [waits] = await tx<{ dueAt: Date }[]>`
        insert into wallet_changes (merchant_id, family, account_key, script, asked_by, asked_by_name, due_at)
        values (${merchantId}, ${coin}, ${key.accountKey}, ${script}, ${actor.userId}, ${actor.name},
          clock_timestamp() + make_interval(hours => ${CHANGE_WAIT_HOURS}))
        on conflict (merchant_id, family) do update set account_key = excluded.account_key, script = excluded.script,
          asked_by = excluded.asked_by, asked_by_name = excluded.asked_by_name, asked_at = clock_timestamp(), due_at = excluded.due_at
        returning due_at as "dueAt"`;
      await writeAudit(tx, {
        merchantId,
        mode: 'live',
        actor,
        action: 'wallet.change_asked',
        object: coin,
        ...(before && { before }),
        after: shown,
      });
      const detail = { coin, asked_by: actor.name, due_at: waits!.dueAt.toISOString(), ...(reason === 'further_coin' && { first: 1 }) };
      await notifyMembers(ctx, tx, [{ merchantId, mode: 'live', kind: 'wallet_changed', detail }]);
      return { dueAt: waits!.dueAt };
    }
    await writeWallet(ctx, tx, { merchantId, coin, accountKey: key.accountKey, script });
    await writeAudit(tx, { merchantId, mode: 'live', actor, action: 'wallet.set', object: coin, ...(before && { before }), after: shown });
    return { dueAt: null };
  });
}

type Waiting = { accountKey: string; script: Script; askedBy: string; askedByName: string; due: boolean; stands: boolean };
const lockWaiting = async (tx: Tx, { merchantId, coin }: { merchantId: string; coin: Coin }): Promise<Waiting | null> => {
  await lockMerchant(tx, { merchantId });
  const [row] = await tx<Waiting[]>`
    select account_key as "accountKey", script, asked_by as "askedBy", asked_by_name as "askedByName", due_at <= clock_timestamp() as due,
      ${standsFor(tx, { merchantId, userId: tx`wallet_changes.asked_by`, action: 'wallets.change' })} as stands
    from wallet_changes where merchant_id = ${merchantId} and family = ${coin}`;
  return row ?? null;
};

type Decision = { merchantId: string; coin: Coin; actor: Actor };
/** Applies a decision about the waiting key and writes it to the audit log. Errors: wallet_not_found. */
const decide = (
  ctx: Context,
  { merchantId, coin, actor }: Decision,
  act: (tx: Tx, waiting: Waiting, shown: object) => Promise<{ action: string; before?: object; after?: object }>,
): Promise<void> =>
  ctx.db.begin(async (tx) => {
    const waiting = await lockWaiting(tx, { merchantId, coin });
    if (!waiting) throw new Problem('wallet_not_found', { coin });
    const shown = { ...showKey(coin, waiting), asked_by: waiting.askedByName };
    await writeAudit(tx, { ...{ merchantId, mode: 'live', actor, object: coin }, ...(await act(tx, waiting, shown)) });
  });

/**
 * A second owner confirms the waiting key, which takes effect immediately. Errors: wallet_not_found, nothing_to_confirm,
 * second_owner_required.
 */
export const confirmChange = (ctx: Context, decision: Decision): Promise<void> =>
  decide(ctx, decision, async (tx, waiting, shown) => {
    const { merchantId, coin, actor } = decision;
    if (!waiting.stands) throw new Problem('nothing_to_confirm');
    await checkSecondOwner(tx, { merchantId, actor, askedBy: waiting.askedBy });
    await writeWallet(ctx, tx, { merchantId, coin, accountKey: waiting.accountKey, script: waiting.script });
    return { action: 'wallet.change_confirmed', after: shown };
  });

/** Discards the waiting key; the current one stays. Errors: wallet_not_found. */
export const dropChange = (ctx: Context, decision: Decision): Promise<void> =>
  decide(ctx, decision, async (tx, _waiting, shown) => {
    await tx`delete from wallet_changes where merchant_id = ${decision.merchantId} and family = ${decision.coin}`;
    return { action: 'wallet.change_dropped', before: shown };
  });

/** Ends the changes that a member asked for and that still wait, as far as their role no longer includes them. */
export async function endWaitingChanges(tx: Tx, { merchantId, userId, role, actor }: Departure): Promise<void> {
  const audit = { merchantId, mode: 'live', actor } as const;
  if (role === null || !mayDo(role, 'wallets.change')) {
    const dropped = await tx<{ family: Family; accountKey: string; script: Script; askedByName: string }[]>`
      delete from wallet_changes where merchant_id = ${merchantId} and asked_by = ${userId}
      returning family, account_key as "accountKey", script, asked_by_name as "askedByName"`;
    for (const { family, askedByName, ...key } of dropped) {
      const before = { ...showKey(family, key), asked_by: askedByName };
      await writeAudit(tx, { ...audit, action: 'wallet.change_dropped', object: family, before });
    }
  }
  if (role !== null && mayDo(role, 'wallets.wait')) return;
  await tx`
    update wallet_waits_off set settled_at = clock_timestamp()
    where merchant_id = ${merchantId} and asked_by = ${userId} and ${waitOff(tx).isOver}`;
  const [wait] = await tx<{ askedByName: string; dueAt: Date }[]>`
    delete from wallet_waits_off where merchant_id = ${merchantId} and asked_by = ${userId} and settled_at is null
    returning asked_by_name as "askedByName", due_at as "dueAt"`;
  if (!wait) return;
  const before = { asked_by: wait.askedByName, off_from: wait.dueAt };
  await writeAudit(tx, { ...audit, action: 'wallet.wait_on', object: merchantId, before });
}

/** Applies keys whose waiting period is over, a few at a time. Run by the worker. Returns the number. */
export async function applyDueChanges(ctx: Context): Promise<number> {
  const due = await ctx.db.sql<{ merchantId: string; family: Family }[]>`
    select merchant_id as "merchantId", family from wallet_changes where due_at <= clock_timestamp() order by due_at limit 20`;
  for (const { merchantId, family: coin } of due) {
    const apply = async (tx: Tx, waiting: Waiting) => {
      if (!waiting.stands) throw new Problem('nothing_to_confirm');
      await writeWallet(ctx, tx, { merchantId, coin, accountKey: waiting.accountKey, script: waiting.script });
    };
    const settle = (work: (tx: Tx, waiting: Waiting) => Promise<unknown>, action: string) =>
      ctx.db.begin(async (tx) => {
        const waiting = await lockWaiting(tx, { merchantId, coin });
        if (!waiting?.due) return;
        await work(tx, waiting);
        await writeAudit(tx, {
          ...{ merchantId, mode: 'live', action, object: coin },
          actor: { userId: waiting.askedBy, name: waiting.askedByName, ip: '' },
          after: showKey(coin, waiting),
        });
      });
    // A key that can no longer be imported must not be retried forever, and neither must one whose asker may no longer change wallets.
    await settle(apply, 'wallet.change_took_effect').catch(async (error: unknown) => {
      if (!(error instanceof Problem)) throw error;
      // Owners cannot be warned right now, so it waits.
      if (error.code === 'mail_limit_reached') return;
      await settle((tx) => tx`delete from wallet_changes where merchant_id = ${merchantId} and family = ${coin}`, 'wallet.change_failed');
    });
  }
  return due.length;
}

/** Pauses or resumes a wallet. A paused wallet issues no addresses, so the coin is not offered. Errors: wallet_not_found. */
export async function pauseWallet(
  ctx: Context,
  { merchantId, coin, paused, actor }: { merchantId: string; coin: Coin; paused: boolean; actor: Actor },
): Promise<void> {
  await ctx.db.begin(async (tx) => {
    await lockMerchant(tx, { merchantId });
    const changed = paused
      ? await tx`update wallets set active = false, paused_at = clock_timestamp() where merchant_id = ${merchantId} and family = ${coin} and active`
      : await tx`
          update wallets set active = true, paused_at = null, xid = pg_current_xact_id()
          where merchant_id = ${merchantId} and family = ${coin} and paused_at is not null`;
    if (changed.count === 0) throw new Problem('wallet_not_found', { coin });
    await writeAudit(tx, { merchantId, mode: 'live', actor, action: paused ? 'wallet.paused' : 'wallet.resumed', object: coin });
  });
}

/**
 * The wallet policy (BIP-388) of the current key of a coin, as the file that hardware wallets and the programs for them read: `desc` is
 * what Coldcard imports. Errors: wallet_not_found, account_key_invalid.
 */
export async function readWalletPolicy(
  ctx: Context,
  { merchantId, coin }: { merchantId: string; coin: Coin },
): Promise<{ name: string; descriptor_template: string; keys_info: string[]; desc: string }> {
  const [wallet] = await ctx.db.sql<{ accountKey: string; script: Script; network: Network }[]>`
    select account_key as "accountKey", script, network from wallets
    where merchant_id = ${merchantId} and family = ${coin} and (active or paused_at is not null)`;
  if (!wallet) throw new Problem('wallet_not_found', { coin });
  const policy = policyOf(wallet);
  if (!policy) throw new Problem('account_key_invalid', { reason: 'only keys whose addresses are at /0/* have a wallet policy' });
  return { name: `Florin ${coin}`, descriptor_template: policy.template, keys_info: policy.keys, desc: policy.descriptor };
}

/** Wallet apps look this many unused addresses ahead (BIP-44) and do not find later ones. */
export const GAP_LIMIT = 20;
/** What to set in a wallet so that it finds what lies behind a run of unused addresses, with room for as many again as it looks ahead. */
const gapLimitFor = (unusedRun: bigint): bigint => ((unusedRun + BigInt(GAP_LIMIT) + 49n) / 50n) * 50n;
/** Only this many of the newest addresses are checked, regardless of the number of payments. */
const ADDRESSES_SEEN = 1_000;

type WalletCard = {
  coin: Coin;
  state: 'not_set' | 'active' | 'paused';
  key: string | null;
  fingerprint: string | null;
  /** Of a wallet with several keys: how many of them sign, and whose they are. */
  signers: { required: number; signers: Signer[] } | null;
  script: Script | null;
  path: string | null;
  network: Network;
  nextIndex: bigint;
  /** The longest run of unused addresses among the checked ones. */
  unusedRun: bigint;
  /** The gap limit to set in the wallet; null where wallets have none. */
  gapLimit: bigint | null;
  receivedUnits: bigint;
  /** False when there are more addresses than were checked; the gap is then at least this large. */
  receivedIsAll: boolean;
  lastDepositAt: Date | null;
  /** Previous keys, whose addresses are still watched. */
  formerKeys: number;
  waiting: { key: string; script: Script; askedBy: string; askedByName: string; dueAt: Date } | null;
  /** It has no key yet, and the first one would wait because another coin is live. */
  firstKeyWaits: boolean;
};

/** Every coin with its wallet. Bounded: reads the newest addresses of at most five wallets by index. */
export async function listWallets(ctx: Context, { merchantId }: { merchantId: string }): Promise<WalletCard[]> {
  const [wallets, former, changes, [live], waitOff] = await Promise.all([
    ctx.db.sql<
      {
        family: Family;
        active: boolean;
        accountKey: string;
        chainKey: string;
        script: Script;
        path: string;
        nextIndex: bigint;
        seen: number;
        received: string;
        lastAt: Date | null;
        lastUsed: bigint | null;
        longest: bigint | null;
        firstSeen: bigint | null;
      }[]
    >`
      select w.family, w.active, w.account_key as "accountKey", w.chain_key as "chainKey", w.script, w.path, w.next_index as "nextIndex", d.*
      from wallets w cross join lateral (
        select count(*)::int as seen, coalesce(sum(units), 0)::text as received, max(at) as "lastAt", max(index) filter (where used) as "lastUsed",
          max(index - before - 1) filter (where used) as longest, min(index) as "firstSeen"
        from (
          select index, units, used, at, coalesce(lag(index) over (partition by used order by index), min(index) over () - 1) as before
          from (
            select a.index, coalesce(t.units, 0) as units, t.used, t.at
            from (select index, payment_id, family from deposit_addresses where wallet_id = w.id order by index desc limit ${ADDRESSES_SEEN}) a
            cross join lateral (
              select sum(units) filter (where coin = a.family) as units, count(*) > 0 as used, max(first_seen_at) as at from transfers
              where payment_id = a.payment_id and conflict_txid is null and coin in (
                select member.coin from unnest(${ALL_COINS}::text[], ${ALL_COINS.map((coin) => COIN[coin].family)}::text[]) member(coin, family)
                where member.family = a.family
              )
            ) t
          ) given
        ) runs
      ) d
      where w.merchant_id = ${merchantId} and (w.active or w.paused_at is not null)`,
    ctx.db.sql<{ family: Family; keys: number }[]>`
      select family, count(*)::int as keys from wallets where merchant_id = ${merchantId} and not active and paused_at is null group by family`,
    ctx.db.sql<{ family: Family; accountKey: string; script: Script; askedBy: string; askedByName: string; dueAt: Date }[]>`
      select family, account_key as "accountKey", script, asked_by as "askedBy", asked_by_name as "askedByName", due_at as "dueAt"
      from wallet_changes where merchant_id = ${merchantId}`,
    ctx.db.sql`select 1 from wallets w where w.merchant_id = ${merchantId} and ${IS_LIVE(ctx.db.sql)} limit 1`,
    readWaitOff(ctx.db.sql, { merchantId }),
  ]);
  return NATIVE_COINS.map((coin) => {
    const wallet = wallets.find((w) => w.family === coin);
    const change = changes.find((c) => c.family === coin);
    const trailing = wallet
      ? wallet.nextIndex - 1n - (wallet.lastUsed ?? (wallet.firstSeen === null ? wallet.nextIndex - 1n : wallet.firstSeen - 1n))
      : 0n;
    const longest = wallet?.longest ?? 0n;
    const unusedRun = trailing > longest ? trailing : longest;
    return {
      coin,
      state: !wallet ? 'not_set' : wallet.active ? 'active' : 'paused',
      key: wallet ? maskAccountKey(wallet.accountKey) : null,
      ...(wallet ? signingOf(wallet) : { fingerprint: null, signers: null }),
      script: wallet?.script ?? null,
      path: wallet?.path ?? null,
      network: ctx.settings.networks[COIN[coin].chain],
      nextIndex: wallet?.nextIndex ?? 0n,
      unusedRun,
      gapLimit: isBitcoinLike(COIN[coin].family) ? gapLimitFor(unusedRun) : null,
      receivedUnits: BigInt(wallet?.received ?? 0),
      receivedIsAll: (wallet?.seen ?? 0) < ADDRESSES_SEEN,
      lastDepositAt: wallet?.lastAt ?? null,
      formerKeys: former.find((f) => f.family === coin)?.keys ?? 0,
      waiting: change
        ? {
            key: maskAccountKey(change.accountKey),
            script: change.script,
            askedBy: change.askedBy,
            askedByName: change.askedByName,
            dueAt: change.dueAt,
          }
        : null,
      firstKeyWaits: !wallet && live !== undefined && waitOff?.isOff !== true,
    };
  });
}
