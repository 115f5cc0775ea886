/** What lies on deposit addresses, and why a part of it stays. */
import type { Reply } from '../../lib/api.ts';
import { Money } from '../../ui/values.tsx';

export type Holding = Reply<'GET /:mode/sweeps/overview'>['holdings'][number];

export const transfers = (count: number): string => (count === 1 ? '1 transfer' : `${count} transfers`);

/** What stays on its address, and why. */
export const Remains = ({ currency, remains }: { currency: string; remains: Holding['remains'] }) =>
  remains.length > 0 && (
    <ul aria-label="Stays" className="grid gap-1 text-sm text-soft">
      {remains.map(({ reason, text, transfers: count, amount }) => (
        <li key={reason}>
          <Money amount={amount} currency={currency} /> stays: {transfers(count)} {text}
        </li>
      ))}
    </ul>
  );
