/** Connected shops, and how to connect one. */
import { lazy, Suspense, useState } from 'react';
import type { Reply } from '../../lib/api.ts';
import { useApi, useMay, useTitle } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { Card, Empty, Pending } from '../../ui/states.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { Time } from '../../ui/values.tsx';
import { PLATFORM_WORDS, type Shop } from './platforms.ts';
import { Refunds } from './refunds.tsx';

const ConnectShop = lazy(() => import('./connect.tsx').then((module) => ({ default: module.ConnectShop })));
const RollKey = lazy(() => import('./connect.tsx').then((module) => ({ default: module.RollKey })));
const Disconnect = lazy(() => import('./connect.tsx').then((module) => ({ default: module.Disconnect })));

export function Screen() {
  useTitle('Shops');
  const mayManage = useMay('keys.manage');
  const shops = useApi('GET /:mode/shops', ['shops'], {});
  const [connecting, setConnecting] = useState(false);
  const [ending, setEnding] = useState<Shop | null>(null);
  const [rolling, setRolling] = useState<Shop | null>(null);
  const rows = shops.data?.data ?? [];
  const sites = shops.data?.sites ?? [];
  const isEmpty = rows.length === 0 && sites.length === 0;
  const connect = mayManage && (
    <Button look="main" onClick={() => setConnecting(true)}>
      Connect a shop
    </Button>
  );
  return (
    <div className="grid gap-5">
      <div className="flex flex-wrap items-center justify-between gap-3">
        <h1>Shops</h1>
        {!isEmpty && connect}
      </div>
      {!shops.data ? (
        <Card>
          <Pending of={shops} />
        </Card>
      ) : isEmpty ? (
        <Card>
          <Empty title="No connected shops yet">
            <div className="grid justify-items-center gap-4">
              <p>
                Florin has its own plugins for WooCommerce and Medusa. BTCPay’s plugins for PrestaShop, Magento, OpenCart and WHMCS work
                too.
              </p>
              {connect}
            </div>
          </Empty>
        </Card>
      ) : (
        rows.length > 0 && (
          <Card title="Connected shops">
            <Table label="Connected shops" columns={columnsOf(mayManage, { onEnd: setEnding, onRoll: setRolling })} rows={rows} />
          </Card>
        )
      )}
      {shops.data && shops.data.plugins.length > 0 && (
        <Card title="Florin’s own plugins">
          <ul className="grid gap-2 p-4 text-sm">
            {shops.data.plugins.map(({ title, version, url }) => (
              <li key={url} className="grid gap-1">
                <span className="flex flex-wrap items-baseline justify-between gap-x-4 gap-y-1">
                  <span>
                    <span className="font-medium">{title}</span> <span className="text-soft">version {version}</span>
                  </span>
                  <span className="flex gap-4">
                    <a href={GUIDES[title] ?? '/docs/guides/shops'}>Guide</a>
                    <a href={new URL(url).pathname} download aria-label={`Download the plugin for ${title}`}>
                      Download
                    </a>
                  </span>
                </span>
                {sites
                  .filter(({ plugin }) => plugin === title)
                  .map((site) => (
                    <Site key={site.endpoint_id} site={site} />
                  ))}
              </li>
            ))}
          </ul>
        </Card>
      )}
      <Refunds />
      {shops.data && !shops.data.on_plan && (
        <p className="text-sm text-soft">Your plan doesn’t include webhooks, so plugins can’t be notified about payments.</p>
      )}
      <Suspense>
        {connecting && <ConnectShop onClose={() => setConnecting(false)} />}
        {rolling && <RollKey shop={rolling} onClose={() => setRolling(null)} />}
        {ending && <Disconnect shop={ending} onClose={() => setEnding(null)} />}
      </Suspense>
    </div>
  );
}

/** A shop with one of Florin's own plugins: it is managed through its webhook and its API key. */
const Site = ({ site: { site, endpoint_id, enabled, created_at } }: { site: Reply<'GET /:mode/shops'>['sites'][number] }) => (
  <span className="flex flex-wrap items-baseline gap-x-3 text-soft">
    <ModeLink to={`shops/${endpoint_id}`} className="break-all">
      {site}
    </ModeLink>
    {enabled ? (
      <span>
        Connected <Time at={created_at} />
      </span>
    ) : (
      <span className="text-bad">Its webhook is disabled</span>
    )}
  </span>
);

const GUIDES: Readonly<Record<string, string>> = { WooCommerce: '/docs/guides/shops/woocommerce', 'Medusa 2': '/docs/guides/shops/medusa' };

type Acts = { onEnd: (shop: Shop) => void; onRoll: (shop: Shop) => void };
const columnsOf = (mayManage: boolean, { onEnd, onRoll }: Acts): Column<Shop>[] => [
  {
    name: 'Shop',
    phone: 'title',
    cell: (shop) => (
      <span className="grid">
        <ModeLink to={`shops/${shop.id}`} className="break-words">
          {shop.name}
        </ModeLink>
        <span className="text-xs break-words text-soft">
          {PLATFORM_WORDS[shop.platform]}
          {shop.site !== null && `, ${shop.site}`}
        </span>
      </span>
    ),
  },
  { name: 'Key', phone: 'corner', cell: (shop) => <code className="text-xs whitespace-nowrap">{shop.hint}</code> },
  {
    name: 'Connected',
    cell: (shop) => (
      <span className="grid max-sm:justify-items-end">
        <Time at={shop.created_at} />
        <span className="text-xs text-soft">by {shop.created_by ?? 'the operator'}</span>
      </span>
    ),
  },
  {
    name: 'Last used',
    cell: (shop) => (shop.last_used_at === null ? <span className="text-soft">Never</span> : <Time at={shop.last_used_at} />),
  },
  ...(mayManage
    ? [
        {
          name: 'Action',
          cell: (shop: Shop) => (
            <span className="flex flex-wrap gap-2 max-sm:justify-end">
              <Button onClick={() => onRoll(shop)} aria-label={`Replace key of ${shop.name}`}>
                Replace key
              </Button>
              <Button onClick={() => onEnd(shop)} aria-label={`Disconnect ${shop.name}`}>
                Disconnect
              </Button>
            </span>
          ),
        },
      ]
    : []),
];
