/** The dashboard's API on the server: HTTPS, same site, sign-in, role, recent authentication, then the route. */
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '#context';
import { MODES, type Mode } from '#core/coin';
import type { RenderedReply } from '#core/payment-view';
import { Problem } from '#core/problem';
import { readQuery, readSent, sendJson, serveRoute } from '#http';
import type { Membership } from '#people';
import { findHalfSignedIn, findKnownBrowser, findSignedIn, type SignedIn, type Visitor } from '#sign-in';
import { checkBody, type Limits, type ParsedBody, type ReadClient } from '#transport';
import { ACCOUNT, SECURITY } from './account-api.ts';
import { AUDIT, EVENT_ROUTES, REQUESTS } from './events-api.ts';
import { registerFiles, registerPreview } from './files.ts';
import { admit, callOf, findMembership, firstReads, type MemberNeeds, readFirstData } from './first-data.ts';
import { HOME } from './home-api.ts';
import { KEYS, USAGE } from './keys-api.ts';
import { LINKS } from './links-api.ts';
import { ATTENTION, NOTICES } from './notices-api.ts';
import { OPERATOR_ROUTES } from './operator-api.ts';
import { CUSTOMERS, DASHBOARD_PAYMENTS, PAYMENT_ACTS } from './payments-api.ts';
import { DASHBOARD_PAYOUTS } from './payouts-api.ts';
import { DASHBOARD_REFUNDS } from './refunds-api.ts';
import { REPORTS } from './reports-api.ts';
import type { DashboardRoute, Download } from './route.ts';
import { SEARCH } from './search-api.ts';
import { SETTINGS } from './settings-api.ts';
import { SHOP_PAGE } from './shop-page-api.ts';
import { SHOPS } from './shops-api.ts';
import { registerStream } from './stream.ts';
import { SWEEPS } from './sweeps-api.ts';
import { TEAM } from './team-api.ts';
import { WALLETS } from './wallets-api.ts';
import { DASHBOARD_WEBHOOKS } from './webhooks-api.ts';

const API = '/dashboard/api';
/** Cross-site pages cannot send it without a preflight, which this server never answers. */
const WRITE_HEADER = 'x-florin-dashboard';

