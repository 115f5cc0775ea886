/** The fields that schemas of the dashboard's API share. Those of the public API, which carry descriptions, are in http/schema-fields. */
import Type, { type Static, type TSchema } from 'typebox';
import type { Context } from '#context';
import { ALL_COINS, COINS, MODES, type Mode } from '#core/coin';
import type { Fiat } from '#core/fiat';
import { EXCEPTIONS, PAYMENT_STATUSES } from '#core/payment';
import { Problem } from '#core/problem';
import type { LookedBackTo } from '#db';
import { literals } from '#http';
import { getMerchant } from '#merchants';
import { ACTOR_KINDS } from '#people';
import { type CoinReadiness, MISSING } from '#readiness';

export const Nullable = <S extends TSchema>(schema: S) => Type.Union([schema, Type.Null()]);
export const PlainText = Type.String();
export const Instant = Type.String({ format: 'date-time' });
export const CoinName = literals(COINS);
/** A coin that arrived, which can also be one that is never offered. */
export const AnyCoinField = literals(ALL_COINS);
export const ModeName = literals(MODES);
export const StatusName = literals(PAYMENT_STATUSES);
export const ExceptionName = literals(EXCEPTIONS);
/** Null: the operator, or the service itself. */
export const ActorKindField = Nullable(literals(ACTOR_KINDS));
/** The customer of a payment. */
export const CustomerField = Type.Object({
  id: PlainText,
  email: Nullable(PlainText),
  name: Nullable(PlainText),
  reference: Nullable(PlainText),
});
export const Done = Type.Object({ success: Type.Boolean() });
export const NoFields = Type.Object({});
/** Query parameters of a list page; query values are strings. */
export const paging = { limit: Type.Optional(Type.String({ pattern: '^([1-9][0-9]?|100)$' })), starting_after: Type.Optional(PlainText) };
/** The page that a query asks for. */
export const pageIn = ({ limit, starting_after }: { limit?: string; starting_after?: string }, usual = 25) => ({
  ...{ limit: Number(limit ?? usual), startingAfter: starting_after ?? null },
});
/** The envelope of the public lists, without a count. */
export const pageOf = <S extends TSchema>(item: S) =>
  Type.Object({ success: Type.Boolean(), data: Type.Array(item), has_more: Type.Boolean() });

/** A page that may end before it is full, because the query has no index; its id is a cursor to continue from. */
export const lookedPageOf = <S extends TSchema>(item: S) =>
  Type.Object({ ...pageOf(item).properties, looked_back_to: Nullable(Type.Object({ id: PlainText, at: Instant })) });
export const lookedBackBody = (to: LookedBackTo) => to && { id: to.id, at: to.at.toISOString() };

// Whether a coin can be paid now and what is missing, as the dashboard's API shows it.

const MissingSchema = Type.Object({
  code: literals(MISSING),
  message: PlainText,
  fix: PlainText,
  /** Settings to paste unchanged. */
  lines: Type.Array(PlainText),
  doc_url: PlainText,
});
export const Readiness = Type.Object({ currency: CoinName, payable: Type.Boolean(), missing: Type.Array(MissingSchema) });

export const readinessBody = ({ coin, payable, missing }: CoinReadiness): Static<typeof Readiness> => ({
  currency: coin,
  payable,
  missing: missing.map(({ docUrl, lines, ...rest }) => ({ ...rest, lines: [...lines], doc_url: docUrl })),
});

// The display currency of a merchant with its current rate.

type MemberCurrency = { currency: Fiat; rateE8: bigint };
type Owner = { merchantId: string; mode: Mode };

async function findDisplay(ctx: Context, { merchantId, mode }: Owner): Promise<MemberCurrency | { currency: Fiat; reason: string } | null> {
  const { settings } = await getMerchant(ctx, { merchantId });
  const currency = settings.displayCurrency;
  if (currency === 'USD') return null;
  const found = mode === 'test' ? { rate: ctx.fiat.forTest(currency) } : ctx.fiat.quotable(currency);
  return 'rate' in found ? { currency, rateE8: found.rate.rateE8 } : { currency, reason: found.reason };
}

/** Null for US dollars, and while no rate is known. `rateE8` is in units for one dollar. */
export async function readDisplay(ctx: Context, owner: Owner): Promise<MemberCurrency | null> {
  const found = await findDisplay(ctx, owner);
  return found && 'rateE8' in found ? found : null;
}

/** Null only for US dollars. Errors: price_unavailable. */
export async function needDisplay(ctx: Context, owner: Owner): Promise<MemberCurrency | null> {
  const found = await findDisplay(ctx, owner);
  if (found && 'reason' in found)
    throw new Problem('price_unavailable', { coin: found.currency, reason: found.reason }, { retryAfterSeconds: 60 });
  return found;
}
