/** The types of a route follow from its path and schemas. The lines that must not compile are checked by `npm run check`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import Type from 'typebox';
import { type Answer, apiRoute, type BaseCall } from './route.ts';
import { literals, OrNull } from './schema-fields.ts';

const Color = literals(['red', 'green'] as const);
const Body = Type.Object({ color: Color });
const Reply = Type.Object({ color: OrNull(Color, 'A color.'), names: Type.Array(Type.String()) });
const form = { id: 'paint', access: 'secret', permission: 'payments', summary: 'Paint a wall', reply: Reply } as const;

test('a handler sees the parameters of its path, the names of its query, its body and its reply', () => {
  const route = apiRoute({
    ...form,
    method: 'POST',
    path: '/walls/:id/sides/:side',
    query: Type.Object({ limit: Type.Optional(Type.String()) }),
    body: Body,
    handle: async ({ params, query, body, reply }): Promise<Answer> => {
      const names: readonly string[] = [params.id, params.side, String(query.limit)];
      // @ts-expect-error the path names no such parameter
      void params.wall;
      // @ts-expect-error the query has no such name
      void query.before;
      // @ts-expect-error not one of the values
      void (body.color === 'blue');
      // @ts-expect-error a list is missing
      reply({ color: null });
      // @ts-expect-error not one of the values
      reply({ color: 'blue', names });
      return reply({ color: body.color, names });
    },
  });
  assert.equal(route.isBodyChecked, undefined);
  // @ts-expect-error a path without parameters has none
  void ((call: BaseCall<'/walls'>) => call.params.id);
});

test('a route names the permission that its keys need', () => {
  const { permission, ...rest } = form;
  const route = { method: 'GET', path: '/walls', handle: async (): Promise<Answer> => ({ status: 200, body: '' }) } as const;
  assert.equal(apiRoute({ ...rest, ...route, permission }).permission, 'payments');
  // @ts-expect-error it names none
  apiRoute({ ...rest, ...route });
  // @ts-expect-error there is no such permission
  apiRoute({ ...rest, ...route, permission: 'paint' });
});

test('a handler that reads its body itself gets it as it was sent', () => {
  const route = apiRoute({
    ...form,
    isBodyChecked: false,
    method: 'POST',
    path: '/walls',
    body: Body,
    handle: async (call): Promise<Answer> => {
      // @ts-expect-error it is not checked
      void call.body;
      return call.reply({ color: null, names: Object.keys(call.parsed.value as object) });
    },
  });
  assert.equal(route.isBodyChecked, false);
  assert.equal(route.body, Body);
});
