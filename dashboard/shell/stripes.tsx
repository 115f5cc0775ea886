/** Banners above all screens: no connection, or too many requests. */
import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { readAnew } from '../lib/read-anew.ts';
import { useStore } from '../lib/store.ts';
import { tellOffline, tellReached, trouble } from '../lib/trouble.ts';

export function Stripes() {
  const { offline, waitUntil } = useStore(trouble);
  const client = useQueryClient();
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const back = () => {
      tellReached();
      void readAnew(client);
    };
    addEventListener('offline', tellOffline);
    addEventListener('online', back);
    return () => {
      removeEventListener('offline', tellOffline);
      removeEventListener('online', back);
    };
  }, [client]);
  useEffect(() => {
    if (waitUntil === null) return;
    setNow(Date.now());
    const timer = setInterval(() => {
      setNow(Date.now());
      if (Date.now() < waitUntil) return;
      trouble.set({ ...trouble.get(), waitUntil: null });
      void readAnew(client);
    }, 500);
    return () => clearInterval(timer);
  }, [waitUntil, client]);
  const seconds = waitUntil === null ? 0 : Math.ceil((waitUntil - now) / 1_000);
  if (!offline && seconds <= 0) return null;
  const words = 'border-b border-line px-4 py-1.5 text-center text-sm font-medium';
  return (
    <aside aria-label="Connection">
      {offline && (
        <p role="status" className={`${words} bg-bad-wash text-bad`}>
          Can’t reach the server. What you see may be out of date. Reconnecting…
        </p>
      )}
      {seconds > 0 && (
        <p className={`${words} bg-warn-wash text-warn`}>
          Too many requests. Retrying in <span className="tabular-nums">{seconds}</span> s.
        </p>
      )}
    </aside>
  );
}
