/** Payment links, and the button for your own pages. */
import { lazy, Suspense, useState } from 'react';
import { useAct, useApi, useFilters, useList, useMay, useOpened, useTitle } from '../../lib/hooks.ts';
import { Button, buttonClass } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Select } from '../../ui/field.tsx';
import { Note, Segments } from '../../ui/form.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { LinkCode } from '../../ui/link-code.tsx';
import { ListCard } from '../../ui/list.tsx';
import { Menu } from '../../ui/menu.tsx';
import { Pending, Skeleton } from '../../ui/states.tsx';
import type { Column } from '../../ui/table.tsx';
import { Badge, CopyButton, Money, Time } from '../../ui/values.tsx';
import type { Link, LinkWarning } from './edit.tsx';

const ButtonBuilder = lazy(() => import('./button-builder.tsx').then((module) => ({ default: module.ButtonBuilder })));
const EditLink = lazy(() => import('./edit.tsx').then((module) => ({ default: module.EditLink })));

const VIEWS = [
  { value: 'links', label: 'Payment links' },
  { value: 'button', label: 'Button' },
] as const;

export function Screen() {
  useTitle('Links & buttons');
  const { filters, set } = useFilters(['view']);
  const view = filters.view === 'button' ? 'button' : 'links';
  return (
    <div className="grid gap-5">
      <div className="grid gap-1">
        <h1>Links & buttons</h1>
        <p className="max-w-2xl text-soft">Get paid without writing code: share a link, or add a button to your website.</p>
      </div>
      <Segments label="What to show" value={view} options={VIEWS} onChange={(value) => set({ view: value === 'links' ? '' : value })} />
      {view === 'links' ? (
        <Links />
      ) : (
        <Suspense fallback={<Skeleton />}>
          <ButtonBuilder />
        </Suspense>
      )}
    </div>
  );
}

function Links() {
  const { filters, set, active, clear } = useFilters(['state']);
  const may = useMay('links.write');
  const [editing, setEditing] = useState<Link | 'new' | null>(null);
  const [drawn, setDrawn] = useOpened('link');
  const [warnings, setWarnings] = useState<readonly LinkWarning[]>([]);
  const list = useList('GET /:mode/links', ['links', 'list'], { state: filters.state });
  const columns: Column<Link>[] = [
    {
      name: 'Link',
      phone: 'title',
      cell: (link) => (
        <span className="flex items-center gap-1">
          <a href={link.url} target="_blank" rel="noreferrer" className="line-clamp-2 font-medium break-words">
            {link.name}
          </a>
          <CopyButton value={link.url} label={`Copy the link of ${link.name}`} />
        </span>
      ),
    },
    {
      name: 'Amount',
      phone: 'right',
      cell: (link) =>
        link.amount === null ? (
          <span className="text-soft">Customer chooses{link.currency !== 'USD' && `, in ${link.currency}`}</span>
        ) : (
          <Money amount={link.amount} currency={link.currency} />
        ),
    },
    {
      name: 'State',
      phone: 'left',
      cell: (link) => (
        <span className="flex flex-wrap gap-1">
          {link.state === 'active' ? (
            <Badge tone="good" icon="check">
              Active
            </Badge>
          ) : (
            <Badge tone="calm">Archived</Badge>
          )}
          <Badge tone="calm">{link.reusable ? 'Reusable' : 'One payment'}</Badge>
        </span>
      ),
    },
    {
      name: 'Payments',
      right: true,
      empty: (link) => link.payments === 0,
      cell: (link) =>
        link.payment_id === null ? '0' : <ModeLink to={`payments/${link.payment_id}`}>{`${link.payments}, newest`}</ModeLink>,
    },
    { name: 'Created', right: true, cell: (link) => <Time at={link.created_at} /> },
    {
      name: 'Actions',
      right: true,
      phone: 'corner',
      cell: (link: Link) => <LinkActions link={link} may={may} onEdit={() => setEditing(link)} onDraw={() => setDrawn(link.id)} />,
    },
  ];
  // With no links yet, the button is in the empty state.
  const none = list.isSuccess && list.rows.length === 0 && active.length === 0;
  const make = may && (
    <Button look="main" onClick={() => setEditing('new')}>
      New link
    </Button>
  );
  return (
    <>
      <div className="flex flex-wrap items-center justify-between gap-2">
        <Select
          label="State"
          value={filters.state}
          onChange={(event) => set({ state: event.target.value })}
          options={[
            { value: '', label: 'All states' },
            { value: 'active', label: 'Active' },
            { value: 'archived', label: 'Archived' },
          ]}
        />
        {!none && make}
      </div>
      <ListCard
        label="Payment links"
        list={list}
        columns={columns}
        none={{
          title: 'No payment links yet',
          words: (
            <>
              <p>
                A link opens a page where anyone can pay you a fixed amount, or an amount they choose. Share it by email or chat, or print
                its QR code.
              </p>
              <p className="pt-4">{make}</p>
            </>
          ),
        }}
        unmatched={active.length > 0 ? { title: 'No links with this state', clear, act: 'Show all links' } : null}
      />
      {editing !== null && (
        <Suspense>
          <EditLink
            link={editing === 'new' ? null : editing}
            onClose={() => setEditing(null)}
            onDone={(link, found) => {
              setEditing(null);
              if (found === null) return;
              setWarnings(found);
              setDrawn(link.id);
            }}
          />
        </Suspense>
      )}
      {drawn !== null && (
        <Shared
          id={drawn}
          warnings={warnings}
          onClose={() => {
            setDrawn(null);
            setWarnings([]);
          }}
        />
      )}
    </>
  );
}

