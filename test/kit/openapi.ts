/** Wraps the client's fetch and compares every request and response with the API document. */
import { Check, Errors } from 'typebox/schema';

type Json = any;

/** The document with every $ref replaced by its target. */
export function inlined(value: Json, root: Json): Json {
  if (Array.isArray(value)) return value.map((entry) => inlined(entry, root));
  if (typeof value !== 'object' || value === null) return value;
  if (typeof value.$ref === 'string') {
    const target = value.$ref
      .slice(2)
      .split('/')
      .reduce((at: Json, name: string) => at[name], root);
    const { $ref: _, ...beside } = value;
    return { ...inlined(target, root), ...beside };
  }
  return Object.fromEntries(Object.entries(value).map(([name, entry]) => [name, inlined(entry, root)]));
}

/** `fetch`, or another one, that adds to `violations` everything that is not as documented. */
export function validatingFetch(document: Json, violations: string[], next: typeof fetch = fetch): typeof fetch {
  const { paths } = inlined(document, document);
  const routes = Object.entries<Json>(paths)
    .map(([path, methods]) => ({ path, methods, pattern: new RegExp(`^${path.replace(/\{\w+\}/g, '[^/]+')}$`) }))
    .sort((a, b) => Number(a.path.includes('{')) - Number(b.path.includes('{')));
  const check = (schema: Json, value: unknown, what: string): void => {
    if (!Check(schema, value)) violations.push(`${what}: ${JSON.stringify(Errors(schema, value)[1]).slice(0, 500)}`);
  };
  const checkRequest = (operation: Json, url: URL, init: RequestInit, name: string): void => {
    for (const [key, text] of url.searchParams) {
      const parameter = operation.parameters.find((one: Json) => one.in === 'query' && one.name === key.split('[')[0]);
      if (!parameter) violations.push(`${name} query ${key}: not documented`);
      else if (parameter.style !== 'deepObject') {
        const isNumber = parameter.schema.type === 'integer' && /^\d+$/.test(text);
        const value = parameter.schema.type === 'array' ? [text] : isNumber ? Number(text) : text;
        check(parameter.schema, value, `${name} query ${key}`);
      }
    }
    const { requestBody } = operation;
    if (requestBody && typeof init.body === 'string')
      check(requestBody.content['application/json'].schema, JSON.parse(init.body), `${name} request`);
    else if (requestBody?.required || (init.body && !requestBody))
      violations.push(`${name}: a body where there is none, or none where one is required`);
  };
  return async (input, init = {}) => {
    const url = new URL(String(input));
    const method = (init.method ?? 'GET').toLowerCase();
    const route = routes.find(({ pattern, methods }) => pattern.test(url.pathname) && methods[method]);
    const reply = await next(input, init);
    if (!route) {
      violations.push(`${method} ${url.pathname}: route not found`);
      return reply;
    }
    const operation = route.methods[method];
    const name = `${method.toUpperCase()} ${route.path}`;
    if (reply.ok) checkRequest(operation, url, init, name);
    const documented =
      operation.responses[reply.status] ?? (next === fetch ? undefined : (operation.responses[201] ?? operation.responses[200]));
    if (!documented) violations.push(`${name} ${reply.status}: not documented`);
    else check(documented.content['application/json'].schema, await reply.clone().json(), `${name} ${reply.status}`);
    return reply;
  };
}
