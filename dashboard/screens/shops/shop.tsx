/** One shop: what it is, its webhooks, its last calls and its orders, and a test order. */
import { Link, useNavigate, useParams } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Reply } from '../../lib/api.ts';
import { useAct, useApi, useList, useMay, useMode, useTitle } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { ListCard } from '../../ui/list.tsx';
import { Price } from '../../ui/price.tsx';
import { Received } from '../../ui/received.tsx';
import { Card, Facts } from '../../ui/states.tsx';
import { StatusCode } from '../../ui/status-code.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { Back, PendingPage } from '../../ui/thing.tsx';
import { PaymentState, TestLabel, Time } from '../../ui/values.tsx';
import { type Endpoint, EndpointState, hostOf, outcomeWords, share } from '../webhooks/words.tsx';
import { PLATFORM_WORDS } from './platforms.ts';

type Shop = Reply<'GET /:mode/shops/:id'>['shop'];
type Order = Reply<'GET /:mode/payments'>['data'][number];
type Call = Reply<'GET /:mode/requests'>['data'][number];
const LIST = ['shops', 'Shops'] as const;
/** Calls on the page; the request log has the others. */
const CALLS = 10;

export function Screen() {
  const { id } = useParams({ strict: false }) as { id: string };
  const query = useApi('GET /:mode/shops/:id', ['shops', id], { params: { id } });
  const shop = query.data?.shop;
  useTitle(shop?.name ?? 'Shop');
  if (!shop) return <PendingPage of={query} title="Shop" back={LIST} />;
  return (
    <div className="grid gap-5">
      <Back to={LIST} />
      <div className="flex flex-wrap items-start justify-between gap-4">
        <div className="grid min-w-0 gap-2">
          <h1 className="break-words">{shop.name}</h1>
          <p className="flex flex-wrap items-center gap-2 text-sm text-soft">
            {platformWords(shop.platform)}
            <TestLabel />
          </p>
        </div>
        <TestOrder id={id} />
      </div>
      <div className="grid items-start gap-5 lg:grid-cols-2">
        <Card title="Connection">
          <Facts rows={factsOf(shop)} />
        </Card>
        <Webhooks endpoints={shop.endpoints} />
      </div>
      <Orders shop={shop} />
      {shop.key && <Calls keyId={shop.key.id} />}
    </div>
  );
}

const platformWords = (platform: string): string => (PLATFORM_WORDS as Readonly<Record<string, string>>)[platform] ?? platform;

function factsOf({ site, created_at, created_by, last_used_at, key, plugin_version, offered_version }: Shop) {
  const rows: [string, ReactNode][] = [
    ['Address', site ?? 'Unknown'],
    ['Plugin version', versionWords(plugin_version, offered_version)],
    ['Connected', <Time key="connected" at={created_at} />],
  ];
  if (created_by !== null) rows.push(['Connected by', created_by]);
  if (key)
    rows.push([
      'Key',
      key.id.startsWith('shp_') ? (
        <code key="key">{key.hint}</code>
      ) : (
        <ModeLink key="key" to={`keys/${key.id}`}>
          {key.name}
        </ModeLink>
      ),
    ]);
  if (last_used_at !== null) rows.push(['Last used', <Time key="used" at={last_used_at} />]);
  return rows;
}

/** What the plugin said of itself, and the version that this install has of it. */
const versionWords = (used: string | null, offered: string | null): string =>
  `${used ?? 'Not known yet'}${offered === null || offered === used ? '' : ` (this Florin offers ${offered})`}`;

/** In live mode there is nothing that could pay it. */
function TestOrder({ id }: { id: string }) {
  const mode = useMode();
  const navigate = useNavigate();
  const maySimulate = useMay('payments.simulate');
  const send = useAct('POST /:mode/shops/:id/test-order', { refreshes: [['payments']] });
  if (mode !== 'test' || !maySimulate) return null;
  const open = ({ payment_id }: { payment_id: string }) => void navigate({ to: `/${mode}/payments/${payment_id}` });
  return (
    <Button look="main" busy={send.isPending} onClick={() => send.mutate({ params: { id }, body: {} }, { onSuccess: open })}>
      Send a test order
    </Button>
  );
}

