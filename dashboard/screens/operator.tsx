/** For operators: the health of the install, and its merchants with their plans. */

import { useState } from 'react';
import type { Reply } from '../lib/api.ts';
import { useAct, useApi, useList, useMe, useTitle } from '../lib/hooks.ts';
import { countText, roundedText } from '../lib/language.ts';
import { Button, buttonClass } from '../ui/button.tsx';
import { Ask } from '../ui/dialog.tsx';
import { Select } from '../ui/field.tsx';
import { ModeLink } from '../ui/link.tsx';
import { Card, Empty, Facts, Pending } from '../ui/states.tsx';
import { type Column, Table } from '../ui/table.tsx';
import { Badge, Money, Time } from '../ui/values.tsx';

type Install = Reply<'GET /:mode/operator'>;
type Merchant = Reply<'GET /:mode/operator/merchants'>['data'][number];
const PLANS = [
  { value: 'starter', label: 'Starter' },
  { value: 'professional', label: 'Professional' },
  { value: 'enterprise', label: 'Enterprise' },
] as const;

type Operator = Reply<'GET /:mode/operator/operators'>['operators'][number];

export function Screen() {
  useTitle('Operator');
  const me = useMe();
  return me && !me.user.has_second_factor ? <NoFactor /> : <Area />;
}

/** Also for the first operator of a fresh install: the area concerns every merchant, so a password alone does not open it. */
const NoFactor = () => (
  <div className="mx-auto grid max-w-md justify-items-start gap-4 py-16">
    <h1>Set up two-factor authentication</h1>
    <p className="text-soft">
      The operator area concerns every merchant of this install, so it always requires it. You need an authenticator app on your phone. It
      takes about a minute.
    </p>
    <ModeLink to="security" className={buttonClass('main')}>
      Set it up
    </ModeLink>
  </div>
);

function Area() {
  const install = useApi('GET /:mode/operator', ['operator'], {});
  return (
    <div className="grid gap-6">
      <div>
        <h1>Operator</h1>
        <p className="text-soft">Health of the whole install. Only operators can see this page.</p>
      </div>
      {install.data ? (
        <>
          <Overview install={install.data} />
          <Checks />
          <Coins coins={install.data.coins} />
          <Queues queues={install.data.queues} />
        </>
      ) : (
        <Card>
          <Pending of={install} />
        </Card>
      )}
      <Merchants />
      <Operators />
    </div>
  );
}

function Operators() {
  const me = useMe();
  const operators = useApi('GET /:mode/operator/operators', ['operator', 'operators'], {});
  const remove = useAct('DELETE /:mode/operator/operators/:id', {
    refreshes: [['operator'], ['me'], ['audit']],
    done: 'Operator removed.',
  });
  const [removing, setRemoving] = useState<Operator | null>(null);
  if (!operators.data)
    return (
      <Card title="Operators">
        <Pending of={operators} />
      </Card>
    );
  const all = operators.data.operators;
  return (
    <Card title={`Operators (${all.length})`}>
      <p className="border-b border-line px-4 py-3 text-sm text-soft">
        Operators can open this area whatever their role, also after they leave a team. Add one on the command line:{' '}
        <code className="inline-block">./florin user operator --email EMAIL</code>
      </p>
      <ul>
        {all.map((one) => (
          <li key={one.id} className="flex flex-wrap items-center gap-x-4 gap-y-2 border-b border-line px-4 py-3 last:border-b-0">
            <div className="min-w-56 flex-1">
              <p className="flex flex-wrap items-center gap-2 font-medium">
                <span className="break-words">{one.name}</span>
                {one.id === me?.user.id && <Badge tone="calm">You</Badge>}
              </p>
              <p className="text-sm break-all text-soft">{one.email}</p>
              {one.merchants === 0 && <p className="text-sm text-soft">Belongs to no merchant, so they can’t sign in.</p>}
            </div>
            <Badge tone={one.has_second_factor ? 'good' : 'warn'} icon={one.has_second_factor ? 'check' : 'alert'}>
              {one.has_second_factor ? '2FA on' : '2FA off'}
            </Badge>
            {all.length > 1 && (
              <Button look="danger" aria-label={`Remove ${one.name} as an operator`} onClick={() => setRemoving(one)}>
                Remove
              </Button>
            )}
          </li>
        ))}
      </ul>
      <Ask
        open={removing !== null}
        onClose={() => setRemoving(null)}
        title={`Remove ${removing?.name ?? ''} as an operator?`}
        text="They can no longer open the operator area. Their account and their teams stay."
        act="Remove"
        danger
        onAct={() => {
          if (removing) remove.mutate({ params: { id: removing.id }, body: {} });
          setRemoving(null);
        }}
      />
    </Card>
  );
}

