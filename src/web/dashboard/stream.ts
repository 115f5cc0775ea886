/** Open dashboards: one database query for all of them, and a line to each whose data may have changed. */
import { createHash } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Context } from '#context';
import { MODES, type Mode } from '#core/coin';
import { type Action, type MemberRole, mayDo } from '#core/roles';
import { readWebhookPulse } from '#deliveries';
import { readRequestPulse } from '#keys';
import { readUsagePulse } from '#merchants';
import { readNoticePulse } from '#notices';
import { readFilePulse, readOutPulse } from '#outgoing';
import { readChainPulse, readPulse } from '#queries';

const LOOK_MS = 500;
/** The app notices when three of these stay away. */
const KEEPALIVE_MS = 15_000;
/** An event and not a comment, which scripts cannot see. */
const ALIVE = 'event: alive\ndata: 1\n\n';
/** Streams end regularly and browsers reopen them, so a signed-out user loses access. */
const LIFE_MS = 5 * 60_000;

type Owner = { merchantId: string; mode: Mode };
/** Query keys of the app, with the action that reads them. Members are not told that something changed which they may not read. */
const READ_BY = {
  payments: 'payments.read',
  payment: 'payments.read',
  attention: 'payments.read',
  refunds: 'payments.read',
  refundable: 'payments.read',
  events: 'events.read',
  home: 'home.read',
  links: 'links.read',
  webhooks: 'webhooks.read',
  deliveries: 'webhooks.read',
  notices: 'account.use',
  sweeps: 'sweeps.read',
  payouts: 'payouts.read',
  requests: 'requests.read',
  shops: 'keys.read',
  usage: 'usage.read',
} as const satisfies Record<string, Action>;
type Key = keyof typeof READ_BY;
/** The events that change the data of keys. Add new kinds of updates here. */
const PULSES: readonly { keys: readonly Key[]; read: (ctx: Context, owners: readonly Owner[]) => Promise<(string | null)[]> }[] = [
  {
    keys: ['payments', 'payment', 'events', 'attention', 'home', 'refundable', 'links', 'sweeps'],
    read: (ctx, owners) => readPulse(ctx, { owners }),
  },
  { keys: ['payment', 'refundable', 'sweeps'], read: (ctx, owners) => readChainPulse(ctx, { owners }) },
  { keys: ['webhooks', 'deliveries', 'payment', 'shops'], read: (ctx, owners) => readWebhookPulse(ctx, { owners }) },
  { keys: ['notices'], read: (ctx, owners) => readNoticePulse(ctx, { owners }) },
  { keys: ['sweeps'], read: (ctx, owners) => readFilePulse(ctx, { owners }) },
  { keys: ['refunds', 'refundable', 'payouts'], read: (ctx, owners) => readOutPulse(ctx, { owners }) },
  { keys: ['requests', 'shops'], read: (ctx, owners) => readRequestPulse(ctx, { owners }) },
  { keys: ['usage'], read: (ctx, owners) => readUsagePulse(ctx, { owners }) },
];

const readPulses = async (ctx: Context, owners: readonly Owner[]): Promise<(string | null)[][]> => {
  const columns = await Promise.all(PULSES.map((pulse) => pulse.read(ctx, owners)));
  return owners.map((_, i) => columns.map((column) => column[i] ?? null));
};
const keysOf = (changed: (pulse: number) => boolean): Key[] => [...new Set(PULSES.flatMap((pulse, n) => (changed(n) ? pulse.keys : [])))];
/** Null: nothing changed that the role may read. */
function refreshLine(keys: readonly Key[], role: MemberRole): string | null {
  const shown = keys.filter((key) => mayDo(role, READ_BY[key]));
  return shown.length === 0 ? null : `event: refresh\ndata: ${JSON.stringify(shown)}\n\n`;
}

/** One short text per pulse, equal while nothing changes. */
const marksOf = (pulses: readonly (string | null)[]): string[] =>
  pulses.map((pulse) => (pulse === null ? '' : createHash('sha256').update(pulse).digest('base64url').slice(0, 8)));
/** What a page was read at: a stream that is opened with it begins with what has changed since. Read it before the data. */
export const readNewsMark = async (ctx: Context, owner: Owner): Promise<string> => marksOf((await readPulses(ctx, [owner]))[0]!).join('.');

type Watched = Owner & { pulses: (string | null)[]; tabs: Map<ServerResponse, MemberRole> };

export function registerStream(
  app: FastifyInstance,
  ctx: Context,
  { enter }: { enter: (request: FastifyRequest) => Promise<{ merchantId: string; role: MemberRole }> },
): void {
  const watched = new Map<string, Watched>();
  let timer: NodeJS.Timeout | null = null;
  let beatAt = 0;
  const schedule = () => {
    if (timer === null && watched.size > 0) timer = setTimeout(() => void look(), LOOK_MS);
  };
  const look = async () => {
    try {
      const all = [...watched.values()];
      const now = await readPulses(ctx, all);
      const at = ctx.clock.monotonicMs();
      const beat = at - beatAt >= KEEPALIVE_MS;
      if (beat) beatAt = at;
      all.forEach((entry, i) => {
        const keys = keysOf((n) => now[i]![n] !== entry.pulses[n]);
        entry.pulses = now[i]!;
        for (const [tab, role] of entry.tabs) {
          const line = refreshLine(keys, role) ?? (beat ? ALIVE : null);
          if (line !== null) tab.write(line);
        }
      });
    } catch (error) {
      ctx.log.warn({ err: error }, 'Could not update open dashboards');
    }
    timer = null;
    schedule();
  };
  for (const mode of MODES) {
    app.get<{ Querystring: { since?: unknown } }>(`/dashboard/api/${mode}/stream`, { exposeHeadRoute: false }, async (request, reply) => {
      const { merchantId, role } = await enter(request);
      const owner = { merchantId, mode };
      const [pulses] = await readPulses(ctx, [owner]);
      const tab = reply.raw;
      reply.hijack();
      if (tab.destroyed) return;
      tab.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store', 'x-accel-buffering': 'no' });
      tab.write(`retry: 2000\n${ALIVE}`);
      const key = `${owner.merchantId} ${mode}`;
      // Other tabs may already know of changes after the pulses above: this one is compared with what they know.
      const entry = watched.get(key) ?? { ...owner, pulses: pulses!, tabs: new Map() };
      const { since } = request.query;
      if (typeof since === 'string') {
        const [then, now] = [since.split('.', PULSES.length), marksOf(entry.pulses)];
        const line = refreshLine(
          keysOf((n) => now[n] !== then[n]),
          role,
        );
        if (line !== null) tab.write(line);
      }
      watched.set(key, entry);
      entry.tabs.set(tab, role);
      const life = setTimeout(() => tab.end(), LIFE_MS);
      tab.once('close', () => {
        clearTimeout(life);
        entry.tabs.delete(tab);
        if (entry.tabs.size === 0) watched.delete(key);
      });
      schedule();
    });
  }
  app.addHook('preClose', async () => {
    if (timer) clearTimeout(timer);
    for (const entry of watched.values()) for (const tab of entry.tabs.keys()) tab.end();
    watched.clear();
  });
}
