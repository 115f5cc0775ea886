/** The dashboard's API on the server: HTTPS, same site, sign-in, role, recent authentication, then the route. */
import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '../../context.ts';
import { MODES, type Mode } from '../../core/coin.ts';
import { Problem } from '../../core/problem.ts';
import { checkBody } from '../../http/body.ts';
import type { ReadClient } from '../../http/client.ts';
import { EMPTY_BODY, type ParsedBody, parseJson } from '../../http/json.ts';
import type { Limits } from '../../http/limits.ts';
import { readQuery } from '../../http/read.ts';
import type { RenderedReply } from '../../payments/view.ts';
import type { Membership } from '../../people/members.ts';
import { type Cookies, findSignedIn, type Visitor } from '../../people/sign-in.ts';
import { countAttempts } from './attempts.ts';
import { registerFiles } from './files.ts';
import { firstReads, readFirstData } from './first-data.ts';
import { admit, callOf, findMembership, type MemberNeeds } from './member.ts';
import { registerPreview } from './preview.ts';
import type { DashboardRoute, Download } from './route.ts';
import { DASHBOARD_ROUTES } from './routes.ts';
import { registerStream } from './stream.ts';

export const API = '/dashboard/api';
/** Cross-site pages cannot send it without a preflight, which this server never answers. */
export const WRITE_HEADER = 'x-florin-dashboard';

export type Doors = {
  limits: Limits;
  client: ReadClient;
};

/** The paths of a route: routes for members exist once per mode. */
export const pathsOf = (route: DashboardRoute): { url: string; mode: Mode | null }[] =>
  route.open ? [{ url: `${API}${route.path}`, mode: null }] : MODES.map((mode) => ({ url: `${API}/${mode}${route.path}`, mode }));

/** Offices share an address, so each person has their own limit, and each network has a higher one against floods. */
const PER_MINUTE_PER_NETWORK = 3_000;
const PER_MINUTE_PER_USER = 1_200;

export function registerDashboard(
  app: FastifyInstance,
  ctx: Context,
  doors: Doors,
  routes: readonly DashboardRoute[] = DASHBOARD_ROUTES,
): void {
  const origin = new URL(ctx.settings.publicUrl).origin;
  const httpsOnly = origin.startsWith('https:');

  const visitorOf = (request: FastifyRequest): Visitor => ({
    cookie: request.headers.cookie ?? '',
    ip: doors.client(request).ip,
    userAgent: request.headers['user-agent'] ?? '',
  });
  const { limit, takeAttempt } = countAttempts(ctx, doors);
  /** The checks that every request passes before its body is read. */
  const enter = async (request: FastifyRequest) => {
    const { network, secure } = doors.client(request);
    if (httpsOnly && !secure) throw new Problem('https_required');
    await limit(`dashboard ${network}`, PER_MINUTE_PER_NETWORK);
    if (request.method === 'GET') return;
    const from = request.headers.origin;
    if (request.headers[WRITE_HEADER] === undefined || (from !== undefined && from !== origin)) throw new Problem('cross_site_request');
  };
  const memberOf = async (request: FastifyRequest, needs: MemberNeeds): Promise<Membership> => {
    const signedIn = await findSignedIn(ctx, { visitor: visitorOf(request) });
    return admit(signedIn, signedIn && (await findMembership(ctx, signedIn)), needs);
  };

  for (const route of routes) {
    if (!route.open && route.action === undefined) throw new Error(`${route.method} ${route.path} names no action`);
    const bodyLimit = route.open ? undefined : route.bodyLimit;
    for (const { url, mode } of pathsOf(route)) {
      app.route({
        method: route.method,
        url,
        exposeHeadRoute: false,
        ...(bodyLimit !== undefined && { bodyLimit }),
        onRequest: async (request) => {
          await enter(request);
          if (bodyLimit !== undefined && !route.open) await memberOf(request, route);
        },
        handler: async (request, reply) => {
          const visitor = visitorOf(request);
          const signedIn = await findSignedIn(ctx, { visitor });
          if (signedIn) await limit(`dashboard user ${signedIn.userId}`, PER_MINUTE_PER_USER);
          if (signedIn && signedIn.cookies.length > 0) reply.header('set-cookie', signedIn.cookies);
          const member = route.open ? null : admit(signedIn, signedIn && (await findMembership(ctx, signedIn)), route);
          const attempt = { visitor, signedIn, network: doors.client(request).network };
          if (!route.account) await takeAttempt(route, attempt);
          const read = readRequest(route, request);
          if (route.account) await takeAttempt(route, { ...attempt, account: route.account(read.body) });
          const setCookies = (cookies: Cookies) => void reply.header('set-cookie', cookies);
          return send(reply, await route.handle({ ...callOf(ctx, { visitor, signedIn, member, mode }), ...read, setCookies }));
        },
      });
    }
  }
  registerStream(app, ctx, {
    enter: async (request) => {
      await enter(request);
      return memberOf(request, { action: 'account.use' });
    },
  });
  registerPreview(app, ctx, {
    enter: async (request) => {
      await enter(request);
      return memberOf(request, { action: 'settings.read' });
    },
  });
  registerFiles(app, ctx, {
    firstData: async (request, reply) => {
      const wanted = firstReads(request.url, ctx.clock.now());
      if (wanted === null) return null;
      await enter(request);
      const visitor = visitorOf(request);
      const signedIn = await findSignedIn(ctx, { visitor });
      if (!signedIn) return { mode: wanted.mode, signed_in: false };
      await limit(`dashboard user ${signedIn.userId}`, PER_MINUTE_PER_USER);
      if (signedIn.cookies.length > 0) reply.header('set-cookie', signedIn.cookies);
      return readFirstData(ctx, { routes, visitor, signedIn, wanted });
    },
  });
}

function readRequest(route: DashboardRoute, request: FastifyRequest) {
  for (const name of Object.keys(request.params as object)) readQuery(request.params as Record<string, unknown>, name);
  const given = request.query as Record<string, unknown>;
  for (const name of Object.keys(given)) readQuery(given, name);
  const parsed = typeof request.body === 'string' ? parseJson(request.body) : EMPTY_BODY;
  return {
    params: request.params as Record<string, string>,
    query: (route.query ? checkBody(route.query, { value: { ...given } as ParsedBody['value'], numbers: new Map() }) : {}) as never,
    body: (route.body ? checkBody(route.body, parsed) : {}) as never,
    parsed,
  };
}

function send(reply: FastifyReply, answer: object): FastifyReply {
  if (isDownload(answer)) {
    return reply
      .headers({
        'cache-control': 'no-store',
        'content-type': answer.type ?? 'text/csv; charset=utf-8',
        'content-disposition': `attachment; filename="${answer.name}"`,
        'x-content-type-options': 'nosniff',
      })
      .send(answer.parts instanceof Readable ? answer.parts : Readable.from(answer.parts, { objectMode: false }));
  }
  reply.headers({ 'cache-control': 'no-store', 'content-type': 'application/json; charset=utf-8' });
  if (isRendered(answer)) return reply.code(answer.status).send(answer.body);
  return reply.code(200).send(JSON.stringify(answer));
}
const isDownload = (answer: object): answer is Download => 'parts' in answer;
const isRendered = (answer: object): answer is RenderedReply => 'body' in answer && answer.body instanceof Uint8Array;
