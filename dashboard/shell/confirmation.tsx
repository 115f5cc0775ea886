/** Asks you to confirm your identity: with a passkey, a code, or your password where two-factor authentication is off. */
import { type FormEvent, useState } from 'react';
import { call } from '../lib/api.ts';
import { confirmation } from '../lib/confirmation.ts';
import { useMe, useMode } from '../lib/hooks.ts';
import { useStore } from '../lib/store.ts';
import { Button } from '../ui/button.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { Field } from '../ui/field.tsx';
import { PasswordField } from '../ui/password.tsx';

type Body = { code: string } | { password: string } | { passkey: Record<string, unknown> };

export function Confirmation() {
  const answer = useStore(confirmation);
  const mode = useMode();
  const me = useMe();
  const [value, setValue] = useState('');
  const [fault, setFault] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const withCode = me?.user.has_second_factor ?? false;
  const confirm = async (show: () => Promise<Body> | Body) => {
    setBusy(true);
    try {
      await call('POST /:mode/confirm', { params: { mode }, body: await show() });
      setValue('');
      setFault(null);
      answer?.(true);
    } catch (error) {
      setFault(error instanceof Error ? error.message : String(error));
    }
    setBusy(false);
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void confirm(() => (withCode ? { code: value.replaceAll(' ', '') } : { password: value }));
  };
  const withPasskey = () =>
    confirm(async () => {
      const { options } = await call('POST /sign-in/passkey/options', { body: {} });
      const { startAuthentication } = await import('@simplewebauthn/browser');
      return { passkey: (await startAuthentication({ optionsJSON: options as never })) as never };
    });
  return (
    <Dialog open={answer !== null} onClose={() => answer?.(false)} title="Confirm your identity">
      <form onSubmit={submit} className="grid gap-4">
        {withCode ? (
          <Field
            label="Code from your authenticator app"
            inputMode="numeric"
            autoComplete="one-time-code"
            required
            value={value}
            onChange={(e) => setValue(e.target.value)}
            fault={fault}
          />
        ) : (
          <PasswordField value={value} onChange={setValue} fault={fault} />
        )}
        <Button type="submit" look="main" busy={busy}>
          Confirm
        </Button>
        {me?.user.has_passkey && (
          <Button onClick={() => void withPasskey()} busy={busy}>
            Confirm with a passkey
          </Button>
        )}
      </form>
    </Dialog>
  );
}