/** The link to copy, and as a QR code to print or save. */
function Shared({ id, warnings, onClose }: { id: string; warnings: readonly LinkWarning[]; onClose: () => void }) {
  const query = useApi('GET /:mode/links/:id', ['links', id], { params: { id } });
  return (
    <Dialog open onClose={onClose} title={query.data?.link.name ?? 'Payment link'}>
      {warnings.map(({ code, message, doc_url }) => (
        <Note key={code} tone="warn">
          <span>{message}</span>{' '}
          <a href={doc_url} target="_blank" rel="noreferrer">
            Read the guide
          </a>
        </Note>
      ))}
      {query.data ? <LinkAndCode link={query.data.link} svg={query.data.qr_svg} /> : <Pending of={query} />}
    </Dialog>
  );
}

function LinkAndCode({ link, svg }: { link: Link; svg: string }) {
  const file = `data:image/svg+xml,${encodeURIComponent(svg)}`;
  return (
    <div className="grid justify-items-center gap-3 text-center">
      <LinkCode url={link.url} qr={file} copy="Copy link" open="Open page">
        <a href={file} download={`${link.name.replace(/[^\p{L}\p{N}]+/gu, '-')}.svg`} className={buttonClass()}>
          Download QR code
        </a>
      </LinkCode>
    </div>
  );
}

function LinkActions({ link, may, onEdit, onDraw }: { link: Link; may: boolean; onEdit: () => void; onDraw: () => void }) {
  const active = link.state === 'active';
  const act = useAct('POST /:mode/links/:id', {
    refreshes: [['links']],
    done: active ? 'Link archived' : 'Link activated',
  });
  return (
    <Menu
      label={`Actions for ${link.name}`}
      entries={[
        { label: 'Show QR code', onSelect: onDraw },
        ...(may
          ? [
              { label: 'Edit', onSelect: onEdit },
              {
                label: active ? 'Archive' : 'Activate',
                danger: active,
                onSelect: () => act.mutate({ params: { id: link.id }, body: { state: active ? 'archived' : 'active' } }),
              },
            ]
          : []),
      ]}
    />
  );
}
