/** The peers that worked, in the database, so that a restart connects to them first and does not depend on the DNS seeds. */
import type { BitcoinFamily, Network } from '../../../core/coin.ts';
import type { Db } from '../../../db/db.ts';
import { endpointName, readEndpoint } from './peer-book.ts';
import type { PeerStore } from './peers.ts';
import type { PeerAddress } from './socks5.ts';

/** More are neither stored nor read, whatever the caller or the row says. */
const MAX_ANCHORS = 8;
const MAX_PROVEN = 64;

const names = (endpoints: readonly PeerAddress[], most: number): string[] => [...new Set(endpoints.map(endpointName))].slice(0, most);
const endpoints = (stored: readonly string[], most: number): PeerAddress[] =>
  stored.slice(0, most).flatMap((name) => readEndpoint(name) ?? []);

export const createPeerStore = (db: Db, { coin, network }: { coin: BitcoinFamily; network: Network }): PeerStore => ({
  load: async () => {
    const [row] = await db.sql<{ anchors: string[]; proven: string[] }[]>`
      select anchors, proven from known_peers where chain = ${coin} and network = ${network}`;
    return { anchors: endpoints(row?.anchors ?? [], MAX_ANCHORS), proven: endpoints(row?.proven ?? [], MAX_PROVEN) };
  },
  // Without any peer there is nothing better than what is stored.
  save: async ({ anchors, proven }) => {
    if (anchors.length + proven.length === 0) return;
    await db.sql`
      insert into known_peers (chain, network, anchors, proven)
      values (${coin}, ${network}, ${names(anchors, MAX_ANCHORS)}::text[], ${names(proven, MAX_PROVEN)}::text[])
      on conflict (chain, network) do update
        set anchors = excluded.anchors, proven = excluded.proven, saved_at = clock_timestamp()`;
  },
});