function Webhooks({ endpoints }: { endpoints: readonly Endpoint[] }) {
  return (
    <Card title="Webhooks">
      {endpoints.length === 0 ? (
        <p className="words p-4 text-sm text-soft">
          This shop has no webhook, so it is not told when a customer pays. Its plugin creates one when its settings are saved.
        </p>
      ) : (
        <ul className="grid">
          {endpoints.map((endpoint) => (
            <li key={endpoint.id} className="grid gap-1.5 border-b border-line px-4 py-3 text-sm last:border-b-0">
              <span className="flex flex-wrap items-center justify-between gap-2">
                <ModeLink to={`webhooks/${endpoint.id}`} className="font-medium break-all">
                  {hostOf(endpoint.url)}
                </ModeLink>
                <EndpointState endpoint={endpoint} />
              </span>
              <span className="text-soft">{healthWords(endpoint)}</span>
              {endpoint.failing_since !== null && endpoint.health.advice !== null && <span>{endpoint.health.advice}</span>}
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

function healthWords({ health: { attempts, delivered, waiting, last_failure, message } }: Endpoint): string {
  const done = attempts === 0 ? 'No deliveries in the last 24 hours.' : `${share(delivered, attempts)} delivered in the last 24 hours.`;
  const failure = last_failure === null ? '' : ` Last failure: ${message ?? outcomeWords(last_failure)}.`.replace(/\.\.$/, '.');
  return `${done}${failure}${waiting > 0 ? ` ${waiting} pending.` : ''}`;
}

const ORDERS: readonly Column<Order>[] = [
  {
    name: 'Order',
    phone: 'title',
    cell: (row) => (
      <ModeLink to={`payments/${row.id}`} className="break-all">
        {row.invoice_id ?? row.description ?? row.id}
      </ModeLink>
    ),
  },
  {
    name: 'Status',
    phone: 'left',
    cell: (row) => (
      <span className="flex flex-wrap gap-1">
        <PaymentState status={row.status} exception={row.exceptions[0] ?? null} />
      </span>
    ),
  },
  { name: 'Amount', right: true, cell: (row) => <Price of={row} /> },
  { name: 'Received', right: true, phone: 'right', cell: (row) => <Received row={row} /> },
  { name: 'Created', right: true, phone: 'corner', cell: (row) => <Time at={row.created_at} /> },
];

function Orders({ shop }: { shop: Shop }) {
  const list = useList('GET /:mode/payments', ['payments', 'of shop', shop.id], { shop: shop.id });
  return (
    <section className="grid gap-2" aria-label="Orders">
      <h2>Orders</h2>
      {shop.shares_orders && (
        <p className="words text-sm text-soft">
          You have several Medusa shops. Their payments don’t say which one made them, so all are listed.
        </p>
      )}
      <ListCard
        label="Orders"
        list={list}
        columns={ORDERS}
        none={{ title: 'No orders yet', words: 'Payments that this shop requests appear here.' }}
        unmatched={null}
      />
    </section>
  );
}

const CALL_COLUMNS: readonly Column<Call>[] = [
  {
    name: 'Call',
    phone: 'wide',
    cell: (row) => (
      <ModeLink to={`requests/${row.id}`} className="font-mono text-[13px] break-all hover:underline">
        {`${row.method} ${row.path}`}
      </ModeLink>
    ),
  },
  { name: 'Status', phone: 'left', cell: (row) => <StatusCode status={row.status} /> },
  { name: 'Time', phone: 'right', right: true, cell: (row) => <Time at={row.created_at} seconds /> },
];

function Calls({ keyId }: { keyId: string }) {
  const mode = useMode();
  const mayRead = useMay('requests.read');
  const list = useList('GET /:mode/requests', ['requests', 'of shop', keyId], { key_id: keyId, limit: String(CALLS) });
  if (!mayRead || list.rows.length === 0) return null;
  return (
    <Card
      title="Last calls"
      action={
        <Link to={`/${mode}/requests`} search={{ key_id: keyId } as never} className="text-sm font-medium hover:underline">
          View all
        </Link>
      }
    >
      <Table label="Last calls" columns={CALL_COLUMNS} rows={list.rows.slice(0, CALLS)} />
    </Card>
  );
}
