/** Decides whether a chain is healthy enough to complete payments on it. Pure: takes what was observed and returns reasons. */
import { isIP } from 'node:net';
import { type Coin, chainOf, finalityOf, type Network } from './coin.ts';
import { matchNetworks } from './networks.ts';

/** What one voting source shows. */
export type SourceVote = {
  /** The version that the operator's own node reports; 0 when it reports none, and for nodes of others, which could report any. */
  version: number;
  /** Whether its chain matches the followed one, except for the last few blocks. */
  agrees: boolean;
};

export type ObservedChain = {
  coin: Coin;
  votes: readonly SourceVote[];
  /** Height read so far, and the times of its last blocks, newest first. */
  height: number;
  blockTimes: readonly Date[];
  now: Date;
  /** The last deep reorganization: how many blocks it removed, and from which height. */
  reorg: Reorg | null;
  /** Why the work of the chain proves nothing now, in words. */
  work: readonly string[];
};

export const GUARD_CODES = [
  'deep_reorg',
  'work',
  'disagreement',
  'own_away',
  'claimed',
  'quorum',
  'stalled',
  'slow',
  'finality',
  'old_version',
] as const;
export type GuardCode = (typeof GUARD_CODES)[number];
export type GuardReason = { code: GuardCode; text: string };

/** The tip is stalled when it is older than this many usual intervals, and than this long where blocks come within seconds. */
const STALLED_INTERVALS = 6;
const STALLED_SECONDS = 60;
/** The chain is slow when the mean of this many intervals is this many times the usual one. */
const SLOW_INTERVALS = 12;
const SLOW_FACTOR = 4;

/** Completion is held for real money only, because blocks of test networks come irregularly. */
export const isBinding = (network: Network): boolean => network === 'mainnet';

type Reorg = { depth: number; height: number };
/**
 * The height from which the chain counts as calm again: later by as many blocks as the largest payment waits for, or twice the depth. Where
 * locks keep the network from replacing blocks, only a branch that it does not follow does this: later by a day, which its forger must pay.
 */
export const calmAt = (coin: Coin, { depth, height }: Reorg): number => {
  const { blockSeconds, confirmations } = chainOf(coin);
  const day = finalityOf(coin) === 'locks' ? Math.ceil(86_400 / blockSeconds) : 0;
  return height + Math.max(2 * depth, day, ...confirmations.map((tier) => tier.confirmations));
};
export const reorgText = (coin: Coin, reorg: Reorg): string =>
  `a reorganization of ${reorg.depth} blocks was seen; completion waits for block ${calmAt(coin, reorg)}`;

/** A configured source, and whether it has a vote now. */
export type Voter = { name: string; trust: Trust; votes: boolean };
export type Quorum = {
  /** Why no payment may complete; null when payments may. */
  hold: GuardReason | null;
  /** Why payments above the quorum amount must wait; null when they need not. */
  above: string | null;
  /** Whether a lock that the followed source reports completes small payments before their block is agreed on. */
  locks: boolean;
};

const dollars = (usdCents: bigint): string => (usdCents / 100n).toLocaleString('en-US');

const OWN_AWAY: GuardReason = { code: 'own_away', text: 'your own node is not available; no payment completes until it is back' };
const CLAIMED: GuardReason = {
  code: 'claimed',
  text: 'nothing proves what the sources of this chain show, because others run them; payments complete with a node of your own',
};

/**
 * What may complete with the sources that can vote now. A source must be the operator's own, or every block of it proven: the word of
 * others is not enough, because they could pay themselves. Above the quorum amount, two votes are needed. Sources with the same name are
 * one machine or provider.
 */
export function judgeQuorum(voters: readonly Voter[], followed: Voter | null, quorumAboveUsdCents: bigint): Quorum {
  const voting = voters.filter((one) => one.votes);
  const isOwn = ({ trust }: Voter) => trust === 'own';
  const names = (of: readonly Voter[]) => new Set(of.map(({ name }) => name)).size;
  const mayComplete = voting.some(({ trust }) => trust !== 'claimed');
  // A claim that was recorded completes nothing when its source goes away, either.
  const isClaimed = voting.length > 0 || voters.some(({ trust }) => trust === 'claimed');
  const few = names(voters) > 1 && names(voting) < 2;
  return {
    hold: mayComplete ? null : voters.some(isOwn) ? OWN_AWAY : isClaimed ? CLAIMED : null,
    above: few
      ? `payments above ${dollars(quorumAboveUsdCents)} USD wait: they need two sources of this chain, and only one is available`
      : null,
    locks: followed?.votes === true && isOwn(followed),
  };
}

/**
 * The same for a chain whose blocks nobody can prove here: your own node vouches for them, or two sources that agree on every block that is
 * read. `setting` declares a source your own.
 */
