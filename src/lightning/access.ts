/** Sets up who makes Lightning invoices for a merchant. A credential that can spend is refused before anything is stored. */
import type { Context } from '#context';
import { newId } from '#core/id';
import { Problem } from '#core/problem';
import { asObject, asText } from '#core/stored-json';
import { type AnyActor, writeAudit } from '#people';
import { type BackEnd, BackEndError } from './back-end.ts';
import { type LndAccess, openLnd } from './lnd.ts';
import { addressUrl, openAddress } from './lnurl.ts';
import { BAKE_MACAROON, spendingOf } from './macaroon.ts';

/** For what the access of a back end is sealed. */
export const LIGHTNING_PURPOSE = 'lightning access';

/** How a back end is reached. */
export type LightningAccess = { kind: 'address'; address: string } | ({ kind: 'lnd' } & LndAccess);
/** What is shown of a back end. */
type LightningState = {
  kind: LightningAccess['kind'];
  name: string;
  payee: string | null;
  leastMsat: bigint;
  mostMsat: bigint;
  openInvoices: number;
  failure: string | null;
};
type Owned = { merchantId: string; actor: AnyActor };

/**
 * Checks a back end with an invoice of its own, and uses it from now on. Errors: merchant_not_found, parameter_invalid with the reason, for a
 * macaroon that can spend with the command that makes the right one.
 */
export async function setLightning(
  ctx: Context,
  { merchantId, actor, access }: Owned & { access: LightningAccess },
): Promise<LightningState> {
  const checked = readAccess(access);
  const { leastMsat, mostMsat, payee } = await refusing(openBackEnd(ctx, { merchantId, access: checked }).check(), checked.kind);
  const name = nameOf(checked);
  const id = newId('ln', ctx.random);
  const sealed = Buffer.from(ctx.seal(LIGHTNING_PURPOSE, Buffer.from(JSON.stringify(checked))));
  await ctx.db.begin(async (tx) => {
    const [merchant] = await tx`select 1 from merchants where id = ${merchantId} for update`;
    if (!merchant) throw new Problem('merchant_not_found', { id: merchantId }, { param: 'merchant' });
    await tx`update lightning_backends set active = false where merchant_id = ${merchantId} and active`;
    await tx`
      insert into lightning_backends (id, merchant_id, kind, name, access, payee, least_msat, most_msat)
      values (${id}, ${merchantId}, ${checked.kind}, ${name}, ${sealed}, ${payee}, ${leastMsat.toString()}, ${mostMsat.toString()})`;
    const after = { kind: checked.kind, name, payee };
    await writeAudit(tx, { merchantId, mode: 'live', actor, action: 'lightning.set', object: name, after });
  });
  return (await readLightning(ctx, { merchantId }))!;
}

/** Asks the back end for an invoice, as when it was set up. Errors: not_found, parameter_invalid with the reason. */
export async function checkLightning(ctx: Context, { merchantId }: { merchantId: string }): Promise<LightningState> {
  const [row] = await ctx.db.sql<{ id: string; access: Uint8Array }[]>`
    select id, access from lightning_backends where merchant_id = ${merchantId} and active`;
  if (!row) throw notSetUp();
  const access = accessOf(ctx, row.access);
  const { leastMsat, mostMsat } = await refusing(openBackEnd(ctx, { merchantId, access }).check(), access.kind);
  await ctx.db.sql`
    update lightning_backends set least_msat = ${leastMsat.toString()}, most_msat = ${mostMsat.toString()}, failure = null, away_until = null
    where id = ${row.id}`;
  return (await readLightning(ctx, { merchantId }))!;
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
async function readLightning(ctx: Context, { merchantId }: { merchantId: string }): Promise<LightningState | null> {
  const [row] = await ctx.db.sql<LightningState[]>`
    select b.kind, b.name, b.payee, b.least_msat as "leastMsat", b.most_msat as "mostMsat", b.failure,
      (select count(*)::int from lightning_invoices i where i.backend_id = b.id and i.state = 'open') as "openInvoices"
    from lightning_backends b where b.merchant_id = ${merchantId} and b.active`;
  return row ?? null;
}

const notSetUp = (): Problem =>
  new Problem('parameter_invalid', { reason: 'Lightning is not set up for this merchant' }, { param: 'merchant' });

/** The back end that an access leads to. */
export function openBackEnd(ctx: Context, { merchantId, access }: { merchantId: string; access: LightningAccess }): BackEnd {
  return access.kind === 'address' ? openAddress(ctx, { merchantId, address: access.address }) : openLnd(ctx, { merchantId, ...access });
}

/** A stored access. */
export function accessOf(ctx: Context, sealed: Uint8Array): LightningAccess {
  const stored = asObject(JSON.parse(Buffer.from(ctx.open(LIGHTNING_PURPOSE, sealed)).toString()));
  if (stored.kind === 'address') return { kind: 'address', address: asText(stored.address) ?? '' };
  return { kind: 'lnd', url: asText(stored.url) ?? '', macaroon: asText(stored.macaroon) ?? '', certificate: asText(stored.certificate) };
}

const nameOf = (access: LightningAccess): string => (access.kind === 'address' ? access.address : new URL(access.url).host);

/** The access in its stored form. Errors: parameter_invalid. */
function readAccess(access: LightningAccess): LightningAccess {
  const bad = (param: string, reason: string): never => {
    throw new Problem('parameter_invalid', { reason }, { param });
  };
  if (access.kind === 'address') {
    if (addressUrl(access.address) === null) bad('address', 'it is not a Lightning address, such as shop@example.com, in lower case');
    return access;
  }
  const url = URL.parse(access.url);
  if (url?.protocol !== 'https:' || url.username !== '' || url.search !== '' || url.hash !== '')
    return bad('url', 'it must be the REST address of the node, such as https://node.example.com:8080');
  if (!/^([0-9a-f]{2}){20,4000}$/.test(access.macaroon)) bad('macaroon', 'it must be a macaroon of LND as hex');
  let excess: string[] = [];
  try {
    excess = spendingOf(Buffer.from(access.macaroon, 'hex'));
  } catch (error) {
    bad('macaroon', `it is not a macaroon of LND: ${(error as Error).message}`);
  }
  if (excess.length > 0)
    bad('macaroon', `it can do more than receive (${excess.slice(0, 5).join(', ')}). Make one that can only receive: ${BAKE_MACAROON}`);
  return { ...access, url: `https://${url.host}${url.pathname.endsWith('/') ? url.pathname.slice(0, -1) : url.pathname}` };
}

/** A member who sets up a back end learns what is wrong with its answers. */
async function refusing<T>(asked: Promise<T>, kind: LightningAccess['kind']): Promise<T> {
  try {
    return await asked;
  } catch (error) {
    if (!(error instanceof Error && (error instanceof BackEndError || error.name === 'InvoiceError'))) throw error;
    throw new Problem(
      'parameter_invalid',
      { reason: `it cannot be used: ${error.message}` },
      { param: kind === 'address' ? 'address' : 'url', cause: error },
    );
  }
}
