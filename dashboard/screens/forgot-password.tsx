/** "Forgot password?": sends a reset link where this install can send email, and says who can help where it cannot. */
import { Link } from '@tanstack/react-router';
import { type FormEvent, useEffect, useState } from 'react';
import { call } from '../lib/api.ts';
import { Button } from '../ui/button.tsx';
import { Entry } from '../ui/entry.tsx';
import { Field } from '../ui/field.tsx';

/** What the person who runs the service types; in quotes where a shell would read the address differently. */
const commandFor = (email: string): string =>
  `./florin user password --email ${/^[\w@.+-]+$/.test(email) ? email : `'${email.replaceAll("'", "'\\''")}'`}`;

export function Screen() {
  const [email, setEmail] = useState('');
  const [state, setState] = useState<'form' | 'sent' | 'no-mail'>('form');
  const [fault, setFault] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    document.title = 'Forgot password · Florin';
  }, []);
  const ask = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setFault(null);
    await call('POST /forgot-password', { body: { address: email } }).then(
      ({ by_mail }) => setState(by_mail ? 'sent' : 'no-mail'),
      (error) => setFault(error instanceof Error ? error.message : String(error)),
    );
    setBusy(false);
  };
  const help = (
    <>
      The person who runs this Florin can give you a new password with this command:
      <code className="mt-2 block break-all rounded-lg border border-line p-3 text-sm text-ink">{commandFor(email)}</code>
    </>
  );
  const back = (
    <Link to="/sign-in" className="justify-self-center text-sm">
      Back to sign in
    </Link>
  );
  if (state === 'sent') {
    return (
      <Entry title="Check your email">
        <div role="status" className="grid gap-4">
          <p>
            If {email} is the verified address of an account, we sent it a link to choose a new password. The link works for an hour. If one
            was sent in the last 15 minutes, use that one.
          </p>
          <p className="text-soft">Nothing arrived after a few minutes? Check the spam folder. {help}</p>
        </div>
        {back}
      </Entry>
    );
  }
  if (state === 'no-mail') {
    return (
      <Entry title="Ask your operator">
        <div role="status" className="grid gap-4">
          <p>This Florin is not set up to send email.</p>
          <p className="text-soft">{help}</p>
        </div>
        {back}
      </Entry>
    );
  }
  return (
    <Entry title="Forgot your password?" lead="Enter your email address to get a link for choosing a new password.">
      <form onSubmit={ask} className="grid gap-4">
        <Field
          label="Email"
          type="email"
          autoComplete="username"
          required
          autoFocus
          value={email}
          onChange={(event) => setEmail(event.target.value)}
          fault={fault}
        />
        <Button type="submit" look="main" busy={busy}>
          Send reset link
        </Button>
      </form>
      {back}
    </Entry>
  );
}
