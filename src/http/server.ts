/** The HTTP server: routes behind the gate, all errors in the documented form, health and metrics. Building it does not start listening. */
import type { ServerResponse } from 'node:http';
import Fastify, { type FastifyError, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import type { Context } from '#context';
import { base62, isSameSecret } from '#core/id';
import { isLoopback, plainIp } from '#core/networks';
import type { IdempotencyClaim } from '#core/payment-view';
import { Problem } from '#core/problem';
import { MOST_BODY_BYTES } from '#core/text';
import { isAnswered } from '#db';
import { type KeyOwner, noteRequest } from '#keys';
import { getMerchant } from '#merchants';
import {
  checkBody,
  excessOf,
  FOR_PAGES,
  type Limits,
  packOnce,
  SpelledResponse,
  sendPacked,
  setHeaders,
  startLoopGuard,
  together,
  usedUp,
  withoutLimit,
} from '#transport';
import { createGate, type Gate, needPermission, readClaim } from './gate.ts';
import { createExit, isAlive, readServiceReadiness } from './health.ts';
import { readMetrics } from './metrics.ts';
import { createNameChecks, ignoredHeader, type UnknownParameters, unknownProblems } from './parameters.ts';
import type { Query } from './read.ts';
import { type Answer, type ApiRoute, readSent, sendJson, serveRoute } from './route.ts';
import { ROUTES } from './routes.ts';

type ServerOptions = {
  tls: { cert: Buffer; key: Buffer } | null;
  trustedProxies: readonly string[];
  limits: Limits;
  metricsToken: string | null;
  /** Adds the pages, which are not JSON. */
  registerPages(app: FastifyInstance, gate: Gate): void;
};

/** A request without a Host header, which RFC 9112 has us refuse, gets the documented error instead of Node's. */
const NODE = { ServerResponse: SpelledResponse, requireHostHeader: false };

/** Bodies are checked by `readBody` and replies written by `reply`. Without this, Fastify loads two compilers of schemas that nothing uses. */
const noCompiler = () => () => {
  throw new Error('Routes have no schemas of Fastify');
};
const NO_COMPILERS = { compilersFactory: { buildValidator: noCompiler, buildSerializer: noCompiler } };

/** `leave` is called before the server is closed. */
type Server = { server: FastifyInstance; leave(): Promise<void> };

/** Builds the server; the caller listens. */
export async function createServer(ctx: Context, options: ServerOptions): Promise<Server> {
  const exit = createExit();
  const gate = createGate(ctx, options);
  const requestId = () => `req_${base62(24, ctx.random)}`;
  const app = Fastify({
    ...(options.tls ? { https: { ...options.tls, ...NODE } } : { http: NODE }),
    schemaController: NO_COMPILERS,
    bodyLimit: MOST_BODY_BYTES,
    routerOptions: { maxParamLength: 500, ignoreTrailingSlash: false },
    requestTimeout: 30_000,
    keepAliveTimeout: 72_000,
    // Requests that arrive before the server closes are answered; `finishOnClose` bounds how long that takes.
    forceCloseConnections: false,
    return503OnClosing: false,
    genReqId: requestId,
    // A path that cannot be decoded: the routes and hooks never see it.
    frameworkErrors: (_error, request, reply) => {
      const unknown = new Problem('unknown_route', { method: request.method, path: 'path that can be decoded' });
      gate.anonymous(request, reply as FastifyReply).then(
        () => sendProblem(ctx, request, reply as FastifyReply, unknown),
        (error) => sendProblem(ctx, request, reply as FastifyReply, toProblem(ctx, request, error)),
      );
    },
    // A request that does not follow HTTP has no reply object: the answer is written to the socket.
    clientErrorHandler: (error, socket) => {
      if (error.code === 'ECONNRESET' || !socket.writable) return;
      const id = requestId();
      const reason = error.code === 'HPE_HEADER_OVERFLOW' ? 'its headers are too large' : 'it does not follow HTTP';
      const body = problemBody(ctx, new Problem('request_unreadable', { reason }), id);
      const headers = {
        ...{ 'Content-Type': 'application/json; charset=utf-8', 'Content-Length': body.length, 'X-Request-Id': id, Connection: 'close' },
        ...{ ...FOR_PAGES, ...withoutLimit(ctx.clock.now()) },
      };
      const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
      socket.end(`HTTP/1.1 400 Bad Request\r\n${lines.join('')}\r\n${body}`);
    },
  }) as unknown as FastifyInstance;

  // RFC 9110, section 10.1.1: an expectation that is not known may be ignored. Node would answer it without the documented headers.
  app.server.on('checkExpectation', (request, reply) => app.server.emit('request', request, reply));
  finishOnClose(ctx, app);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, bytes, done) => {
    // Compressed bodies are not supported; without this check the error would be about JSON.
    if ((request.headers['content-encoding'] ?? 'identity') !== 'identity') return done(new Problem('unsupported_media_type'));
    try {
      done(null, UTF8.decode(bytes as Buffer));
    } catch {
      done(new Problem('invalid_json', { reason: 'it is not UTF-8' }));
    }
  });
  app.decorateRequest('keyOwner', null);
  app.decorateRequest('clientIp', '');
  app.decorateRequest('startedMs', 0);
  app.decorateRequest('ignoredParameters', null);
  guardLoop(ctx, app);
  app.addHook('onRequest', (request, reply, done) => {
    request.startedMs = ctx.clock.monotonicMs();
    reply.raw.setHeader('x-request-id', request.id);
    reply.raw.setHeader('x-content-type-options', 'nosniff');
    setHeaders(reply.raw, withoutLimit(ctx.clock.now()));
    if (PATHS_FOR_PAGES.has(request.routeOptions.url ?? '')) setHeaders(reply.raw, FOR_PAGES);
    const isNameless = request.headers.host === undefined && request.raw.httpVersion === '1.1';
    const reason = isNameless ? 'it has no Host header' : excessOf(request.raw);
    if (reason === null) return done();
    gate.anonymous(request, reply).then(() => done(new Problem('request_unreadable', { reason })), done);
  });
  app.setErrorHandler((error: FastifyError | Problem, request, reply) => {
    const problem = toProblem(ctx, request, error);
    note(ctx, request, { status: problem.status, errorCode: problem.code });
    sendProblem(ctx, request, reply, problem);
  });

  for (const route of ROUTES) registerRoute(app, ctx, gate, route);
  registerPreflight(app, gate);
  registerOperations(app, ctx, { ...options, exit });
  options.registerPages(app, gate);

  app.setNotFoundHandler(async (request, reply) => {
    await gate.anonymous(request, reply);
    const path = request.url.split('?')[0]!;
    // People who open the address of the service want the dashboard; programs get the 404 as JSON.
    if (path === '/' && request.method === 'GET') {
      reply.header('vary', 'accept');
      if (request.headers.accept?.includes('text/html')) return reply.redirect('/dashboard', 302);
    }
    // A wrong path is logged for the owner of the key.
    if (/^\/(payments|api|v1)\b/.test(path)) await gate.identify(request);
    const allowed = ['GET', 'POST', 'DELETE'].filter(
      (method) => method !== request.method && app.findRoute({ url: path, method: method as 'GET' }) !== null,
    );
    const known = allowed.length > 0 ? allowed : methodsOf(path).filter((method) => method !== request.method);
    if (known.length > 0) {
      reply.header('allow', known.join(', '));
      throw new Problem('method_not_allowed', { method: request.method, allowed: known.join(', ') });
    }
    throw new Problem('unknown_route', { method: request.method, path: path.slice(0, 200) });
  });
  return { server: app, leave: exit.leave };
}

