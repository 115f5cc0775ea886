/** A card for each coin: where its money goes, how far its addresses are, and what waits. */
import { type ReactNode, useState } from 'react';
import type { Coin } from '../../generated/api.ts';
import type { Reply } from '../../lib/api.ts';
import { useAct, useApi, useMay, useMode, useTitle } from '../../lib/hooks.ts';
import { Button, buttonClass } from '../../ui/button.tsx';
import { Ask } from '../../ui/dialog.tsx';
import { Note } from '../../ui/form.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { Card, Empty, Facts, Pending } from '../../ui/states.tsx';
import { Badge, Money, Time } from '../../ui/values.tsx';
import { COIN_NAMES, SCRIPT_WORDS } from './words.ts';

type Wallet = Reply<'GET /:mode/wallets'>['wallets'][number];

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
          Payments go straight to your own wallets. Florin holds public keys only: it can make addresses and watch them, and it cannot
          spend.
        </p>
      </div>
      {!data ? (
        <Card>
          <Pending of={query} />
        </Card>
      ) : mode === 'test' ? (
        <Card>
          <Empty title="Test mode needs no wallet">
            A test payment never shows an address that takes real money. Set your wallets up in{' '}
            <a href="/dashboard/live/wallets">live mode</a>.
          </Empty>
        </Card>
      ) : (
        <>
          {data.wallets.every((wallet) => wallet.state === 'not_set') && (
            <Note tone="info" icon="wallet">
              No coin has a wallet yet, so live payments cannot be paid. Start with one coin; it takes about three minutes.
            </Note>
          )}
          <div className="grid items-start gap-4 lg:grid-cols-2">
            {data.wallets
              .toSorted((a, b) => Number(a.state === 'not_set') - Number(b.state === 'not_set'))
              .map((wallet) => (
                <WalletCard key={wallet.currency} wallet={wallet} />
              ))}
          </div>
          <HowChangesWork wallets={data} />
        </>
      )}
    </div>
  );
}

const STATES = {
  not_set: { tone: 'calm', word: 'Not set' },
  active: { tone: 'good', icon: 'check', word: 'Active' },
  paused: { tone: 'warn', icon: 'alert', word: 'Paused' },
} as const;

/** Its state, and beside it whether another key is to take its place. */
function State({ wallet: { state, waiting } }: { wallet: Wallet }) {
  const { word, ...look } = STATES[state];
  return (
    <span className="flex flex-wrap justify-end gap-1.5">
      <Badge {...look}>{word}</Badge>
      {waiting && (
        <Badge tone="warn" icon="clock">
          {state === 'not_set' ? 'Starts soon' : 'Changing'}
        </Badge>
      )}
    </span>
  );
}

function WalletCard({ wallet }: { wallet: Wallet }) {
  const may = useMay('wallets.change');
  const { currency, state } = wallet;
  const name = COIN_NAMES[currency];
  if (state === 'not_set')
    return (
      <Card title={name} action={<State wallet={wallet} />}>
        <div className="grid gap-3 p-4">
          <p className="text-sm text-soft">
            Payers cannot choose {name} until it has a wallet{wallet.followed ? '.' : ' and this install follows a node of it.'}
          </p>
          {wallet.first_key_waits && !wallet.waiting && (
            <p className="text-sm text-soft">
              You already accept another coin, so the key you add takes effect after 24 hours, or when a second owner confirms it.
            </p>
          )}
          {may && (
            <div>
              <ModeLink to={`wallets/${currency}`} className={buttonClass(wallet.followed ? 'main' : 'plain')}>
                Set up {name}
              </ModeLink>
            </div>
          )}
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
          [
            'Account key',
            <code key="key" className="break-all">
              {wallet.key}
            </code>,
          ],
          ...(wallet.fingerprint ? [['Fingerprint', <code key="print">{wallet.fingerprint}</code>] as const] : []),
          ['Address type', wallet.script ? SCRIPT_WORDS[wallet.script] : '–'],
          [
            'Next address',
            <span key="next" className="tabular-nums">
              number {wallet.next_index}
            </span>,
          ],
          [
            'Unused in a row',
            <span key="gap" className="tabular-nums">
              {wallet.unused_run} of {wallet.gap_limit}
            </span>,
          ],
          ...(wallet.former_keys > 0 ? [['Former keys, still watched', String(wallet.former_keys)] as const] : []),
        ]}
      />
      <div className="grid gap-3 border-t border-line p-4">
        {!wallet.followed && <NoNode name={name} />}
        {wallet.unused_run > wallet.gap_limit && (
          <Note tone="warn">
            {wallet.unused_run} addresses in a row were given and not paid. Most wallets look {wallet.gap_limit} ahead and may not show what
            comes later. The money is safe: raise the gap limit of your wallet to {Math.ceil((wallet.unused_run + 20) / 50) * 50} and rescan
            it.
          </Note>
        )}
        <Waiting wallet={wallet} />
        {may && <Acts wallet={wallet} />}
      </div>
    </Card>
  );
}

