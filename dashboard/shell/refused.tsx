/** Shown in place of a screen that you may not open. */
import { Link } from '@tanstack/react-router';
import type { Action } from '../generated/api.ts';
import { useApi } from '../lib/hooks.ts';
import { buttonClass } from '../ui/button.tsx';

/** In place of every screen, until you set up the two-factor authentication that the merchant requires. */
export const Locked = ({ mode, merchant }: { mode: string; merchant: string }) => (
  <div className="mx-auto grid max-w-md justify-items-start gap-4 py-16">
    <h1>Set up two-factor authentication</h1>
    <p className="text-soft">
      {merchant} requires it for all members. You need an authenticator app on your phone. It takes about a minute.
    </p>
    <Link to={`/${mode}/security`} className={buttonClass('main')}>
      Set it up
    </Link>
  </div>
);

/** `operator`: the screen is for operators of the install only, whatever their role. */
export const Refused = ({ role, merchant, action, operator }: { role: string; merchant: string; action: Action; operator: boolean }) => (
  <div className="grid gap-2 rounded-xl border border-line bg-card px-6 py-16 text-center">
    <h1>{operator ? 'Operators only' : 'You don’t have access'}</h1>
    <p className="text-soft">
      {operator ? (
        'Only operators of this install can open this page.'
      ) : (
        <>
          Your role, {role}, doesn’t include this page. <Needed action={action} />
          Ask an owner of {merchant} to change your role.
        </>
      )}
    </p>
  </div>
);

function Needed({ action }: { action: Action }) {
  const { data } = useApi('GET /:mode/access', ['access', action], { query: { action } });
  return data && <span>{`Required role: ${data.needed}. `}</span>;
}
