/** One event stream per tab. Its events name the query keys whose data changed. It notices when nothing arrives any more. */
import { type QueryClient, useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import type { Mode } from '../generated/api.ts';
import { takeNewsMark } from './first-data.ts';
import { readAnew } from './read-anew.ts';
import { tellReached } from './trouble.ts';

/** The server sends a keep-alive every 15 seconds. A stream that brings none is dead, whatever the browser believes. */
const SILENCE_MS = 45_000;
/** A new stream speaks at once. */
const OPENING_MS = 10_000;
const WATCH_MS = 1_000;

let current: Stream | null = null;
/** Stops all requests of a session that is ending. */
export function stopReading(client: QueryClient): Promise<void> {
  current?.close();
  return client.cancelQueries();
}

type Stream = { close(): void };
/** `since`: up to when the data of the page includes changes; null when all of it may be older than the stream. */
function openStream(client: QueryClient, mode: Mode, since: string | null): Stream {
  let source: EventSource;
  let heardAt = 0;
  let patienceMs = OPENING_MS;
  const silenceMs = () => performance.now() - heardAt;
  const hear = () => {
    heardAt = performance.now();
    patienceMs = SILENCE_MS;
  };
  const open = (mark: string | null) => {
    // The server names what changed since the page was made. All other data may be older than that, or than the break in the stream.
    let isCurrent = mark !== null;
    heardAt = performance.now();
    patienceMs = OPENING_MS;
    source = new EventSource(`/dashboard/api/${mode}/stream${mark === null ? '' : `?since=${mark}`}`);
    source.addEventListener('refresh', ({ data }: MessageEvent<string>) => {
      hear();
      for (const key of JSON.parse(data) as string[]) void readAnew(client, [mode, key]);
    });
    source.addEventListener('alive', hear);
    source.addEventListener('open', () => {
      tellReached();
      if (!isCurrent) void readAnew(client);
      isCurrent = false;
    });
  };
  const openAnew = () => {
    source.close();
    open(null);
  };
  /** By how much the device's clock is ahead of the page's, which stands still while the device sleeps. */
  const lead = () => Date.now() - performance.now();
  let leadBefore = lead();
  const watch = () => {
    const slept = Math.abs(lead() - leadBefore) > 5_000;
    leadBefore = lead();
    if (slept || silenceMs() >= patienceMs) openAnew();
  };
  /** Whatever may have cost the page its connection: a stream that missed a keep-alive is not trusted. */
  const wake = () => {
    if (!document.hidden && silenceMs() > SILENCE_MS / 2) openAnew();
  };
  const restored = ({ persisted }: PageTransitionEvent) => persisted && openAnew();
  open(since);
  const timer = setInterval(watch, WATCH_MS);
  document.addEventListener('visibilitychange', wake);
  document.addEventListener('resume', wake);
  addEventListener('online', openAnew);
  addEventListener('pageshow', restored);
  return {
    close: () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', wake);
      document.removeEventListener('resume', wake);
      removeEventListener('online', openAnew);
      removeEventListener('pageshow', restored);
      source.close();
    },
  };
}

/** Keeps what is shown current while `wanted`. */
export function useNews(mode: Mode, wanted: boolean): void {
  const client = useQueryClient();
  useEffect(() => {
    if (!wanted) return;
    const stream = openStream(client, mode, takeNewsMark(mode));
    current = stream;
    return () => stream.close();
  }, [client, mode, wanted]);
}
