/** The fields that schemas of the dashboard's API share. Those of the public API, which carry descriptions, are in http/schema-fields. */
import Type, { type TSchema } from 'typebox';
import { ALL_COINS, COINS, MODES } from '../../core/coin.ts';
import { EXCEPTIONS, PAYMENT_STATUSES } from '../../core/payment.ts';
import type { LookedBackTo } from '../../db/look.ts';
import { literals } from '../../http/schema-fields.ts';
import { ACTOR_KINDS } from '../../people/members.ts';

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
export const Done = Type.Object({ success: Type.Boolean() });
export const NoFields = Type.Object({});
/** Query parameters of a list page; query values are strings. */
export const paging = { limit: Type.Optional(Type.String({ pattern: '^([1-9][0-9]?|100)$' })), starting_after: Type.Optional(PlainText) };
/** The envelope of the public lists, without a count. */
export const pageOf = <S extends TSchema>(item: S) =>
  Type.Object({ success: Type.Boolean(), data: Type.Array(item), has_more: Type.Boolean() });

/** A page that may end before it is full, because the query has no index; its id is a cursor to continue from. */
export const lookedPageOf = <S extends TSchema>(item: S) =>
  Type.Object({ ...pageOf(item).properties, looked_back_to: Nullable(Type.Object({ id: PlainText, at: Instant })) });
export const lookedBackBody = (to: LookedBackTo) => to && { id: to.id, at: to.at.toISOString() };
