/** Where the link in a mail about a new address leads: a click agrees, opening alone does not. */
import { useEffect, useState } from 'react';
import { call } from '../lib/api.ts';
import { Button } from '../ui/button.tsx';
import { Entry } from '../ui/entry.tsx';

export function Screen() {
  const [state, setState] = useState<'asked' | 'waiting' | 'changed'>('asked');
  const [fault, setFault] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    document.title = 'Change of e-mail · Florin';
  }, []);
  const agree = async () => {
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
    <Entry title="Change of e-mail address">
      {state === 'asked' ? (
        <>
          <p className="text-soft">Somebody asked to sign in with another address from now on. If it was you, agree.</p>
          {fault && (
            <p role="alert" className="text-sm text-bad">
              {fault}
            </p>
          )}
          <Button look="main" busy={busy} onClick={() => void agree()}>
            Agree
          </Button>
        </>
      ) : (
        <p role="status">
          {state === 'changed' ? (
            <>
              Done. <a href="/dashboard/sign-in">Sign in with the new address</a> from now on.
            </>
          ) : (
            'This address agrees. The change happens once the other one was opened as well.'
          )}
        </p>
      )}
    </Entry>
  );
}
