/**
 * How many requests each endpoint gets at the same time, in memory. Failing, slow and new endpoints share half of the request slots, so
 * the other half is always free for those that respond. No merchant gets more than a quarter of all, and an eighth for such endpoints.
 */
import { type Due, FIRST_ROOM, type Room, type Share } from './queue.ts';

/** Concurrent requests to one endpoint that responds quickly: doubled after each success, halved after each failure. */
export const MOST_ROOM = 16;
/** A slower response does not raise the concurrency. */
export const SLOW_MS = 2_000;
/** The most endpoints a worker remembers. */
export const REMEMBERED = 10_000;
/** Endpoints looked at in one round, at least. */
const FEWEST_LANES = 32;

/** `underWay` counts failures until they are stored, so that the rows that they delay are not leased again before. */
export type Pace = { merchantId: string; underWay: number; allowed: number; suspect: boolean };
export type Paces = Map<string, Pace>;

/** A request to the endpoint starts. `failing`: what the database knows of an endpoint that this worker does not know yet. */
export function beginRequest(paces: Paces, { endpointId, merchantId, failing }: Pick<Due, 'endpointId' | 'merchantId' | 'failing'>): void {
  const pace = paces.get(endpointId) ?? { merchantId, underWay: 0, allowed: FIRST_ROOM, suspect: failing };
  paces.set(endpointId, pace);
  pace.underWay++;
}

/** A request ended: the endpoint gets more or fewer at the same time. Until a failure is stored, it counts as under way. */
export function endRequest(paces: Paces, endpointId: string, { failed, durationMs }: { failed: boolean; durationMs: number }): void {
  const pace = paces.get(endpointId)!;
  pace.suspect = failed || durationMs > SLOW_MS;
  pace.allowed = pace.suspect ? Math.max(1, pace.allowed >> 1) : Math.min(MOST_ROOM, pace.allowed * 2);
  if (!failed) pace.underWay--;
}

/** A failure was stored. */
export function storeFailure(paces: Paces, endpointId: string): void {
  paces.get(endpointId)!.underWay--;
}

/** Forgets endpoints without requests when there are too many. */
export function forgetIdle(paces: Paces): void {
  if (paces.size <= REMEMBERED) return;
  for (const [id, pace] of paces) if (pace.underWay === 0) paces.delete(id);
}

/** How much to lease while `running` of `concurrency` requests are under way; null when no slot is free. */
export function roomFor(
  paces: Paces,
  { running, concurrency }: { running: number; concurrency: number },
): {
  limit: number;
  suspectLimit: number;
  merchantLimit: number;
  merchantSuspectLimit: number;
  lanes: number;
  rooms: Room[];
  shares: Share[];
} | null {
  const limit = concurrency - running;
  if (limit <= 0) return null;
  let suspects = 0;
  const shares = new Map<string, Share>();
  for (const { merchantId, suspect, underWay } of paces.values()) {
    if (underWay === 0) continue;
    const share = shares.get(merchantId) ?? { merchantId, underWay: 0, suspects: 0 };
    shares.set(merchantId, share);
    share.underWay += underWay;
    if (!suspect) continue;
    share.suspects += underWay;
    suspects += underWay;
  }
  return {
    limit,
    suspectLimit: Math.max(0, Math.min(limit, (concurrency >> 1) - suspects)),
    lanes: Math.max(FEWEST_LANES, limit * 2),
    merchantLimit: Math.max(1, concurrency >> 2),
    merchantSuspectLimit: Math.max(1, concurrency >> 3),
    rooms: Array.from(paces, ([endpointId, { underWay, allowed, suspect }]) => ({ endpointId, underWay, allowed, suspect })),
    shares: [...shares.values()],
  };
}