/** Tells the guard of the event loop which route works. */
function guardLoop(ctx: Context, app: FastifyInstance): void {
  const guard = startLoopGuard(ctx);
  const routeOf = ({ method, routeOptions }: FastifyRequest) =>
    routeOptions.url === undefined ? 'unknown' : `${method} ${routeOptions.url}`;
  app.addHook('onRequest', (request, _reply, done) => {
    guard.begin(routeOf(request));
    done();
  });
  app.addHook('onSend', (request, _reply, _content, done) => {
    guard.end(routeOf(request));
    done();
  });
  app.addHook('onClose', async () => guard.stop());
}

/** When the service stops, running requests may take FINISH_MS, and a connection without a request may still send one for QUIET_MS. */
const FINISH_MS = 10_000;
const QUIET_MS = 200;

/** Closing waits for running requests, not for idle connections, which browsers and proxies keep open. */
function finishOnClose(ctx: Context, app: FastifyInstance): void {
  const { server } = app;
  const underWay = new Set<ServerResponse>();
  let movedAt = 0;
  server.on('request', (_request, reply) => {
    underWay.add(reply);
    movedAt = ctx.clock.monotonicMs();
    reply.once('close', () => {
      underWay.delete(reply);
      movedAt = ctx.clock.monotonicMs();
    });
  });
  app.addHook('preClose', async () => {
    if (!server.listening) return;
    const began = ctx.clock.monotonicMs();
    for (const reply of underWay) if (!reply.headersSent) reply.setHeader('connection', 'close');
    const timer = setInterval(() => {
      const now = ctx.clock.monotonicMs();
      const quiet = underWay.size === 0 && now - Math.max(movedAt, began) >= QUIET_MS;
      if (!server.listening && (quiet || now - began >= FINISH_MS)) server.closeAllConnections();
    }, 20);
    server.once('close', () => clearInterval(timer));
  });
}

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const PATTERNS = ROUTES.flatMap((route) =>
  pathsOf(route).map((path) => ({ method: route.method, shape: new RegExp(`^${path.replace(/:[a-z_]+/g, '[^/]+')}$`) })),
);
const methodsOf = (path: string): string[] => [...new Set(PATTERNS.filter(({ shape }) => shape.test(path)).map(({ method }) => method))];
/** Paths outside /v1 are served below it too, unless another route has that path. */
function pathsOf({ method, path }: Pick<ApiRoute, 'method' | 'path'>): string[] {
  const below = `/v1${path}`;
  const isTaken = path.startsWith('/v1/') || ROUTES.some((route) => route.method === method && route.path === below);
  return isTaken ? [path] : [path, below];
}

