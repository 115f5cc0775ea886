/** Sweeps: what lies on deposit addresses, files to sign offline, signed files, and where the money goes. */
import { useState } from 'react';
import type { Reply } from '../../lib/api.ts';
import { coinName } from '../../lib/coin.ts';
import { useApi, useMay, useTitle } from '../../lib/hooks.ts';
import { Button, buttonClass } from '../../ui/button.tsx';
import { Code } from '../../ui/code.tsx';
import { Note } from '../../ui/form.tsx';
import { Card, Empty, Facts, Pending } from '../../ui/states.tsx';
import { CopyButton, Money } from '../../ui/values.tsx';
import { Destinations, destinationName } from './destinations.tsx';
import { History } from './history.tsx';
import { Make } from './make.tsx';
import { type Holding, Remains, transfers } from './remains.tsx';

type Overview = Reply<'GET /:mode/sweeps/overview'>;

export function Screen() {
  useTitle('Sweeps');
  const query = useApi('GET /:mode/sweeps/overview', ['sweeps', 'overview'], {});
  const { data } = query;
  return (
    <div className="grid gap-5">
      <div className="grid gap-1">
        <h1>Sweeps</h1>
        <p className="max-w-2xl text-soft">
          Move money from deposit addresses to one address of yours. Florin makes a file, you sign it on an offline computer, and Florin
          checks and sends it. The key never leaves that computer. <a href="/docs/guides/sweeping">Read the guide</a>
        </p>
      </div>
      {!data ? (
        <Card>
          <Pending of={query} />
        </Card>
      ) : (
        <>
          {data.test_seed !== null && <Rehearsal seed={data.test_seed} />}
          <Holdings holdings={data.holdings} />
          <Signer sha256={data.signer_sha256} />
          <History />
          {data.test_seed === null ? <Destinations overview={data} /> : <TestDestinations of={data.destinations} />}
        </>
      )}
    </div>
  );
}

function Holdings({ holdings }: { holdings: readonly Holding[] }) {
  const [making, setMaking] = useState<Holding | null>(null);
  return (
    <Card title="On deposit addresses">
      {holdings.length === 0 ? (
        <Empty title="Nothing to move">
          Money that customers pay to your deposit addresses is listed here until you move it. Money in an open file is not listed.
        </Empty>
      ) : (
        <ul>
          {holdings.map((holding) => (
            <HoldingRow key={`${holding.wallet} ${holding.currency}`} holding={holding} onMake={() => setMaking(holding)} />
          ))}
        </ul>
      )}
      {making && <Make holding={making} onClose={() => setMaking(null)} />}
    </Card>
  );
}

function HoldingRow({ holding, onMake }: { holding: Holding; onMake: () => void }) {
  const may = useMay('sweeps.use');
  const { currency, amount, addresses, remains } = holding;
  const isReady = holding.transfers > 0;
  return (
    <li className="grid gap-2 border-b border-line px-4 py-3 last:border-b-0">
      <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-2">
        <div className="min-w-0">
          <h3 className="font-medium">
            {coinName(currency)}
            {!holding.is_wallet_active && <span className="font-normal text-soft"> (previous key)</span>}
          </h3>
          <p className="text-sm text-soft">
            {isReady ? (
              <>
                <Money amount={amount} currency={currency} className="text-ink" /> can be moved: {transfers(holding.transfers)} on{' '}
                {addresses === 1 ? '1 address' : `${addresses} addresses`}
              </>
            ) : (
              'Nothing can be moved now'
            )}
          </p>
        </div>
        {may && isReady && (
          <Button look="main" disabled={!holding.has_destination} onClick={onMake}>
            Make a signing file<span className="sr-only"> for {coinName(currency)}</span>
          </Button>
        )}
      </div>
      {isReady && !holding.has_destination && <p className="text-sm text-warn">Set a destination for it below first.</p>}
      <Remains currency={currency} remains={remains} />
    </li>
  );
}

/** What a rehearsal needs instead of a seed and an address of the merchant's own. */
const Rehearsal = ({ seed }: { seed: string }) => (
  <Card title="Rehearse signing">
    <div className="grid gap-3 p-4 text-sm">
      <p className="max-w-2xl text-soft">
        Test payments can be moved like real ones, on simulated networks. Make a file, sign it with the offline signer, and upload it. As
        seed phrase, enter this published example:
      </p>
      <Code text={seed} label="Copy the test seed" />
      <Note tone="warn">Everybody knows this seed. Never send real money to an address of it.</Note>
    </div>
  </Card>
);

const TestDestinations = ({ of }: { of: Overview['destinations'] }) => (
  <Card title="Test destinations">
    <p className="border-b border-line px-4 py-3 text-sm text-soft">
      Rehearsals go to these addresses of the simulated networks. In the signer, enter the one of the coin under <b>Your own address</b>.
    </p>
    <Facts
      rows={of.flatMap(({ currency, current }) =>
        current ? [[destinationName(currency), <CopyText key={currency} text={current.address} />] as const] : [],
      )}
    />
  </Card>
);
const CopyText = ({ text }: { text: string }) => (
  <span className="inline-flex min-w-0 items-center gap-2">
    <code className="break-all">{text}</code> <CopyButton value={text} label="Copy the address" />
  </span>
);

function Signer({ sha256 }: { sha256: string | null }) {
  return (
    <Card title="Offline signer">
      <div className="grid gap-3 p-4 text-sm">
        <p className="max-w-2xl text-soft">
          One page that works without a network. Download it once, compare its SHA-256, copy it to the computer where you sign, and open it
          there together with the signing file.
        </p>
        <div>
          <a href="/signer.html" download="signer.html" className={buttonClass()}>
            Download the signer
          </a>
        </div>
        {sha256 === null ? (
          <Note tone="info">The signer is being built. Reload this page in a minute to see its SHA-256.</Note>
        ) : (
          <p className="min-w-0">
            SHA-256 <code className="break-all">{sha256}</code> <CopyButton value={sha256} label="Copy the SHA-256" />
          </p>
        )}
      </div>
    </Card>
  );
}
