/** Sets up who makes Lightning invoices for a merchant. A credential that can spend is refused before anything is stored. */
import type { Context } from '#context';
import { InvoiceError } from '#core/bolt11';
import { newId } from '#core/id';
import { Problem } from '#core/problem';
import { asObject, asText } from '#core/stored-json';
import type { Tx } from '#db';
import { notifyMembers } from '#notices';
import { type Actor, type AnyActor, checkStanding, standsFor, writeAudit } from '#people';
import { CHANGE_WAIT_HOURS, checkAsker, checkSecondOwner, hasLiveWallet, lockMerchant, readWaitOff } from '#wallets';
import { type BackEnd, BackEndError, type BackEndKind, type BackEndLimits, type LightningAccess } from './back-end.ts';
import { CLN } from './cln.ts';
import { LNBITS } from './lnbits.ts';
import { LND } from './lnd.ts';
import { ADDRESS_KIND } from './lnurl.ts';
import { NWC } from './nwc.ts';
import { PHOENIXD } from './phoenixd.ts';

/** For what the access of a back end is sealed. */
export const LIGHTNING_PURPOSE = 'lightning access';

/** The kinds of back ends. */
export const BACK_ENDS = {
  address: ADDRESS_KIND,
  lnd: LND,
  cln: CLN,
  phoenixd: PHOENIXD,
  lnbits: LNBITS,
  nwc: NWC,
} as const satisfies Record<string, BackEndKind>;
export type LightningKind = keyof typeof BACK_ENDS;
/** The server that is asked, by the name that people are shown. */
export const hostOf = (name: string): string => name.slice(name.indexOf('@') + 1);
/** A back end that a merchant names. */
export type NamedAccess = { kind: LightningKind } & LightningAccess;
/** What is shown of a back end. */
type LightningState = {
  kind: LightningKind;
  name: string;
  payee: string | null;
  leastMsat: bigint;
  mostMsat: bigint;
  openInvoices: number;
  failure: string | null;
  isAway: boolean;
  testedAt: Date | null;
};
type Owned = { merchantId: string; actor: AnyActor };

type Checked = BackEndLimits & { kind: LightningKind; name: string; sealed: Buffer };
/** Checks a back end with an invoice of its own. Errors: parameter_invalid. */
async function checkAccess(ctx: Context, { merchantId, access }: { merchantId: string; access: NamedAccess }): Promise<Checked> {
  const { kind } = access;
  const checked = BACK_ENDS[kind].read(access);
  const limits = await asProblem(BACK_ENDS[kind].open(ctx, { merchantId, ...checked }).check());
  const sealed = Buffer.from(ctx.seal(LIGHTNING_PURPOSE, Buffer.from(JSON.stringify(checked))));
  return { ...limits, kind, name: BACK_ENDS[kind].name(checked), sealed };
}

type Asking = { hours: number; actor: Actor };
/** Stores a back end: used from now on, or waiting. An earlier one that waits is dropped. */
async function storeBackEnd(ctx: Context, tx: Tx, merchantId: string, checked: Checked, waits: Asking | null): Promise<Date | null> {
  const { kind, name, sealed, payee, leastMsat, mostMsat } = checked;
  await tx`delete from lightning_backends where merchant_id = ${merchantId} and due_at is not null`;
  if (!waits) await tx`update lightning_backends set active = false where merchant_id = ${merchantId} and active`;
  await tx`
    insert into lightning_hosts (host, pace_ms) values (${hostOf(name)}, ${BACK_ENDS[kind].paceMs})
    on conflict (host) do update set pace_ms = greatest(lightning_hosts.pace_ms, excluded.pace_ms)`;
  const [stored] = await tx<{ dueAt: Date | null }[]>`
    insert into lightning_backends (id, merchant_id, kind, name, access, payee, least_msat, most_msat, active, due_at, asked_by, asked_by_name)
    values (${newId('ln', ctx.random)}, ${merchantId}, ${kind}, ${name}, ${sealed}, ${payee}, ${leastMsat.toString()}, ${mostMsat.toString()},
      ${waits === null}, clock_timestamp() + make_interval(hours => ${waits?.hours ?? null}::int), ${waits?.actor.userId ?? null},
      ${waits?.actor.name ?? null})
    returning due_at as "dueAt"`;
  return stored!.dueAt;
}

/**
 * Checks a back end, and uses it from now on. Errors: merchant_not_found, parameter_invalid with the reason, for a credential that can spend with
 * the command that makes the right one.
 */
export async function setLightning(ctx: Context, { merchantId, actor, access }: Owned & { access: NamedAccess }): Promise<LightningState> {
  const checked = await checkAccess(ctx, { merchantId, access });
  await ctx.db.begin(async (tx) => {
    const [merchant] = await lockMerchant(tx, { merchantId });
    if (!merchant) throw new Problem('merchant_not_found', { id: merchantId }, { param: 'merchant' });
    await storeBackEnd(ctx, tx, merchantId, checked, null);
    await writeAudit(tx, { merchantId, mode: 'live', actor, action: 'lightning.set', object: checked.name, after: shownIn(checked) });
  });
  return (await readLightning(ctx, { merchantId }))!;
}