/** Pages of other sites may call what public keys open, and nothing else. */
const PATHS_FOR_PAGES: ReadonlySet<string> = new Set(ROUTES.filter(({ access }) => access === 'any').flatMap(pathsOf));

function registerRoute(app: FastifyInstance, ctx: Context, gate: Gate, route: ApiRoute): void {
  const canonical = `${route.method} ${route.path}`;
  const checkNames = NAME_CHECKS.get(route)!;
  serveRoute(app, route, {
    urls: pathsOf(route),
    enter: (request, reply) => gate.enter(request, reply, route),
    answer: async (request, reply, owner) => {
      const sent = readSent(request);
      for (const [name, value] of Object.entries(request.params as Query)) if (value === '') throw missingInPath(route, name);
      if (typeof sent.value !== 'object' || sent.value === null || Array.isArray(sent.value)) {
        throw new Problem('invalid_json', { reason: 'it must be an object' });
      }
      if (route.method === 'POST' && request.body === undefined && request.headers['content-type'] === undefined && requiresBody(route)) {
        throw new Problem('unsupported_media_type');
      }
      const claim = route.method === 'POST' ? readClaim(request, owner, canonical, sent) : null;
      const unknown = checkNames({ query: request.query as Query, body: sent.value, isStrict: () => isStrict(ctx, owner) });
      const refused = unknown ? await meetUnknown(ctx, { request, reply, claim, unknown: await unknown }) : [];
      const parsed = { ...sent, refused };
      const call: Parameters<ApiRoute['handle']>[0] = {
        ctx,
        owner,
        actor: { keyId: owner.keyId, name: owner.name, ip: request.clientIp },
        need: (permission) => needPermission(owner, permission),
        needRecent: () => {},
        claim,
        params: request.params as Record<string, string>,
        query: request.query as never,
        parsed,
        body: (route.body && route.isBodyChecked !== false ? checkBody(route.body, parsed) : {}) as never,
        reply: (content: object) => ({ status: route.created ? 201 : 200, body: JSON.stringify(content) }),
      };
      if (refused.length > 0 && !route.body) throw together([...refused, ...(await queryFaults(route, call))]);
      const answer = await route.handle(call);
      if (answer.replayed) reply.raw.setHeader('idempotent-replayed', 'true');
      if (route.path === '/payments') reply.raw.setHeader('link', '</api/payment/create/simple>; rel="successor-version"');
      if (route.isLogged !== false) note(ctx, request, answer);
      return sendJson(reply, answer.status, answer.body);
    },
  });
}
/** `/api/payment/` names no payment. */
const missingInPath = ({ method, path }: ApiRoute, name: string): Problem =>
  new Problem('unknown_route', { method, path: `${path.replace(/:(\w+)/g, '{$1}')} without ${name}` }, { param: name });
