/** Importing an account key, step by step: paste or scan, compare addresses, choose confirmations, see what is still missing. */

import { useParams } from '@tanstack/react-router';
import { type FormEvent, lazy, Suspense, useEffect, useRef, useState } from 'react';
import { COIN_KINDS, COINS, type Coin } from '../../generated/api.ts';
import { readGiven } from '../../lib/account-key.ts';
import { ApiError, type Reply } from '../../lib/api.ts';
import { accountNetworks, coinName } from '../../lib/coin.ts';
import { useAct, useApi, useMode, useTitle } from '../../lib/hooks.ts';
import { listText } from '../../lib/language.ts';
import { Button, buttonClass } from '../../ui/button.tsx';
import { Field } from '../../ui/field.tsx';
import { Area, Choice, Note } from '../../ui/form.tsx';
import { Icon } from '../../ui/icon.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { MissingList, type Readiness } from '../../ui/missing.tsx';
import { Signers } from '../../ui/signers.tsx';
import { Card, Empty, Facts, Pending } from '../../ui/states.tsx';
import { Back } from '../../ui/thing.tsx';
import { Time } from '../../ui/values.tsx';
import { Policy } from './policy.tsx';
import { TierFields, useTiers } from './tiers.tsx';
import { Where } from './where.tsx';
import { SCRIPT_WORDS, type Script } from './words.ts';

const Scan = lazy(() => import('./scan.tsx').then((module) => ({ default: module.Scan })));
type Preview = Reply<'POST /:mode/wallets/preview'>;
const STEPS = ['Account key', 'Compare addresses', 'Confirmations', 'Finish'] as const;