type Doors = {
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
    for (const { url, mode } of pathsOf(route))
      serveRoute(app, route, {
        urls: [url],
        enter: async (request) => {
          await enter(request);
          // A large body is read for members only.
          if (!route.open && route.bodyLimit !== undefined) await memberOf(request, route);
        },
        answer: async (request, reply) => {
          const visitor = visitorOf(request);
          const signedIn = await findSignedIn(ctx, { visitor });
          if (signedIn) await limit(`dashboard user ${signedIn.userId}`, PER_MINUTE_PER_USER);
          if (signedIn && signedIn.cookies.length > 0) reply.header('set-cookie', signedIn.cookies);
          const member = route.open ? null : admit(signedIn, signedIn && (await findMembership(ctx, signedIn)), route);
          const attempt = { visitor, signedIn, network: doors.client(request).network };
          if (!route.account) await takeAttempt(route, attempt);
          const read = readRequest(route, request);
          if (route.account) await takeAttempt(route, { ...attempt, account: route.account(read.body) });
          const setCookies = (cookies: string[]) => void reply.header('set-cookie', cookies);
          return send(reply, await route.handle({ ...callOf(ctx, { visitor, signedIn, member, mode }), ...read, setCookies }));
        },
      });
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
  const parsed = readSent(request);
  const given = request.query as Record<string, unknown>;
  for (const name of Object.keys(given)) readQuery(given, name);
  const query = { value: { ...given } as ParsedBody['value'], numbers: new Map() };
  return {
    params: request.params as Record<string, string>,
    query: (route.query ? checkBody(route.query, query) : {}) as never,
    body: (route.body && route.isBodyChecked !== false ? checkBody(route.body, parsed) : {}) as never,
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
  return isRendered(answer) ? sendJson(reply, answer.status, answer.body) : sendJson(reply, 200, JSON.stringify(answer));
}
const isDownload = (answer: object): answer is Download => 'parts' in answer;
const isRendered = (answer: object): answer is RenderedReply => 'body' in answer && 'status' in answer && typeof answer.status === 'number';

// All areas of the dashboard's API. A new area is a file of routes and a line here.

export const DASHBOARD_ROUTES: readonly DashboardRoute[] = [
  ...ACCOUNT,
  ...ATTENTION,
  ...AUDIT,
  ...HOME,
  ...LINKS,
  ...NOTICES,
  ...OPERATOR_ROUTES,
  ...PAYMENT_ACTS,
  ...CUSTOMERS,
  ...DASHBOARD_PAYMENTS,
  ...DASHBOARD_PAYOUTS,
  ...DASHBOARD_REFUNDS,
  ...REPORTS,
  ...SEARCH,
  ...SECURITY,
  ...SETTINGS,
  ...SHOPS,
  ...SHOP_PAGE,
  ...SWEEPS,
  ...TEAM,
  ...USAGE,
  ...WALLETS,
  ...DASHBOARD_WEBHOOKS,
  ...EVENT_ROUTES,
  ...KEYS,
  ...REQUESTS,
];

// Limits of the dashboard, and of attempts at what is secret. A person who is signed in, has signed in there before, or waits for a code
// is counted apart, so that nobody else can use up their attempts. See docs/decisions/sign-in.md.

/** Guesses of strangers at one account in a minute: so many are answered at once, further ones later and later, and then none. */
const GUESSES_AT_ONCE = 20;
const MOST_GUESSES = 100;
const LATER_MS = 250;
const LATEST_MS = 5_000;
/** Requests of strangers that wait in this process. */
const MOST_WAITING = 200;

type Attempt = { visitor: Visitor; signedIn: SignedIn | null; network: string; account?: string };

export function countAttempts(ctx: Context, { limits }: { limits: Limits }) {
  let waiting = 0;
  const refuse = (resetMs: number): never => {
    const seconds = Math.max(1, Math.ceil(resetMs / 1000));
    throw new Problem('rate_limit_exceeded', { seconds }, { retryAfterSeconds: seconds });
  };
  const limit = async (bucket: string, points: number): Promise<void> => {
    const { allowed, resetMs } = await limits.consume(bucket, points);
    if (!allowed) refuse(resetMs);
  };
  /** A person in a browser that is not known is slowed down by a flood of guesses, but only a large one keeps them out. */
  const guess = async (account: string): Promise<void> => {
    const { allowed, remaining, resetMs } = await limits.consume(`dashboard guesses ${account}`, MOST_GUESSES);
    if (!allowed) refuse(resetMs);
    const beyond = MOST_GUESSES - remaining - GUESSES_AT_ONCE;
    if (beyond <= 0) return;
    if (waiting >= MOST_WAITING) refuse(LATEST_MS);
    waiting++;
    await sleep(Math.min(beyond * LATER_MS, LATEST_MS)).finally(() => waiting--);
  };
  /** Whom an attempt is counted for: null is the network it comes from. */
  const ownOf = async (route: DashboardRoute, { visitor, signedIn, account }: Attempt): Promise<string | null> => {
    if (account !== undefined) return findKnownBrowser(ctx, { from: visitor, email: account });
    if (route.ofPending) return (await findHalfSignedIn(ctx, visitor))?.identifier ?? null;
    return signedIn?.userId ?? null;
  };
  /** Counts an attempt at a route that accepts secrets. Errors: rate_limit_exceeded. */
  const takeAttempt = async (route: DashboardRoute, given: Attempt): Promise<void> => {
    if (route.attempts === undefined) return;
    const attempt = { ...given, ...(given.account !== undefined && { account: given.account.toLowerCase() }) };
    const own = await ownOf(route, attempt);
    await limit(`dashboard ${route.path} ${own === null ? attempt.network : `${own} ${attempt.account ?? ''}`}`, route.attempts);
    if (own === null && route.isGuess && attempt.account !== undefined) await guess(attempt.account);
  };
  return { limit, takeAttempt };
}
