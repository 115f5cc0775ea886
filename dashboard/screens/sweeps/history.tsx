/** The sweeps of the merchant with their states, the upload of signed files, and the transactions of one sweep. */
import { type ChangeEvent, lazy, Suspense, useRef, useState } from 'react';
import { COIN_KINDS } from '../../generated/api.ts';
import type { Reply } from '../../lib/api.ts';
import { base64Of } from '../../lib/base64.ts';
import { coinName } from '../../lib/coin.ts';
import { useAct, useApi, useList, useMay, useMode, useOpened } from '../../lib/hooks.ts';
import { say } from '../../lib/toasts.ts';
import { Button, RowButton } from '../../ui/button.tsx';
import { Ask, Drawer } from '../../ui/dialog.tsx';
import { Download } from '../../ui/download.tsx';
import { Note } from '../../ui/form.tsx';
import { ListCard } from '../../ui/list.tsx';
import { Signers } from '../../ui/signers.tsx';
import { Facts, Pending } from '../../ui/states.tsx';
import type { Column } from '../../ui/table.tsx';
import { Money, Time } from '../../ui/values.tsx';
import { type Sweep, SweepState } from './state.tsx';

const ShowCodes = lazy(() => import('./codes.tsx').then((module) => ({ default: module.ShowCodes })));
const Psbts = lazy(() => import('./psbts.tsx').then((module) => ({ default: module.Psbts })));
const ScanSigned = lazy(() => import('./codes.tsx').then((module) => ({ default: module.ScanSigned })));
/** The loop that follows sweeps sends no updates to dashboards. */
const EVERY_MS = 15_000;

const columnsOf = (open: (sweep: Sweep) => void): Column<Sweep>[] => [
  {
    name: 'Sweep',
    phone: 'title',
    cell: (sweep) => (
      <RowButton open={() => open(sweep)}>
        <Money amount={sweep.amount} currency={sweep.currency} />
        {sweep.purpose !== 'sweep' && <span className="font-normal"> ({sweep.purpose === 'refund' ? 'refunds' : 'payouts'})</span>}
      </RowButton>
    ),
  },
  { name: 'State', phone: 'corner', cell: (sweep) => <SweepState state={sweep.state} /> },
  { name: 'Fee, at most', cell: (sweep) => <Money amount={sweep.fee} currency={sweep.fee_currency} /> },
  { name: 'Transfers', cell: (sweep) => <span className="tabular-nums">{sweep.inputs}</span>, right: true },
  { name: 'Made', cell: (sweep) => <Time at={sweep.made_at} /> },
];

export function History() {
  const list = useList('GET /:mode/sweeps', ['sweeps', 'list'], {});
  const [shown, setShown] = useOpened('sweep');
  const may = useMay('sweeps.use');
  return (
    <section className="grid gap-3">
      <div className="flex flex-wrap items-center justify-between gap-3">
        <h2>Sweep history</h2>
        {may && <Upload onDone={setShown} />}
      </div>
      <ListCard
        label="Sweeps"
        list={list}
        columns={columnsOf(({ id }) => setShown(id))}
        none={{ title: 'No sweeps yet', words: 'Make a signing file above. It is listed here until its money arrives.' }}
        unmatched={null}
      />
      {shown !== null && <SweepDrawer id={shown} onClose={() => setShown(null)} />}
    </section>
  );
}

/** Wallets save signed PSBTs as bytes or as text. */
async function textOf(file: File): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  if (String.fromCharCode(...bytes.subarray(0, 5)) !== 'psbt\xff') return new TextDecoder().decode(bytes);
  return base64Of(bytes);
}

const missingIn = ({ required, signers }: NonNullable<Sweep['signatures']>): number =>
  required - signers.filter(({ has_signed: hasSigned }) => hasSigned).length;
const missingWords = (missing: number): string =>
  `${missing === 1 ? 'One more signer' : `${missing} more signers`} must download the file, which now has the signatures so far, and sign it.`;

/** Uploads or scans a signed file of any kind. */
export function Upload({ onDone }: { onDone: (id: string) => void }) {
  const input = useRef<HTMLInputElement>(null);
  const [isScanning, setScanning] = useState(false);
  const send = useAct('POST /:mode/sweeps/signed', { refreshes: [['sweeps']], quiet: true });
  const upload = (content: string) =>
    send.mutate(
      { body: { content } },
      {
        onSuccess: ({ sweep, is_known: isKnown }) => {
          const missing = sweep.state === 'made' && sweep.signatures ? missingIn(sweep.signatures) : 0;
          if (isKnown) say('This file was uploaded before.');
          else say(missing > 0 ? `The signature is correct. ${missingWords(missing)}` : 'The signed file is correct. It is being sent.');
          onDone(sweep.id);
        },
      },
    );
  const choose = async (event: ChangeEvent<HTMLInputElement>) => {
    const files = [...(event.target.files ?? [])];
    event.target.value = '';
    if (files.length === 0) return;
    // Wallets save each signed PSBT as a file of its own.
    upload((await Promise.all(files.map(textOf))).join('\n'));
  };
  return (
    <>
      <input
        ref={input}
        type="file"
        multiple
        aria-label="Signed file"
        className="sr-only"
        tabIndex={-1}
        onChange={(event) => void choose(event)}
      />
      <div className="flex flex-wrap gap-2">
        <Button disabled={send.isPending} onClick={() => setScanning(true)}>
          Scan signed transaction
        </Button>
        <Button busy={send.isPending} onClick={() => input.current?.click()}>
          Upload signed file
        </Button>
      </div>
      {isScanning && (
        <Suspense>
          <ScanSigned
            onClose={() => setScanning(false)}
            onContent={(content) => {
              setScanning(false);
              upload(content);
            }}
          />
        </Suspense>
      )}
      {send.error && (
        <div role="alert" className="w-full">
          <Note tone="bad">{send.error.message}</Note>
        </div>
      )}
    </>
  );
}

