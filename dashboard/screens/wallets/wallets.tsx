/** A card for each coin: where its money goes, how far its addresses are, and what waits. */
import { useState } from 'react';
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
          <HowChangesWork owners={data.owners} hours={data.wait_hours} />
        </>
      )}
    </div>
  );
}

const STATES = {
  not_set: { tone: 'calm', word: 'Not set' },
  active: { tone: 'good', word: 'Active' },
  paused: { tone: 'warn', word: 'Paused' },
} as const;

function WalletCard({ wallet }: { wallet: Wallet }) {
  const may = useMay('wallets.change');
  const { currency, state } = wallet;
  const name = COIN_NAMES[currency];
  if (state === 'not_set')
    return (
      <Card title={name} action={<Badge tone="calm">Not set</Badge>}>
        <div className="grid gap-3 p-4">
          <p className="text-sm text-soft">
            Payers cannot choose {name} until it has a wallet{wallet.followed ? '.' : ' and this install follows a node of it.'}
          </p>
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
    <Card
      title={name}
      action={
        <Badge tone={STATES[state].tone} icon={state === 'active' ? 'check' : 'alert'}>
          {STATES[state].word}
        </Badge>
      }
    >
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

/** A new key that has not taken effect: who asked, when it will, and the two ways to decide before. */
function Waiting({ wallet: { currency, waiting } }: { wallet: Wallet }) {
  const mayConfirm = useMay('wallets.confirm');
  const mayDrop = useMay('wallets.change');
  const confirm = useAct('POST /:mode/wallets/:currency/change/confirm', { refreshes: [['wallets']], done: 'The new key is in use.' });
  const drop = useAct('POST /:mode/wallets/:currency/change/drop', { refreshes: [['wallets']], done: 'The key stays as it was.' });
  if (!waiting) return null;
  const options = { params: { currency: currency as Coin }, body: {} };
  return (
    <Note tone="warn" icon="clock">
      <p>
        <b>A new key waits.</b> {waiting.asked_by} asked for <code className="break-all">{waiting.key}</code>. It takes effect on{' '}
        <Time at={waiting.due_at} />, or when a second owner confirms it.
      </p>
      <p className="mt-2 flex flex-wrap gap-2">
        {mayConfirm && !waiting.asked_by_me && (
          <Button look="main" busy={confirm.isPending} onClick={() => confirm.mutate(options)}>
            Confirm now
          </Button>
        )}
        {mayDrop && (
          <Button busy={drop.isPending} onClick={() => drop.mutate(options)}>
            Keep the old key
          </Button>
        )}
      </p>
    </Note>
  );
}

const HowChangesWork = ({ owners, hours }: { owners: number; hours: number }) => (
  <Card title="How a change of a key works">
    <div className="grid gap-2 p-4 text-sm text-soft">
      <p>
        The first key of a coin is used at once. A key that takes the place of another one waits {hours} hours, so that a key that somebody
        else put there is seen before money goes to it.{' '}
        {owners > 1
          ? 'A second owner can confirm it before; whoever asked cannot.'
          : 'A second owner could confirm it before. This business has one owner, so a change always waits; whoever runs the service can set a key at once on the command line.'}
      </p>
      <p>Addresses of the old key stay watched: what is sent to them still counts.</p>
    </div>
  </Card>
);
