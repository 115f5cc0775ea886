/** One payout: what it sends and where to, and what a member can do with it. */
import { useApi } from '../../lib/hooks.ts';
import { Code } from '../../ui/code.tsx';
import { Drawer } from '../../ui/dialog.tsx';
import { Note } from '../../ui/form.tsx';
import { Facts, Pending } from '../../ui/states.tsx';
import { TestLabel } from '../../ui/values.tsx';
import { Acts, factsOf } from '../outgoing/acts.tsx';
import { PAYOUT_READS, type Payout, PayoutState } from './state.tsx';

/** The chain confirms it without the dashboard. */
const EVERY_MS = 15_000;

export function PayoutDrawer({ id, onClose }: { id: string; onClose: () => void }) {
  const query = useApi('GET /:mode/payouts/:id', ['payouts', id], { params: { id } }, { everyMs: EVERY_MS });
  const payout = query.data?.payout;
  return (
    <Drawer open onClose={onClose} title="Payout">
      {!payout ? (
        <Pending of={query} />
      ) : (
        <>
          <div className="flex flex-wrap gap-2">
            <PayoutState payout={payout} />
            <TestLabel />
          </div>
          {payout.failure !== null && <Note tone="bad">{payout.failure}</Note>}
          <div className="rounded-xl border border-line">
            <Facts rows={factsOf(payout, aboutOf(payout))} />
          </div>
          {payout.address !== null && (
            <div className="grid gap-2">
              <h3 className="font-medium">Address of the recipient</h3>
              <Code text={payout.address} label="Copy the address" />
            </div>
          )}
          <Acts of="payout" one={payout} refreshes={PAYOUT_READS} />
        </>
      )}
    </Drawer>
  );
}

const aboutOf = (payout: Payout): [string, React.ReactNode][] => [
  [
    'Reference',
    <span key="reference" className="break-all">
      {payout.payout_reference ?? '–'}
    </span>,
  ],
  ['Description', payout.description ?? '–'],
];
