/** One delivery: its request, the response to each attempt, and sending it again. */
import type { ReactNode } from 'react';
import type { Reply } from '../../lib/api.ts';
import { useAct, useApi, useMay } from '../../lib/hooks.ts';
import { say } from '../../lib/toasts.ts';
import { Button } from '../../ui/button.tsx';
import { Drawer } from '../../ui/dialog.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { Facts, Pending } from '../../ui/states.tsx';
import { CopyButton, TestLabel, Time } from '../../ui/values.tsx';
import { Code, readable } from './code.tsx';
import { attemptsText, DeliveryState, millis, outcomeWords } from './words.tsx';

type Full = Reply<'GET /:mode/deliveries/:id'>['delivery'];
type Attempt = Full['attempts'][number];

const VERIFY = `import { createHmac, timingSafeEqual } from 'node:crypto';

// body: the exact bytes received, before parsing. secret: whsec_..., the whole text.
export function isFromFlorin(body, headers, secret) {
  const expected = createHmac('sha256', secret).update(body).digest();
  const given = Buffer.from(headers['x-service-signature'] ?? '', 'hex');
  return given.length === expected.length && timingSafeEqual(given, expected);
}`;

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
/** A curl command that repeats the latest attempt. */
const curlOf = (attempt: Attempt, body: string): string =>
  [
    `curl ${quoted(attempt.url ?? '')}`,
    ...Object.entries(attempt.request_headers).map(([name, value]) => `  -H ${quoted(`${name}: ${value}`)}`),
    `  --data-raw ${quoted(body)}`,
  ].join(' \\\n');

export function Delivery({ id, onClose }: { id: string; onClose: () => void }) {
  const query = useApi('GET /:mode/deliveries/:id', ['deliveries', id], { params: { id } });
  const { data } = query;
  return (
    <Drawer open onClose={onClose} title={data?.delivery.event_type ?? 'Delivery'}>
      {data ? <Content delivery={data.delivery} /> : <Pending of={query} lines={10} />}
    </Drawer>
  );
}

function Content({ delivery }: { delivery: Full }) {
  const maySend = useMay('webhooks.send');
  const maySeeSecrets = useMay('webhooks.secrets');
  const resend = useAct('POST /:mode/deliveries/:id/resend', {
    refreshes: [['deliveries'], ['webhooks']],
    done: 'Resending now.',
  });
  const newest = delivery.attempts.at(-1);
  const facts: (readonly [string, ReactNode])[] = [
    [
      'Status',
      <span key="state" className="flex flex-wrap justify-end gap-2">
        <DeliveryState state={delivery.state} />
        <TestLabel />
      </span>,
    ],
    ['Attempts', attemptsText(delivery)],
    ['Created', <Time key="created" at={delivery.created_at} />],
  ];
  if (delivery.delivered_at) facts.push(['Delivered', <Time key="delivered" at={delivery.delivered_at} />]);
  if (delivery.next_attempt_at) facts.push(['Next attempt', <Time key="next" at={delivery.next_attempt_at} />]);
  if (delivery.payment_id)
    facts.push([
      'Payment',
      <ModeLink key="payment" to={`payments/${delivery.payment_id}`} className="break-all underline">
        {delivery.payment_id}
      </ModeLink>,
    ]);
  facts.push([
    'Event',
    <span key="event" className="inline-flex items-center gap-1 break-all">
      <code>{delivery.event_id}</code>
      <CopyButton value={delivery.event_id} label="Copy event ID" />
    </span>,
  ]);
  return (
    <>
      <div className="flex flex-wrap gap-2">
        {maySend && (
          <Button
            look="main"
            busy={resend.isPending}
            disabled={delivery.request_body === null}
            onClick={() => resend.mutate({ params: { id: delivery.id }, body: {} })}
          >
            Resend
          </Button>
        )}
        {maySeeSecrets && newest && delivery.request_body !== null && (
          <Button
            onClick={() =>
              void navigator.clipboard.writeText(curlOf(newest, delivery.request_body!)).then(
                () => say('Copied. The command sends the same body with the same signature.'),
                () => say('Your browser blocked copying.', 'bad'),
              )
            }
          >
            Copy as curl
          </Button>
        )}
      </div>
      <div className="rounded-xl border border-line">
        <Facts rows={facts} />
      </div>
      <section className="grid gap-2" aria-label="Attempts">
        <h2>Attempts</h2>
        {delivery.attempts.length === 0 ? (
          <p className="text-sm text-soft">
            {delivery.state === 'pending'
              ? 'No attempts yet. Events of a payment are sent in order, oldest first.'
              : 'No attempts: the endpoint was disabled.'}
          </p>
        ) : (
          <ol className="grid gap-2">
            {delivery.attempts.toReversed().map((attempt, i) => (
              <li key={attempt.number}>
                <AttemptCard attempt={attempt} open={i === 0} />
              </li>
            ))}
          </ol>
        )}
      </section>
      {delivery.request_body === null ? (
        <p className="text-sm text-soft">The request body is no longer available: it’s deleted after 30 days.</p>
      ) : (
        <Code label="Request body" text={readable(delivery.request_body)} tall />
      )}
      <details className="rounded-xl border border-line">
        <summary className="cursor-pointer px-4 py-2.5 text-sm font-medium">Verify the signature</summary>
        <div className="words grid gap-3 border-t border-line p-4 text-sm">
          <Code label="Node" text={VERIFY} />
          <p className="text-soft">
            Find the signing secret in the endpoint’s settings. For other languages, see{' '}
            <a href="/docs/guides/webhooks">the webhooks guide</a>.
          </p>
        </div>
      </details>
    </>
  );
}

function AttemptCard({ attempt, open }: { attempt: Attempt; open: boolean }) {
  const maySeeSecrets = useMay('webhooks.secrets');
  const good = attempt.failure === null;
  return (
    <details open={open} className="rounded-xl border border-line">
      <summary className="cursor-pointer px-4 py-2.5 text-sm">
        <span className="font-medium">Attempt {attempt.number}</span>{' '}
        <span className={`tabular-nums ${good ? 'text-good' : 'text-bad'}`}>
          {good ? `${attempt.status} response` : (attempt.message ?? outcomeWords(attempt.failure!))}
        </span>{' '}
        <span className="tabular-nums text-soft">
          · {millis(attempt.duration_ms)} · <Time at={attempt.at} />
        </span>
      </summary>
      <div className="grid gap-3 border-t border-line p-4">
        {attempt.advice && <p className="text-sm">{attempt.advice}</p>}
        {attempt.url && (
          <p className="text-xs break-all text-soft">
            POST {attempt.url}
            {attempt.address && ` at ${attempt.address}`}
          </p>
        )}
        <Code
          label="Request headers"
          text={Object.entries(attempt.request_headers)
            .map(([name, value]) => `${name}: ${value}`)
            .join('\n')}
        />
        {!maySeeSecrets ? (
          <p className="text-sm text-soft">
            Only owners, admins and developers can see the whole URL, the signatures and your server’s response.
          </p>
        ) : attempt.response_body ? (
          <Code label="Response body (first 4 kB)" text={readable(attempt.response_body)} />
        ) : (
          <p className="text-sm text-soft">{attempt.status === null ? 'No response.' : 'Empty response.'}</p>
        )}
      </div>
    </details>
  );
}