export function judgeAgreement(
  voters: readonly Voter[],
  { quorumAboveUsdCents, setting }: { quorumAboveUsdCents: bigint; setting: string },
): Quorum {
  const voting = voters.filter((one) => one.votes);
  const names = (of: readonly Voter[]) => new Set(of.map(({ name }) => name)).size;
  const quorum = judgeQuorum(voters, null, quorumAboveUsdCents);
  const hasOwn = voting.some(({ trust }) => trust === 'own');
  if (hasOwn || names(voting) > 1) return { ...quorum, hold: null };
  const text =
    names(voters) > 1
      ? 'only one source of this chain is available; payments complete when two show the same blocks'
      : `one provider alone completes no payments; add a second one, or set ${setting}=own for a node that you run`;
  return { ...quorum, hold: voters.some(({ trust }) => trust === 'own') ? OWN_AWAY : { code: 'claimed', text } };
}

/** Final blocks may be this many times older than usual. */
const FINALITY_FACTOR = 20;
/** Why completion waits while blocks stop becoming final; null when they become final. */
export function judgeFinality(coin: Coin, { finalAt, now }: { finalAt: Date; now: Date }): GuardReason | null {
  const usual = chainOf(coin).ranges?.finalSeconds;
  const age = now.getTime() - finalAt.getTime();
  if (usual === undefined || age <= FINALITY_FACTOR * usual * 1000) return null;
  return { code: 'finality', text: `the last final block is ${minutes(age)} old, ${minutes(usual * 1000)} are usual` };
}

const minutes = (ms: number): string => `${Math.round(ms / 60_000)} min`;

/** Why completion must wait on this chain, most serious reason first; empty when it is healthy. */
export function judgeChain({ coin, votes, height, blockTimes, now, reorg, work }: ObservedChain): readonly GuardReason[] {
  const { blockSeconds, safeVersion, agreeWithin } = chainOf(coin);
  const reasons: GuardReason[] = [];
  const add = (code: GuardCode, text: string) => reasons.push({ code, text });
  if (reorg && height < calmAt(coin, reorg)) add('deep_reorg', reorgText(coin, reorg));
  for (const reason of work) add('work', reason);
  // The reasons are public, so they do not name the operator's machines. Metrics and the log do.
  if (votes.some((vote) => !vote.agrees)) add('disagreement', `the sources of this chain differ by more than ${agreeWithin} blocks`);
  const [newest] = blockTimes;
  const age = newest ? now.getTime() - newest.getTime() : 0;
  if (age > Math.max(STALLED_SECONDS, STALLED_INTERVALS * blockSeconds) * 1000) add('stalled', `the last block is ${minutes(age)} old`);
  const first = blockTimes[SLOW_INTERVALS];
  if (newest && first) {
    const mean = (newest.getTime() - first.getTime()) / SLOW_INTERVALS;
    if (mean > SLOW_FACTOR * blockSeconds * 1000)
      add('slow', `the last ${SLOW_INTERVALS} blocks took ${minutes(mean)} each, ${minutes(blockSeconds * 1000)} are usual`);
  }
  if (safeVersion !== null && votes.some(({ version }) => version > 0 && version < safeVersion))
    add('old_version', `a node of this chain is older than version ${safeVersion}, the oldest known to be safe; it must be upgraded`);
  return reasons;
}

// Whether the operator runs a source of a chain, and whether what it shows is proven.

/**
 * `own`: the operator runs it. `proven`: others may run it, because every block that it shows is checked here. Either alone can complete
 * payments up to a small amount. `claimed`: its word is all there is, so it only answers lookups and gives hints.
 */
export type Trust = 'own' | 'proven' | 'claimed';
/** What operators say about a source. */
export const TRUST_SETTINGS = ['own', 'untrusted'] as const;
export type TrustSetting = (typeof TRUST_SETTINGS)[number];
/** `checked`: whether every block of the source is checked here. */
export const trustOf = (setting: TrustSetting, checked: boolean): Trust => (setting === 'own' ? 'own' : checked ? 'proven' : 'claimed');

const isPrivate = matchNetworks([
  ...['127.0.0.0/8', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '169.254.0.0/16', '100.64.0.0/10'],
  ...['::1/128', 'fc00::/7', 'fe80::/10'],
]);
/** Names that public name servers do not resolve: RFC 6761, 6762, 8375 and 9476, and those that routers use. */
const PRIVATE_SUFFIX = /\.(localhost|local|internal|lan|home\.arpa|alt)$/i;

/**
 * The trust of a source unless the operator sets it: `own` when the host is a loopback or private address, a name without a dot (as in
 * container networks) or a name of a local network. Names are judged as written and not by the address that they resolve to, because
 * every answer of a name server can change it.
 */
export function defaultTrust(url: string): TrustSetting {
  const host = new URL(url).hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
  if (isIP(host) !== 0) return isPrivate(host) ? 'own' : 'untrusted';
  return !host.includes('.') || PRIVATE_SUFFIX.test(host) ? 'own' : 'untrusted';
}
