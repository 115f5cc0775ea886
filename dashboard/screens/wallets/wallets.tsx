/** A card for each coin: whether it can be paid now, where its money goes, which address is next, and pending changes. */

import { useState } from 'react';
import { type Coin, NETWORK_NAMES } from '../../generated/api.ts';
import type { Reply } from '../../lib/api.ts';
import { coinName } from '../../lib/coin.ts';
import { useAct, useApi, useMay, useMode, useTitle } from '../../lib/hooks.ts';
import { listText } from '../../lib/language.ts';
import { Button, buttonClass } from '../../ui/button.tsx';
import { Ask } from '../../ui/dialog.tsx';
import { Note } from '../../ui/form.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { MissingList, ReadinessBadge } from '../../ui/missing.tsx';
import { Signers } from '../../ui/signers.tsx';
import { Card, Empty, Facts, Pending } from '../../ui/states.tsx';
import { Badge, Money, Time } from '../../ui/values.tsx';
import { LightningCard } from './lightning.tsx';
import { Policy } from './policy.tsx';
import { Tokens } from './tokens.tsx';
import { Undecided } from './undecided.tsx';
import { SCRIPT_WORDS } from './words.ts';

type Wallets = Reply<'GET /:mode/wallets'>;
type Wallet = Wallets['wallets'][number];

export function Screen() {
  useTitle('Wallets');
  const mode = useMode();
  const query = useApi('GET /:mode/wallets', ['wallets'], {});
  const { data } = query;
  return (
    <div className="grid gap-5">
      <div className="grid gap-1">
        <h1>Wallets</h1>
        <p className="max-w-2xl text-soft">
          Payments go straight to your own wallets. Florin stores public keys only: it can create addresses and detect payments, but it can
          never spend.
        </p>
      </div>
      {!data ? (
        <Card>
          <Pending of={query} />
        </Card>
      ) : mode === 'test' ? (
        <>
          <Card>
            <Empty title="Test mode needs no wallet">
              Test payments use simulated addresses, so no real money can be sent. Set up your wallets in{' '}
              <a href="/dashboard/live/wallets">live mode</a>.
            </Empty>
          </Card>
          <Tokens tokens={data.tokens} wallets={null} />
        </>
      ) : (
        <>
          <Standing wallets={data.wallets} lightning={data.lightning} />
          <div className="grid items-start gap-4 lg:grid-cols-2">
            {data.wallets
              .filter((wallet) => !isAddable(wallet))
              .toSorted((a, b) => Number(a.state === 'not_set') - Number(b.state === 'not_set'))
              .map((wallet) => (
                <WalletCard key={wallet.currency} wallet={wallet} />
              ))}
            {data.lightning && <LightningCard wallets={data} />}
            <Addable wallets={data.wallets.filter(isAddable)} />
            {!data.lightning && <LightningCard wallets={data} />}
          </div>
          {data.tokens.length > 0 && <Tokens tokens={data.tokens} wallets={data.wallets} />}
          <HowChangesWork wallets={data} />
        </>
      )}
    </div>
  );
}

/** Without a key, and without one that waits. */
const isAddable = ({ state, waiting }: Wallet): boolean => state === 'not_set' && waiting === null;

/** The coins that have no wallet yet. */
function Addable({ wallets }: { wallets: readonly Wallet[] }) {
  const may = useMay('wallets.change');
  if (wallets.length === 0) return null;
  return (
    <Card title="Not set up">
      {wallets.some((wallet) => wallet.first_key_waits) && (
        <p className="border-b border-line px-4 py-3 text-sm text-soft">
          You already accept another currency, so the key you add takes effect after 24 hours, or when a second owner confirms it.
        </p>
      )}
      <ul>
        {wallets.map(({ currency, readiness: { missing } }, i) => (
          <li key={currency} className="flex flex-wrap items-center gap-x-4 gap-y-2 border-b border-line px-4 py-3 last:border-b-0">
            <div className="min-w-0 flex-1">
              <h3 className="font-medium">{coinName(currency)}</h3>
              <p className="text-sm text-soft">
                {missing.some(({ code }) => code === 'source_missing') ? 'Needs a wallet and a source' : 'Needs a wallet'}
              </p>
            </div>
            {may && (
              <ModeLink to={`wallets/${currency}`} className={buttonClass(i === 0 ? 'main' : 'plain')}>
                Set up {coinName(currency)}
              </ModeLink>
            )}
          </li>
        ))}
      </ul>
    </Card>
  );
}

