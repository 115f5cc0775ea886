/** Devices where signing in needs no code until their trust expires; each one can be removed. */
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
    done: 'Device removed. The next sign-in there needs a code.',
  });
  return (
    <Card title="Trusted devices">
      {devices.length === 0 ? (
        <p className="px-4 py-3 text-sm text-soft">No trusted devices. You can trust a device for 30 days when you enter your code.</p>
      ) : (
        <ul>
          {devices.map((device) => (
            <Row
              key={device.id}
              title={nameBrowser(device.user_agent)}
              current={device.current}
              acts={
                <Button
                  aria-label={`Remove ${nameBrowser(device.user_agent)}, ${device.ip}`}
                  busy={forget.isPending && forget.variables?.params.id === device.id}
                  onClick={() => forget.mutate({ params: { id: device.id }, body: {} })}
                >
                  Remove
                </Button>
              }
            >
              <p>
                {device.ip} · added <Time at={device.created_at} /> · last used <Time at={device.used_at} />
              </p>
              <p>
                Expires <Time at={device.expires_at} />
              </p>
            </Row>
          ))}
        </ul>
      )}
    </Card>
  );
}
