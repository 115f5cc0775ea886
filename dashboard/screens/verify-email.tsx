/** The page behind the link in a verification email. The link works only for the person it was sent to, signed in. */
import { useEffect, useState } from 'react';
import { ApiError, call } from '../lib/api.ts';
import { Button, buttonClass } from '../ui/button.tsx';
import { Entry } from '../ui/entry.tsx';

const KEY = 'florin-verify-email';
/** The token from the link. It is kept in this tab while the person signs in first. */
const takeToken = (): string => {
  const token = location.hash.slice(1);
  if (token !== '') sessionStorage.setItem(KEY, token);
  return token || (sessionStorage.getItem(KEY) ?? '');
};

export function Screen() {
  const [token] = useState(takeToken);
  const [state, setState] = useState<'asked' | 'sign-in' | 'done'>('asked');
  const [fault, setFault] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    document.title = 'Verify email · Florin';
  }, []);
  const verify = async () => {
    setBusy(true);
    try {
      await call('POST /verify-email', { body: { token: token || '-' } });
      sessionStorage.removeItem(KEY);
      setState('done');
    } catch (error) {
      if (error instanceof ApiError && error.code === 'not_signed_in') setState('sign-in');
      else setFault(error instanceof Error ? error.message : String(error));
    }
    setBusy(false);
  };
  return (
    <Entry title="Verify your email address">
      {state === 'asked' ? (
        <>
          <p className="text-soft">Confirm that this email address is yours.</p>
          {fault && (
            <p role="alert" className="text-sm text-bad">
              {fault}
            </p>
          )}
          <Button look="main" busy={busy} onClick={() => void verify()}>
            Verify
          </Button>
        </>
      ) : state === 'sign-in' ? (
        <>
          <p className="text-soft">Sign in to your account to verify this address.</p>
          <a className={buttonClass('main')} href="/dashboard/sign-in?next=%2Fverify-email">
            Sign in
          </a>
        </>
      ) : (
        <p role="status">
          Your email address is verified. <a href="/dashboard">Go to the dashboard</a>
        </p>
      )}
    </Entry>
  );
}