export function Screen() {
  const { id } = useParams({ strict: false }) as { id: string };
  const coin = COINS.find((known) => known === id);
  const mode = useMode();
  useTitle(coin ? `${coinName(coin)} wallet` : 'Wallet');
  if (!coin || mode === 'test')
    return (
      <Card>
        <Empty title={coin ? 'Test mode needs no wallet' : 'Currency not found'}>
          <ModeLink to="wallets">Back to Wallets</ModeLink>
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
  // New merchants choose the underpayment tolerance here; later ones see what they already have.
  const [isFirst, setIsFirst] = useState(false);
  const heading = useRef<HTMLHeadingElement>(null);
  // Screen readers and keyboards follow to each new step.
  // biome-ignore lint/correctness/useExhaustiveDependencies: the focus follows the step
  useEffect(() => heading.current?.focus(), [step]);
  return (
    <div className="grid max-w-3xl gap-5">
      <div className="grid gap-2">
        <Back to={['wallets', 'Wallets']} />
        <h1 ref={heading} tabIndex={-1} className="outline-none">
          {coinName(coin)} wallet
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
      {step === 3 && <Finished coin={coin} dueAt={dueAt} isFurtherCoin={isFurtherCoin} isMultisig={(preview?.signers ?? null) !== null} />}
    </div>
  );
}

const NEVER = 'Never share it: anyone who has it can take your money. Export the public key of the account instead.';
const PRIVATE = `This is a private key or a recovery phrase. It was cleared and never left this browser. ${NEVER}`;
/** Only the service could recognize it, so it was sent, but not stored. */
const PRIVATE_SENT = `This is a private key. It was cleared and not stored, but it was sent to the service, so stop using it. ${NEVER}`;

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
  /** Puts the given text in the field and returns it, or shows why it is refused. */
  const take = (given: string): string | null => {
    const found = readGiven(given);
    if (found.kind === 'private') {
      clear(PRIVATE);
      return null;
    }
    setFault(found.kind === 'other' ? found.why : null);
    // Spaces stay while somebody types.
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
  const isAccount = COIN_KINDS[coin] === 'ethereum';
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void look(text.trim());
  };
  return (
    <Card>
      <form onSubmit={submit} className="grid gap-5 p-4 sm:p-6">
        <p className="text-soft">
          In your wallet, open the account that should receive payments and export its <b className="text-ink">extended public key</b>
          {isAccount
            ? " (at m/44'/60'/0'), often called xpub."
            : ', often called xpub, ypub, or zpub, or its output descriptor. A multisig wallet needs the descriptor.'}
        </p>
        <Where coin={coin} />
        <Area
          label="Account key"
          rows={4}
          required
          autoComplete="off"
          autoCapitalize="off"
          spellCheck={false}
          placeholder={isAccount ? 'xpub6C…' : 'wpkh([73c5da0a/84h/0h/0h]xpub6C…/0/*)'}
          value={text}
          onChange={(event) => take(event.target.value)}
          fault={fault}
          hint="Public keys only. Private keys and recovery phrases are detected and refused."
        />
        <div className="flex flex-wrap items-center gap-2">
          <Button type="submit" look="main" busy={read.isPending} disabled={text.trim() === ''}>
            Continue
          </Button>
          <label className={`${buttonClass()} cursor-pointer has-focus-visible:outline-2 has-focus-visible:outline-link`}>
            Upload a file
            <input
              type="file"
              accept=".txt,.json,.bsms,.csv,text/plain"
              className="sr-only"
              onChange={async (event) => {
                const file = event.target.files?.[0];
                event.target.value = '';
                if (!file) return;
                if (file.size > 100_000) setFault('That file is too large to be an account key.');
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
          // Where it can be chosen it is shown below.
          ...(preview.scripts.length > 1 ? [] : [['Address type', SCRIPT_WORDS[preview.script]] as const]),
          preview.signers ? ['Signers', <Signers key="signers" {...preview.signers} />] : ['Key level', `Account (depth ${preview.depth})`],
          ...(preview.fingerprint ? [['Fingerprint', <code key="print">{preview.fingerprint}</code>] as const] : []),
        ]}
      />
      <form onSubmit={submit} className="grid gap-5 border-t border-line p-4 sm:p-6">
        {preview.standing === 'foreign' && (
          <Note tone="bad">
            Another merchant on this service already uses this key. Sharing addresses would mix up your payments, so you can’t use it here.
            Create a new account in your wallet.
          </Note>
        )}
        {preview.standing === 'active' && <Note tone="info">This is your current key. Nothing will change.</Note>}
        {preview.standing === 'known' && (
          <Note tone="info">You used this key before. New addresses continue where they stopped, so none is used twice.</Note>
        )}
        {preview.waits !== null && preview.standing !== 'foreign' && (
          <Note tone="warn" icon="clock">
            {preview.waits === 'further_coin'
              ? `You already accept another currency, so this key takes effect after 24 hours. Until then customers can’t choose ${coinName(coin)}. `
              : 'This key takes effect after 24 hours. Until then payments go to your current key. '}
            A second owner can confirm it sooner. The wait gives you time to notice a key that someone else added.
          </Note>
        )}
        {preview.scripts.length > 1 && (
          <Choice
            label="Address type"
            hint="This key doesn’t say its type. Choose the one your wallet uses: the addresses below must match."
            value={preview.script}
            disabled={again.isPending}
            onChange={(event) => void choose(event.target.value as Script)}
            options={preview.scripts.map((value) => ({ value, label: SCRIPT_WORDS[value] }))}
          />
        )}
        <div className="grid gap-3">
          <h2>Does your wallet show these addresses?</h2>
          <p className="text-sm text-soft">Open the list of receiving addresses in your wallet and compare them, character by character.</p>
          {COIN_KINDS[coin] === 'ethereum' && (
            <p className="text-sm text-soft">You compare them only once: they are the same on {listText(accountNetworks())}.</p>
          )}
          <ol className="grid gap-2">
            {preview.addresses.map(({ path, address }, index) => (
              <li key={address} className="rounded-lg bg-raised px-3 py-2.5">
                <p className="text-xs text-soft">{preview.signers ? `Address ${index + 1}` : <code>{path}</code>}</p>
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
          label="Last 6 characters of one of these addresses, from your own wallet"
          required
          minLength={6}
          maxLength={6}
          autoComplete="off"
          autoCapitalize="off"
          spellCheck={false}
          value={ends}
          onChange={(event) => setEnds(event.target.value)}
          fault={fault}
          hint="Type them from your wallet, not from this page. If nothing matches, the key belongs to another account or address type."
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
          <h2>Confirmations</h2>
          <p className="text-sm text-soft">
            A payment is completed after this many network confirmations. The defaults suit most shops; more is safer but slower.
          </p>
          <TierFields coin={coin} fields={fields} />
        </div>
        <div className="max-w-60">
          <Field
            label="Underpayment tolerance (%)"
            inputMode="decimal"
            value={percent}
            onChange={(event) => setPercent(event.target.value)}
            fault={fault?.param === 'tolerance_percent' ? fault.message : null}
            hint="With 0, only the full amount counts as paid. Exchange fees often leave a payment slightly short; 1 or 2% covers most of them. Applies to all currencies."
          />
        </div>
        {fault && fault.param !== 'tolerance_percent' && <Note tone="bad">{fault.message}</Note>}
        <div className="flex flex-wrap gap-2">
          <Button type="submit" look="main" busy={save.isPending}>
            Save and finish
          </Button>
          <Button onClick={onDone}>{isFirst ? `Skip and allow ${Number(tolerance)}% underpayment` : 'Keep the defaults'}</Button>
        </div>
      </form>
    </Card>
  );
}

function Finished({
  coin,
  dueAt,
  isFurtherCoin,
  isMultisig,
}: {
  coin: Coin;
  dueAt: string | null;
  isFurtherCoin: boolean;
  isMultisig: boolean;
}) {
  // Asked again now and then: what is missing may be fixed meanwhile.
  const query = useApi('GET /:mode/wallets', ['wallets'], {}, { everyMs: 5_000 });
  const readiness = query.data?.wallets.find(({ currency }) => currency === coin)?.readiness;
  // The key itself is only waiting.
  const besides = readiness?.missing.filter(({ code }) => code !== 'wallet_missing') ?? [];
  return (
    <Card>
      <div className="grid gap-4 p-4 sm:p-6">
        {dueAt !== null ? (
          <Note tone="warn" icon="clock">
            The new key takes effect on <Time at={dueAt} />, or as soon as a second owner confirms it under Wallets.{' '}
            {isFurtherCoin ? `Until then customers can’t choose ${coinName(coin)}.` : 'Until then payments go to your current key.'}
          </Note>
        ) : readiness ? (
          <Outcome name={coinName(coin)} readiness={readiness} />
        ) : (
          <Pending of={query} lines={3} />
        )}
        {dueAt !== null && isFurtherCoin && besides.length > 0 && (
          <>
            <p className="text-sm font-medium">{coinName(coin)} also needs:</p>
            <MissingList missing={besides} label={`What ${coinName(coin)} still needs`} />
          </>
        )}
        {dueAt === null && isMultisig && <Policy currency={coin} />}
        <div className="flex flex-wrap gap-2">
          <ModeLink to="wallets" className={buttonClass('main')}>
            Done
          </ModeLink>
        </div>
      </div>
    </Card>
  );
}

/** Whether a payment would succeed now, else all that is still missing. */
const Outcome = ({ name, readiness }: { name: string; readiness: Readiness }) =>
  readiness.missing.length === 0 ? (
    <>
      <Note tone="good" icon="check">
        {name} is ready. Customers can pay with it now.
      </Note>
      <p className="text-sm text-soft">
        To be sure, create a <ModeLink to="links">payment link</ModeLink> for a small amount, pay it yourself, and check that it arrives in
        your wallet.
      </p>
    </>
  ) : (
    <>
      <Note tone="warn">
        <p>
          <b>Your {name} wallet is saved.</b>{' '}
          {readiness.payable
            ? 'Customers can pay with it, but payments do not complete yet.'
            : `Customers can’t pay with ${name} yet. ${readiness.missing.length === 1 ? 'One thing is' : `${readiness.missing.length} things are`} still missing:`}
        </p>
      </Note>
      <MissingList missing={readiness.missing} label={`What ${name} still needs`} />
      <p className="text-sm text-soft">This page updates automatically when everything is in place.</p>
    </>
  );
