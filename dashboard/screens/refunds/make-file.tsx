/** Makes a signing file of the approved refunds in one coin, and downloads it. */
import { type FormEvent, useState } from 'react';
import { COINS, type Coin } from '../../generated/api.ts';
import type { Reply } from '../../lib/api.ts';
import { coinOptions, partsOf } from '../../lib/coin.ts';
import { useAct, useApi, useMay, useMode } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, Foot } from '../../ui/dialog.tsx';
import { Download } from '../../ui/download.tsx';
import { Choice, ErrorNote, Note } from '../../ui/form.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { Money } from '../../ui/values.tsx';
import { REFUND_READS } from './refund.tsx';

/** Shown in live mode while approved refunds wait that can be signed offline. */
export function MakeFile() {
  const may = useMay('sweeps.use');
  const mode = useMode();
  const ready = useApi('GET /:mode/refund-files/coins', ['refunds', 'ready'], {}).data?.coins ?? [];
  const [open, setOpen] = useState(false);
  const coins = SIGNED.filter((coin) => ready.some((other) => other === coin));
  if (mode !== 'live' || !may || (coins.length === 0 && !open)) return null;
  return (
    <>
      <Button look="main" onClick={() => setOpen(true)}>
        Make a signing file
      </Button>
      {open && <Make coins={coins} onClose={() => setOpen(false)} />}
    </>
  );
}
/** Coins whose refunds can be signed offline. */
const ASSETS = ['BTC', 'LTC', 'DOGE', 'DASH', 'USDC', 'EURC', 'PYUSD', 'USDT0'];
const SIGNED: readonly Coin[] = COINS.filter((coin) => ASSETS.includes(partsOf(coin).asset));

function Make({ coins, onClose }: { coins: readonly Coin[]; onClose: () => void }) {
  const [coin, setCoin] = useState<Coin>(coins[0] ?? 'BTC');
  const make = useAct('POST /:mode/refund-files', { refreshes: [...REFUND_READS, ['sweeps']], quiet: true });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    make.mutate({ body: { currency: coin } });
  };
  if (make.data) return <Ready made={make.data} onClose={onClose} />;
  return (
    <Dialog open onClose={onClose} title="Make a signing file">
      <form onSubmit={submit} className="grid gap-4">
        <p className="text-sm text-soft">
          The file pays up to 20 approved refunds from deposit addresses. What is left of BTC, LTC, DOGE or DASH goes to your destination
          for sweeps; what is left of a token stays on the deposit address.
        </p>
        <Choice label="Coin" options={coinOptions(coins)} value={coin} onChange={(event) => setCoin(event.target.value as Coin)} />
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

function Ready({ made, onClose }: { made: Reply<'POST /:mode/refund-files'>; onClose: () => void }) {
  const mode = useMode();
  return (
    <Dialog open onClose={onClose} title="The signing file is ready">
      <p className="text-sm">
        It pays {made.refunds === 1 ? '1 refund' : `${made.refunds} refunds`}, for a fee of{' '}
        <Money amount={made.fee} currency={made.fee_currency} />. Sign it with the offline signer, then upload the signed file under{' '}
        <ModeLink to="sweeps">Sweeps</ModeLink>.
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
