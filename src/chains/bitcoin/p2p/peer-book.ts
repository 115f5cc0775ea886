/** The known addresses of peers, and which one is tried next. A peer that sends many addresses cannot decide which peers we connect to. */
import { randomInt } from 'node:crypto';
import { isIP } from 'node:net';
import type { PeerAddress } from '#connections';
import type { Clock } from '#core/dates';

/** Who told us an address; `proven`: it worked before. */
type Teller = 'proven' | 'seed' | 'fallback' | 'peer';
type Entry = { endpoint: PeerAddress; kind: Teller; teller: string; proven: boolean; failures: number; notBeforeMs: number };

/** Addresses that peers told, and those of others: seeds and the list of the release always find room. */
const MAX_ENTRIES = 2_000;
/** Addresses of one network group, and addresses that one seed or peer told. */
const MAX_OF_GROUP = 8;
const MAX_OF_TELLER = 128;
/** Proven addresses that are kept on disk. */
const MAX_PROVEN = 64;
/** An address that fails this often in a row is forgotten. */
const MAX_FAILURES = 6;
const FIRST_PAUSE_MS = 60_000;
const MAX_PAUSE_MS = 3_600_000;
/** A peer that broke the rules is not tried again for this long. */
const BANNED_MS = 24 * 3_600_000;
/** How often a proven address is preferred to one that nobody tried, in percent. */
const PREFER_PROVEN = 50;

export const endpointName = ({ host, port }: PeerAddress): string => (isIP(host) === 6 ? `[${host}]:${port}` : `${host}:${port}`);

/** Reads `host:port`. Null: it is not such an address. */
export function readEndpoint(text: string): PeerAddress | null {
  const [, bracketed, plain, digits] = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+)):(\d{1,5})$/i.exec(text.trim()) ?? [];
  const host = bracketed ?? plain;
  const port = Number(digits);
  if (host === undefined || port < 1 || port > 65_535 || (bracketed !== undefined && isIP(bracketed) !== 6)) return null;
  return { host, port };
}

/** The network that an address belongs to: one operator has many addresses there. /16 of IPv4, /32 of IPv6, otherwise the name. */
export function networkGroup(host: string): string {
  if (isIP(host) === 4) return host.split('.').slice(0, 2).join('.');
  if (isIP(host) !== 6) return host.toLowerCase();
  const [head] = host.toLowerCase().split('::') as [string];
  const parts = head.split(':').filter(Boolean);
  return [parts[0] ?? '0', host.includes('::') ? (parts[1] ?? '0') : parts[1]!].map((part) => part.padStart(4, '0')).join(':');
}

export type PeerBook = {
  /** Adds addresses, within the limits for each group and teller. `teller`: the seed, or the network group of the peer. */
  add(endpoints: readonly PeerAddress[], from: { kind: Teller; teller: string }): void;
  /** A random address outside these groups whose time has come, or null. `untried`: one that was never connected to; `among`: one of these. */
  pick(inUse: ReadonlySet<string>, options?: { untried?: boolean; among?: ReadonlySet<string> }): PeerAddress | null;
  worked(endpoint: PeerAddress): void;
  failed(endpoint: PeerAddress): void;
  ban(endpoint: PeerAddress): void;
  proven(): PeerAddress[];
  size(): number;
};