function Overview({ install }: { install: Install }) {
  return (
    <Card
      title="This install"
      action={
        <Badge tone={install.ready ? 'good' : 'bad'} icon={install.ready ? 'check' : 'alert'}>
          {install.ready ? 'Ready' : 'Not ready'}
        </Badge>
      }
    >
      {install.reasons.length > 0 && (
        <ul className="grid gap-1 border-b border-line bg-bad-wash px-4 py-3 text-sm text-bad">
          {install.reasons.map((reason) => (
            <li key={reason}>{reason}</li>
          ))}
        </ul>
      )}
      <Facts
        rows={[
          ['Version', install.lists_releases ? <Version key="version" version={install.version} /> : install.version],
          ['Database schema', install.schema],
          [
            'Last backup',
            install.backed_up_at ? (
              <Time key="at" at={install.backed_up_at} />
            ) : (
              <span key="none" className="text-warn">
                None yet. Run <code>./florin backup --file florin.backup</code>
              </span>
            ),
          ],
          // There is no public sign-up: a setup link creates the first owner of a merchant, and owners invite the others.
          ['Sign-up', 'By setup link or invite only'],
          ['Email', install.mail_set_up ? 'On' : 'Off: SMTP_URL is not set'],
        ]}
      />
    </Card>
  );
}

/** Looks for a newer version only when asked to. */
function Version({ version }: { version: string }) {
  const look = useAct('POST /:mode/operator/releases', { refreshes: [], quiet: true });
  const found = look.data;
  const problem = look.error?.message ?? found?.problem;
  return (
    <span className="grid justify-items-end gap-2">
      <span>{version}</span>
      <Button busy={look.isPending} onClick={() => look.mutate({ body: {} })}>
        Check for a newer version
      </Button>
      <span role="status" className="grid gap-1">
        {problem && <span className="text-bad">{problem}</span>}
        {found?.published && found.newer.length === 0 && <span>{`This is the newest version. The list is from ${found.published}.`}</span>}
        {found?.newer.map((one) => (
          <span key={one.version} className={one.security ? 'text-bad' : ''}>
            {[
              `${one.version} of ${one.date}`,
              ...(one.security ? ['fixes a vulnerability'] : []),
              ...(one.breaking ? ['going back needs a backup'] : []),
            ].join(', ')}
          </span>
        ))}
        {found?.upgrade && <span>{`To upgrade: ${found.upgrade}`}</span>}
      </span>
    </span>
  );
}

