/** The page behind the one-time setup link: creates the first owner. */
import { type FormEvent, useEffect, useState } from 'react';
import { ApiError, call } from '../lib/api.ts';
import { Button } from '../ui/button.tsx';
import { Entry } from '../ui/entry.tsx';
import { Field } from '../ui/field.tsx';
import { PasswordField } from '../ui/password.tsx';

/** The end of the setup link; empty on a page that was opened without it. */
const givenToken = () => location.hash.slice(1).replace(/^token=/, '');

export function Screen() {
  const [given] = useState(givenToken);
  const [token, setToken] = useState(given);
  const [name, setName] = useState('');
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    document.title = 'Set up · Florin';
  }, []);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      await call('POST /set-up', { body: { token: token.trim().replace(/^.*#token=/, ''), name, email, password } });
      location.assign('/dashboard');
    } catch (failure) {
      setError(failure as Error);
      setBusy(false);
    }
  };
  const faultOf = (param: string) => (error instanceof ApiError && error.param === param ? error.message : null);
  return (
    <Entry title="Create your account" lead="You can invite your team later.">
      <form onSubmit={submit} className="grid gap-4">
        {given === '' && (
          <Field
            label="Setup code"
            required
            autoComplete="off"
            value={token}
            onChange={(e) => setToken(e.target.value)}
            fault={faultOf('token')}
            hint="The setup link, or the code at its end. A server prints the link in its log at every start: “journalctl -u florin” or “docker logs”. On a home server, the page of the app shows the code. If SETUP_TOKEN is set, it is the code."
          />
        )}
        <Field
          label="Name"
          autoComplete="name"
          required
          maxLength={60}
          value={name}
          onChange={(e) => setName(e.target.value)}
          fault={faultOf('name')}
        />
        <Field
          label="Email"
          type="email"
          autoComplete="username"
          required
          value={email}
          onChange={(e) => setEmail(e.target.value)}
          fault={faultOf('email')}
        />
        <PasswordField chosen value={password} onChange={setPassword} fault={faultOf('password')} />
        {error && !(error instanceof ApiError && error.param) && (
          <p role="alert" className="text-sm text-bad">
            {error.message}
          </p>
        )}
        <Button type="submit" look="main" busy={busy}>
          Create account
        </Button>
      </form>
    </Entry>
  );
}
