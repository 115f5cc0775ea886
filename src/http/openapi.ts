/** The OpenAPI 3.1 document, made from the routes and schemas that validate. */
import { EVENT_TYPES, UPDATED_EVENT } from '../core/event.ts';
import { PROBLEMS } from '../core/problem.ts';
import { ROUTES, type Route } from './routes.ts';
import { ErrorReply, EventReply } from './schema.ts';

const errorsOf = (route: Route): number[] =>
  [...new Set(Object.values(PROBLEMS).map((problem) => problem.status))]
    .filter((status) => (route.method === 'GET' ? ![409, 413, 415, 422].includes(status) : true) && status !== 405)
    .sort((a, b) => a - b);

/** The document for a service at `url`. */
export function openapiDocument(url: string): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const route of ROUTES) {
    const path = route.path.replace(/:([a-z]+)/g, '{$1}');
    paths[path] ??= {};
    paths[path][route.method.toLowerCase()] = {
      summary: route.summary,
      operationId: route.handle.name,
      parameters: [...path.matchAll(/\{([a-z]+)\}/g)].map(([, name]) => ({ name, in: 'path', required: true, schema: { type: 'string' } })),
      ...(route.body && { requestBody: { content: { 'application/json': { schema: route.body } } } }),
      responses: {
        [route.created ? 201 : 200]: { description: 'Done', content: { 'application/json': { schema: route.reply } } },
        ...Object.fromEntries(
          errorsOf(route).map((status) => [
            status,
            {
              description: Object.entries(PROBLEMS)
                .filter(([, p]) => p.status === status)
                .map(([code]) => code)
                .join(', '),
              content: { 'application/json': { schema: ErrorReply } },
            },
          ]),
        ),
      },
    };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Florin',
      version: '1',
      description: 'Cryptocurrency payments priced in USD. Amounts are decimal strings, timestamps ISO 8601 UTC.',
    },
    servers: [{ url }],
    security: [{ key: [] }],
    components: { securitySchemes: { key: { type: 'http', scheme: 'bearer' } } },
    paths,
    webhooks: Object.fromEntries(
      [...EVENT_TYPES, UPDATED_EVENT].map((type) => [
        type,
        {
          post: {
            requestBody: { content: { 'application/json': { schema: EventReply } } },
            responses: { 200: { description: 'Received' } },
          },
        },
      ]),
    ),
  };
}