const shownIn = ({ kind, name, payee }: Pick<Checked, 'kind' | 'name' | 'payee'>) => ({ kind, name, payee });

/**
 * Sets up a back end for a member. It waits like an account key: where it replaces one whose money goes elsewhere, or where another currency is
 * live. A new credential of the same node, or of the same address, is used immediately. Errors: parameter_invalid.
 */
export async function changeLightning(
  ctx: Context,
  { merchantId, actor, access }: { merchantId: string; actor: Actor; access: NamedAccess },
): Promise<{ dueAt: Date | null }> {
  const checked = await checkAccess(ctx, { merchantId, access });
  return ctx.db.begin(async (tx) => {
    await lockMerchant(tx, { merchantId });
    await checkStanding(tx, { merchantId, actor, action: 'wallets.change' });
    const [current] = await tx<{ kind: string; name: string; payee: string | null }[]>`
      select kind, name, payee from lightning_backends where merchant_id = ${merchantId} and due_at is null
      order by active desc, created_at desc limit 1`;
    const isSame =
      current !== undefined &&
      (checked.payee === null ? checked.kind === 'address' && current.name === checked.name : current.payee === checked.payee);
    const isFree = isSame || (await readWaitOff(tx, { merchantId }))?.isOff === true;
    const waits = isFree ? null : current ? 'changed' : (await hasLiveWallet(tx, { merchantId })) ? 'further' : null;
    const dueAt = await storeBackEnd(ctx, tx, merchantId, checked, waits && { hours: CHANGE_WAIT_HOURS, actor });
    const action = waits ? 'lightning.change_asked' : 'lightning.set';
    await writeAudit(tx, {
      ...{ merchantId, mode: 'live', actor, action, object: checked.name, after: shownIn(checked) },
      ...(current && { before: { ...current } }),
    });
    if (dueAt) {
      const detail = { coin: 'Lightning', asked_by: actor.name, due_at: dueAt.toISOString(), ...(waits === 'further' && { first: 1 }) };
      await notifyMembers(ctx, tx, [{ merchantId, mode: 'live', kind: 'wallet_changed', detail }]);
    }
    return { dueAt };
  });
}

type Waiting = {
  id: string;
  kind: LightningKind;
  name: string;
  payee: string | null;
  askedBy: string;
  askedByName: string;
  isDue: boolean;
};
/** The back end that waits, with the merchant locked. Errors: nothing_to_confirm. */
async function lockWaiting(tx: Tx, merchantId: string): Promise<Waiting> {
  await lockMerchant(tx, { merchantId });
  const [row] = await tx<Waiting[]>`
    select id, kind, name, payee, asked_by as "askedBy", asked_by_name as "askedByName", due_at <= clock_timestamp() as "isDue"
    from lightning_backends where merchant_id = ${merchantId} and due_at is not null`;
  if (!row) throw new Problem('nothing_to_confirm');
  return row;
}

async function takeWaiting(ctx: Context, tx: Tx, merchantId: string, { id }: Waiting): Promise<void> {
  await tx`update lightning_backends set active = false where merchant_id = ${merchantId} and active`;
  await tx`update lightning_backends set active = true, due_at = null where id = ${id}`;
  await notifyMembers(ctx, tx, [{ merchantId, mode: 'live', kind: 'wallet_changed', detail: { coin: 'Lightning' } }]);
}

type OfMember = { merchantId: string; actor: Actor };
/** A second owner lets the back end that waits take effect immediately. Errors: nothing_to_confirm, second_owner_required. */
export const confirmLightning = (ctx: Context, { merchantId, actor }: OfMember): Promise<void> =>
  ctx.db.begin(async (tx) => {
    const waiting = await lockWaiting(tx, merchantId);
    await checkAsker(tx, { merchantId, userId: waiting.askedBy, action: 'wallets.change' });
    await checkSecondOwner(tx, { merchantId, actor, askedBy: waiting.askedBy });
    await takeWaiting(ctx, tx, merchantId, waiting);
    const after = { ...shownIn(waiting), asked_by: waiting.askedByName };
    await writeAudit(tx, { merchantId, mode: 'live', actor, action: 'lightning.change_confirmed', object: waiting.name, after });
  });

/** Drops the back end that waits; the one in use stays. Errors: nothing_to_confirm. */
export const dropLightning = (ctx: Context, { merchantId, actor }: OfMember): Promise<void> =>
  ctx.db.begin(async (tx) => {
    const waiting = await lockWaiting(tx, merchantId);
    await tx`delete from lightning_backends where id = ${waiting.id}`;
    const before = { ...shownIn(waiting), asked_by: waiting.askedByName };
    await writeAudit(tx, { merchantId, mode: 'live', actor, action: 'lightning.change_dropped', object: waiting.name, before });
  });

