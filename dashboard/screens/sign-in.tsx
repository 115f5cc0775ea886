/** Sign-in with a passkey, or with email and password and then a two-factor code if two-factor authentication is on. */
import {
  browserSupportsWebAuthn,
  browserSupportsWebAuthnAutofill,
  startAuthentication,
  WebAuthnAbortService,
} from '@simplewebauthn/browser';
import { Link, useLocation } from '@tanstack/react-router';
import { type FormEvent, useEffect, useState } from 'react';
import { ApiError, call } from '../lib/api.ts';
import { Button } from '../ui/button.tsx';
import { Entry } from '../ui/entry.tsx';
import { Field } from '../ui/field.tsx';
import { Tick } from '../ui/form.tsx';
import { PasswordField } from '../ui/password.tsx';

/** `offered`: as a suggestion in the email field while the page is open, instead of a dialog. */
async function showPasskey({ offered }: { offered: boolean }): Promise<void> {
  const { options } = await call('POST /sign-in/passkey/options', { body: {} });
  const response = await startAuthentication({ optionsJSON: options as never, useBrowserAutofill: offered });
  await call('POST /sign-in/passkey', { body: { response: response as never } });
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

export function Screen() {
  const next = useLocation({ select: (location) => (location.search as { next?: string }).next });
  const [step, setStep] = useState<'password' | 'totp' | 'backup_code'>('password');
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const [code, setCode] = useState('');
  const [trust, setTrust] = useState(false);
  const [fault, setFault] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    document.title = 'Sign in · Florin';
  }, []);
  // A full page load: nothing read before may be shown to the person who signs in now. Only paths of this app are followed.
  const enter = () =>
    location.assign(`/dashboard${next && /^(\/invite$|\/verify-email$|\/(test|live)\/[\w/?=&.%:-]*$)/.test(next) ? next : ''}`);
  const trying = async (work: () => Promise<void>) => {
    setBusy(true);
    setFault(null);
    await work().catch((error) => setFault(messageOf(error)));
    setBusy(false);
  };
  const withPassword = (event: FormEvent) => {
    event.preventDefault();
    return trying(async () => {
      const reply = await call('POST /sign-in', { body: { email, password } });
      if (!reply.needs_second_factor) return enter();
      setPassword('');
      setStep('totp');
    });
  };
  const withCode = (event: FormEvent) => {
    event.preventDefault();
    return trying(async () => {
      const typed = code.replaceAll(' ', '');
      await call('POST /sign-in/code', {
        body: step === 'totp' ? { kind: 'totp', code: typed, trust_device: trust } : { kind: 'backup_code', code: typed },
      });
      enter();
    });
  };
  const withPasskey = () =>
    trying(async () => {
      await showPasskey({ offered: false });
      enter();
    });
  // The browser suggests its passkeys in the email field; people who type see no difference.
  // biome-ignore lint/correctness/useExhaustiveDependencies: once, when the page opens
  useEffect(() => {
    let isLeft = false;
    const offer = async () => {
      if (!(await browserSupportsWebAuthnAutofill()) || isLeft) return;
      await showPasskey({ offered: true });
      if (!isLeft) enter();
    };
    offer().catch((error) => {
      // Ignore failures of the suggestion; show only that a chosen passkey was refused.
      if (error instanceof ApiError && error.code === 'sign_in_failed' && !isLeft) setFault(error.message);
    });
    return () => {
      isLeft = true;
      WebAuthnAbortService.cancelCeremony();
    };
  }, []);
  if (step !== 'password') {
    const other = step === 'totp' ? 'backup_code' : 'totp';
    return (
      <Entry
        title="Two-factor authentication"
        lead={step === 'totp' ? 'Enter the code from your authenticator app.' : 'Enter one of your backup codes.'}
      >
        <form onSubmit={withCode} className="grid gap-4">
          <Field
            key={step}
            label={step === 'totp' ? 'Code' : 'Backup code'}
            autoComplete="one-time-code"
            inputMode={step === 'totp' ? 'numeric' : 'text'}
            required
            autoFocus
            value={code}
            onChange={(e) => setCode(e.target.value)}
            fault={fault}
          />
          {step === 'totp' && (
            <Tick
              label="Don’t ask for a code on this device for 30 days"
              hint="You will still need your password. Use this only on a device that nobody else uses."
              checked={trust}
              onChange={(e) => setTrust(e.target.checked)}
            />
          )}
          <Button type="submit" look="main" busy={busy}>
            Sign in
          </Button>
          <Button
            look="ghost"
            onClick={() => {
              setStep(other);
              setCode('');
              setFault(null);
            }}
          >
            {other === 'totp' ? 'Use your authenticator app' : 'Use a backup code'}
          </Button>
        </form>
      </Entry>
    );
  }
  return (
    <Entry title="Sign in">
      {browserSupportsWebAuthn() && (
        <>
          <Button onClick={withPasskey} busy={busy}>
            Sign in with a passkey
          </Button>
          <p className="flex items-center gap-3 text-sm text-soft before:h-px before:flex-1 before:bg-line after:h-px after:flex-1 after:bg-line">
            or
          </p>
        </>
      )}
      <form onSubmit={withPassword} className="grid gap-4">
        <Field
          label="Email"
          type="email"
          autoComplete="username webauthn"
          required
          value={email}
          onChange={(e) => setEmail(e.target.value)}
        />
        <PasswordField value={password} onChange={setPassword} fault={fault} />
        <Button type="submit" look="main" busy={busy}>
          Sign in
        </Button>
        <Link to="/forgot-password" className="justify-self-center text-sm">
          Forgot password?
        </Link>
      </form>
      <p className="text-center text-sm text-soft">
        No account yet? On a new server, open the setup link that Florin printed when it started. To join a team, ask for an invite.
      </p>
    </Entry>
  );
}
