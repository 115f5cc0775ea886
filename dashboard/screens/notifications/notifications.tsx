/** A member's notifications, and the settings of which to get at the bell and by email. */
import { useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { call, type Reply } from '../../lib/api.ts';
import { useAct, useApi, useList, useMode, useTitle } from '../../lib/hooks.ts';
import { readAnew } from '../../lib/read-anew.ts';
import { Button } from '../../ui/button.tsx';
import { Note } from '../../ui/form.tsx';
import { NoticeList } from '../../ui/notice.tsx';
import { Card, Empty, Pending } from '../../ui/states.tsx';
import { Timing } from './timing.tsx';

type Setting = Reply<'GET /:mode/notice-settings'>['settings'][number];
/** In the order of the settings: what most members look for comes first. */
const KINDS: Readonly<Record<Setting['kind'], [string, string]>> = {
  payment_attention: ['Payment needs attention', 'Underpaid, overpaid, late, or paid after it was canceled.'],
  payment_reversed: ['Completed payment reversed', 'Its transfer was taken back or is no longer confirmed.'],
  payments_unavailable: ['Customers can’t pay', 'No currency was available on a live payment page or for a new payment.'],
  money_out_waiting: [
    'Refund or payout to approve',
    'One was requested, its customer entered an address, their Lightning invoice expired, or a second member must approve it.',
  ],
  money_out_failed: ['Refund or payout failed', 'Its transaction can no longer be mined.'],
  endpoint_failing: ['Webhooks not delivered', 'Every delivery to an endpoint failed for a quarter of an hour, or it works again.'],
  endpoint_off: ['Webhook endpoint disabled', 'It answered 410 Gone, or every delivery failed for five days.'],
  usage: ['Plan limit', 'At 80% and 100% of the live payments of a month.'],
  wallet_changed: ['Wallet changed', 'Payments of a coin go to another account key, or will after the waiting period.'],
  endpoint_changed: ['Webhook endpoint changed', 'A live endpoint was added, or its URL was changed.'],
  key_created: ['Live secret key created', 'A secret key for live mode was created or rolled.'],
  team_changed: ['Team changed', 'Someone joined, left, got another role, or an owner changed the limit of approvals.'],
  sign_in: ['New sign-in', 'Your account was used to sign in from a new browser or address.'],
  device_trusted: ['Device trusted', 'A browser can sign in to your account without a code for 30 days.'],
  account_changed: ['Sign-in method changed', 'Your password, passkeys, two-factor authentication or backup codes changed.'],
  codes_failed: ['Wrong codes', 'Someone entered your password, then several wrong codes.'],
  chain_failing: ['Block cannot be read', 'For operators: payments in a coin are not detected after this block.'],
  operator_changed: ['Operators changed', 'For operators: someone got or lost access to the operator area, or left their team.'],
  backup_old: ['Backup is old', 'For operators: the last backup is older than seven days, or there is none.'],
};

const ORDER = Object.keys(KINDS);
const SETTINGS = ['GET /:mode/notice-settings', ['notice-settings'], {}] as const;

export function Screen() {
  useTitle('Notifications');
  const mailSetUp = useApi(...SETTINGS).data?.mail_set_up ?? true;
  return (
    <div className="grid max-w-3xl gap-6">
      <h1>Notifications</h1>
      {!mailSetUp && (
        <Note tone="warn">
          <b>Emails are off.</b> This install has no mail server, so notifications appear only in the dashboard. The operator can set{' '}
          <code>SMTP_URL</code> to turn emails on.
        </Note>
      )}
      <Notices />
      <Settings />
    </div>
  );
}

function Notices() {
  const mode = useMode();
  const client = useQueryClient();
  const list = useList('GET /:mode/notices', ['notices', 'list'], {});
  const newest = list.rows[0]?.id;
  const anyUnread = list.rows.some((row) => row.unread);
  // Opening the list marks its notifications as read.
  useEffect(() => {
    if (newest === undefined || !anyUnread) return;
    void call('POST /:mode/notices/read', { params: { mode }, body: { through: newest } }).then(
      () => readAnew(client, [mode, 'notices', 'bell']),
      () => {},
    );
  }, [mode, client, newest, anyUnread]);
  return (
    <Card title="Recent">
      {list.rows.length === 0 && (list.error || list.isPending) ? (
        <Pending of={list} lines={4} />
      ) : list.rows.length === 0 ? (
        <Empty title="No notifications">Notifications are kept for 90 days.</Empty>
      ) : (
        <>
          <NoticeList notices={list.rows} />
          {list.hasNextPage && (
            <div className="border-t border-line p-3 text-center">
              <Button onClick={() => void list.fetchNextPage()} busy={list.isFetchingNextPage}>
                Show more
              </Button>
            </div>
          )}
        </>
      )}
    </Card>
  );
}

function Settings() {
  const settings = useApi(...SETTINGS);
  const save = useAct('POST /:mode/notice-settings', { refreshes: [['notice-settings'], ['notices']] });
  if (!settings.data)
    return (
      <Card title="Settings">
        <Pending of={settings} lines={6} />
      </Card>
    );
  const { mail_set_up: mailSetUp } = settings.data;
  return (
    <>
      <Card title="Settings">
        <table className="block w-full text-sm sm:table">
          <thead className="sr-only sm:not-sr-only sm:table-header-group">
            <tr className="text-left text-soft">
              <th scope="col" className="px-4 py-2 font-medium">
                Event
              </th>
              <th scope="col" className="px-2 py-2 text-center font-medium whitespace-nowrap">
                Dashboard
              </th>
              <th scope="col" className="px-4 py-2 text-center font-medium whitespace-nowrap">
                Email
              </th>
            </tr>
          </thead>
          <tbody className="block sm:table-row-group">
            {settings.data.settings
              .toSorted((a, b) => ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind))
              .map((setting) => {
                const [name, more] = KINDS[setting.kind];
                // A change shows before it is saved.
                const asked = save.isPending && save.variables.body.kind === setting.kind ? save.variables.body : setting;
                const box = (field: 'in_app' | 'email', label: string) => (
                  <label className="inline-flex items-center gap-2">
                    <input
                      type="checkbox"
                      className="size-4 accent-accent"
                      aria-label={`${name}: ${label}`}
                      checked={asked[field]}
                      disabled={field === 'email' && (!mailSetUp || setting.email_always)}
                      onChange={(event) => save.mutate({ body: { ...asked, [field]: event.target.checked } })}
                    />
                    <span className="text-soft sm:hidden">{field === 'email' ? 'Email' : 'Dashboard'}</span>
                  </label>
                );
                return (
                  <tr
                    key={setting.kind}
                    className="flex flex-wrap gap-x-6 gap-y-1 border-t border-line px-4 py-2.5 first:border-t-0 sm:table-row sm:first:border-t"
                  >
                    <th scope="row" className="basis-full text-left font-normal sm:px-4 sm:py-2.5">
                      <span className="font-medium">{name}</span>
                      <span className="block text-soft">
                        {more}
                        {setting.email_always && ' This email is always sent.'}
                      </span>
                    </th>
                    <td className="sm:px-2 sm:py-2.5 sm:text-center">{box('in_app', 'in the dashboard')}</td>
                    <td className="sm:px-4 sm:py-2.5 sm:text-center">{box('email', 'by email')}</td>
                  </tr>
                );
              })}
          </tbody>
        </table>
      </Card>
      {mailSetUp && <Timing saved={settings.data.timing} />}
    </>
  );
}
