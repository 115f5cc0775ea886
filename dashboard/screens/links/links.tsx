/** Payment links, and the button for one's own pages. */
import { type FormEvent, lazy, Suspense, useState } from 'react';
import { ApiError, type Reply } from '../../lib/api.ts';
import { useAct, useFilters, useList, useMay, useTitle } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Field, Select } from '../../ui/field.tsx';
import { Choice, Segments } from '../../ui/form.tsx';
import { Icon } from '../../ui/icon.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { ListCard } from '../../ui/list.tsx';
import { Menu } from '../../ui/menu.tsx';
import { Card, Skeleton } from '../../ui/states.tsx';
import type { Column } from '../../ui/table.tsx';
import { Badge, CopyButton, Money, Time } from '../../ui/values.tsx';

const ButtonBuilder = lazy(() => import('./button-builder.tsx').then((module) => ({ default: module.ButtonBuilder })));

type Link = Reply<'GET /:mode/links'>['data'][number];
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
        <h1>Links &amp; buttons</h1>
        <p className="max-w-2xl text-soft">Get paid without a line of code: share a link, or put a button on a page of yours.</p>
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
  const [making, setMaking] = useState(false);
  const [made, setMade] = useState<Link | null>(null);
  const list = useList('GET /:mode/links', ['links', 'list'], { state: filters.state });
  const columns: Column<Link>[] = [
    {
      name: 'Link',
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
      cell: (link) => (link.amount_usd === null ? <span className="text-soft">Payer names it</span> : <Money amount={link.amount_usd} />),
    },
    {
      name: 'State',
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
          {link.mode === 'test' && <Badge tone="warn">TEST</Badge>}
        </span>
      ),
    },
    {
      name: 'Payments',
      right: true,
      cell: (link) =>
        link.payment_id === null ? '0' : <ModeLink to={`payments/${link.payment_id}`}>{`${link.payments}, newest`}</ModeLink>,
    },
    { name: 'Created', right: true, cell: (link) => <Time at={link.created_at} /> },
    ...(may ? [{ name: 'Acts', right: true, cell: (link: Link) => <LinkActs link={link} /> }] : []),
  ];
  // Where there are none, it stands below the words about them.
  const none = list.isSuccess && list.rows.length === 0 && active.length === 0;
  const make = may && (
    <Button look="main" onClick={() => setMaking(true)}>
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
      {made && (
        <Card title="Your link">
          <p className="flex flex-wrap items-center gap-2 p-4" role="status">
            <code className="min-w-0 break-all">{made.url}</code>
            <CopyButton value={made.url} label="Copy the new link" />
          </p>
        </Card>
      )}
      <ListCard
        label="Payment links"
        list={list}
        columns={columns}
        none={{
          title: 'No payment links yet',
          words: (
            <>
              <p>
                A link opens a page where anybody can pay you: a fixed amount or one the payer names. Send it by e-mail or chat, or print
                it.
              </p>
              <p className="pt-4">{make}</p>
            </>
          ),
        }}
        unmatched={active.length > 0 ? { title: 'No link is in this state', clear, act: 'Show all links' } : null}
      />
      <Dialog open={making} onClose={() => setMaking(false)} title="New payment link">
        {making && (
          <NewLink
            onMade={(link) => {
              setMade(link);
              setMaking(false);
            }}
          />
        )}
      </Dialog>
    </>
  );
}

function LinkActs({ link }: { link: Link }) {
  const act = useAct('POST /:mode/links/:id/state', {
    refreshes: [['links']],
    done: link.state === 'active' ? 'The link is archived.' : 'The link is active.',
  });
  const archived = link.state === 'active';
  return (
    <Menu
      className="p-1.5"
      entries={[
        {
          label: archived ? 'Archive' : 'Make active',
          danger: archived,
          onSelect: () => act.mutate({ params: { id: link.id }, body: { archived } }),
        },
      ]}
    >
      <Icon name="dots" />
      <span className="sr-only">Acts of {link.name}</span>
    </Menu>
  );
}

function NewLink({ onMade }: { onMade: (link: Link) => void }) {
  const make = useAct('POST /:mode/links', { refreshes: [['links']], done: 'The link is made.', quiet: true });
  const [name, setName] = useState('');
  const [open, setOpen] = useState(false);
  const [amount, setAmount] = useState('');
  const [reusable, setReusable] = useState(true);
  const [back, setBack] = useState('');
  const fault = make.error instanceof ApiError ? make.error : null;
  const at = (param: string) => (fault?.param === param ? fault.message : null);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const body = {
      name: name.trim(),
      reusable,
      ...(open ? {} : { amount_usd: amount.trim() }),
      ...(back.trim() && { return_url: back.trim() }),
    };
    const reply = await make.mutateAsync({ body }).catch(() => null);
    if (reply) onMade(reply.link);
  };
  return (
    <form onSubmit={submit} className="grid gap-4">
      <Field
        label="What it is for"
        required
        maxLength={200}
        value={name}
        onChange={(event) => setName(event.target.value)}
        hint="Payers see this."
        fault={at('name')}
      />
      <Choice
        label="Amount"
        value={open ? 'open' : 'fixed'}
        onChange={(event) => setOpen(event.target.value === 'open')}
        options={[
          { value: 'fixed', label: 'Fixed' },
          { value: 'open', label: 'The payer names it' },
        ]}
      />
      {!open && (
        <Field
          label="US dollars"
          inputMode="decimal"
          required
          placeholder="25.00"
          value={amount}
          onChange={(event) => setAmount(event.target.value)}
          fault={at('amount_usd')}
        />
      )}
      <Choice
        label="How often it can be paid"
        value={reusable ? 'many' : 'one'}
        onChange={(event) => setReusable(event.target.value === 'many')}
        options={[
          { value: 'many', label: 'Any number of times' },
          { value: 'one', label: 'Once' },
        ]}
        hint={
          reusable
            ? undefined
            : 'Everybody who opens it sees the same payment until it is paid; if it ends unpaid, the link makes a new one.'
        }
      />
      <Field
        label="Return to (optional)"
        type="url"
        placeholder="https://shop.example/thanks"
        value={back}
        onChange={(event) => setBack(event.target.value)}
        fault={at('return_url')}
      />
      {fault && !['name', 'amount_usd', 'return_url'].includes(fault.param ?? '') && (
        <p role="alert" className="text-sm text-bad">
          {fault.message}
        </p>
      )}
      <div className="flex justify-end">
        <Button type="submit" look="main" busy={make.isPending}>
          Make the link
        </Button>
      </div>
    </form>
  );
}
