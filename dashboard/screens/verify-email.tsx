/** Where the link in a mail to one's own address leads: it works only in a browser where its person is signed in. */
import { useEffect, useState } from 'react';
import { ApiError, call } from '../lib/api.ts';
import { Button, buttonClass } from '../ui/button.tsx';
import { Entry } from '../ui/entry.tsx';

const KEY = 'florin-verify-email';
/** From the link; while one signs in first it waits in this tab. */
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
    document.title = 'Verify e-mail · Florin';
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
    <Entry title="Verify your e-mail address">
      {state === 'asked' ? (
        <>
          <p className="text-soft">Verifying shows that the mailbox of your account is yours.</p>
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
          <p className="text-soft">Sign in to the account that this link is for, then verify the address.</p>
          <a className={buttonClass('main')} href="/dashboard/sign-in?next=%2Fverify-email">
            Sign in
          </a>
        </>
      ) : (
        <p role="status">
          Your address is verified. <a href="/dashboard">Go to the dashboard</a>
        </p>
      )}
    </Entry>
  );
}
