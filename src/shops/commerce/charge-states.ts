/**
 * What a shop learns about a charge: its timeline, whose last entry decides, and the events that lead to it. Pure. Money that arrives late
 * is unresolved until the merchant accepts it, and so is a completed charge while its money is reversed.
 */
import { type Exception, hasWrongCoin } from '../../core/payment.ts';
import { decided, type Standing } from '../standing.ts';

export const CHARGE_STATUSES = ['NEW', 'PENDING', 'COMPLETED', 'EXPIRED', 'CANCELED', 'UNRESOLVED', 'RESOLVED'] as const;
export type ChargeStatus = (typeof CHARGE_STATUSES)[number];
export const CHARGE_CONTEXTS = ['UNDERPAID', 'DELAYED', 'OTHER'] as const;
export type ChargeState = { status: Exclude<ChargeStatus, 'RESOLVED'>; context: (typeof CHARGE_CONTEXTS)[number] | null };
/** `time` as the protocol writes it. */
export type ChargeEntry = { status: ChargeStatus; context: ChargeState['context']; time: string };

export type ChargeEventType =
  | 'charge:created'
  | 'charge:pending'
  | 'charge:confirmed'
  | 'charge:failed'
  | 'charge:delayed'
  | 'charge:resolved';
/** An event with the timeline as it was then. */
export type ChargeEvent = { type: ChargeEventType; timeline: readonly ChargeEntry[] };

export function chargeState(payment: Standing): ChargeState {
  const has = (exception: Exception): boolean => payment.exceptions.includes(exception);
  const plain = (status: ChargeState['status']): ChargeState => ({ status, context: null });
  switch (payment.status) {
    case 'pending':
      return plain('NEW');
    case 'processing':
      return plain('PENDING');
    case 'completed':
      // The network took the money back: the order must not ship.
      return has('reorged') ? { status: 'UNRESOLVED', context: 'OTHER' } : plain('COMPLETED');
    case 'cancelled':
      return plain('CANCELED');
    case 'expired':
    case 'failed':
      if (has('late')) return { status: 'UNRESOLVED', context: 'DELAYED' };
      if (hasWrongCoin(payment.exceptions)) return { status: 'UNRESOLVED', context: 'OTHER' };
      // Not `RESOLVED`: plugins credit the order on it.
      if (decided(payment) === 'reject') return plain('CANCELED');
      if (has('underpaid')) return { status: 'UNRESOLVED', context: 'UNDERPAID' };
      return plain(payment.status === 'expired' ? 'EXPIRED' : 'CANCELED');
  }
}

const timeOf = (at: Date): string => `${at.toISOString().slice(0, 19)}Z`;
/** How many entries a timeline keeps: the first, and the last ones. */
const MOST_ENTRIES = 50;

type Moment = { createdAt: Date; now: Date };
/** The timeline as it is now, and an event for each step that leads there. What happened in between and is over is left out. */
export function chargeSince(
  known: readonly ChargeEntry[],
  payment: Standing,
  { createdAt, now }: Moment,
): { timeline: readonly ChargeEntry[]; events: ChargeEvent[] } {
  let timeline = known;
  const events: ChargeEvent[] = [];
  const add = (type: ChargeEventType, ...entries: ChargeEntry[]): void => {
    const all = [...timeline, ...entries];
    timeline = all.length > MOST_ENTRIES ? [all[0]!, ...all.slice(1 - MOST_ENTRIES)] : all;
    events.push({ type, timeline });
  };
  const entry = (status: ChargeStatus, context: ChargeState['context'] = null): ChargeEntry => ({ status, context, time: timeOf(now) });
  if (known.length === 0) add('charge:created', { ...entry('NEW'), time: timeOf(createdAt) });
  const last = timeline.at(-1)!;
  const { status, context } = chargeState(payment);
  const isReversed = payment.status === 'completed' && status === 'UNRESOLVED';
  // Plugins have delivered on `COMPLETED`: only a reversal follows. A charge is never new again: it stays pending when its money vanishes,
  // until its window ends.
  const isSame = last.status === status && last.context === context;
  if ((last.status === 'COMPLETED' && !isReversed) || status === 'NEW' || isSame) return { timeline, events };
  if (status === 'COMPLETED') {
    const isBack = timeline.some((one) => one.status === 'COMPLETED');
    if (last.status !== 'PENDING' && !isBack) add('charge:pending', entry('PENDING'));
    if (isBack || decided(payment) === 'accept') add('charge:resolved', entry('RESOLVED'), entry('COMPLETED'));
    else add('charge:confirmed', entry('COMPLETED'));
    return { timeline, events };
  }
  // Money is late after the charge expired, even if the shop was not notified in between.
  if (context === 'DELAYED' && (last.status === 'NEW' || last.status === 'PENDING')) add('charge:failed', entry('EXPIRED'));
  add(eventOf(status, context), entry(status, context));
  return { timeline, events };
}

/** The event that leads to a state that is not completed. */
function eventOf(status: ChargeStatus, context: ChargeState['context']): ChargeEventType {
  if (status === 'NEW') return 'charge:created';
  if (status === 'PENDING') return 'charge:pending';
  return context === 'DELAYED' ? 'charge:delayed' : 'charge:failed';
}

/** The event that says how the charge is now. */
export function currentEvent(timeline: readonly ChargeEntry[]): ChargeEvent {
  const { status, context } = timeline.at(-1)!;
  if (status !== 'COMPLETED') return { type: eventOf(status, context), timeline };
  return { type: timeline.at(-2)?.status === 'RESOLVED' ? 'charge:resolved' : 'charge:confirmed', timeline };
}