export function SweepDrawer({ id, onClose }: { id: string; onClose: () => void }) {
  const query = useApi('GET /:mode/sweeps/:id', ['sweeps', id], { params: { id } }, { everyMs: EVERY_MS });
  const { data } = query;
  return (
    <Drawer open onClose={onClose} title="Sweep">
      {!data ? (
        <Pending of={query} />
      ) : (
        <>
          <div>
            <SweepState state={data.sweep.state} />
          </div>
          {data.sweep.failure !== null && <Note tone="bad">{data.sweep.failure}</Note>}
          {data.sweep.state === 'made' && data.sweep.signatures && missingIn(data.sweep.signatures) < data.sweep.signatures.required && (
            <Note tone="info">{missingWords(missingIn(data.sweep.signatures))}</Note>
          )}
          <div className="rounded-xl border border-line">
            <Facts
              rows={[
                ['Coin', coinName(data.sweep.currency)],
                ['Amount', <Money key="amount" amount={data.sweep.amount} currency={data.sweep.currency} />],
                ['Fee, at most', <Money key="fee" amount={data.sweep.fee} currency={data.sweep.fee_currency} />],
                [
                  'Destination',
                  <code key="to" className="break-all">
                    {data.sweep.destination}
                  </code>,
                ],
                ...(data.sweep.signatures && data.sweep.state === 'made'
                  ? [['Signers', <Signers key="signers" {...data.sweep.signatures} />] as const]
                  : []),
                ['Made', <Time key="at" at={data.sweep.made_at} />],
                ['Made by', data.sweep.made_by],
                ['ID', <code key="id">{data.sweep.id}</code>],
              ]}
            />
          </div>
          <Transactions of={data.transactions} />
          <Acts sweep={data.sweep} />
        </>
      )}
    </Drawer>
  );
}

function Transactions({ of }: { of: Reply<'GET /:mode/sweeps/:id'>['transactions'] }) {
  if (of.length === 0) return null;
  return (
    <div className="grid gap-2">
      <h3 className="font-medium">Transactions</h3>
      <ul className="rounded-xl border border-line">
        {of.map(({ transaction_id: txid, explorer_url: url, sent_at: sentAt, block_height: height, refusal }) => (
          <li key={txid} className="grid gap-1 border-b border-line px-4 py-2.5 text-sm last:border-b-0">
            <span>
              <code className="text-xs break-all">{txid}</code>
              {url !== null && ((sentAt !== null && refusal === null) || height !== null) && (
                <a href={url} target="_blank" rel="noreferrer noopener" className="ml-2 underline">
                  Explorer<span className="sr-only"> (opens in a new tab)</span>
                </a>
              )}
            </span>
            <span className="text-soft">
              {height !== null ? (
                `In block ${height}`
              ) : sentAt !== null ? (
                <>
                  {refusal === null ? 'Sent' : 'Last tried'} <Time at={sentAt} />
                </>
              ) : (
                'Not sent yet'
              )}
            </span>
            {refusal !== null && <span className="text-bad">{refusal}</span>}
          </li>
        ))}
      </ul>
    </div>
  );
}

function Acts({ sweep: { id, state, currency } }: { sweep: Sweep }) {
  const mode = useMode();
  const may = useMay('sweeps.use');
  const [areCodesShown, setCodesShown] = useState(false);
  const [arePsbtsShown, setPsbtsShown] = useState(false);
  const isPsbt = COIN_KINDS[currency] === 'bitcoin';
  const [asked, setAsked] = useState(false);
  const cancel = useAct('POST /:mode/sweeps/:id/cancel', { refreshes: [['sweeps']], done: 'Sweep canceled.' });
  const replace = useAct('POST /:mode/sweeps/:id/replace', {
    refreshes: [['sweeps']],
    done: 'The file was made again with a higher fee. Download and sign it.',
  });
  const isWaiting = state === 'signed' || state === 'sent';
  if (!may || !(isWaiting || state === 'made')) return null;
  return (
    <div className="flex flex-wrap gap-2">
      <Download look={state === 'made' ? 'main' : 'plain'} href={`/dashboard/api/${mode}/sweeps/${id}/file`}>
        Download the file
      </Download>
      <Button onClick={() => setCodesShown(true)}>Show as QR codes</Button>
      {isPsbt && <Button onClick={() => setPsbtsShown(true)}>Sign with another wallet</Button>}
      {arePsbtsShown && (
        <Suspense>
          <Psbts id={id} onClose={() => setPsbtsShown(false)} />
        </Suspense>
      )}
      {areCodesShown && (
        <Suspense>
          <ShowCodes id={id} isPsbt={isPsbt} onClose={() => setCodesShown(false)} />
        </Suspense>
      )}
      {isWaiting && (
        <Button busy={replace.isPending} onClick={() => replace.mutate({ params: { id }, body: {} })}>
          Raise the fee
        </Button>
      )}
      {state === 'made' && (
        <Button look="danger" busy={cancel.isPending} onClick={() => setAsked(true)}>
          Cancel sweep
        </Button>
      )}
      <Ask
        open={asked}
        onClose={() => setAsked(false)}
        title="Cancel this sweep?"
        text="The signing file becomes invalid, and another file can move the same money."
        act="Cancel sweep"
        back="Close"
        danger
        onAct={() => {
          setAsked(false);
          cancel.mutate({ params: { id }, body: {} });
        }}
      />
    </div>
  );
}
