/** Where the money of each family of chains goes. A new address waits like a changed account key, and a second owner may confirm it. */
import { decodeAddress } from '#addresses';
import type { Context } from '#context';
import { COIN, type Coin, type Network } from '#core/coin';
import { Problem } from '#core/problem';
import { mayDo } from '#core/roles';
import type { Sql, Tx } from '#db';
import { notifyMembers } from '#notices';
import { type Actor, checkStanding, type Departure, writeAudit } from '#people';
import { testDestination } from './test-wallets.ts';
import { CHANGE_WAIT_HOURS, checkAsker, checkSecondOwner, inEffect, lockMerchant, readWaitOff } from './wallet-changes.ts';

export type Destination = { address: string; askedBy: string | null; askedByName: string; dueAt: Date };
type Destinations = { current: Destination | null; waiting: Destination | null };
type Of = { merchantId: string; coin: Coin };

const networkOf = (ctx: Context, coin: Coin): Network => ctx.settings.networks[COIN[coin].chain];

const isInEffect = (sql: Sql | Tx) => inEffect(sql, 'sweep_destinations', 'sweeps.use').isOver;

/** For each coin, the address in use and the one that waits, of its family. */
export async function listDestinations(
  ctx: Context,
  sql: Sql | Tx,
  { merchantId, coins }: { merchantId: string; coins: readonly Coin[] },
): Promise<Destinations[]> {
  // Nobody sets one for a rehearsal.
  if (ctx.mode === 'test')
    return coins.map((coin) => ({
      current: { address: testDestination({ merchantId, coin }), askedBy: null, askedByName: 'Florin', dueAt: ctx.clock.now() },
      waiting: null,
    }));
  const rows = await sql<(Destination & { n: bigint; isDue: boolean })[]>`
    select asked.n, d.address, d.asked_by as "askedBy", d.asked_by_name as "askedByName", d.due_at as "dueAt",
      d."isDue"
    from unnest(${coins.map((coin) => COIN[coin].family)}::text[], ${coins.map((coin) => networkOf(ctx, coin))}::text[])
      with ordinality as asked (family, network, n)
    cross join lateral (
      select *, ${isInEffect(sql)} as "isDue" from sweep_destinations
      where merchant_id = ${merchantId} and family = asked.family and network = asked.network and dropped_at is null
      order by id desc limit 20) as d
    order by asked.n, d.id desc`;
  return coins.map((_, i) => {
    const mine = rows.filter(({ n }) => Number(n) === i + 1).map(({ n: _n, ...row }) => row);
    const [newest] = mine;
    return { current: mine.find(({ isDue }) => isDue) ?? null, waiting: newest && !newest.isDue ? newest : null };
  });
}

/** The same for one coin. */
export const readDestinations = async (ctx: Context, sql: Sql | Tx, { merchantId, coin }: Of): Promise<Destinations> =>
  (await listDestinations(ctx, sql, { merchantId, coins: [coin] }))[0]!;

/** Drops a waiting address. */
const dropWaiting = async (tx: Tx, { merchantId, coin }: Of): Promise<number> =>
  (
    await tx`
      update sweep_destinations set dropped_at = clock_timestamp()
      where merchant_id = ${merchantId} and family = ${COIN[coin].family} and dropped_at is null and not ${isInEffect(tx)}`
  ).count;

/**
 * Asks for another address. `ends` are its last six characters, read from the device that holds its key, which rules out an address that
 * a program replaced on the way. It waits, unless the merchant turned waiting off. `actor` null: an operator command, which takes effect
 * immediately. Errors: address_invalid, address_ends_differ.
 */
