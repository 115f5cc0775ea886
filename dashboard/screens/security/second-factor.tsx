/** Two-factor authentication of your own account: setting it up, new backup codes, turning it off. */
import { type FormEvent, useState } from 'react';
import type { Reply } from '../../lib/api.ts';
import { useAct, useMe } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Ask, Dialog } from '../../ui/dialog.tsx';
import { Field } from '../../ui/field.tsx';
import { PasswordField } from '../../ui/password.tsx';
import { Card, Skeleton } from '../../ui/states.tsx';
import { Badge, CopyButton } from '../../ui/values.tsx';

export function SecondFactor() {
  const me = useMe();
  return (
    <Card
      title="Two-factor authentication"
      action={me && <Badge tone={me.user.has_second_factor ? 'good' : 'warn'}>{me.user.has_second_factor ? 'On' : 'Off'}</Badge>}
    >
      <div className="p-4">{me ? me.user.has_second_factor ? <TurnedOn /> : <SetUp /> : <Skeleton lines={3} />}</div>
    </Card>
  );
}

function SetUp() {
  const start = useAct('POST /:mode/second-factor');
  const [password, setPassword] = useState('');
  const submit = (event: FormEvent) => {
    event.preventDefault();
    start.mutate({ body: { password } });
  };
  if (start.data) return <Finish begun={start.data} />;
  return (
    <form onSubmit={submit} className="grid gap-4">
      <p className="text-soft">Protect your account with an authenticator app, even if someone steals your password.</p>
      <PasswordField label="Your password" value={password} onChange={setPassword} fault={start.error?.message} />
      <div>
        <Button type="submit" look="main" busy={start.isPending}>
          Set up authenticator app
        </Button>
      </div>
    </form>
  );
}

function Finish({ begun }: { begun: Reply<'POST /:mode/second-factor'> }) {
  const finish = useAct('POST /:mode/second-factor/finish', { refreshes: [['me']], done: 'Two-factor authentication is on.' });
  const [code, setCode] = useState('');
  const secret = new URL(begun.uri).searchParams.get('secret') ?? '';
  const submit = (event: FormEvent) => {
    event.preventDefault();
    finish.mutate({ body: { code: code.replaceAll(' ', '') } });
  };
  return (
    <form onSubmit={submit} className="grid gap-5">
      <ol className="grid list-decimal gap-5 pl-5">
        <li>
          <p>Scan this QR code with your authenticator app, or enter the key.</p>
          <img src={begun.qr} alt="QR code for the authenticator" className="my-3 size-48 rounded-lg" />
          <p className="flex items-center gap-1 text-sm break-all">
            <code>{secret}</code>
            <CopyButton value={secret} label="Copy key" />
          </p>
        </li>
        <li>
          <p className="flex items-center gap-1">
            Save these backup codes. Each one works once, and you won’t see them again.
            <CopyButton value={begun.backup_codes.join('\n')} label="Copy backup codes" />
          </p>
          <Codes codes={begun.backup_codes} />
        </li>
        <li>
          <Field
            label="Code from your authenticator app"
            inputMode="numeric"
            autoComplete="one-time-code"
            required
            value={code}
            onChange={(e) => setCode(e.target.value)}
            fault={finish.error?.message}
          />
        </li>
      </ol>
      <div>
        <Button type="submit" look="main" busy={finish.isPending}>
          Turn on
        </Button>
      </div>
    </form>
  );
}

const Codes = ({ codes }: { codes: readonly string[] }) => (
  <ul className="mt-2 grid grid-cols-2 gap-1 rounded-lg bg-raised p-3 font-mono text-sm">
    {codes.map((text) => (
      <li key={text}>{text}</li>
    ))}
  </ul>
);

function TurnedOn() {
  const [asked, setAsked] = useState(false);
  const [renewing, setRenewing] = useState(false);
  const remove = useAct('POST /:mode/second-factor/remove', {
    refreshes: [['me'], ['team'], ['security']],
    done: 'Two-factor authentication is off.',
  });
  return (
    <div className="grid gap-4">
      <p className="text-soft">You enter a code from your authenticator app when you sign in with your password.</p>
      <div className="flex flex-wrap gap-2">
        <Button onClick={() => setRenewing(true)}>New backup codes</Button>
        <Button look="danger" busy={remove.isPending} onClick={() => setAsked(true)}>
          Turn off
        </Button>
      </div>
      {renewing && <Renew onClose={() => setRenewing(false)} />}
      <Ask
        open={asked}
        onClose={() => setAsked(false)}
        title="Turn off two-factor authentication?"
        text="Anyone who knows your password will be able to sign in."
        act="Turn off"
        danger
        onAct={() => {
          setAsked(false);
          remove.mutate({ body: {} });
        }}
      />
    </div>
  );
}

function Renew({ onClose }: { onClose: () => void }) {
  const renew = useAct('POST /:mode/backup-codes', { refreshes: [['security']] });
  const [password, setPassword] = useState('');
  const codes = renew.data?.backup_codes;
  return (
    <Dialog open onClose={onClose} title="New backup codes">
      {codes ? (
        <>
          <p className="flex items-center gap-1 text-soft">
            Save them now: you won’t see them again. The old codes no longer work.
            <CopyButton value={codes.join('\n')} label="Copy backup codes" />
          </p>
          <Codes codes={codes} />
          <Button look="main" onClick={onClose}>
            I’ve saved them
          </Button>
        </>
      ) : (
        <form
          className="grid gap-4"
          onSubmit={(event) => {
            event.preventDefault();
            renew.mutate({ body: { password } });
          }}
        >
          <p className="text-soft">Ten new codes replace your current ones. Trusted devices need a code again.</p>
          <PasswordField label="Your password" value={password} onChange={setPassword} fault={renew.error?.message} />
          <Button type="submit" look="main" busy={renew.isPending}>
            Create new codes
          </Button>
        </form>
      )}
    </Dialog>
  );
}
