/** What each line of the audit log says and where it links to, as a table. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { placeOf } from '../../dashboard/screens/audit/place.ts';
import { changesOf, wordsOf } from '../../dashboard/screens/audit/words.ts';
import { ACTIONS } from '../../src/core/roles.ts';
import { DECISIONS } from '../../src/payments/payments.ts';

const ROOT = join(import.meta.dirname, '../..');
const screens = [...readFileSync(join(ROOT, 'dashboard/screens.ts'), 'utf8').matchAll(/path: '([^']+)'/g)].map(([, path]) =>
  path!.split('/'),
);
const ME = 'usr_me';
const ROWS: readonly [action: string, object: string, place: string | null, after?: Record<string, unknown>][] = [
  ['payment.cancel', 'pay_1', 'payments/pay_1'],
  ['payment.events_resent', 'pay_1', 'payments/pay_1'],
  ['payments.export', 'payments', 'reports'],
  ['key.created', 'key_1', 'keys/key_1'],
  ['endpoint.update', 'we_1', 'webhooks/we_1'],
  ['recovery.start', 'we_1', 'webhooks/we_1'],
  ['endpoint.delete', 'we_1', 'webhooks'],
  ['delivery.resend', 'del_1', 'webhooks/we_1/deliveries', { event: 'evt_1', endpoint: 'we_1' }],
  ['shop.connected', 'shp_1', 'shops'],
  ['shop.refund_sent', 'ref_1', 'shops'],
  ['refund.approved', 'ref_1', 'refunds'],
  ['payout.approved', 'po_1', 'payouts'],
  ['link.created', 'lnk_1', 'links'],
  ['link.changed', 'lnk_1', 'links'],
  ['wallet.set', 'BTC', 'wallets'],
  ['chain.released', 'BTC', 'wallets'],
  ['lightning.set', 'shop@example.com', 'wallets'],
  ['wallet.wait_on', 'mer_1', 'wallets'],
  ['sweep.made', 'swp_1', 'sweeps'],
  ['shop.connected', 'shop_1', 'shops'],
  ['settings.changed', 'mer_1', 'business'],
  ['plan.set', 'mer_1', 'usage'],
  ['team.second_factor_required', 'mer_1', 'team'],
  ['member.invited', 'dana@shop.example', 'team'],
  ['member.role_changed', 'usr_other', 'team'],
  ['member.set_up', ME, 'team'],
  ['invite.revoked', 'dana@shop.example', 'team'],
  ['approvals.forgotten', 'usr_other', 'team'],
  ['team.claim_links_ended', 'usr_other', 'team'],
  ['session.started', ME, 'security'],
  ['session.started', 'usr_other', 'team'],
  ['request.read', 'req_1', 'requests/req_1'],
  ['something.new', 'made-up', null],
];

test('a line links to the screen of its object, and that screen exists', () => {
  for (const [action, object, place, after] of ROWS) {
    assert.equal(placeOf({ action, object, ...(after && { after }) }, ME), place, action);
    if (place === null) continue;
    const parts = place.split('/');
    const screen = screens.find(
      (names) => names.length === parts.length && names.every((name, i) => name.startsWith('$') || name === parts[i]),
    );
    assert.ok(screen, `there is no screen ${place}`);
  }
});

/** Actions on one's own account, whose object is a user. */
const OWN = ['session', 'second_factor', 'passkey', 'password', 'device', 'backup_codes', 'email', 'operator'];

/** Actions whose names are composed in the code. */
const COMPOSED = [
  ...['cancel', 'accept', 'reject', 'refund_sent', 'reviewed', 'archived', 'unarchived', 'simulate'].map(
    (decision) => `payment.${decision}`,
  ),
  ...['refund', 'payout'].flatMap((kind) =>
    ['approved', 'approved_first', 'approval_ended', 'sent', 'canceled'].map((decision) => `${kind}.${decision}`),
  ),
];

test('every action that the service logs has a text and a place', () => {
  const src = join(ROOT, 'src');
  const acts = new Set(COMPOSED);
  // Permissions of roles use the same names, but are not logged.
  for (const name of readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((one) => /\.ts$/.test(one)))
    for (const [, given] of readFileSync(join(src, name), 'utf8').matchAll(/action: ([^,}]*)/g))
      for (const [, action] of given!.matchAll(/'([a-z_]+\.[a-z_]+)'/g)) if (!(action! in ACTIONS)) acts.add(action!);
  assert.deepEqual(
    [...acts].filter((act) => wordsOf(act).length > 28),
    [],
    'they fit beside the changes',
  );
  assert.ok(['wallet.paused', 'wallet.resumed', 'delivery.resend', 'payment.create'].every((act) => acts.has(act)));
  assert.deepEqual(
    [...acts].filter((act) => wordsOf(act) === act),
    [],
  );
  const known = new Set([...OWN, ...ROWS.map(([action]) => action.split('.')[0]!)]);
  assert.deepEqual(
    [...acts].filter((act) => !known.has(act.split('.')[0]!)),
    [],
  );
});

test('a change is shown in words, without nulls, braces and unchanged empty values', () => {
  const rows: [before: Record<string, unknown> | null, after: Record<string, unknown> | null, shown: string[]][] = [
    [null, { amount_usd: '25.50', invoice_id: null }, ['Amount (USD): - > 25.50']],
    [{ status: 'pending' }, { status: 'cancelled', decision: 'cancel', number: 1 }, ['Status: pending > cancelled']],
    [{ status: 'expired' }, { status: 'expired', decision: 'reject', number: 2 }, []],
    [{ metadata: { order: 'A-1' } }, { metadata: { order: 'A-2' } }, ['Metadata: Order: A-1 > Order: A-2']],
    [{ description: null }, { description: 'Shop' }, ['Description: none > Shop']],
    [{ autoReturn: false }, { autoReturn: true }, ['Auto return: no > yes']],
    [{ events: ['payment.completed'] }, { events: [] }, ['Events: payment.completed > none']],
  ];
  for (const [before, after, shown] of rows)
    assert.deepEqual(
      changesOf({ before, after }).map(([name, was, is]) => `${name}: ${was ?? '-'} > ${is ?? '-'}`),
      shown,
    );
});

test('every decision about a payment has a text', () => {
  for (const decision of DECISIONS) assert.notEqual(wordsOf(`payment.${decision}`), `payment.${decision}`);
});
