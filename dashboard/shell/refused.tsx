/** What stands where a screen is not for its visitor. */
import { Link } from '@tanstack/react-router';
import type { Action } from '../generated/api.ts';
import { useApi } from '../lib/hooks.ts';
import { buttonClass } from '../ui/button.tsx';

/** In place of every screen, until the second factor that the merchant asks for is set. */
export const Locked = ({ mode, merchant }: { mode: string; merchant: string }) => (
  <div className="mx-auto grid max-w-md justify-items-start gap-4 py-16">
    <h1>Set a second factor</h1>
    <p className="text-soft">{merchant} asks all members for one. It takes a minute and an authenticator app on your telephone.</p>
    <Link to={`/${mode}/security`} className={buttonClass('main')}>
      Set it up
    </Link>
  </div>
);

/** `operator`: it is for those who run the install, whatever their role. */
export const Refused = ({ role, merchant, action, operator }: { role: string; merchant: string; action: Action; operator: boolean }) => (
  <div className="grid gap-2 rounded-xl border border-line bg-card px-6 py-16 text-center">
    <h1>{operator ? 'For operators alone' : 'Not part of your role'}</h1>
    <p className="text-soft">
      {operator ? (
        'Only operators of this install reach this.'
      ) : (
        <>
          Your role, {role}, does not include this. <Needed action={action} />
          An owner of {merchant} can change that.
        </>
      )}
    </p>
  </div>
);

function Needed({ action }: { action: Action }) {
  const { data } = useApi('GET /:mode/access', ['access', action], { query: { action } });
  return data && `Needed: ${data.needed}. `;
}
