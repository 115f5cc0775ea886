/** Importing an account key, step by step: paste or scan, compare addresses, decide how long to wait for confirmations. */
import { useParams } from '@tanstack/react-router';
import { type FormEvent, lazy, Suspense, useEffect, useRef, useState } from 'react';
import { COINS, type Coin } from '../../generated/api.ts';
import { readGiven } from '../../lib/account-key.ts';
import { ApiError, type Reply } from '../../lib/api.ts';
import { useAct, useApi, useMode, useTitle } from '../../lib/hooks.ts';
import { Button, buttonClass } from '../../ui/button.tsx';
import { Field } from '../../ui/field.tsx';
import { Area, Choice, Note } from '../../ui/form.tsx';
import { Icon } from '../../ui/icon.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { Card, Empty, Facts, Pending } from '../../ui/states.tsx';
import { Back } from '../../ui/thing.tsx';
import { Time } from '../../ui/values.tsx';
import { TierFields, useTiers } from './tiers.tsx';
import { COIN_NAMES, SCRIPT_WORDS, type Script } from './words.ts';

const Scan = lazy(() => import('./scan.tsx').then((module) => ({ default: module.Scan })));
type Preview = Reply<'POST /:mode/wallets/preview'>;
const STEPS = ['Account key', 'Compare addresses', 'Confirmations', 'Done'] as const;

export function Screen() {
  const { id } = useParams({ strict: false }) as { id: string };
  const coin = COINS.find((known) => known === id);
  const mode = useMode();
  useTitle(coin ? `${COIN_NAMES[coin]} wallet` : 'Wallet');
  if (!coin || mode === 'test')
    return (
      <Card>
        <Empty title={coin ? 'Test mode needs no wallet' : 'There is no such coin'}>
          <ModeLink to="wallets">Back to the wallets</ModeLink>
        </Empty>
      </Card>
    );
  return <Wizard coin={coin} />;
}

function Wizard({ coin }: { coin: Coin }) {
  const [step, setStep] = useState(0);
  const [key, setKey] = useState('');
  const [preview, setPreview] = useState<Preview | null>(null);
  const [dueAt, setDueAt] = useState<string | null>(null);
  const isFurtherCoin = preview?.waits === 'further_coin';
  const { data } = useApi('GET /:mode/wallets', ['wallets'], {});
  // Whoever begins is asked what may be missing; what already holds for other coins is shown as it is.
  const [isFirst, setIsFirst] = useState(false);
  const heading = useRef<HTMLHeadingElement>(null);
  // Whoever listens or uses keys is taken along to each new step.
  // biome-ignore lint/correctness/useExhaustiveDependencies: the focus follows the step
  useEffect(() => heading.current?.focus(), [step]);
  return (
    <div className="grid max-w-3xl gap-5">
      <div className="grid gap-2">
        <Back to={['wallets', 'Wallets']} />
        <h1 ref={heading} tabIndex={-1} className="outline-none">
          {COIN_NAMES[coin]} wallet
        </h1>
        <ol className="flex flex-wrap gap-x-5 gap-y-1 text-sm" aria-label="Steps">
          {STEPS.map((name, i) => (
            <li
              key={name}
              aria-current={i === step ? 'step' : undefined}
              className={`flex items-center gap-1.5 ${i === step ? 'font-medium text-ink' : 'text-soft'}`}
            >
              <span
                className={`grid size-5 place-items-center rounded-full text-xs ${i < step ? 'bg-good-wash text-good' : i === step ? 'bg-accent text-accent-ink' : 'bg-raised text-soft'}`}
              >
                {i < step ? <Icon name="check" className="size-3" /> : i + 1}
              </span>
              {name}
            </li>
          ))}
        </ol>
      </div>
      {step === 0 && (
        <Paste
          coin={coin}
          onRead={(text, read) => {
            setKey(text);
            setPreview(read);
            setIsFirst(data?.wallets.every((wallet) => wallet.key === null) ?? false);
            setStep(1);
          }}
        />
      )}
      {step === 1 && preview && (
        <Compare
          coin={coin}
          accountKey={key}
          preview={preview}
          onPreview={setPreview}
          onBack={() => setStep(0)}
          onTaken={(due) => {
            setDueAt(due);
            setKey('');
            setStep(2);
          }}
        />
      )}
      {step === 2 && <Confirmations coin={coin} isFirst={isFirst} onDone={() => setStep(3)} />}
      {step === 3 && <Finished coin={coin} dueAt={dueAt} isFurtherCoin={isFurtherCoin} />}
    </div>
  );
}