const NAME_CHECKS = createNameChecks(ROUTES);
const isStrict = async (ctx: Context, { merchantId }: KeyOwner): Promise<boolean> =>
  (await getMerchant(ctx, { merchantId })).settings.strictParameters;

/** What else is wrong with the query of a request that is refused for its names. */
async function queryFaults(route: ApiRoute, call: Parameters<ApiRoute['handle']>[0]): Promise<Problem[]> {
  if (route.method !== 'GET') return [];
  const outcome = await route.handle(call).catch((error: unknown) => error);
  return outcome instanceof Problem && outcome.status === 400 ? [outcome] : [];
}

/** Reports ignored parameters, and returns the problems of those that were probably meant to have an effect. */
async function meetUnknown(
  ctx: Context,
  {
    request,
    reply,
    claim,
    unknown: { refused, ignored },
  }: { request: FastifyRequest; reply: FastifyReply; claim: IdempotencyClaim | null; unknown: UnknownParameters },
): Promise<Problem[]> {
  if (ignored.length > 0) {
    request.ignoredParameters = ignored;
    reply.raw.setHeader('x-ignored-parameters', ignoredHeader(ignored));
  }
  // A request that succeeded before such names were refused gets its stored answer when it is repeated.
  return refused.length > 0 && !(claim && (await isAnswered(ctx.db, claim))) ? unknownProblems(refused) : [];
}
/** Records an answered request for the log of requests. */
function note(
  ctx: Context,
  request: FastifyRequest,
  { status, errorCode = null, body = null }: { status: number; errorCode?: string | null; body?: Answer['body'] | null },
): void {
  const owner = request.keyOwner;
  if (owner === null) return;
  const asked = {
    requestId: request.id,
    owner,
    method: request.method,
    url: request.url,
    status,
    errorCode,
    startedMs: request.startedMs,
    hasIdempotencyKey: request.headers['idempotency-key'] !== undefined,
    ip: request.clientIp,
    agent: owner.kind === 'secret' ? (request.headers['user-agent'] ?? null) : null,
    body: typeof request.body === 'string' ? request.body : null,
    ignored: request.ignoredParameters,
    isPoll: status < 400 && POLLED.has(request.routeOptions.url ?? '') && request.headers['x-florin-poll'] === 'listen',
  };
  noteRequest(ctx, asked, body);
}
/** What `florin listen` asks for again and again. Someone who took a key must not be able to leave other requests out of the log. */
const POLLED: ReadonlySet<string> = new Set(ROUTES.filter(({ id }) => id === 'readEvents').map(({ path }) => path));
const requiresBody = (route: ApiRoute): boolean => ((route.body as { required?: string[] } | undefined)?.required?.length ?? 0) > 0;

/** Only creations answer a preflight, which carries no key, and answer all of them: the POST checks its key, and a page can read why it is refused. */
function registerPreflight(app: FastifyInstance, gate: Gate): void {
  for (const url of PATHS_FOR_PAGES) {
    app.options(url, async (request, reply) => {
      // A page cannot read why a preflight is refused, so the POST is.
      await gate.anonymous(request, reply, { refuses: false });
      return reply
        .code(204)
        .headers({
          'access-control-allow-methods': 'POST',
          'access-control-allow-headers': 'authorization, content-type, idempotency-key',
          'access-control-max-age': '600',
        })
        .send();
    });
  }
}

