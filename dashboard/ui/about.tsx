/** What US dollars are worth in the currency that the merchant chose. Nothing where it is US dollars, or where no rate is known. */
import { aboutText } from '../lib/amount.ts';
import { useMe } from '../lib/hooks.ts';

export function About({ usd, className = '' }: { usd: string; className?: string }) {
  const display = useMe()?.display ?? null;
  if (display === null) return null;
  return (
    <span
      className={`text-soft tabular-nums whitespace-nowrap ${className}`}
      title={`Approximate, at the current rate: $1 = ${display.rate} ${display.currency}`}
    >
      {aboutText(usd, display)}
    </span>
  );
}
