/** Your own account: two-factor authentication, passkeys, password and email address, sessions, and trusted devices. */
import { useApi, useTitle } from '../../lib/hooks.ts';
import { Card, Pending } from '../../ui/states.tsx';
import { Credentials } from './credentials.tsx';
import { Passkeys } from './passkeys.tsx';
import { SecondFactor } from './second-factor.tsx';
import { Sessions } from './sessions.tsx';
import { TrustedDevices } from './trusted-devices.tsx';

export function Screen() {
  useTitle('Security');
  const security = useApi('GET /:mode/security', ['security'], {});
  return (
    <div className="grid max-w-3xl gap-6">
      <h1>Security</h1>
      <SecondFactor />
      {security.data ? (
        <>
          <Passkeys passkeys={security.data.passkeys} />
          <Credentials
            pendingEmail={security.data.pending_email}
            isVerified={security.data.email_verified}
            mailSetUp={security.data.mail_set_up}
          />
          <Sessions sessions={security.data.sessions} />
          <TrustedDevices devices={security.data.trusted_devices} />
        </>
      ) : (
        <Card>
          <Pending of={security} />
        </Card>
      )}
    </div>
  );
}