const NEVER = 'Never give it to anybody: whoever has it can take your money. Export the public key of the account instead.';
const PRIVATE = `This is a private key or a recovery phrase. It was cleared and sent nowhere. ${NEVER}`;
/** What only its bytes gave away was sent, and kept nowhere. */
const PRIVATE_SENT = `This is a private key. It was cleared, and the service kept nothing of it; it did travel there, so use it no more. ${NEVER}`;

function Paste({ coin, onRead }: { coin: Coin; onRead: (key: string, preview: Preview) => void }) {
  const [text, setText] = useState('');
  const [fault, setFault] = useState<string | null>(null);
  const [scanning, setScanning] = useState(false);
  const read = useAct('POST /:mode/wallets/preview', { quiet: true });
  const clear = (why: string) => {
    setText('');
    setFault(why);
    read.reset();
  };
  /** Puts what was given in the box and answers it, or says why not. */
  const take = (given: string): string | null => {
    const found = readGiven(given);
    if (found.kind === 'private') {
      clear(PRIVATE);
      return null;
    }
    setFault(found.kind === 'other' ? found.why : null);
    // While somebody types, their blanks stay.
    setText(found.kind === 'key' && found.text !== given.trim() ? found.text : given);
    return found.kind === 'key' ? found.text : null;
  };
  const look = async (key: string) => {
    try {
      onRead(key, await read.mutateAsync({ body: { currency: coin, key } }));
    } catch (error) {
      if (error instanceof ApiError && error.code === 'private_key_refused') clear(PRIVATE_SENT);
      else setFault(error instanceof Error ? error.message : String(error));
    }
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void look(text.trim());
  };
  return (
    <Card>
      <form onSubmit={submit} className="grid gap-5 p-4 sm:p-6">
        <p className="text-soft">
          In your wallet, open the account that shall receive and export its <b className="text-ink">extended public key</b>
          {coin === 'ETH' ? " (at m/44'/60'/0')" : ''}, often called xpub, ypub or zpub, or its output descriptor.
        </p>
        <Area
          label="Account key"
          rows={4}
          required
          autoComplete="off"
          autoCapitalize="off"
          spellCheck={false}
          placeholder={coin === 'ETH' ? 'xpub6C…' : 'zpub6r… or wpkh([73c5da0a/84h/0h/0h]xpub6C…/0/*)'}
          value={text}
          onChange={(event) => take(event.target.value)}
          fault={fault}
          hint="Public keys only. Private keys and recovery phrases are recognized here, and refused."
        />
        <div className="flex flex-wrap items-center gap-2">
          <Button type="submit" look="main" busy={read.isPending} disabled={text.trim() === ''}>
            Continue
          </Button>
          <label className={`${buttonClass()} cursor-pointer has-focus-visible:outline-2 has-focus-visible:outline-link`}>
            From a file
            <input
              type="file"
              accept=".txt,.json,text/plain"
              className="sr-only"
              onChange={async (event) => {
                const file = event.target.files?.[0];
                event.target.value = '';
                if (!file) return;
                if (file.size > 10_000) setFault('That file is too large to be an account key.');
                else take((await file.text()).trim());
              }}
            />
          </label>
          <Button onClick={() => setScanning(true)}>Scan with the camera</Button>
        </div>
      </form>
      {scanning && (
        <Suspense>
          <Scan
            onClose={() => setScanning(false)}
            onPrivate={() => {
              setScanning(false);
              clear(PRIVATE);
            }}
            onKey={(scanned) => {
              setScanning(false);
              const key = take(scanned);
              if (key !== null) void look(key);
            }}
          />
        </Suspense>
      )}
    </Card>
  );
}