export async function setDestination(
  ctx: Context,
  { merchantId, coin, address, ends, actor }: Of & { address: string; ends: string; actor: Actor | null },
): Promise<{ dueAt: Date | null }> {
  const { address: text } = decodeAddress(address.trim(), { coin, network: networkOf(ctx, coin) });
  // As it was entered: LTC has two forms of one address, which end differently.
  if (address.trim().slice(-6).toLowerCase() !== ends.trim().toLowerCase()) throw new Problem('address_ends_differ', {}, { param: 'ends' });
  const by = actor ?? { userId: '', name: 'operator command', ip: '' };
  return ctx.db.begin(async (tx) => {
    await lockMerchant(tx, { merchantId });
    if (actor) await checkStanding(tx, { merchantId, actor, action: 'sweeps.use' });
    const { current } = await readDestinations(ctx, tx, { merchantId, coin });
    await dropWaiting(tx, { merchantId, coin });
    if (current?.address === text) return { dueAt: null };
    const immediate = actor === null || (await readWaitOff(tx, { merchantId }))?.isOff === true;
    const [made] = await tx<{ dueAt: Date }[]>`
      insert into sweep_destinations (merchant_id, family, network, address, asked_by, asked_by_name, due_at, settled_at)
      values (${merchantId}, ${COIN[coin].family}, ${networkOf(ctx, coin)}, ${text}, ${actor?.userId ?? null}, ${by.name},
        clock_timestamp() + make_interval(hours => ${immediate ? 0 : CHANGE_WAIT_HOURS}), case when ${immediate} then clock_timestamp() end)
      returning due_at as "dueAt"`;
    const { dueAt } = made!;
    await writeAudit(tx, {
      ...{ merchantId, mode: 'live', actor: by, action: immediate ? 'sweep.destination_set' : 'sweep.destination_asked', object: coin },
      ...(current && { before: { address: current.address } }),
      after: { address: text },
    });
    const detail = { coin, destination: text, asked_by: by.name, ...(immediate ? {} : { due_at: dueAt.toISOString() }) };
    await notifyMembers(ctx, tx, [{ merchantId, mode: 'live', kind: 'wallet_changed', detail }]);
    return { dueAt: immediate ? null : dueAt };
  });
}

/** A second owner confirms the waiting address. Errors: nothing_to_confirm, second_owner_required. */
export const confirmDestination = (ctx: Context, { merchantId, coin, actor }: Of & { actor: Actor }): Promise<void> =>
  ctx.db.begin(async (tx) => {
    await lockMerchant(tx, { merchantId });
    const { waiting } = await readDestinations(ctx, tx, { merchantId, coin });
    if (!waiting) throw new Problem('nothing_to_confirm');
    if (waiting.askedBy !== null) await checkAsker(tx, { merchantId, userId: waiting.askedBy, action: 'sweeps.use' });
    await checkSecondOwner(tx, { merchantId, actor, askedBy: waiting.askedBy ?? '' });
    await tx`
      update sweep_destinations set due_at = clock_timestamp(), settled_at = clock_timestamp()
      where merchant_id = ${merchantId} and family = ${COIN[coin].family} and dropped_at is null and due_at > clock_timestamp()`;
    const after = { address: waiting.address, asked_by: waiting.askedByName };
    await writeAudit(tx, { merchantId, mode: 'live', actor, action: 'sweep.destination_confirmed', object: coin, after });
  });

/** Discards the waiting address; the current one stays. Errors: nothing_to_confirm. */
export const dropDestination = (ctx: Context, { merchantId, coin, actor }: Of & { actor: Actor }): Promise<void> =>
  ctx.db.begin(async (tx) => {
    await lockMerchant(tx, { merchantId });
    const { waiting } = await readDestinations(ctx, tx, { merchantId, coin });
    if ((await dropWaiting(tx, { merchantId, coin })) === 0) throw new Problem('nothing_to_confirm');
    const before = { address: waiting?.address ?? '' };
    await writeAudit(tx, { merchantId, mode: 'live', actor, action: 'sweep.destination_dropped', object: coin, before });
  });

/** Drops the addresses that a member asked for and that still wait, once their role no longer includes it. */
export async function endWaitingDestinations(tx: Tx, { merchantId, userId, role, actor }: Departure): Promise<void> {
  if (role !== null && mayDo(role, 'sweeps.use')) return;
  await tx`
    update sweep_destinations set settled_at = clock_timestamp()
    where merchant_id = ${merchantId} and asked_by = ${userId} and dropped_at is null and settled_at is null and ${isInEffect(tx)}`;
  const dropped = await tx<{ family: string; address: string; askedByName: string }[]>`
    update sweep_destinations set dropped_at = clock_timestamp()
    where merchant_id = ${merchantId} and asked_by = ${userId} and dropped_at is null and settled_at is null
    returning family, address, asked_by_name as "askedByName"`;
  for (const { family, address, askedByName } of dropped) {
    const before = { address, asked_by: askedByName };
    await writeAudit(tx, { merchantId, mode: 'live', actor, action: 'sweep.destination_dropped', object: family, before });
  }
}
