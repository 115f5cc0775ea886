/** Open pages: one database query for all of them, and a line to each whose payment changed. */
import type { ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Context } from '../../context.ts';
import { markOpened } from '../../payments/days.ts';
import { getMoment, getNewVersions, getTimes } from '../../payments/queries.ts';
import type { Counting } from './counting.ts';

/** A change shows within this time; with many pages the query runs less often. */
const LOOK_MS = 100;
const LOOK_MAX_MS = 1_000;
const PAGES_PER_MS = 20;
/** Pages notice when three of these stay away. */
const KEEPALIVE_MS = 15_000;
/** The payment's own time in milliseconds, in what a page asks again and again: its countdown follows it. */
export const NOW_HEADER = 'x-payment-time';
/** An event and not a comment, which scripts cannot see. */
const beat = (nowMs: bigint): string => `event: k\ndata: ${nowMs}\n\n`;

/** Only what is needed is kept per page: the version of its payment and the raw response. */
type Watched = { version: bigint; pages: ServerResponse[] };

export function registerLive(
  pages: FastifyInstance,
  ctx: Context,
  { idOf, counting }: { idOf: (request: FastifyRequest) => string; counting: Counting },
): void {
  const watched = new Map<string, Watched>();
  let open = 0;
  let timer: NodeJS.Timeout | null = null;
  let beatAt = 0;

  const schedule = () => {
    if (timer === null && open > 0)
      timer = setTimeout(() => void look(), Math.min(LOOK_MAX_MS, Math.max(LOOK_MS, Math.round(open / PAGES_PER_MS))));
  };
  const look = async () => {
    try {
      const known = new Map([...watched].map(([id, { version }]) => [id, version]));
      for (const [id, version] of await getNewVersions(ctx, { known })) {
        const entry = watched.get(id);
        if (!entry || entry.version === version) continue;
        entry.version = version;
        for (const page of entry.pages) page.write(`event: v\ndata: ${version}\n\n`);
      }
      const at = ctx.clock.monotonicMs();
      if (at - beatAt >= KEEPALIVE_MS) {
        beatAt = at;
        const times = await getTimes(ctx, { paymentIds: [...watched.keys()] });
        for (const [id, { pages: open }] of watched) for (const page of open) page.write(beat(times.get(id) ?? 0n));
      }
    } catch (error) {
      ctx.log.warn({ err: error }, 'Could not update open payment pages');
    }
    timer = null;
    schedule();
  };
  const close = (id: string, page: ServerResponse) => {
    const entry = watched.get(id);
    const at = entry?.pages.indexOf(page) ?? -1;
    if (!entry || at < 0) return;
    entry.pages.splice(at, 1);
    open--;
    if (entry.pages.length === 0) watched.delete(id);
  };

  pages.get('/pay/events', { exposeHeadRoute: false }, async (request, reply) => {
    const id = idOf(request);
    await counting.news(request);
    const { version, nowMs } = await getMoment(ctx, { paymentId: id });
    // Only the page's script requests updates, so someone is viewing it.
    await markOpened(ctx, { paymentId: id });
    const page = reply.raw;
    // It may have left meanwhile.
    if (page.destroyed) return reply.hijack();
    page.once('close', counting.stream(request));
    reply.hijack();
    page.writeHead(200, {
      'content-type': 'text/event-stream',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
      'x-content-type-options': 'nosniff',
    });
    page.write(`retry: 2000\nevent: v\ndata: ${version}\n\n${beat(nowMs)}`);
    const entry = watched.get(id);
    if (entry) entry.pages.push(page);
    else watched.set(id, { version, pages: [page] });
    open++;
    page.once('close', () => close(id, page));
    schedule();
  });
  pages.addHook('preClose', async () => {
    if (timer) clearTimeout(timer);
    open = 0;
    for (const entry of watched.values()) for (const page of entry.pages) page.end();
  });
}