/** Uses the back end whose wait is over, or drops it if the member who asked for it may no longer ask. */
export const applyLightning = (ctx: Context, { merchantId }: { merchantId: string }): Promise<void> =>
  ctx.db.begin(async (tx) => {
    const waiting = await lockWaiting(tx, merchantId);
    if (!waiting.isDue) return;
    const { askedBy, askedByName, name } = waiting;
    const [asked] = await tx<{ stands: boolean }[]>`
      select ${standsFor(tx, { merchantId, userId: askedBy, action: 'wallets.change' })} as stands`;
    if (asked!.stands) await takeWaiting(ctx, tx, merchantId, waiting);
    else await tx`delete from lightning_backends where id = ${waiting.id}`;
    const action = asked!.stands ? 'lightning.change_took_effect' : 'lightning.change_failed';
    const actor = { userId: askedBy, name: askedByName, ip: '' };
    await writeAudit(tx, { merchantId, mode: 'live', actor, action, object: name, after: shownIn(waiting) });
  });

/** The back end that is in use. `payee`: the key of the node, where it is the merchant's own. */
export type ActiveBackEnd = { id: string; merchantId: string; name: string; payee: string | null; leastMsat: bigint } & SealedAccess;
/** Errors: parameter_invalid if there is none. */
export async function readActive(ctx: Context, { merchantId }: { merchantId: string }): Promise<ActiveBackEnd> {
  const [row] = await ctx.db.sql<ActiveBackEnd[]>`
    select id, merchant_id as "merchantId", kind, name, access, payee, least_msat as "leastMsat"
    from lightning_backends where merchant_id = ${merchantId} and active`;
  if (!row) throw notSetUp();
  return row;
}

/** Offers Lightning no more. Invoices that customers were shown are still looked at. Errors: parameter_invalid. */
export async function removeLightning(ctx: Context, { merchantId, actor }: Owned): Promise<void> {
  await ctx.db.begin(async (tx) => {
    const [row] = await tx<{ name: string }[]>`
      update lightning_backends set active = false where merchant_id = ${merchantId} and active returning name`;
    if (!row) throw notSetUp();
    await writeAudit(tx, { merchantId, mode: 'live', actor, action: 'lightning.removed', object: row.name });
  });
}

/** What takes Lightning payments for a merchant; null: nothing. */
export async function readLightning(ctx: Context, { merchantId }: { merchantId: string }): Promise<LightningState | null> {
  const [row] = await ctx.db.sql<LightningState[]>`
    select b.kind, b.name, b.payee, b.least_msat as "leastMsat", b.most_msat as "mostMsat", b.failure, b.tested_at as "testedAt",
      coalesce(b.away_until > clock_timestamp(), false) as "isAway",
      (select count(*)::int from lightning_invoices i where i.backend_id = b.id and i.state = 'open') as "openInvoices"
    from lightning_backends b where b.merchant_id = ${merchantId} and b.active`;
  return row ?? null;
}

type WaitingState = { kind: LightningKind; name: string; askedBy: string; askedByName: string; dueAt: Date };
/** The back end that waits; null: none. */
export async function readWaitingLightning(ctx: Context, { merchantId }: { merchantId: string }): Promise<WaitingState | null> {
  const [row] = await ctx.db.sql<WaitingState[]>`
    select kind, name, asked_by as "askedBy", asked_by_name as "askedByName", due_at as "dueAt"
    from lightning_backends where merchant_id = ${merchantId} and due_at is not null`;
  return row ?? null;
}

const notSetUp = (): Problem =>
  new Problem('parameter_invalid', { reason: 'Lightning is not set up for this merchant' }, { param: 'merchant' });

/** A stored access. */
export type SealedAccess = { kind: LightningKind; access: Uint8Array };

/** The back end that a stored access leads to. */
export function openBackEnd(ctx: Context, { merchantId, kind, access }: { merchantId: string } & SealedAccess): BackEnd {
  const stored = asObject(JSON.parse(Buffer.from(ctx.open(LIGHTNING_PURPOSE, access)).toString()));
  const [address, credential] = [asText(stored.address) ?? '', asText(stored.credential) ?? ''];
  return BACK_ENDS[kind].open(ctx, { merchantId, address, credential, certificate: asText(stored.certificate) });
}

/** A member who sets up a back end learns what is wrong with its answers. */
export async function asProblem<T>(asked: Promise<T>): Promise<T> {
  try {
    return await asked;
  } catch (error) {
    const isKnown = error instanceof BackEndError || error instanceof InvoiceError;
    if (!isKnown) throw error;
    const param = error instanceof BackEndError && error.canSpend ? 'credential' : 'address';
    throw new Problem('parameter_invalid', { reason: `it cannot be used: ${error.message}` }, { param, cause: error });
  }
}
