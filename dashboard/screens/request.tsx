/** One API request of the log: what was sent, the result, and a link that explains the error. */
import { useParams } from '@tanstack/react-router';
import { useApi, useMay, useTitle } from '../lib/hooks.ts';
import { Code, prettyJson } from '../ui/code.tsx';
import { ModeLink } from '../ui/link.tsx';
import { Card, Facts } from '../ui/states.tsx';
import { StatusCode } from '../ui/status-code.tsx';
import { Back, PendingPage } from '../ui/thing.tsx';
import { CopyButton, TestLabel, Time } from '../ui/values.tsx';

const SHORT = 'Secrets are redacted. Only the first 2 kB are kept.';
const LIST = ['requests', 'Request log'] as const;

export function Screen() {
  const { id } = useParams({ strict: false }) as { id: string };
  useTitle('Request');
  const mayReadKeys = useMay('keys.read');
  const query = useApi('GET /:mode/requests/:id', ['requests', id], { params: { id } });
  const { data } = query;
  if (!data) return <PendingPage of={query} title="Request" back={LIST} />;
  const { request } = data;
  const payment = /\/pay(?:ment|ments)\/(pay_\w{24})\b/.exec(request.path)?.[1];
  return (
    <div className="grid gap-6">
      <Back to={LIST} />
      <div className="grid gap-2">
        <h1 className="font-mono text-lg break-all">{`${request.method} ${request.path}`}</h1>
        <p className="flex flex-wrap items-center gap-2 text-sm text-soft">
          <StatusCode status={request.status} />
          <TestLabel />
          <span className="inline-flex items-center gap-1 break-all">
            <code>{request.id}</code>
            <CopyButton value={request.id} label="Copy request ID" />
          </span>
        </p>
      </div>
      {request.error_code && (
        <p className="flex flex-wrap items-center justify-between gap-x-4 gap-y-1 rounded-lg bg-warn-wash px-4 py-3 text-sm text-ink">
          <span>
            Failed with <code>{request.error_code}</code>
          </span>
          <a href={`/docs/errors#${request.error_code}`} target="_blank" rel="noreferrer" className="font-medium text-ink">
            View error reference
          </a>
        </p>
      )}
      <div className="grid items-start gap-6 lg:grid-cols-[3fr_2fr]">
        <div className="grid gap-6">
          {request.query !== null && (
            <Card title="Query">
              <div className="p-4">
                <Code text={request.query} label="Copy query" />
              </div>
            </Card>
          )}
          <Card title="Request body">
            {request.request_body === null ? (
              <p className="px-4 py-6 text-sm text-soft">This request has no body.</p>
            ) : (
              <div className="grid gap-2 p-4">
                <Code text={prettyJson(request.request_body)} label="Copy request body" />
                <p className="text-sm text-soft">{SHORT}</p>
              </div>
            )}
          </Card>
          {request.response_body !== null && (
            <Card title="Response body">
              <div className="grid gap-2 p-4">
                <Code text={prettyJson(request.response_body)} label="Copy response body" />
                <p className="text-sm text-soft">{SHORT}</p>
              </div>
            </Card>
          )}
        </div>
        <Card title="Details">
          <Facts
            rows={[
              ['Time', <Time key="time" at={request.created_at} />],
              [
                'Duration',
                <span key="took" className="tabular-nums">
                  {request.duration_ms} ms
                </span>,
              ],
              [
                'API key',
                mayReadKeys ? (
                  <ModeLink key="key" to={`keys/${request.key_id}`}>
                    {request.key_name}
                  </ModeLink>
                ) : (
                  request.key_name
                ),
              ],
              ['IP address', request.ip],
              ['Idempotency-Key', request.has_idempotency_key ? 'Sent' : 'Not sent'],
              ...(request.ignored_parameters.length > 0
                ? [
                    [
                      'Ignored parameters',
                      <code key="ignored" className="text-xs break-all">
                        {request.ignored_parameters.join(', ')}
                      </code>,
                    ] as const,
                  ]
                : []),
              ...(payment
                ? [
                    [
                      'Payment',
                      <ModeLink key="payment" to={`payments/${payment}`} className="font-mono text-xs break-all hover:underline">
                        {payment}
                      </ModeLink>,
                    ] as const,
                  ]
                : []),
              ...(request.omitted > 0 ? [['Similar requests in that second', `${request.omitted} (not logged)`] as const] : []),
            ]}
          />
        </Card>
      </div>
    </div>
  );
}
