/** The page behind the link in an email about a new address. Only the button confirms the change, not opening the page. */
import { useEffect, useState } from 'react';
import { call } from '../lib/api.ts';
import { Button } from '../ui/button.tsx';
import { Entry } from '../ui/entry.tsx';

export function Screen() {
  const [state, setState] = useState<'asked' | 'waiting' | 'changed'>('asked');
  const [fault, setFault] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    document.title = 'Change email · Florin';
  }, []);
  const confirm = async () => {
    setBusy(true);
    try {
      const { changed } = await call('POST /confirm-email', { body: { token: location.hash.slice(1) || '-' } });
      setState(changed ? 'changed' : 'waiting');
    } catch (error) {
      setFault(error instanceof Error ? error.message : String(error));
    }
    setBusy(false);
  };
  return (
    <Entry title="Change your email address">
      {state === 'asked' ? (
        <>
          <p className="text-soft">Someone asked to change the email address of this account. If it was you, confirm the change.</p>
          {fault && (
            <p role="alert" className="text-sm text-bad">
              {fault}
            </p>
          )}
          <Button look="main" busy={busy} onClick={() => void confirm()}>
            Confirm change
          </Button>
        </>
      ) : (
        <p role="status">
          {state === 'changed' ? (
            <>
              Your email address was changed. <a href="/dashboard/sign-in">Sign in with your new address</a>.
            </>
          ) : (
            'Confirmed. The change takes effect when you open the link that we sent to your other address, too.'
          )}
        </p>
      )}
    </Entry>
  );
}
