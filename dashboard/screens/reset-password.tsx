/** Where the link in a password reset email leads: choose a new password. */
import { Link } from '@tanstack/react-router';
import { type FormEvent, useEffect, useState } from 'react';
import { ApiError, call } from '../lib/api.ts';
import { Button, buttonClass } from '../ui/button.tsx';
import { Entry } from '../ui/entry.tsx';
import { PasswordField } from '../ui/password.tsx';

export function Screen() {
  const [password, setPassword] = useState('');
  const [state, setState] = useState<'form' | 'invalid' | 'done'>('form');
  const [fault, setFault] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    document.title = 'Reset password · Florin';
  }, []);
  const reset = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setFault(null);
    try {
      await call('POST /reset-password', { body: { token: location.hash.slice(1) || '-', password } });
      setState('done');
    } catch (error) {
      if (error instanceof ApiError && error.code === 'reset_link_invalid') setState('invalid');
      else setFault(error instanceof Error ? error.message : String(error));
    }
    setBusy(false);
  };
  if (state === 'invalid') {
    return (
      <Entry title="This link no longer works">
        <p role="alert">It was already used, was replaced by a newer one, or has expired.</p>
        <Link to="/forgot-password" className={buttonClass('main')}>
          Get a new link
        </Link>
      </Entry>
    );
  }
  if (state === 'done') {
    return (
      <Entry title="Password changed">
        <p role="status">You were signed out everywhere. Sign in with your new password.</p>
        <Link to="/sign-in" className={buttonClass('main')}>
          Sign in
        </Link>
      </Entry>
    );
  }
  return (
    <Entry title="Choose a new password" lead="You will be signed out on all devices.">
      <form onSubmit={reset} className="grid gap-4">
        <PasswordField label="New password" chosen value={password} onChange={setPassword} fault={fault} />
        <Button type="submit" look="main" busy={busy}>
          Change password
        </Button>
      </form>
    </Entry>
  );
}