/** Whether live payments can be paid right now, before the cards say why for each coin. */
function Standing({ wallets, lightning }: { wallets: readonly Wallet[]; lightning: Wallets['lightning'] }) {
  const names = [
    ...wallets.filter(({ readiness }) => readiness.payable).map(({ currency }) => coinName(currency)),
    ...(lightning !== null && !lightning.away ? [NETWORK_NAMES.lightning] : []),
  ];
  if (names.length > 0)
    return (
      <Note tone="good" icon="check">
        Customers can pay with {listText(names)} now.
      </Note>
    );
  return wallets.every(({ state }) => state === 'not_set') ? (
    <Note tone="info" icon="wallet">
      You can’t take live payments yet: no wallet is set up. Start with one currency; it takes about three minutes.
    </Note>
  ) : (
    <Note tone="warn">You can’t take live payments right now. Each currency below shows what is missing.</Note>
  );
}

/** Whether a payment in it would succeed now, and whether a change is pending. */
function State({ wallet: { state, readiness, waiting } }: { wallet: Wallet }) {
  return (
    <span className="flex flex-wrap justify-end gap-1.5">
      <ReadinessBadge readiness={readiness} />
      {waiting && (
        <Badge tone="warn" icon="clock">
          {state === 'not_set' ? 'Starts soon' : 'Change pending'}
        </Badge>
      )}
    </span>
  );
}

function WalletCard({ wallet }: { wallet: Wallet }) {
  const may = useMay('wallets.change');
  const { currency, state } = wallet;
  const name = coinName(currency);
  if (state === 'not_set')
    return (
      <Card title={name} action={<State wallet={wallet} />}>
        <div className="grid gap-3 p-4">
          <p className="text-sm text-soft">
            Customers can’t choose {name} until the key takes effect
            {wallet.readiness.missing.some(({ code }) => code === 'source_missing') ? ' and you connect a source for it' : ''}.
          </p>
          <Waiting wallet={wallet} />
        </div>
      </Card>
    );
  return (
    <Card title={name} action={<State wallet={wallet} />}>
      <Facts
        rows={[
          [
            'Total received',
            <span key="received">
              {!wallet.amount_received_is_all && 'at least '}
              <Money amount={wallet.amount_received} currency={currency} />
            </span>,
          ],
          ['Last deposit', <Time key="last" at={wallet.last_deposit_at} />],
          // Each signer has one.
          ...(wallet.signers
            ? []
            : [
                [
                  'Account key',
                  <code key="key" className="break-all">
                    {wallet.key}
                  </code>,
                ] as const,
              ]),
          ...(wallet.fingerprint ? [['Fingerprint', <code key="print">{wallet.fingerprint}</code>] as const] : []),
          ...(wallet.signers ? [['Signers', <Signers key="signers" {...wallet.signers} />] as const] : []),
          ['Address type', wallet.script ? SCRIPT_WORDS[wallet.script] : '–'],
          [
            'Next address',
            <span key="next" className="tabular-nums">
              #{wallet.next_index}
            </span>,
          ],
          [
            'Most unpaid addresses in a row',
            <span key="gap" className="tabular-nums">
              {!wallet.amount_received_is_all && 'at least '}
              {wallet.unused_run}
            </span>,
          ],
          ...(wallet.gap_limit === null ? [] : [['Gap limit to set in your wallet', String(wallet.gap_limit)] as const]),
          ...(wallet.former_keys > 0 ? [['Previous keys, still monitored', String(wallet.former_keys)] as const] : []),
        ]}
      />
      <div className="grid gap-3 border-t border-line p-4">
        {wallet.readiness.missing.length > 0 && <MissingList missing={wallet.readiness.missing} label={`What ${name} still needs`} />}
        {wallet.gap_limit !== null && wallet.unused_run >= wallet.usual_gap_limit && (
          <Note tone="warn">
            Most wallets look only {wallet.usual_gap_limit} addresses ahead, so yours may not show later payments. Your money is safe: set
            the gap limit in your wallet to {wallet.gap_limit} and rescan.
          </Note>
        )}
        {wallet.signers && <Policy currency={currency} />}
        <Waiting wallet={wallet} />
        {may && <Acts wallet={wallet} />}
      </div>
    </Card>
  );
}