const NoNode = ({ name }: { name: string }) => (
  <Note tone="warn">
    This install follows no {name} node, so {name} is not offered to payers. The operator sets one up; <code>npm run florin -- doctor</code>{' '}
    says what is missing.
  </Note>
);

function Acts({ wallet: { currency, state } }: { wallet: Wallet }) {
  const [asked, setAsked] = useState(false);
  const name = COIN_NAMES[currency];
  const pause = useAct('POST /:mode/wallets/:currency/state', {
    refreshes: [['wallets']],
    done: state === 'active' ? `${name} is paused.` : `${name} is active again.`,
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
        text={`Payers can no longer choose ${name}. Addresses that were given stay watched, and payments to them count.`}
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

/** What was asked for and has not taken effect: when it will, and the two ways to decide before. */
const Undecided = ({
  title,
  asked,
  what,
  keep,
  confirm,
  drop,
}: {
  title: string;
  asked: { asked_by: string; due_at: string };
  what: ReactNode;
  keep: string;
  confirm: Decision | null;
  drop: Decision | null;
}) => (
  <Note tone="warn" icon="clock">
    <p>
      <b>{title}</b> {asked.asked_by} asked {what}. It takes effect on <Time at={asked.due_at} />, or when a second owner confirms it.
    </p>
    <p className="mt-2 flex flex-wrap gap-2">
      {confirm && (
        <Button look="main" busy={confirm.busy} onClick={confirm.act}>
          Confirm now
        </Button>
      )}
      {drop && (
        <Button busy={drop.busy} onClick={drop.act}>
          {keep}
        </Button>
      )}
    </p>
  </Note>
);
type Decision = { busy: boolean; act: () => void };

/** A new key that has not taken effect. */
function Waiting({ wallet: { currency, state, waiting } }: { wallet: Wallet }) {
  const mayConfirm = useMay('wallets.confirm');
  const mayDrop = useMay('wallets.change');
  const confirm = useAct('POST /:mode/wallets/:currency/change/confirm', { refreshes: [['wallets']], done: 'The new key is in use.' });
  const drop = useAct('POST /:mode/wallets/:currency/change/drop', { refreshes: [['wallets']], done: 'The new key is dropped.' });
  if (!waiting) return null;
  const options = { params: { currency: currency as Coin }, body: {} };
  return (
    <Undecided
      title="A new key waits."
      asked={waiting}
      what={
        <>
          for <code className="break-all">{waiting.key}</code>
        </>
      }
      keep={state === 'not_set' ? 'Drop this key' : 'Keep the old key'}
      confirm={mayConfirm && !waiting.asked_by_me ? { busy: confirm.isPending, act: () => confirm.mutate(options) } : null}
      drop={mayDrop ? { busy: drop.isPending, act: () => drop.mutate(options) } : null}
    />
  );
}

function HowChangesWork({ wallets: { owners, wait_hours: hours, wait_off: off } }: { wallets: Reply<'GET /:mode/wallets'> }) {
  return (
    <Card title="How a change of a key works">
      <div className="grid gap-2 p-4 text-sm text-soft">
        <p>
          The first key is used at once. A key that takes the place of another one {off?.is_off ? 'can wait' : 'waits'} {hours} hours, and
          so {off?.is_off ? 'can' : 'does'} the first key of a further coin once you accept payments. That way a key that somebody else put
          there is seen before money goes to it.{' '}
          {owners > 1
            ? `A second owner can confirm it before; whoever asked cannot, nor who became an owner in the last ${hours} hours.`
            : 'A second owner could confirm it before. This business has one owner; whoever runs the service can set a key at once on the command line.'}
        </p>
        <p>Addresses of the old key stay watched: what is sent to them still counts.</p>
        <Wait hours={hours} off={off} />
      </div>
    </Card>
  );
}

/** Whether changed keys wait: turned on at once, turned off as a key is changed. */
function Wait({ hours, off }: { hours: number; off: Reply<'GET /:mode/wallets'>['wait_off'] }) {
  const may = useMay('wallets.wait');
  const [asking, setAsking] = useState(false);
  const set = useAct('POST /:mode/wallets/wait', { refreshes: [['wallets']], ...(off && { done: 'A changed key waits.' }) });
  const confirm = useAct('POST /:mode/wallets/wait/confirm', { refreshes: [['wallets']], done: 'A changed key acts at once.' });
  const on = { busy: set.isPending, act: () => set.mutate({ body: { waits: true } }) };
  if (off && !off.is_off)
    return (
      <Undecided
        title="The wait will be turned off."
        asked={off}
        what="that a changed key acts at once"
        keep="Keep the wait"
        confirm={may && !off.asked_by_me ? { busy: confirm.isPending, act: () => confirm.mutate({ body: {} }) } : null}
        drop={may ? on : null}
      />
    );
  if (off)
    return (
      <Note tone="warn">
        <p>
          <b>The wait is off.</b> A changed key acts at once, also one that somebody else put there.
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
        text={`Then whoever changes a key changes at once where money goes. This takes effect in ${hours} hours, or when a second owner confirms it; all owners are told now, and each of them can keep the wait.`}
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
