/** Password and email address. */
import { type FormEvent, useState } from 'react';
import { ApiError } from '../../lib/api.ts';
import { useAct, useMe } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Field } from '../../ui/field.tsx';
import { PasswordField } from '../../ui/password.tsx';
import { Card } from '../../ui/states.tsx';
import { Badge } from '../../ui/values.tsx';

/** The error of a field. An error that names no field is shown at the first one. */
const faultAt = (error: Error | null, param: string, isFirst = false): string | null =>
  error === null
    ? null
    : error instanceof ApiError && error.param === param
      ? error.message
      : isFirst && !(error instanceof ApiError && error.param)
        ? error.message
        : null;

export function Credentials({
  pendingEmail,
  isVerified,
  mailSetUp,
}: {
  pendingEmail: string | null;
  isVerified: boolean;
  mailSetUp: boolean;
}) {
  const me = useMe();
  const verify = useAct('POST /:mode/email/proof', { done: 'We emailed you a link.' });
  const [open, setOpen] = useState<'password' | 'email' | null>(null);
  return (
    <Card title="Password and email">
      <div className="flex flex-wrap items-center justify-between gap-3 border-b border-line px-4 py-3">
        <div className="min-w-0">
          <p className="font-medium">Password</p>
          <p className="text-sm text-soft">Changing your password signs you out everywhere else, and trusted devices need a code again.</p>
        </div>
        <Button onClick={() => setOpen('password')}>Change password</Button>
      </div>
      <div className="flex flex-wrap items-center justify-between gap-3 px-4 py-3">
        <div className="min-w-56 flex-1">
          <p className="flex flex-wrap items-center gap-2 font-medium">
            Email
            <Badge tone={isVerified ? 'good' : 'calm'}>{isVerified ? 'Verified' : 'Not verified'}</Badge>
          </p>
          <p className="text-sm break-words text-soft">{me?.user.email}</p>
          {!isVerified && mailSetUp && (
            <p className="text-sm break-words text-soft">We send security alerts to this address. Verify that it’s yours.</p>
          )}
          {pendingEmail && (
            <p className="text-sm break-words text-warn">
              To change your email to {pendingEmail}, open the links we sent to your old and your new address.
            </p>
          )}
          {!mailSetUp && (
            <p className="text-sm break-words text-soft">
              You can’t change your email here because no mail server is set up. Ask your operator to run:{' '}
              <code className="block pt-1 break-words">./florin user email --email {me?.user.email} --to NEW</code>
            </p>
          )}
        </div>
        {mailSetUp && (
          <div className="flex flex-wrap gap-2">
            {!isVerified && (
              <Button busy={verify.isPending} onClick={() => verify.mutate({ body: {} })}>
                Verify email
              </Button>
            )}
            <Button onClick={() => setOpen('email')}>Change email</Button>
          </div>
        )}
      </div>
      {open === 'password' && <Password onClose={() => setOpen(null)} />}
      {open === 'email' && <Email onClose={() => setOpen(null)} />}
    </Card>
  );
}

function Password({ onClose }: { onClose: () => void }) {
  const change = useAct('POST /:mode/password', { refreshes: [['security']], done: 'Password changed.' });
  const [password, setPassword] = useState('');
  const [next, setNext] = useState('');
  const submit = (event: FormEvent) => {
    event.preventDefault();
    change.mutate({ body: { password, new_password: next } }, { onSuccess: onClose });
  };
  return (
    <Dialog open onClose={onClose} title="Change password">
      <form onSubmit={submit} className="grid gap-4">
        <PasswordField label="Current password" value={password} onChange={setPassword} fault={faultAt(change.error, 'password', true)} />
        <PasswordField label="New password" chosen value={next} onChange={setNext} fault={faultAt(change.error, 'new_password')} />
        <Button type="submit" look="main" busy={change.isPending}>
          Change password
        </Button>
      </form>
    </Dialog>
  );
}

function Email({ onClose }: { onClose: () => void }) {
  const change = useAct('POST /:mode/email', { refreshes: [['security']], done: 'Check both mailboxes for a link.' });
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const submit = (event: FormEvent) => {
    event.preventDefault();
    change.mutate({ body: { new_email: email, password } }, { onSuccess: onClose });
  };
  return (
    <Dialog open onClose={onClose} title="Change email address">
      <form onSubmit={submit} className="grid gap-4">
        <p className="text-soft">We’ll send a link to your old and your new address. Your email changes when you open both.</p>
        <Field
          label="New email"
          type="email"
          autoComplete="email"
          required
          value={email}
          onChange={(e) => setEmail(e.target.value)}
          fault={faultAt(change.error, 'new_email') ?? faultAt(change.error, 'email')}
        />
        <PasswordField label="Your password" value={password} onChange={setPassword} fault={faultAt(change.error, 'password', true)} />
        <Button type="submit" look="main" busy={change.isPending}>
          Send links
        </Button>
      </form>
    </Dialog>
  );
}