function registerOperations(
  app: FastifyInstance,
  ctx: Context,
  { metricsToken, tls, exit }: Pick<ServerOptions, 'metricsToken' | 'tls'> & { exit: ReturnType<typeof createExit> },
): void {
  app.get('/healthz', async () => isAlive());
  app.get('/readyz', async (_request, reply) => {
    const readiness = await readServiceReadiness(ctx, { isLeaving: exit.asked() });
    return reply.code(readiness.ready ? 200 : 503).send(readiness);
  });
  // A proxy on this machine may not name the client. With a public address and plain HTTP, a local request may come from anywhere.
  const isPublic = tls === null && !isLoopback(new URL(ctx.settings.publicUrl).hostname);
  app.get('/metrics', async (request, reply) => {
    const local = !isPublic && isFromHere(request);
    const token = metricsToken !== null && isSameSecret(request.headers.authorization ?? '', `Bearer ${metricsToken}`);
    if (!local && !token) throw new Problem('metrics_token_required');
    return reply.type('text/plain; version=0.0.4; charset=utf-8').send(await readMetrics(ctx));
  });
  // Loaded on request: a fault in an example must not keep the service from starting.
  const document = packOnce(async () => JSON.stringify((await import('./openapi.ts')).openapiDocument(ctx.settings.publicUrl)));
  app.get('/openapi.json', async (request, reply) => sendPacked(request, reply.type('application/json; charset=utf-8'), await document()));
}

/** Headers that proxies add. */
const OF_PROXIES = ['forwarded', 'via', 'x-real-ip', 'x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host'];
/** Whether the request comes from this machine, to an address of this machine, without a proxy in between. */
function isFromHere({ socket, headers }: FastifyRequest): boolean {
  const peer = plainIp(socket.remoteAddress ?? '');
  const asked = URL.parse(`http://${headers.host ?? ''}`)?.hostname ?? '';
  return (peer.startsWith('127.') || peer === '::1') && isLoopback(asked) && OF_PROXIES.every((name) => headers[name] === undefined);
}

/**
 * Connections that fail or are refused, and resource limits of the database: the caller can retry. A server that became a standby accepts
 * no writes until the connections are led to the new primary.
 */
const DATABASE_AWAY =
  /^(CONNECTION_|CONNECT_TIMEOUT|E(CONN|HOST|NET|PIPE|TIMEDOUT|NOTFOUND|AI_)|ENOENT$|08|28|3D000|53|55P03|57P0|57014|58|25006|40001|40P01)/;

/** What a failure means for the caller. */
export function toProblem(ctx: Context, request: FastifyRequest, error: FastifyError | Problem): Problem {
  if (error instanceof Problem) return error;
  const { code = '', statusCode } = error;
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE')
    return new Problem('body_too_large', { limit: request.routeOptions?.bodyLimit ?? MOST_BODY_BYTES });
  if (code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE' || code === 'FST_ERR_CTP_EMPTY_TYPE') return new Problem('unsupported_media_type');
  if (code.startsWith('FST_ERR_CTP') || code === 'FST_ERR_VALIDATION')
    return new Problem('invalid_json', { reason: 'the body cannot be read' });
  if (DATABASE_AWAY.test(code)) {
    ctx.log.error({ err: error, requestId: request.id }, 'The database did not respond');
    return new Problem('database_unavailable', {}, { retryAfterSeconds: 2, cause: error });
  }
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500)
    return new Problem('request_unreadable', { reason: 'it does not follow HTTP' });
  ctx.log.error({ err: error, requestId: request.id, method: request.method, route: request.routeOptions?.url }, 'Request failed');
  return new Problem('server_error', {}, { cause: error });
}

/** The documented error body. */
function problemBody(ctx: Context, problem: Problem, requestId: string): Buffer {
  const shape = (p: Problem) => ({ type: p.type, message: p.message, param: p.param, code: p.code });
  return Buffer.from(
    JSON.stringify({
      error: {
        ...shape(problem),
        doc_url: `${ctx.settings.publicUrl}/docs/errors#${problem.code}`,
        request_id: requestId,
        ...(problem.others.length > 0 && { errors: [problem, ...problem.others].map(shape) }),
      },
    }),
  );
}

function sendProblem(ctx: Context, request: FastifyRequest, reply: FastifyReply, problem: Problem): void {
  if (problem.retryAfterSeconds !== null) reply.raw.setHeader('retry-after', String(problem.retryAfterSeconds));
  if (problem.status === 429 && problem.retryAfterSeconds !== null)
    setHeaders(reply.raw, usedUp(ctx.clock.now(), problem.retryAfterSeconds));
  if (problem.status === 401) reply.raw.setHeader('www-authenticate', 'Bearer');
  reply.raw.setHeader('x-request-id', request.id);
  void sendJson(reply, problem.status, problemBody(ctx, problem, request.id));
}
