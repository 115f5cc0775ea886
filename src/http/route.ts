/** The form of every route, of the API, of the dashboard and of shops: what a call holds and what it answers follow from the schemas. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Static, TObject, TSchema } from 'typebox';
import type { Context } from '#context';
import type { IdempotencyClaim, RenderedReply } from '#core/payment-view';
import type { KeyPermission } from '#core/roles';
import type { Sight } from '#core/transfer';
import type { KeyOwner } from '#keys';
import type { AnyActor } from '#people';
import { EMPTY_BODY, type ParsedBody, parseJson } from '#transport';
import type { KeyNeeds } from './gate.ts';
import { type Query, readQuery } from './read.ts';

/** The parameters that a path names: those of `/links/:id/state` are `{ id: string }`. */
type ParamsOf<Path extends string> = string extends Path ? Readonly<Record<string, string>> : { readonly [Name in NamesIn<Path>]: string };
type NamesIn<Path extends string> = Path extends `${string}:${infer Rest}`
  ? Rest extends `${infer Name}/${infer After}`
    ? Name | NamesIn<`/${After}`>
    : Rest
  : never;

/** Where a route is. */
export type RouteAddress<Path extends string = string> = {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  path: Path;
  /** Most bytes of a body that is larger than usual. */
  bodyLimit?: number;
};
/** What routes with schemas have. `reply` is the schema of the answer to a successful request. */
export type RouteForm<Path extends string, Query extends TSchema, Body extends TSchema, Reply extends TSchema> = RouteAddress<Path> & {
  query?: Query;
  body?: Body;
  /** False: the handler reads `parsed` itself, to report the faults of the schema together with others. */
  isBodyChecked?: false;
  reply: Reply;
};
/** What a handler may answer. Lists may be read-only. */
export type ReplyOf<Reply extends TSchema> = ReadonlyIn<Static<Reply>>;
type ReadonlyIn<Value> = Value extends object ? { readonly [Key in keyof Value]: ReadonlyIn<Value[Key]> } : Value;

/** What every handler receives. `parsed` is the body with the source text of its numbers. */
export type BaseCall<Path extends string> = { ctx: Context; params: ParamsOf<Path>; parsed: ParsedBody };

/** Who calls: a key, or a member, who has no key and the permissions that their role includes. */
export type Caller = Pick<KeyOwner, 'merchantId' | 'mode' | 'kind' | 'origins' | 'permissions' | 'madeBy'> & { keyId: string | null };

export type Answer = { status: number; body: string | Uint8Array; replayed?: boolean };
/** The parameters of the query as they were sent, which handlers read one by one: see read.ts. */
type QueryOf<Query extends TSchema> = { readonly [Name in keyof Static<Query>]?: unknown };
export type ApiCall<
  Path extends string = string,
  Query extends TSchema = TObject,
  Body extends TSchema = TObject,
  Reply extends TSchema = TObject,
> = BaseCall<Path> & {
  owner: Caller;
  /** The caller, as the audit log names them. */
  actor: AnyActor;
  /** For a part of a route that needs a further permission. Errors: key_permission_missing, or for members action_not_permitted. */
  need(permission: KeyPermission): void;
  /** For a part of a route that members may use only shortly after they signed in. Errors: recent_authentication_required. */
  needRecent(): void;
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
  handle(call: ApiCall<string, never, never, never>): Promise<Answer>;
};

export const apiRoute = <
  const Path extends string,
  Query extends TObject = TObject,
  Body extends TSchema = TObject,
  Reply extends TSchema = TObject,
  Checked extends false | undefined = undefined,
>(
  route: ApiForm<Path, Query, Body, Reply> & {
    isBodyChecked?: Checked;
    handle(call: Checked extends false ? ReadingCall<Reply> : ApiCall<Path, Query, Body, Reply>): Promise<Answer>;
  },
): ApiRoute => route as unknown as ApiRoute;

/**
 * Adds a route to a server, at each of its addresses. `enter` runs before the body is read: a caller without permission learns nothing
 * else. What it returns is given to `answer`.
 */
export function serveRoute<Entered>(
  app: FastifyInstance,
  { method, bodyLimit }: RouteAddress,
  {
    urls,
    enter,
    answer,
  }: {
    urls: readonly string[];
    enter(request: FastifyRequest, reply: FastifyReply): Promise<Entered>;
    answer(request: FastifyRequest, reply: FastifyReply, entered: Entered): Promise<FastifyReply>;
  },
): void {
  const entered = new WeakMap<FastifyRequest, { by: Entered }>();
  for (const url of urls)
    app.route({
      ...{ method, url, exposeHeadRoute: false, ...(bodyLimit !== undefined && { bodyLimit }) },
      onRequest: async (request, reply) => void entered.set(request, { by: await enter(request, reply) }),
      handler: (request, reply) => answer(request, reply, entered.get(request)!.by),
    });
}
/** The body of a request, once the names in its path are known to be text that the database can store. */
export function readSent(request: FastifyRequest): ParsedBody {
  for (const name of Object.keys(request.params as object)) readQuery(request.params as Query, name);
  // Some clients name a type without sending a body.
  return request.body ? parseJson(request.body as string) : EMPTY_BODY;
}
/** Sends JSON, which no cache keeps. */
export function sendJson(reply: FastifyReply, status: number, body: string | Uint8Array): FastifyReply {
  reply.raw.setHeader('cache-control', 'no-store');
  return reply.code(status).type('application/json; charset=utf-8').send(body);
}

export const mine = (owner: Pick<Caller, 'merchantId' | 'mode'>) => ({ merchantId: owner.merchantId, mode: owner.mode });
/** What a caller may see of facts that events, deliveries and the request log repeat. */
export const sightOfCaller = ({ permissions }: Caller): Sight => ({
  payouts: permissions.includes('payouts'),
  secrets: permissions.includes('webhooks'),
});
/** The owner, with what the caller may see. */
export const readerOfCaller = (owner: Caller) => ({ ...mine(owner), sight: sightOfCaller(owner) });
export const madeBy = (owner: Caller) => ({ ...mine(owner), createdWith: owner.kind, keyId: owner.keyId });
