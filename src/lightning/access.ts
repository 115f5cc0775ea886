/** Sets up who makes Lightning invoices for a merchant. A credential that can spend is refused before anything is stored. */
import type { Context } from '#context';
import { newId } from '#core/id';
import { Problem } from '#core/problem';
import { asObject, asText } from '#core/stored-json';
import { type AnyActor, writeAudit } from '#people';
import { type BackEnd, BackEndError, type BackEndKind, type LightningAccess } from './back-end.ts';
import { InvoiceError } from './bolt11.ts';
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
};
type Owned = { merchantId: string; actor: AnyActor };

/**
 * Checks a back end with an invoice of its own, and uses it from now on. Errors: merchant_not_found, parameter_invalid with the reason, for a
 * credential that can spend with the command that makes the right one.
 */
export async function setLightning(ctx: Context, { merchantId, actor, access }: Owned & { access: NamedAccess }): Promise<LightningState> {
  const { kind } = access;
  const checked = BACK_ENDS[kind].read(access);
  const { leastMsat, mostMsat, payee } = await refusing(BACK_ENDS[kind].open(ctx, { merchantId, ...checked }).check());
  const name = BACK_ENDS[kind].name(checked);
  const id = newId('ln', ctx.random);
  const sealed = Buffer.from(ctx.seal(LIGHTNING_PURPOSE, Buffer.from(JSON.stringify(checked))));
  await ctx.db.begin(async (tx) => {
    const [merchant] = await tx`select 1 from merchants where id = ${merchantId} for update`;
    if (!merchant) throw new Problem('merchant_not_found', { id: merchantId }, { param: 'merchant' });
    await tx`update lightning_backends set active = false where merchant_id = ${merchantId} and active`;
    await tx`
      insert into lightning_backends (id, merchant_id, kind, name, access, payee, least_msat, most_msat)
      values (${id}, ${merchantId}, ${kind}, ${name}, ${sealed}, ${payee}, ${leastMsat.toString()}, ${mostMsat.toString()})`;
    const after = { kind, name, payee };
    await writeAudit(tx, { merchantId, mode: 'live', actor, action: 'lightning.set', object: name, after });
  });
  return (await readLightning(ctx, { merchantId }))!;
}

/** Asks the back end for an invoice, as when it was set up. Errors: not_found, parameter_invalid with the reason. */
export async function checkLightning(ctx: Context, { merchantId }: { merchantId: string }): Promise<LightningState> {
  const [row] = await ctx.db.sql<({ id: string } & SealedAccess)[]>`
    select id, kind, access from lightning_backends where merchant_id = ${merchantId} and active`;
  if (!row) throw notSetUp();
  const { leastMsat, mostMsat } = await refusing(openBackEnd(ctx, { merchantId, ...row }).check());
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

/** A stored access. */
export type SealedAccess = { kind: LightningKind; access: Uint8Array };

/** The back end that a stored access leads to. */
export function openBackEnd(ctx: Context, { merchantId, kind, access }: { merchantId: string } & SealedAccess): BackEnd {
  const stored = asObject(JSON.parse(Buffer.from(ctx.open(LIGHTNING_PURPOSE, access)).toString()));
  const [address, credential] = [asText(stored.address) ?? '', asText(stored.credential) ?? ''];
  return BACK_ENDS[kind].open(ctx, { merchantId, address, credential, certificate: asText(stored.certificate) });
}

/** A member who sets up a back end learns what is wrong with its answers. */
async function refusing<T>(asked: Promise<T>): Promise<T> {
  try {
    return await asked;
  } catch (error) {
    const isKnown = error instanceof BackEndError || error instanceof InvoiceError;
    if (!isKnown) throw error;
    const param = error instanceof BackEndError && error.canSpend ? 'credential' : 'address';
    throw new Problem('parameter_invalid', { reason: `it cannot be used: ${error.message}` }, { param, cause: error });
  }
}
