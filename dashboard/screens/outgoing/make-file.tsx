/** Makes a signing file of the approved refunds or payouts in one coin, and downloads it. */
import { type FormEvent, useState } from 'react';
import type { Reply } from '../../lib/api.ts';
import { coinOptions } from '../../lib/coin.ts';
import { useAct, useApi, useMay, useMode } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, Foot } from '../../ui/dialog.tsx';
import { Download } from '../../ui/download.tsx';
import { Choice, ErrorNote, Note } from '../../ui/form.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { Money } from '../../ui/values.tsx';
import { payouts } from '../payouts/state.tsx';
import { REFUND_READS } from '../refunds/refund.tsx';

const KINDS = {
  refund: {
    ready: 'GET /:mode/refund-files/coins',
    make: 'POST /:mode/refund-files',
    refreshes: REFUND_READS,
    count: (paid: number) => (paid === 1 ? '1 refund' : `${paid} refunds`),
    words:
      'The file pays up to 20 approved refunds from deposit addresses. What is left of BTC, LTC, DOGE or DASH goes to your destination for sweeps; what is left of ETH or a token stays on the deposit address.',
  },
  payout: {
    ready: 'GET /:mode/payout-files/coins',
    make: 'POST /:mode/payout-files',
    refreshes: [['payouts']],
    count: payouts,
    words:
      'The file pays up to 100 approved payouts from deposit addresses. What is left of BTC, LTC, DOGE or DASH goes to your destination for sweeps; what is left of ETH or a token stays on the deposit address.',
  },
} as const;
type Kind = keyof typeof KINDS;
type FileCoin = Reply<(typeof KINDS)[Kind]['ready']>['coins'][number];

/** Shown while there are approved refunds or payouts that can be signed offline. */
export function MakeFile({ of }: { of: Kind }) {
  const may = useMay('sweeps.use');
  const coins = useApi(KINDS[of].ready, [`${of}s`, 'ready'], {}).data?.coins ?? [];
  const [open, setOpen] = useState(false);
  if (!may || (coins.length === 0 && !open)) return null;
  return (
    <>
      <Button look="main" onClick={() => setOpen(true)}>
        Make a signing file
      </Button>
      {open && <Make of={of} coins={coins} onClose={() => setOpen(false)} />}
    </>
  );
}

function Make({ of, coins, onClose }: { of: Kind; coins: readonly FileCoin[]; onClose: () => void }) {
  const [coin, setCoin] = useState<FileCoin>(coins[0] ?? 'BTC');
  const make = useAct(KINDS[of].make, { refreshes: [...KINDS[of].refreshes, ['sweeps']], quiet: true });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    make.mutate({ body: { currency: coin } });
  };
  if (make.data) return <Ready of={of} made={make.data} onClose={onClose} />;
  return (
    <Dialog open onClose={onClose} title="Make a signing file">
      <form onSubmit={submit} className="grid gap-4">
        <p className="text-sm text-soft">{KINDS[of].words}</p>
        <Choice label="Coin" options={coinOptions(coins)} value={coin} onChange={(event) => setCoin(event.target.value as FileCoin)} />
        <ErrorNote error={make.error} />
        <Foot onBack={onClose}>
          <Button type="submit" look="main" busy={make.isPending}>
            Make the file
          </Button>
        </Foot>
      </form>
    </Dialog>
  );
}

function Ready({ of, made, onClose }: { of: Kind; made: Reply<'POST /:mode/refund-files'>; onClose: () => void }) {
  const mode = useMode();
  return (
    <Dialog open onClose={onClose} title="The signing file is ready">
      <p className="text-sm">
        It pays {KINDS[of].count(made.paid)}, for a fee of up to <Money amount={made.fee} currency={made.fee_currency} />. Sign it with the
        offline signer, then upload the signed file under{' '}
        {of === 'payout' ? <ModeLink to="payouts">Payouts</ModeLink> : <ModeLink to="sweeps">Sweeps</ModeLink>}.
      </p>
      {made.left.length > 0 && (
        <Note tone="warn">
          {made.left.map(({ id, reason }) => (
            <p key={id} className="break-words">
              Not in it: {id}, because {reason}.
            </p>
          ))}
        </Note>
      )}
      <Foot onBack={onClose} back="Close">
        <Download look="main" href={`/dashboard/api/${mode}/sweeps/${made.file}/file`}>
          Download the file
        </Download>
      </Foot>
    </Dialog>
  );
}
