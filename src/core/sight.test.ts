import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ROLES } from './roles.ts';
import { FULL_SIGHT, PAYOUT_TEXT, shownHeaders, shownPath, shownUrl, sightOf } from './transfer.ts';

const NOTHING = { payouts: false, secrets: false };

test('payouts are for owners, admins and finance; the secrets of webhooks for owners, admins and developers', () => {
  const who = (what: 'payouts' | 'secrets') => ROLES.filter((role) => sightOf(role)[what]).join(' ');
  assert.deepEqual([who('payouts'), who('secrets')], ['owner admin finance', 'owner admin developer']);
});

test('of the URL of an endpoint only the host is shown: a token may be in every other part', () => {
  const rows: [url: string, shown: string][] = [
    ['https://hooks.shop.example/services/T00/B00/s3cr37', 'https://hooks.shop.example/…'],
    ['https://shop.example:8443/?token=s3cr37', 'https://shop.example:8443/…'],
    ['https://user:s3cr37@shop.example', 'https://shop.example/'],
    ['https://shop.example/#s3cr37', 'https://shop.example/…'],
    ['https://shop.example', 'https://shop.example/'],
    ['no address', '…'],
  ];
  for (const [url, shown] of rows) {
    assert.equal(shownUrl(url, NOTHING), shown);
    assert.equal(shownUrl(url, FULL_SIGHT), url);
  }
});

test('of the headers of a delivery those without a secret are shown, so that a new kind of signature is hidden', () => {
  const harmless = { 'content-type': 'application/json', 'webhook-id': 'evt_1', 'Webhook-Timestamp': '1' };
  const headers = { ...harmless, 'webhook-signature': 'v1,x', 'x-service-signature': 'x', 'btcpay-sig': 'x', 'x-new-proof': 'x' };
  assert.deepEqual(shownHeaders(headers, NOTHING), harmless);
  assert.deepEqual(shownHeaders(headers, FULL_SIGHT), headers);
});

test('texts of the request log that contain a payout are recognized, also inside other JSON; others are not', () => {
  const id = `po_${'a1'.repeat(12)}`;
  const about = [
    'type=payout.sent',
    '{"type":"payout.sent"',
    '{"event_type": "payout.sent"',
    '"{\\"type\\":\\"payout.sent\\"',
    `{"id":"${id}"`,
  ];
  for (const text of [...about, '{"payout_reference":"x"', '"code":"payout_exists"']) assert.match(text, new RegExp(PAYOUT_TEXT));
  for (const text of ['{"events":["payout.sent"]}', '{"description":"My payout"}', '{"id":"po_1"}'])
    assert.doesNotMatch(text, new RegExp(PAYOUT_TEXT));
  assert.equal(shownPath(`GET /v1/Payouts/${id}`, NOTHING), null);
  assert.equal(shownPath(`GET /v1/payments/${id}`, NOTHING), null);
  assert.equal(shownPath(`GET /v1/payouts/${id}`, FULL_SIGHT), `GET /v1/payouts/${id}`);
  assert.equal(shownPath('GET /v1/payments', NOTHING), 'GET /v1/payments');
  for (const kind of ['events/evt', 'deliveries/del']) {
    const path = `GET /v1/${kind}_8sWn2LxR7vKd1Ye4fTq0ZcJb`;
    assert.deepEqual([shownPath(path, NOTHING), shownPath(path, FULL_SIGHT)], [null, path]);
  }
});
