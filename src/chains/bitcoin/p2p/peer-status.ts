/** The state of the connections to a network's peers: written by the process that has them, read by the others and by operators. */
import type { BitcoinFamily, Network } from '#core/coin';
import type { JoinedSource } from '../../chain-source.ts';

export type PeerPhase = 'connecting' | 'headers' | 'ready';
export type PeerReport = {
  coin: BitcoinFamily;
  network: Network;
  phase: PeerPhase;
  connected: number;
  relaying: number;
  /** The newest block of the header chain. */
  height: number;
  hash: string;
  parent: string;
  blockTime: Date;
  syncing: boolean;
  /** How much of the time since the checkpoint the header chain covers; 100 only when ready. */
  percent: number;
  /** Until the headers are read, at the speed so far; null: not known. */
  secondsLeft: number | null;
  /** Why no peer stays, as the end of a sentence; null while one does. */
  trouble: string | null;
  clockAheadSeconds: number | null;
  /** The lowest fee per 1,000 virtual bytes that most peers take; null while none says. The last one stays stored. */
  feeFloor: bigint | null;
  /** Since `startedAt`. */
  bytesIn: number;
  bytesOut: number;
  startedAt: Date;
};
export type StoredReport = PeerReport & { ageSeconds: number };

/** A process reports every few seconds: after this long it has stopped. */
export const STALE_SECONDS = 30;

/** The process that was connected to the peers has stopped, or none ever was. */
export const isStale = (report: StoredReport | undefined): boolean => report === undefined || report.ageSeconds > STALE_SECONDS;

/** What the peers of a chain are for: payments are read from them, or they are only compared with a node. */
export const purposeOfPeers = (chain: Pick<JoinedSource, 'watch'> | undefined): 'payments' | 'comparison' =>
  chain?.watch ? 'comparison' : 'payments';
/** What keeps peers that are compared with a node from it. */
export const explainComparison = (why: string): string => `the node cannot be compared with peers yet: ${why}`;

/** A rough duration in words. */
function aboutTime(seconds: number): string {
  if (seconds < 90) return 'about a minute';
  if (seconds < 5_400) return `about ${Math.round(seconds / 60)} minutes`;
  return `about ${Math.round(seconds / 3_600)} hours`;
}

/** How a source says that it waits for headers. */
export const SYNCING_HEADERS = 'syncing headers';
/** How far the headers are, as the end of a sentence. */
export const explainHeaders = (percent: number, secondsLeft: number | null): string =>
  `${SYNCING_HEADERS} ${percent}%${secondsLeft === null ? '' : `, ${aboutTime(secondsLeft)} left`}`;

/** What keeps payments from being detected over peers, as the end of a sentence; null when nothing does. */
export function explainReport({
  phase,
  connected,
  percent,
  secondsLeft,
  trouble,
}: Pick<PeerReport, 'phase' | 'connected' | 'percent' | 'secondsLeft' | 'trouble'>): string | null {
  const why = trouble === null ? '' : `; ${trouble}`;
  if (phase === 'headers') return `${explainHeaders(percent, secondsLeft)}${why}`;
  if (phase === 'connecting') return `connecting to peers${why}`;
  if (connected === 0) return `no peer is connected${why}`;
  return trouble === null ? null : `no peer stays connected${why}`;
}