function Acts({ wallet: { currency, state } }: { wallet: Wallet }) {
  const [asked, setAsked] = useState(false);
  const name = coinName(currency);
  const pause = useAct('POST /:mode/wallets/:currency/state', {
    refreshes: [['wallets']],
    done: state === 'active' ? `${name} paused.` : `${name} resumed.`,
  });
  const set = (paused: boolean) => pause.mutate({ params: { currency }, body: { paused } });
  return (
    <div className="flex flex-wrap gap-2">
      <ModeLink to={`wallets/${currency}`} className={buttonClass()}>
        Change key
      </ModeLink>
      {state === 'active' ? (
        <Button look="danger" busy={pause.isPending} onClick={() => setAsked(true)}>
          Pause
        </Button>
      ) : (
        <Button look="main" busy={pause.isPending} onClick={() => set(false)}>
          Resume
        </Button>
      )}
      <Ask
        open={asked}
        onClose={() => setAsked(false)}
        title={`Pause ${name}?`}
        text={`Customers can no longer choose ${name}. Payments to addresses that were already shown still count.`}
        act="Pause"
        danger
        onAct={() => {
          setAsked(false);
          set(true);
        }}
      />
    </div>
  );
}

/** A new key that has not taken effect. */
function Waiting({ wallet: { currency, state, waiting } }: { wallet: Wallet }) {
  const mayConfirm = useMay('wallets.confirm');
  const mayDrop = useMay('wallets.change');
  const confirm = useAct('POST /:mode/wallets/:currency/change/confirm', { refreshes: [['wallets']], done: 'The new key is active.' });
  const drop = useAct('POST /:mode/wallets/:currency/change/drop', { refreshes: [['wallets']], done: 'The new key was discarded.' });
  if (!waiting) return null;
  const options = { params: { currency: currency as Coin }, body: {} };
  return (
    <Undecided
      title="A new key is pending."
      asked={waiting}
      what={
        <>
          the key <code className="break-all">{waiting.key}</code>
        </>
      }
      keep={state === 'not_set' ? 'Discard this key' : 'Keep the current key'}
      confirm={mayConfirm && !waiting.asked_by_me ? { busy: confirm.isPending, act: () => confirm.mutate(options) } : null}
      drop={mayDrop ? { busy: drop.isPending, act: () => drop.mutate(options) } : null}
    />
  );
}

function HowChangesWork({ wallets: { owners, wait_hours: hours, wait_off: off } }: { wallets: Wallets }) {
  return (
    <Card title="Changing a key">
      <div className="grid gap-2 p-4 text-sm text-soft">
        <p>
          Your first key is active immediately. {off?.is_off ? 'You can require a wait of' : 'There is a wait of'} {hours} hours before a
          key replaces another one, or before another currency gets its first key once you accept payments. It gives you time to notice a
          key that someone else added.{' '}
          {owners > 1
            ? `A second owner can confirm the key sooner, but not the person who added it or anyone who became an owner in the last ${hours} hours.`
            : 'A second owner can confirm the key sooner. Your business has one owner; the operator of this service can set a key immediately on the command line.'}
        </p>
        <p>Addresses of the previous key stay monitored: payments to them still count.</p>
        <Wait hours={hours} off={off} />
      </div>
    </Card>
  );
}

/** Whether changed keys wait. It turns on immediately, and turns off after the same wait. */
function Wait({ hours, off }: { hours: number; off: Wallets['wait_off'] }) {
  const may = useMay('wallets.wait');
  const [asking, setAsking] = useState(false);
  const set = useAct('POST /:mode/wallets/wait', { refreshes: [['wallets']], ...(off && { done: 'New keys wait again.' }) });
  const confirm = useAct('POST /:mode/wallets/wait/confirm', { refreshes: [['wallets']], done: 'New keys are active immediately.' });
  const on = { busy: set.isPending, act: () => set.mutate({ body: { waits: true } }) };
  if (off && !off.is_off)
    return (
      <Undecided
        title="The wait will be turned off."
        asked={off}
        what="new keys to be active immediately"
        keep="Keep the wait"
        confirm={may && !off.asked_by_me ? { busy: confirm.isPending, act: () => confirm.mutate({ body: {} }) } : null}
        drop={may ? on : null}
      />
    );
  if (off)
    return (
      <Note tone="warn">
        <p>
          <b>The wait is off.</b> A new key is active immediately, even one that someone else added.
        </p>
        {may && (
          <p className="mt-2">
            <Button look="main" busy={on.busy} onClick={on.act}>
              Turn the wait on
            </Button>
          </p>
        )}
      </Note>
    );
  if (!may) return null;
  return (
    <div>
      <Button look="danger" busy={set.isPending} onClick={() => setAsking(true)}>
        Turn the wait off
      </Button>
      <Ask
        open={asking}
        onClose={() => setAsking(false)}
        title="Turn the wait off?"
        text={`A new key will then receive payments immediately. This takes effect in ${hours} hours, or when a second owner confirms it. All owners are notified now, and each of them can keep the wait.`}
        act="Turn off"
        danger
        onAct={() => {
          setAsking(false);
          set.mutate({ body: { waits: false } });
        }}
      />
    </div>
  );
}