export function createPeerBook({ clock, random = randomInt }: { clock: Clock; random?: (below: number) => number }): PeerBook {
  const entries = new Map<string, Entry>();
  /** How many addresses each network group and each teller has. */
  const counts = new Map<string, number>();
  const countOf = (key: string): number => counts.get(key) ?? 0;
  const keysOf = ({ endpoint, kind, teller }: Entry): string[] => [`group ${networkGroup(endpoint.host)}`, `told by ${kind} ${teller}`];
  const forget = (entry: Entry): void => {
    entries.delete(endpointName(entry.endpoint));
    for (const key of keysOf(entry)) {
      if (countOf(key) > 1) counts.set(key, countOf(key) - 1);
      else counts.delete(key);
    }
  };
  /** What gives way to addresses of this peer in a full book: what others told beyond an equal share, up to the share of this one. */
  const beyondShare = (teller: string): Entry[] => {
    const told = [...entries.values()].filter(({ kind, proven }) => kind === 'peer' && !proven);
    const left = new Map<string, number>([[teller, 0]]);
    for (const one of told) left.set(one.teller, (left.get(one.teller) ?? 0) + 1);
    const share = Math.floor(MAX_ENTRIES / left.size);
    const over = told.filter((one) => {
      const count = left.get(one.teller)!;
      if (one.teller === teller || count <= share) return false;
      left.set(one.teller, count - 1);
      return true;
    });
    return over.slice(0, Math.max(0, share - left.get(teller)!));
  };
  const addOne = (endpoint: PeerAddress, { kind, teller }: { kind: Teller; teller: string }, room: Entry[]): void => {
    const name = endpointName(endpoint);
    const entry: Entry = { endpoint, kind, teller, proven: kind === 'proven', failures: 0, notBeforeMs: 0 };
    const [group, told] = keysOf(entry) as [string, string];
    if (entries.has(name) || countOf(group) >= MAX_OF_GROUP || countOf(told) >= MAX_OF_TELLER) return;
    if (kind === 'peer' && entries.size >= MAX_ENTRIES) {
      const least = room.pop();
      if (!least) return;
      forget(least);
    }
    entries.set(name, entry);
    for (const key of [group, told]) counts.set(key, countOf(key) + 1);
  };
  const change = (endpoint: PeerAddress, how: (entry: Entry) => Partial<Entry>): void => {
    const entry = entries.get(endpointName(endpoint));
    if (entry) Object.assign(entry, how(entry));
  };
  /** Groups first: many addresses in one group do not make the group more likely. */
  const choose = (candidates: readonly Entry[]): Entry | null => {
    const groups = new Map<string, Entry[]>();
    for (const entry of candidates) {
      const group = networkGroup(entry.endpoint.host);
      groups.set(group, [...(groups.get(group) ?? []), entry]);
    }
    if (groups.size === 0) return null;
    const members = [...groups.values()][random(groups.size)]!;
    return members[random(members.length)]!;
  };
  return {
    add: (endpoints, from) => {
      const room = from.kind === 'peer' && entries.size + endpoints.length > MAX_ENTRIES ? beyondShare(from.teller) : [];
      for (const endpoint of endpoints) addOne(endpoint, from, room);
    },
    pick: (inUse, { untried = false, among } = {}) => {
      const nowMs = clock.monotonicMs();
      const open = [...entries.values()].filter(
        ({ endpoint, notBeforeMs }) =>
          notBeforeMs <= nowMs && !inUse.has(networkGroup(endpoint.host)) && (among?.has(endpointName(endpoint)) ?? true),
      );
      const [proven, others] = [open.filter((entry) => entry.proven), open.filter((entry) => !entry.proven)];
      if (untried) return choose(others)?.endpoint ?? null;
      const first = random(100) < PREFER_PROVEN ? proven : others;
      return (choose(first) ?? choose(open))?.endpoint ?? null;
    },
    worked: (endpoint) => change(endpoint, () => ({ proven: true, failures: 0, notBeforeMs: 0 })),
    failed: (endpoint) => {
      change(endpoint, ({ failures }) => ({
        failures: failures + 1,
        notBeforeMs: clock.monotonicMs() + Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failures),
      }));
      const entry = entries.get(endpointName(endpoint));
      if (entry && entry.failures >= MAX_FAILURES) forget(entry);
    },
    ban: (endpoint) => change(endpoint, () => ({ proven: false, notBeforeMs: clock.monotonicMs() + BANNED_MS })),
    proven: () =>
      [...entries.values()]
        .filter((entry) => entry.proven)
        .slice(-MAX_PROVEN)
        .map(({ endpoint }) => endpoint),
    size: () => entries.size,
  };
}