const inFours = (address: string): string[] => address.match(/.{1,4}/g) ?? [];

function Compare({
  coin,
  accountKey,
  preview,
  onPreview,
  onBack,
  onTaken,
}: {
  coin: Coin;
  accountKey: string;
  preview: Preview;
  onPreview: (preview: Preview) => void;
  onBack: () => void;
  onTaken: (dueAt: string | null) => void;
}) {
  const [ends, setEnds] = useState('');
  const again = useAct('POST /:mode/wallets/preview');
  const take = useAct('POST /:mode/wallets', { refreshes: [['wallets'], ['settings']], quiet: true });
  const fault = take.error instanceof ApiError ? take.error.message : null;
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const made = await take
      .mutateAsync({ body: { currency: coin, key: accountKey, script: preview.script, ends: ends.trim() } })
      .catch(() => null);
    if (made) onTaken(made.due_at);
  };
  const choose = async (script: Script) => {
    const next = await again.mutateAsync({ body: { currency: coin, key: accountKey, script } }).catch(() => null);
    if (next) onPreview(next);
  };
  return (
    <Card>
      <Facts
        rows={[
          ['Network', preview.network],
          ['Address type', SCRIPT_WORDS[preview.script]],
          ['Depth', `${preview.depth} (an account)`],
          ...(preview.fingerprint ? [['Fingerprint', <code key="print">{preview.fingerprint}</code>] as const] : []),
        ]}
      />
      <form onSubmit={submit} className="grid gap-5 border-t border-line p-4 sm:p-6">
        {preview.standing === 'foreign' && (
          <Note tone="bad">
            Another merchant of this install uses this key. Two owners of the same addresses would take each other’s money, so it cannot be
            used here. Make a new account in your wallet.
          </Note>
        )}
        {preview.standing === 'active' && <Note tone="info">This is the key in use. Nothing will change.</Note>}
        {preview.standing === 'known' && (
          <Note tone="info">You used this key before. Its addresses go on where they stopped; none is given twice.</Note>
        )}
        {preview.waits !== null && preview.standing !== 'foreign' && (
          <Note tone="warn" icon="clock">
            {preview.waits === 'further_coin'
              ? `You already accept another coin, so this key takes effect after 24 hours. Until then payers can’t choose ${COIN_NAMES[coin]}. `
              : 'This key takes effect after 24 hours. Until then payments go to the key in use. '}
            A second owner can confirm it sooner. The wait gives you time to notice a key that somebody else added.
          </Note>
        )}
        {preview.scripts.length > 1 && (
          <Choice
            label="Address type"
            hint="This key does not say its type. Choose the one your wallet uses; its addresses must match below."
            value={preview.script}
            disabled={again.isPending}
            onChange={(event) => void choose(event.target.value as Script)}
            options={preview.scripts.map((value) => ({ value, label: SCRIPT_WORDS[value] }))}
          />
        )}
        <div className="grid gap-3">
          <h2>Does your wallet show these addresses?</h2>
          <p className="text-sm text-soft">
            Open the list of receiving addresses in your own wallet and compare them, character by character.
          </p>
          <ol className="grid gap-2">
            {preview.addresses.map(({ path, address }) => (
              <li key={address} className="rounded-lg bg-raised px-3 py-2.5">
                <p className="text-xs text-soft">
                  <code>{path}</code>
                </p>
                <p className="font-mono text-base leading-relaxed sm:text-lg" data-address={address}>
                  {inFours(address).map((part, i) => (
                    // biome-ignore lint/suspicious/noArrayIndexKey: parts of one text stay in place
                    <span key={i} className="mr-2 inline-block">
                      {part}
                    </span>
                  ))}
                </p>
              </li>
            ))}
          </ol>
        </div>
        <Field
          label="The last 6 characters of one of them, as your own wallet shows it"
          required
          minLength={6}
          maxLength={6}
          autoComplete="off"
          autoCapitalize="off"
          spellCheck={false}
          value={ends}
          onChange={(event) => setEnds(event.target.value)}
          fault={fault}
          hint="Type it from your wallet, not from this page. If nothing matches, the key is of another account or address type."
        />
        <div className="flex flex-wrap gap-2">
          <Button onClick={onBack}>Back</Button>
          <Button type="submit" look="main" busy={take.isPending} disabled={ends.trim().length !== 6 || preview.standing === 'foreign'}>
            Use this key
          </Button>
        </div>
      </form>
    </Card>
  );
}

