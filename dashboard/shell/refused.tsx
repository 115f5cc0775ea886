/** What stands where a screen is not for its visitor. */
import { Link } from '@tanstack/react-router';
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

export const Refused = ({ role, merchant }: { role: string; merchant: string }) => (
  <div className="grid gap-2 rounded-xl border border-line bg-card px-6 py-16 text-center">
    <h1>Not part of your role</h1>
    <p className="text-soft">
      Your role, {role}, does not include this. An owner of {merchant} can change that.
    </p>
  </div>
);