/** What `./florin doctor` checks, from the running service. What must be fixed comes first, then advice. */
function Checks() {
  const run = useAct('POST /:mode/operator/check', { refreshes: [['operator']], quiet: true });
  const findings = run.data?.findings.toSorted((a, b) => rankOf(a) - rankOf(b));
  const wrong = findings?.filter(({ ok }) => !ok).length ?? 0;
  return (
    <Card
      title="Checks"
      action={
        <Button busy={run.isPending} onClick={() => run.mutate({ body: {} })}>
          {findings ? 'Check again' : 'Run checks'}
        </Button>
      }
    >
      <p role="status" className="px-4 py-3 text-sm text-soft">
        {run.isPending
          ? 'Checking. This can take a minute if a source does not answer.'
          : run.error
            ? run.error.message
            : findings
              ? wrong === 0
                ? 'No problems found.'
                : `${wrong} of ${findings.length} checks failed.`
              : 'Database, disk, backup, email, networks, prices and webhooks: the same checks as ./florin doctor.'}
      </p>
      {findings && !run.isPending && (
        <ul>
          {findings.map(({ check, ok, detail, fix }, i) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: several findings can be about the same thing
            <li key={i} className="grid gap-1 border-t border-line px-4 py-3 text-sm sm:grid-cols-[7rem_1fr]">
              <div>
                <Badge tone={!ok ? 'bad' : fix === null ? 'good' : 'warn'} icon={ok && fix === null ? 'check' : 'alert'}>
                  {!ok ? 'Fix' : fix === null ? 'OK' : 'Note'}
                </Badge>
              </div>
              <div className="min-w-0 break-words">
                <p>
                  <b>{check}</b>: {detail}
                </p>
                {fix !== null && <p className="text-soft">{fix}</p>}
              </div>
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}
const rankOf = ({ ok, fix }: { ok: boolean; fix: string | null }): number => (!ok ? 0 : fix === null ? 2 : 1);

function Coins({ coins }: { coins: Install['coins'] }) {
  return (
    <div className="grid gap-4 md:grid-cols-2 xl:grid-cols-3">
      {coins.map((coin) => {
        const well = coin.reasons.length === 0;
        const tone = !coin.followed ? 'calm' : well ? (coin.warnings.length > 0 ? 'warn' : 'good') : 'bad';
        return (
          <Card
            key={coin.coin}
            title={coin.name}
            action={
              <Badge tone={tone} {...(coin.followed && { icon: well ? 'check' : 'alert' })}>
                {!coin.followed ? (coin.on_demand ? 'No wallet' : 'No node') : coin.held ? 'On hold' : well ? 'Synced' : 'Behind'}
              </Badge>
            }
          >
            {[...coin.reasons, ...coin.warnings].length > 0 && (
              <ul className="grid gap-1 border-b border-line px-4 py-3 text-sm">
                {coin.reasons.map((reason) => (
                  <li key={reason} className="text-bad">
                    {reason}
                  </li>
                ))}
                {coin.warnings.map((warning) => (
                  <li key={warning} className="text-warn">
                    {warning}
                  </li>
                ))}
              </ul>
            )}
            <Facts
              rows={[
                ...(coin.followed
                  ? ([
                      ['Network', coin.network],
                      ['Height', coin.height === null ? 'Not started' : countText(coin.height)],
                      ['Last checked', coin.lag_seconds === null ? '–' : `${ageText(coin.lag_seconds)} ago`],
                    ] as const)
                  : []),
                ...(coin.peers
                  ? ([
                      ['Peers', `${coin.peers.connected} connected`],
                      ['Traffic since the start', `${inMegabytes(coin.peers.bytes_in)} MB in, ${inMegabytes(coin.peers.bytes_out)} MB out`],
                    ] as const)
                  : []),
                [
                  'Price',
                  coin.price_reason ? (
                    <span key="why" className="text-warn">
                      {coin.price_reason}
                    </span>
                  ) : (
                    <Money key="usd" amount={coin.price} />
                  ),
                ],
                ['Price sources', coin.price_sources.length > 0 ? coin.price_sources.join(', ') : '–'],
                ...coin.sources.map(
                  (source) =>
                    [
                      source.name,
                      `${source.state === 'ok' ? (source.height === null ? 'ok' : countText(source.height)) : (source.reason ?? source.state)}${source.software ? ` · ${source.software}` : ''}`,
                    ] as const,
                ),
              ]}
            />
          </Card>
        );
      })}
    </div>
  );
}

const inMegabytes = (bytes: number) => roundedText(bytes / 1_000_000);

const ageText = (seconds: number): string =>
  seconds < 120 ? `${seconds} s` : seconds < 7_200 ? `${Math.round(seconds / 60)} min` : `${countText(Math.round(seconds / 3600))} h`;
const Queues = ({ queues }: { queues: Install['queues'] }) => (
  <Card title="Queues">
    <Facts
      rows={queues.map(
        (queue) =>
          [
            queue.name,
            <span key={queue.name} className="tabular-nums">
              {countText(queue.waiting)}
              {queue.oldest_seconds !== null && queue.oldest_seconds > 0 && `, oldest ${ageText(queue.oldest_seconds)} ago`}
              {queue.note && <span className="text-warn"> · {queue.note}</span>}
            </span>,
          ] as const,
      )}
    />
  </Card>
);

function Merchants() {
  const list = useList('GET /:mode/operator/merchants', ['operator', 'merchants'], {});
  const setPlan = useAct('POST /:mode/operator/merchants/:id/plan', { refreshes: [['operator'], ['usage']], done: 'Plan changed.' });
  const columns: Column<Merchant>[] = [
    {
      name: 'Merchant',
      phone: 'title',
      cell: (row) => (
        <span className="grid">
          <span className="font-medium break-words">{row.name}</span>
          <code className="text-xs break-all text-soft">{row.id}</code>
        </span>
      ),
    },
    {
      name: 'Plan',
      phone: 'corner',
      cell: (row) => (
        <Select
          label={`Plan of ${row.name}`}
          value={row.plan}
          disabled={setPlan.isPending}
          options={PLANS}
          onChange={(event) => setPlan.mutate({ params: { id: row.id }, body: { plan: event.target.value as Merchant['plan'] } })}
        />
      ),
    },
    {
      name: 'Live payments this month',
      cell: (row) => (
        <span className="tabular-nums">
          {countText(row.used)}
          {row.per_month !== null && ` of ${countText(row.per_month)}`}
        </span>
      ),
      right: true,
    },
    { name: 'Members', cell: (row) => <span className="tabular-nums">{row.members}</span>, right: true },
    { name: 'Created', cell: (row) => <Time at={row.created_at} />, right: true },
  ];
  return (
    <Card title="Merchants">
      {list.rows.length === 0 && (list.error || list.isPending) ? (
        <Pending of={list} lines={4} />
      ) : list.rows.length === 0 ? (
        <Empty title="No merchants">
          <code>./florin merchant create --name N</code>
        </Empty>
      ) : (
        <Table
          label="Merchants"
          unlabeled
          columns={columns}
          rows={list.rows}
          hasMore={list.hasNextPage}
          onMore={() => void list.fetchNextPage()}
          busy={list.isFetchingNextPage}
        />
      )}
    </Card>
  );
}
