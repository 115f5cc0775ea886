/** The second factor of one's own account: set with an authenticator, taken away again. */
import { type FormEvent, useState } from 'react';
import type { Reply } from '../lib/api.ts';
import { useAct, useMe, useTitle } from '../lib/hooks.ts';
import { Button } from '../ui/button.tsx';
import { Ask } from '../ui/dialog.tsx';
import { Field } from '../ui/field.tsx';
import { Card } from '../ui/states.tsx';
import { Badge, CopyButton } from '../ui/values.tsx';

export function Screen() {
  useTitle('Security');
  const me = useMe();
  return (
    <div className="grid max-w-2xl gap-6">
      <h1>Security</h1>
      <Card
        title="Second factor"
        action={me && <Badge tone={me.user.has_second_factor ? 'good' : 'warn'}>{me.user.has_second_factor ? 'On' : 'Off'}</Badge>}
      >
        <div className="p-4">{me && (me.user.has_second_factor ? <Remove /> : <SetUp />)}</div>
      </Card>
    </div>
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
      <p className="text-soft">With an authenticator app a stolen password alone opens nothing.</p>
      <Field
        label="Your password"
        type="password"
        autoComplete="current-password"
        required
        value={password}
        onChange={(e) => setPassword(e.target.value)}
        fault={start.error?.message}
      />
      <div>
        <Button type="submit" look="main" busy={start.isPending}>
          Set up an authenticator
        </Button>
      </div>
    </form>
  );
}

function Finish({ begun }: { begun: Reply<'POST /:mode/second-factor'> }) {
  const finish = useAct('POST /:mode/second-factor/finish', { refreshes: [['me']], done: 'The second factor is on.' });
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
          <p>Scan this with your authenticator, or type the key.</p>
          <img src={begun.qr} alt="QR code for the authenticator" className="my-3 size-48 rounded-lg" />
          <p className="flex items-center gap-1 text-sm break-all">
            <code>{secret}</code>
            <CopyButton value={secret} label="Copy the key" />
          </p>
        </li>
        <li>
          <p className="flex items-center gap-1">
            Store these backup codes. Each works once, and they are shown this once.
            <CopyButton value={begun.backup_codes.join('\n')} label="Copy the backup codes" />
          </p>
          <ul className="mt-2 grid grid-cols-2 gap-1 rounded-lg bg-raised p-3 font-mono text-sm">
            {begun.backup_codes.map((text) => (
              <li key={text}>{text}</li>
            ))}
          </ul>
        </li>
        <li>
          <Field
            label="The code that the authenticator shows now"
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

function Remove() {
  const [asked, setAsked] = useState(false);
  const remove = useAct('POST /:mode/second-factor/remove', { refreshes: [['me']], done: 'The second factor is off.' });
  return (
    <div className="grid gap-4">
      <p className="text-soft">Signing in asks for the code of your authenticator.</p>
      <div>
        <Button look="danger" busy={remove.isPending} onClick={() => setAsked(true)}>
          Turn off
        </Button>
      </div>
      <Ask
        open={asked}
        onClose={() => setAsked(false)}
        title="Turn off the second factor?"
        text="From then on the password alone opens this account."
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
