/** Active sessions, and ending them. */
import { useState } from 'react';
import type { Reply } from '../../lib/api.ts';
import { useAct } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Ask } from '../../ui/dialog.tsx';
import { Card } from '../../ui/states.tsx';
import { Time } from '../../ui/values.tsx';
import { Row } from './row.tsx';

type Session = Reply<'GET /:mode/security'>['sessions'][number];

/** The browser and operating system, as far as the user agent names them. */
export function nameBrowser(agent: string): string {
  const browser = /Edg\//.test(agent)
    ? 'Edge'
    : /OPR\//.test(agent)
      ? 'Opera'
      : /Firefox\//.test(agent)
        ? 'Firefox'
        : /Chrome\//.test(agent)
          ? 'Chrome'
          : /Safari\//.test(agent)
            ? 'Safari'
            : 'Unknown browser';
  const system = /Android/.test(agent)
    ? 'Android'
    : /iPhone|iPad/.test(agent)
      ? 'iOS'
      : /Windows/.test(agent)
        ? 'Windows'
        : /Mac OS X/.test(agent)
          ? 'macOS'
          : /Linux/.test(agent)
            ? 'Linux'
            : null;
  return system ? `${browser} on ${system}` : browser;
}

export function Sessions({ sessions }: { sessions: readonly Session[] }) {
  const [asked, setAsked] = useState(false);
  const one = useAct('DELETE /:mode/sessions/:id', { refreshes: [['security']], done: 'Session ended.' });
  const all = useAct('DELETE /:mode/sessions', { refreshes: [['security']], done: 'Signed out everywhere else.' });
  return (
    <Card
      title="Active sessions"
      action={
        sessions.length > 1 && (
          <Button look="danger" busy={all.isPending} onClick={() => setAsked(true)}>
            Sign out everywhere else
          </Button>
        )
      }
    >
      <p className="border-b border-line px-4 py-3 text-sm text-soft">
        Sessions end after 7 days of inactivity, and after 30 days at the latest.
      </p>
      <ul>
        {sessions.map((session) => (
          <Row
            key={session.id}
            title={nameBrowser(session.user_agent)}
            current={session.current}
            acts={
              !session.current && (
                <Button
                  aria-label={`Sign out ${nameBrowser(session.user_agent)}, ${session.ip}`}
                  busy={one.isPending && one.variables?.params.id === session.id}
                  onClick={() => one.mutate({ params: { id: session.id }, body: {} })}
                >
                  Sign out
                </Button>
              )
            }
          >
            {session.ip} · signed in <Time at={session.started_at} />
          </Row>
        ))}
      </ul>
      <Ask
        open={asked}
        onClose={() => setAsked(false)}
        title="Sign out everywhere else?"
        text="You stay signed in here. All other sessions end, and trusted devices need a code again."
        act="Sign out"
        danger
        onAct={() => {
          setAsked(false);
          all.mutate({ body: {} });
        }}
      />
    </Card>
  );
}
