/** The devices that are not asked for a code when one signs in, each with its end; any of them can be forgotten. */
import type { Reply } from '../../lib/api.ts';
import { useAct } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/states.tsx';
import { Time } from '../../ui/values.tsx';
import { Row } from './row.tsx';
import { nameBrowser } from './sessions.tsx';

type Device = Reply<'GET /:mode/security'>['trusted_devices'][number];

export function TrustedDevices({ devices }: { devices: readonly Device[] }) {
  const forget = useAct('DELETE /:mode/trusted-devices/:id', {
    refreshes: [['security']],
    done: 'Forgotten. The next sign-in there asks for a code.',
  });
  return (
    <Card title="Trusted devices">
      {devices.length === 0 ? (
        <p className="px-4 py-3 text-sm text-soft">
          None: every sign-in with the password asks for a code. A device becomes trusted for 30 days where you tick it beside the code.
        </p>
      ) : (
        <ul>
          {devices.map((device) => (
            <Row
              key={device.id}
              title={nameBrowser(device.user_agent)}
              current={device.current}
              acts={
                <Button
                  aria-label={`Forget ${nameBrowser(device.user_agent)}, ${device.ip}`}
                  busy={forget.isPending && forget.variables?.params.id === device.id}
                  onClick={() => forget.mutate({ params: { id: device.id }, body: {} })}
                >
                  Forget
                </Button>
              }
            >
              <p>
                {device.ip} · made <Time at={device.created_at} /> · last used <Time at={device.used_at} />
              </p>
              <p>
                Ends <Time at={device.expires_at} />
              </p>
            </Row>
          ))}
        </ul>
      )}
    </Card>
  );
}
