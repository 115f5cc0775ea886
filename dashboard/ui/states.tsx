/** Placeholders for data: loading, empty, failed. */
import { type ReactNode, useEffect, useState } from 'react';
import { ApiError } from '../lib/api.ts';
import { Button } from './button.tsx';
import { CopyButton } from './values.tsx';

/** A skeleton of the final height. Appears only after 150 ms. */
export const Skeleton = ({ lines = 8 }: { lines?: number }) => (
  <div className="late grid gap-3 p-4" aria-hidden="true">
    {Array.from({ length: lines }, (_, i) => (
      // biome-ignore lint/suspicious/noArrayIndexKey: all alike
      <div key={i} className="h-5 animate-pulse rounded bg-raised" />
    ))}
  </div>
);

/** An empty state: why there is nothing, and the next step. */
export const Empty = ({ title, children }: { title: string; children?: ReactNode }) => (
  <div className="grid justify-items-center gap-3 px-6 py-16 text-center">
    <p className="font-medium">{title}</p>
    <div className="words max-w-md text-soft">{children}</div>
  </div>
);

/** An error with its type, message, request ID and a retry button, which counts down after too many requests. */
export function ErrorCard({ error, onRetry }: { error: Error; onRetry?: () => void }) {
  const api = error instanceof ApiError ? error : null;
  const [wait, setWait] = useState(api?.retryAfter ?? 0);
  useEffect(() => {
    if (wait <= 0) return;
    const timer = setTimeout(() => setWait(wait - 1), 1_000);
    return () => clearTimeout(timer);
  }, [wait]);
  return (
    <div role="alert" className="m-4 grid gap-2 rounded-lg border border-line bg-bad-wash p-4 text-sm">
      <p className="font-medium text-bad">
        {api?.type === 'offline' ? 'Offline' : (api?.type.replaceAll('_', ' ') ?? 'Something went wrong')}
      </p>
      <p className="text-ink">{error.message}</p>
      {api?.requestId && (
        <p className="flex items-center gap-1 text-ink">
          Request <code className="break-all">{api.requestId}</code>
          <CopyButton value={api.requestId} label="Copy request ID" />
        </p>
      )}
      {onRetry && (
        <div>
          <Button onClick={onRetry} disabled={wait > 0}>
            {wait > 0 ? `Try again in ${wait} s` : 'Try again'}
          </Button>
        </div>
      )}
    </div>
  );
}

/** A skeleton while data loads, or the error with a retry button. */
export const Pending = ({ of, lines = 8 }: { of: { error: Error | null; refetch: () => unknown }; lines?: number }) =>
  of.error ? <ErrorCard error={of.error} onRetry={() => void of.refetch()} /> : <Skeleton lines={lines} />;

/** A card. It clips without a scroll container of its own, so that table heads stay in view. */
export const Card = ({ title, action, children }: { title?: string; action?: ReactNode; children: ReactNode }) => (
  <section className="overflow-clip rounded-xl border border-line bg-card">
    {title !== undefined && (
      <div className="flex min-h-12 items-center justify-between gap-4 border-b border-line px-4 py-2">
        <h2>{title}</h2>
        {action}
      </div>
    )}
    {children}
  </section>
);
/** Names and values, one per row. */
export const Facts = ({ rows }: { rows: readonly (readonly [string, ReactNode])[] }) => (
  <dl className="grid">
    {rows.map(([name, value]) => (
      <div
        key={name}
        className="flex flex-wrap items-baseline justify-between gap-x-6 border-b border-line px-4 py-2.5 text-sm last:border-b-0"
      >
        <dt className="text-soft">{name}</dt>
        <dd className="min-w-0 text-right wrap-anywhere">{value}</dd>
      </div>
    ))}
  </dl>
);
