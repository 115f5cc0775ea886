/** The form of every route, of the API and of the dashboard: what a call holds and what it answers follow from the schemas. */
import type { Static, TObject, TSchema } from 'typebox';
import type { Context } from '#context';
import type { Sight } from '#core/transfer';
import type { KeyOwner } from '#keys';
import type { IdempotencyClaim, RenderedReply } from '#payments';
import type { KeyActor } from '#people';
import type { KeyNeeds } from './gate.ts';
import type { ParsedBody } from './json.ts';

/** The parameters that a path names: those of `/links/:id/state` are `{ id: string }`. */
type ParamsOf<Path extends string> = string extends Path ? Readonly<Record<string, string>> : { readonly [Name in NamesIn<Path>]: string };
type NamesIn<Path extends string> = Path extends `${string}:${infer Rest}`
  ? Rest extends `${infer Name}/${infer After}`
    ? Name | NamesIn<`/${After}`>
    : Rest
  : never;

/** What every route has. `reply` is the schema of the answer to a successful request. */
export type RouteForm<Path extends string, Query extends TSchema, Body extends TSchema, Reply extends TSchema> = {
  method: 'GET' | 'POST' | 'DELETE';
  path: Path;
  query?: Query;
  body?: Body;
  reply: Reply;
};
/** What a handler may answer. Lists may be read-only. */
export type ReplyOf<Reply extends TSchema> = ReadonlyIn<Static<Reply>>;
type ReadonlyIn<Value> = Value extends object ? { readonly [Key in keyof Value]: ReadonlyIn<Value[Key]> } : Value;

/** What every handler receives. `parsed` is the body with the source text of its numbers. */
export type BaseCall<Path extends string> = { ctx: Context; params: ParamsOf<Path>; parsed: ParsedBody };

export type Answer = { status: number; body: string | Uint8Array; replayed?: boolean };
/** The parameters of the query as they were sent, which handlers read one by one: see read.ts. */
type QueryOf<Query extends TSchema> = { readonly [Name in keyof Static<Query>]?: unknown };
export type ApiCall<
  Path extends string = string,
  Query extends TSchema = TObject,
  Body extends TSchema = TObject,
  Reply extends TSchema = TObject,
> = BaseCall<Path> & {
  owner: KeyOwner;
  /** The key, as the audit log names it. */
  actor: KeyActor;
  query: QueryOf<Query>;
  body: Static<Body>;
  claim: IdempotencyClaim | null;
  /** Renders a reply of the schema, once, as it is sent and stored. */
  reply(body: ReplyOf<Reply>): RenderedReply;
};
/** A call whose handler reads `parsed` itself. */
export type ReadingCall<Reply extends TSchema> = Omit<ApiCall<string, TObject, TObject, Reply>, 'body'>;

type ApiForm<Path extends string, Query extends TSchema, Body extends TSchema, Reply extends TSchema> = RouteForm<
  Path,
  Query,
  Body,
  Reply
> &
  KeyNeeds & {
    /** Its name in the API document and in clients. */
    id: string;
    summary: string;
    created?: true;
    /** False: successful requests are not logged. */
    isLogged?: false;
  };
/** A route as the server and the documents use it. */
export type ApiRoute = ApiForm<string, TObject, TSchema, TSchema> & {
  /** False: the handler reads the body itself, to report the faults of the schema together with others. */
  isBodyChecked: boolean;
  handle(call: ApiCall<string, never, never, never>): Promise<Answer>;
};

/** A route whose body is checked before the handler is called. */
export const apiRoute = <
  const Path extends string,
  Query extends TObject = TObject,
  Body extends TSchema = TObject,
  Reply extends TSchema = TObject,
>(
  route: ApiForm<Path, Query, Body, Reply> & { handle(call: ApiCall<Path, Query, Body, Reply>): Promise<Answer> },
): ApiRoute => ({ ...route, isBodyChecked: true }) as unknown as ApiRoute;
/** A route whose handler reads `parsed` itself. */
export const readingRoute = <
  const Path extends string,
  Query extends TObject = TObject,
  Body extends TSchema = TObject,
  Reply extends TSchema = TObject,
>(
  route: ApiForm<Path, Query, Body, Reply> & { handle(call: ReadingCall<Reply>): Promise<Answer> },
): ApiRoute => ({ ...route, isBodyChecked: false }) as unknown as ApiRoute;

export const mine = (owner: KeyOwner) => ({ merchantId: owner.merchantId, mode: owner.mode });
/** What a key may see of facts that events, deliveries and the request log repeat. */
export const sightOfKey = ({ permissions }: KeyOwner): Sight => ({
  payouts: permissions.includes('payouts'),
  secrets: permissions.includes('webhooks'),
});
/** The owner, with what the key may see. */
export const readerOfKey = (owner: KeyOwner) => ({ ...mine(owner), sight: sightOfKey(owner) });
export const madeBy = (owner: KeyOwner) => ({ ...mine(owner), createdWith: owner.kind, keyId: owner.keyId });
