/** The event catalogue: types, when they are sent, and the one shape of `data`. */
import type { Mode } from './coin.ts';

export const EVENT_TYPES = [
  'payment.created',
  'payment.processing',
  'payment.completed',
  'payment.failed',
  'payment.expired',
  'payment.cancelled',
] as const;
/** Additive; goes only to endpoints that name it. */
export const UPDATED_EVENT = 'payment.updated';
export const TEST_EVENT = 'webhook.test';
export type EventType = (typeof EVENT_TYPES)[number] | typeof UPDATED_EVENT;

export const API_VERSION = '2026-11-01';

/** Wire body of an event; its bytes are frozen when it is recorded. */
export type EventBody = {
  id: string;
  type: string;
  created_at: string;
  mode: Mode;
  api_version: string;
  data: Record<string, unknown>;
};

/** Whether an endpoint that subscribed to `wanted` receives `type`: `*` means the six documented types. */
export function wantsEvent(wanted: readonly string[], type: string): boolean {
  return wanted.includes(type) || (wanted.includes('*') && (EVENT_TYPES as readonly string[]).includes(type));
}
