/** What a route of the API consists of: who may call it, its schemas, its handler. */
import type { TObject, TSchema } from 'typebox';
import type { Context } from '../context.ts';
import type { KeyOwner } from '../keys/keys.ts';
import type { IdempotencyClaim } from '../payments/view.ts';
import type { Access } from './gate.ts';
import type { ParsedBody } from './json.ts';
import type { Query } from './read.ts';

export type Call = {
  ctx: Context;
  owner: KeyOwner;
  params: Readonly<Record<string, string>>;
  query: Query;
  body: ParsedBody;
  claim: IdempotencyClaim | null;
};
export type Answer = { status: number; body: string | Uint8Array; replayed?: boolean };
export type Route = {
  method: 'GET' | 'POST' | 'DELETE';
  path: string;
  access: Access;
  handle: (call: Call) => Promise<Answer>;
  summary: string;
  query?: TObject;
  body?: TSchema;
  reply: TSchema;
  created?: true;
  /** False: successful requests are not logged. */
  isLogged?: false;
};
