/** The card for Lightning: set-up with what can only receive, a test invoice, and turning it off. */
import { type FormEvent, useEffect, useState } from 'react';
import type { Reply } from '../../lib/api.ts';
import { useAct, useMay } from '../../lib/hooks.ts';
import { Button, buttonClass } from '../../ui/button.tsx';
import { Code } from '../../ui/code.tsx';
import { Ask, Dialog, Foot } from '../../ui/dialog.tsx';
import { Field } from '../../ui/field.tsx';
import { Area, Choice, ErrorNote, Note } from '../../ui/form.tsx';
import { Card, Facts } from '../../ui/states.tsx';
import { Badge, Time } from '../../ui/values.tsx';
import { Undecided } from './undecided.tsx';

type Wallets = Reply<'GET /:mode/wallets'>;
type Kind = NonNullable<Wallets['lightning']>['kind'];
const KINDS: Readonly<Record<Kind, string>> = {
  address: 'Lightning address',
  lnd: 'LND node',
  cln: 'Core Lightning node',
  phoenixd: 'phoenixd',
  lnbits: 'LNbits wallet',
  nwc: 'Nostr Wallet Connect',
};
const HINTS: Readonly<Record<Kind, string>> = {
  address: 'Its provider must say whether an invoice is paid. Florin checks that now.',
  lnd: 'A macaroon that can only receive, as hex',
  cln: 'A rune that can only receive: lightning-cli createrune restrictions=\'[["method=invoice","method=listinvoices"]]\'',
  phoenixd: 'The value of http-password-limited-access in ~/.phoenix/phoenix.conf.',
  lnbits: 'The invoice key of the wallet, not its admin key.',
  nwc: 'A connection that can only receive. It begins with nostr+walletconnect://',
};
const PLACES: Readonly<Record<Kind, string>> = {
  address: 'shop@example.com',
  lnd: 'https://node.example.com:8080',
  cln: 'https://node.example.com:3010',
  phoenixd: 'http://127.0.0.1:9740',
  lnbits: 'https://lnbits.example.com',
  nwc: '',
};
const KIND_LIST = Object.keys(KINDS) as Kind[];

export function LightningCard({ wallets: { lightning, lightning_waiting: waiting } }: { wallets: Wallets }) {
  const may = useMay('wallets.change');
  const [isOpen, setOpen] = useState(false);
  return (
    <Card title="Bitcoin over Lightning" action={lightning && <State lightning={lightning} />}>
      {lightning && (
        <Facts
          rows={[
            [
              KINDS[lightning.kind],
              <span key="name" className="break-all">
                {lightning.name}
              </span>,
            ],
            ...(lightning.node
              ? [
                  [
                    'Node',
                    <code key="node" className="break-all">
                      {lightning.node}
                    </code>,
                  ] as const,
                ]
              : []),
            ['Open invoices', String(lightning.open_invoices)],
            ['Last test payment', <Time key="tested" at={lightning.tested_at} />],
          ]}
        />
      )}
      <div className={`grid gap-3 p-4 ${lightning ? 'border-t border-line' : ''}`}>
        {!lightning && (
          <p className="text-sm text-soft">
            Payments arrive in about a second. Your own node or provider receives the money; Florin gets a credential that can only receive.
          </p>
        )}
        {lightning?.last_failure && (
          <Note tone="warn">
            <p>The last request to it failed:</p>
            <p translate="no">{lightning.last_failure}</p>
          </Note>
        )}
        {waiting && <Waiting waiting={waiting} />}
        {may && (
          <div className="flex flex-wrap gap-2">
            {lightning && <Test />}
            {lightning && <Check />}
            <Button onClick={() => setOpen(true)}>{lightning ? 'Change' : 'Set up Lightning'}</Button>
            {lightning && <TurnOff />}
          </div>
        )}
      </div>
      {isOpen && <SetUp onClose={() => setOpen(false)} />}
    </Card>
  );
}

const State = ({ lightning: { away, last_failure: failure } }: { lightning: NonNullable<Wallets['lightning']> }) =>
  away || failure ? (
    <Badge tone="warn" icon="alert">
      Not answering
    </Badge>
  ) : (
    <Badge tone="good" icon="check">
      Ready
    </Badge>
  );

function Waiting({ waiting }: { waiting: NonNullable<Wallets['lightning_waiting']> }) {
  const mayConfirm = useMay('wallets.confirm');
  const mayDrop = useMay('wallets.change');
  const confirm = useAct('POST /:mode/wallets/lightning/change/confirm', { refreshes: [['wallets']], done: 'Lightning was changed.' });
  const drop = useAct('POST /:mode/wallets/lightning/change/drop', { refreshes: [['wallets']], done: 'The change was discarded.' });
  return (
    <Undecided
      title="A change of Lightning is pending."
      asked={waiting}
      what={
        <>
          {KINDS[waiting.kind]}: <code className="break-all">{waiting.name}</code>
        </>
      }
      keep="Cancel the change"
      confirm={mayConfirm && !waiting.asked_by_me ? { busy: confirm.isPending, act: () => confirm.mutate({ body: {} }) } : null}
      drop={mayDrop ? { busy: drop.isPending, act: () => drop.mutate({ body: {} }) } : null}
    />
  );
}

