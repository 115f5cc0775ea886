/** What each line of the audit log says and where it leads, by a table. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { placeOf } from '../../dashboard/screens/audit/place.ts';
import { wordsOf } from '../../dashboard/screens/audit/words.ts';
import { ACTIONS } from '../../src/merchants/roles.ts';

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
  ['link.created', 'lnk_1', 'links'],
  ['wallet.set', 'BTC', 'wallets'],
  ['chain.released', 'BTC', 'wallets'],
  ['wallet.wait_on', 'mer_1', 'wallets'],
  ['settings.changed', 'mer_1', 'business'],
  ['plan.set', 'mer_1', 'usage'],
  ['team.second_factor_required', 'mer_1', 'team'],
  ['member.invited', 'dana@shop.example', 'team'],
  ['member.role_changed', 'usr_other', 'team'],
  ['member.set_up', ME, 'team'],
  ['invite.revoked', 'dana@shop.example', 'team'],
  ['session.started', ME, 'security'],
  ['session.started', 'usr_other', 'team'],
  ['request.read', 'req_1', 'requests/req_1'],
  ['something.new', 'made-up', null],
];

test('a line leads to the screen of what it names, and that screen is there', () => {
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

/** Acts about one's own account, whose object is a user. */
const OWN = ['session', 'second_factor', 'passkey', 'password', 'device', 'backup_codes', 'email', 'operator'];

/** Put together where they are written: a payment's decisions, and what is archived. */
const COMPOSED = ['cancel', 'accept', 'reject', 'refund_sent', 'reviewed', 'archived', 'unarchived'].map(
  (decision) => `payment.${decision}`,
);

test('every act that the service writes down has words and a place', () => {
  const src = join(ROOT, 'src');
  const acts = new Set(COMPOSED);
  // What a role may do is named in the same way, and is not written down.
  for (const name of readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((one) => /\.ts$/.test(one)))
    for (const [, given] of readFileSync(join(src, name), 'utf8').matchAll(/action: ([^,}]*)/g))
      for (const [, action] of given!.matchAll(/'([a-z_]+\.[a-z_]+)'/g)) if (!(action! in ACTIONS)) acts.add(action!);
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
