/** Determines the client: the peer itself, or the caller that a listed proxy names. */
import { isIP } from 'node:net';
import type { FastifyRequest } from 'fastify';
import type { Context } from '../context.ts';
import { clientNetwork, matchNetworks, plainIp } from '../core/networks.ts';

/** The caller's address, the key it is rate limited under, and whether the request came over TLS. */
export type ReadClient = (request: FastifyRequest) => { ip: string; network: string; secure: boolean };

/** The number of unlisted peers that are remembered, and how often each is written: anyone can send headers. */
const MOST_UNLISTED = 20;
const WRITE_MS = 600_000;

/** Reads the caller through `trustedProxies` (addresses or CIDRs). Claims of other peers are ignored, and recorded for doctor. */
export function createClientReader(ctx: Context, trustedProxies: readonly string[]): ReadClient {
  const isProxy = matchNetworks(trustedProxies);
  const written = new Map<string, number>();
  const remember = (peer: string) => {
    const now = ctx.clock.monotonicMs();
    const last = written.get(peer);
    if (last === undefined ? written.size >= MOST_UNLISTED : now - last < WRITE_MS) return;
    written.set(peer, now);
    rememberUnlisted(ctx, peer).catch((error: unknown) => ctx.log.warn({ err: error, peer }, 'Could not record an unlisted proxy'));
  };
  return (request) => {
    const peer = plainIp(request.socket.remoteAddress ?? '');
    const tls = 'encrypted' in request.socket;
    const { headers } = request;
    if (!isProxy(peer)) {
      if (headers['x-forwarded-for'] !== undefined || headers['x-forwarded-proto'] !== undefined) remember(peer);
      return { ip: peer, network: clientNetwork(peer), secure: tls };
    }
    const hops = String(headers['x-forwarded-for'] ?? '')
      .split(',')
      .map(addressOf);
    // The last hop that is not one of our proxies is the caller; anything before it is the caller's own claim. One that cannot be read
    // is a caller too: nobody knows which.
    const ip = hops.findLast((hop) => hop === null || !isProxy(hop)) ?? peer;
    return { ip, network: clientNetwork(ip), secure: tls || namesTls(headers['x-forwarded-proto']) };
  };
}

/** Whether the caller used TLS. Of several proxies, the first one spoke with the caller; some write capital letters. */
const namesTls = (protocol: string | string[] | undefined): boolean => /^\s*https\s*(?:,|$)/i.test(String(protocol ?? ''));

/** The address that a proxy named, also with a port, as some write it; null: it cannot be read. */
function addressOf(hop: string): string | null {
  const text = hop.trim();
  const bare = /^\[([^\]]*)\](?::\d{1,5})?$/.exec(text)?.[1] ?? /^([\d.]+):\d{1,5}$/.exec(text)?.[1] ?? text;
  return isIP(bare) === 0 ? null : plainIp(bare);
}

/** Records a peer that sent forwarded headers; entries last seen a week ago are removed first. */
const rememberUnlisted = ({ db: { sql } }: Context, peer: string) => sql`
  with old as (
    delete from unlisted_proxies where seen_at < clock_timestamp() - interval '7 days' and peer <> ${peer}
  )
  insert into unlisted_proxies (peer)
  select ${peer} where (select count(*) from unlisted_proxies) < ${MOST_UNLISTED} or exists (select 1 from unlisted_proxies where peer = ${peer})
  on conflict (peer) do update set seen_at = excluded.seen_at`;