function SetUp({ onClose }: { onClose: () => void }) {
  const [kind, setKind] = useState<Kind>('address');
  const [address, setAddress] = useState('');
  const [credential, setCredential] = useState('');
  const [certificate, setCertificate] = useState('');
  const set = useAct('POST /:mode/wallets/lightning', { refreshes: [['wallets']], done: 'Lightning was checked and saved.', quiet: true });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const body = { kind, address, credential, certificate: certificate.trim() === '' ? null : certificate };
    set.mutate({ body }, { onSuccess: onClose });
  };
  return (
    <Dialog open onClose={onClose} title="Set up Lightning">
      <form onSubmit={submit} className="grid gap-4">
        <Choice
          label="Receive with"
          hint={HINTS[kind]}
          options={KIND_LIST.map((value) => ({ value, label: KINDS[value] }))}
          value={kind}
          onChange={(event) => setKind(KIND_LIST.find((known) => known === event.target.value) ?? 'address')}
        />
        {kind !== 'nwc' && (
          <Field
            label="Address"
            required
            maxLength={500}
            placeholder={PLACES[kind]}
            value={address}
            onChange={(event) => setAddress(event.target.value)}
          />
        )}
        {kind !== 'address' && (
          <Area
            label="Credential"
            hint="It is checked, stored encrypted, and never shown again."
            required
            rows={3}
            spellCheck={false}
            autoComplete="off"
            value={credential}
            onChange={(event) => setCredential(event.target.value)}
          />
        )}
        {(kind === 'lnd' || kind === 'cln') && (
          <Area
            label="Certificate of the node"
            hint="Paste tls.cert of LND, or server.pem of Core Lightning. Leave it empty if an authority signed it."
            rows={3}
            spellCheck={false}
            value={certificate}
            onChange={(event) => setCertificate(event.target.value)}
          />
        )}
        <ErrorNote error={set.error} />
        <Foot onBack={onClose}>
          <Button type="submit" look="main" busy={set.isPending}>
            Check and save
          </Button>
        </Foot>
      </form>
    </Dialog>
  );
}

function Check() {
  const check = useAct('POST /:mode/wallets/lightning/check', { refreshes: [['wallets']], done: 'Lightning works.' });
  return (
    <Button busy={check.isPending} onClick={() => check.mutate({ body: {} })}>
      Check
    </Button>
  );
}

/** How often a test invoice is looked at. */
const LOOK_MS = 2_000;

function Test() {
  const make = useAct('POST /:mode/wallets/lightning/test');
  const made = make.data;
  return (
    <>
      <Button look="main" busy={make.isPending} onClick={() => make.mutate({ body: {} })}>
        Receive a test payment
      </Button>
      {made && (
        <Dialog open onClose={make.reset} title="Pay this with your own Lightning wallet">
          <TestInvoice made={made} />
          <Foot onBack={make.reset} back="Close">
            <a href={`lightning:${made.invoice}`} className={buttonClass('main')}>
              Open wallet
            </a>
          </Foot>
        </Dialog>
      )}
    </>
  );
}

function TestInvoice({ made }: { made: Reply<'POST /:mode/wallets/lightning/test'> }) {
  const look = useAct('POST /:mode/wallets/lightning/test/look', { refreshes: [['wallets']], quiet: true });
  const isPaid = look.data?.paid === true;
  const { mutate } = look;
  useEffect(() => {
    if (isPaid) return;
    const timer = setInterval(() => mutate({ body: { token: made.token } }), LOOK_MS);
    return () => clearInterval(timer);
  }, [isPaid, mutate, made.token]);
  if (isPaid)
    return (
      <Note tone="good" icon="check">
        The test payment arrived. Customers can pay over Lightning.
      </Note>
    );
  return (
    <div className="grid gap-3">
      <p className="text-sm text-soft">An invoice for {made.sat} satoshis. The money arrives in your own node or wallet.</p>
      <img src={made.qr} alt="QR code of the test invoice" className="size-52 rounded-lg border border-line" />
      <Code text={made.invoice} label="Copy the invoice" />
      <p role="status" className="text-sm text-soft">
        Waiting for the payment
      </p>
    </div>
  );
}

function TurnOff() {
  const [asked, setAsked] = useState(false);
  const remove = useAct('POST /:mode/wallets/lightning/remove', { refreshes: [['wallets']], done: 'Lightning was turned off.' });
  return (
    <>
      <Button look="danger" busy={remove.isPending} onClick={() => setAsked(true)}>
        Turn off
      </Button>
      <Ask
        open={asked}
        onClose={() => setAsked(false)}
        title="Turn off Lightning?"
        text="Customers can no longer choose Lightning. Invoices that were already shown still count."
        act="Turn off"
        danger
        onAct={() => {
          setAsked(false);
          remove.mutate({ body: {} });
        }}
      />
    </>
  );
}
