/** The state of a payout as people read it: the same states as those of a refund. */
import type { Reply } from '../../lib/api.ts';
import { Badge } from '../../ui/values.tsx';
import { STATES } from '../refunds/state.tsx';

export type Payout = Reply<'GET /:mode/payouts'>['data'][number];
export type Batch = Reply<'GET /:mode/payout-batches'>['data'][number];
/** What an act on a payout changes. */
export const PAYOUT_READS = [['payouts']] as const;

export function PayoutState({ payout: { status: state, approved_by: by } }: { payout: Payout }) {
  const { tone, icon, word } = STATES[state];
  return (
    <Badge tone={tone} icon={icon}>
      {state !== 'requested' ? word : by === null ? 'Needs approval' : 'Second approval needed'}
    </Badge>
  );
}

export const payouts = (count: number): string => (count === 1 ? '1 payout' : `${count} payouts`);
