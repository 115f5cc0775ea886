/** The state of a sweep as people read it. */
import type { Reply } from '../../lib/api.ts';
import type { IconName } from '../../ui/icon.tsx';
import { Badge, type Tone } from '../../ui/values.tsx';

export type Sweep = Reply<'GET /:mode/sweeps'>['data'][number];
const STATES: Readonly<Record<Sweep['state'], { tone: Tone; icon: IconName; word: string }>> = {
  made: { tone: 'warn', icon: 'clock', word: 'Waiting for signature' },
  signed: { tone: 'info', icon: 'check', word: 'Signed' },
  sent: { tone: 'info', icon: 'arrow', word: 'Sent' },
  confirmed: { tone: 'good', icon: 'check', word: 'Confirmed' },
  failed: { tone: 'bad', icon: 'alert', word: 'Failed' },
  canceled: { tone: 'calm', icon: 'cross', word: 'Canceled' },
};
export const SweepState = ({ state }: Pick<Sweep, 'state'>) => (
  <Badge tone={STATES[state].tone} icon={STATES[state].icon}>
    {STATES[state].word}
  </Badge>
);