function Confirmations({ coin, isFirst, onDone }: { coin: Coin; isFirst: boolean; onDone: () => void }) {
  const query = useApi('GET /:mode/settings/checkout', ['settings', 'checkout'], {});
  const { data } = query;
  if (!data) return <Pending of={query} />;
  const tiers = data.confirmations.find(({ currency }) => currency === coin)!.tiers;
  return <ConfirmationForm coin={coin} tiers={tiers} tolerance={data.settings.tolerance_percent} isFirst={isFirst} onDone={onDone} />;
}

function ConfirmationForm({
  coin,
  tiers,
  tolerance,
  isFirst,
  onDone,
}: {
  coin: Coin;
  isFirst: boolean;
  tiers: Parameters<typeof useTiers>[0];
  tolerance: string;
  onDone: () => void;
}) {
  const fields = useTiers(tiers);
  const [percent, setPercent] = useState(isFirst ? '0' : tolerance);
  const save = useAct('POST /:mode/settings/checkout', { refreshes: [['wallets'], ['settings']], quiet: true });
  const fault = save.error instanceof ApiError ? save.error : null;
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const body = { confirmations: [{ currency: coin, tiers: fields.values }], tolerance_percent: percent };
    if (await save.mutateAsync({ body }).catch(() => null)) onDone();
  };
  return (
    <Card>
      <form onSubmit={submit} className="grid gap-6 p-4 sm:p-6">
        <div className="grid gap-3">
          <h2>How sure a payment must be</h2>
          <p className="text-sm text-soft">
            A payment is completed after so many confirmations of the network. The defaults are good for most; more is safer and slower.
          </p>
          <TierFields coin={coin} fields={fields} />
        </div>
        <div className="max-w-60">
          <Field
            label="Accept this much less, in percent"
            inputMode="decimal"
            value={percent}
            onChange={(event) => setPercent(event.target.value)}
            fault={fault?.param === 'tolerance_percent' ? fault.message : null}
            hint="0: only the full amount counts as paid. Fees of exchanges often leave a little missing; 1 or 2 percent cover most of them. Holds for all coins."
          />
        </div>
        {fault && fault.param !== 'tolerance_percent' && <Note tone="bad">{fault.message}</Note>}
        <div className="flex flex-wrap gap-2">
          <Button type="submit" look="main" busy={save.isPending}>
            Save and finish
          </Button>
          <Button onClick={onDone}>{isFirst ? `Skip, and accept up to ${Number(tolerance)} % less` : 'Keep the defaults'}</Button>
        </div>
      </form>
    </Card>
  );
}

const Finished = ({ coin, dueAt, isFurtherCoin }: { coin: Coin; dueAt: string | null; isFurtherCoin: boolean }) => (
  <Card>
    <div className="grid gap-4 p-4 sm:p-6">
      {dueAt === null ? (
        <>
          <Note tone="good" icon="check">
            {COIN_NAMES[coin]} is set up. Payers can choose it from now on.
          </Note>
          <p className="text-sm text-soft">
            To be sure, make a <ModeLink to="links">payment link</ModeLink> of a small amount, pay it yourself and see it arrive in your own
            wallet.
          </p>
        </>
      ) : (
        <Note tone="warn" icon="clock">
          The new key takes effect on <Time at={dueAt} />, or as soon as a second owner confirms it under Wallets.{' '}
          {isFurtherCoin ? `Until then payers can’t choose ${COIN_NAMES[coin]}.` : 'Until then payments go to the key in use.'}
        </Note>
      )}
      <div className="flex flex-wrap gap-2">
        <ModeLink to="wallets" className={buttonClass('main')}>
          To the wallets
        </ModeLink>
      </div>
    </div>
  </Card>
);
