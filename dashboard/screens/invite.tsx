/** The page behind an invite link: join with an existing account, or create one. */
import { type FormEvent, useEffect, useState } from 'react';
import { ApiError, call, type Reply } from '../lib/api.ts';
import { Button, buttonClass } from '../ui/button.tsx';
import { Entry } from '../ui/entry.tsx';
import { Field } from '../ui/field.tsx';
import { PasswordField } from '../ui/password.tsx';
import { ErrorCard, Skeleton } from '../ui/states.tsx';

const KEY = 'florin-invite';
/** The token from the link. It is kept in this tab while the person signs in first. */
const takeToken = (): string => {
  const token = location.hash.slice(1);
  if (token !== '') sessionStorage.setItem(KEY, token);
  return token || (sessionStorage.getItem(KEY) ?? '');
};

export function Screen() {
  const [token] = useState(takeToken);
  const [invite, setInvite] = useState<Reply<'POST /invite'> | null>(null);
  const [name, setName] = useState('');
  const [password, setPassword] = useState('');
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    document.title = 'Invite · Florin';
    call('POST /invite', { body: { token: token || '-' } }).then(setInvite, setError);
  }, [token]);
  const accept = async (body: { name?: string; password?: string }) => {
    setBusy(true);
    setError(null);
    try {
      await call('POST /invite/accept', { body: { token, ...body } });
      sessionStorage.removeItem(KEY);
      location.assign('/dashboard');
    } catch (failure) {
      setError(failure as Error);
      setBusy(false);
    }
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void accept({ name, password });
  };
  if (!invite) {
    return (
      <Entry title="Invite">
        {error ? (
          error instanceof ApiError && error.status === 404 ? (
            <p role="alert">{error.message}</p>
          ) : (
            <ErrorCard error={error} />
          )
        ) : (
          <Skeleton lines={4} />
        )}
      </Entry>
    );
  }
  const faultOf = (param: string) => (error instanceof ApiError && error.param === param ? error.message : null);
  const other = invite.signed_in_as !== null && invite.signed_in_as !== invite.invited_email;
  return (
    <Entry
      title={`Join ${invite.merchant_name}`}
      lead={`You’re invited to join with the ${invite.role} role. Your sign-in email is ${invite.invited_email}.`}
    >
      {error && !(error instanceof ApiError && error.param) && (
        <p role="alert" className="text-sm text-bad">
          {error.message}
        </p>
      )}
      {other ? (
        <>
          <p className="text-soft">
            You’re signed in as {invite.signed_in_as}, but this invite is for {invite.invited_email}. Sign out to accept it.
          </p>
          <Button
            busy={busy}
            onClick={async () => {
              await call('POST /sign-out', { body: {} });
              location.reload();
            }}
          >
            Sign out
          </Button>
        </>
      ) : invite.signed_in_as !== null ? (
        <Button look="main" busy={busy} onClick={() => void accept({})}>
          Join
        </Button>
      ) : invite.has_account ? (
        <a className={buttonClass('main')} href="/dashboard/sign-in?next=%2Finvite">
          Sign in to join
        </a>
      ) : (
        <form onSubmit={submit} className="grid gap-4">
          <Field
            label="Name"
            autoComplete="name"
            required
            maxLength={100}
            value={name}
            onChange={(e) => setName(e.target.value)}
            fault={faultOf('name')}
          />
          <Field label="Email" type="email" autoComplete="username" readOnly value={invite.invited_email} />
          <PasswordField chosen value={password} onChange={setPassword} fault={faultOf('password')} />
          <Button type="submit" look="main" busy={busy}>
            Create account and join
          </Button>
        </form>
      )}
    </Entry>
  );
}
