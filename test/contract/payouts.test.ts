/** Payouts from the request to the confirmation in test mode: API, files, approvals, events. Whatever is repeated pays once. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { PAYOUT_COMMANDS } from '../../src/cli/signing-commands.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { approveOutgoing } from '../../src/outgoing/decisions.ts';
import { importPayouts } from '../../src/outgoing/payout-batches.ts';
import { type Client, eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';
import { type Receiver, startReceiver } from '../kit/receiver.ts';

const ACTOR = { userId: '', name: 'Ada', ip: '' };
const ADDRESS = 'tb1q6rz28mcfaxtmd6v789l9rrlrusdprr9pqcpvkl';
let app: TestApp;
let receiver: Receiver;
let stranger: Client;
before(async () => {
  receiver = await startReceiver();
  app = await startTestApp();
  stranger = app.as((await createMerchant(app.app.ctx, { name: 'Other shop' })).keys.testSecret);
});
after(async () => {
  await app?.stop();
  await receiver?.stop();
});
const owner = () => ({ merchantId: app.merchant.merchantId, mode: 'test' }) as const;
const refused = (reply: Reply, status: number, code: string, param: string | null = null) => {
  assert.equal(reply.status, status, reply.text);
  assert.deepEqual([reply.json.error.code, reply.json.error.param], [code, param], reply.text);
};
const operate = (name: string, flags: Record<string, string>): Promise<any> => {
  const command = PAYOUT_COMMANDS[name];
  assert.ok(command && 'run' in command);
  return command.run(app.app.ctx, { merchant: app.merchant.merchantId, mode: 'test', ...flags });
};
const upload = (content: string, name = 'november.csv') => importPayouts(app.app.ctx, { ...owner(), content, name, actor: ACTOR });
const count = async (): Promise<number> =>
  (await app.app.ctx.db.sql<{ n: number }[]>`select count(*)::int as n from outgoing_payments where kind = 'payout'`)[0]!.n;

test('a payout: requested, approved, confirmed; every step is reported, and others see nothing of it', async () => {
  const events = ['payout.requested', 'payout.approved', 'payout.sent', 'payout.confirmed'];
  await app.test.post('/v1/webhook_endpoints', { url: receiver.url, events });
  const body = { currency: 'BTC', amount: '0.001', address: ADDRESS, payout_reference: 'ada-1', description: 'November' };
  const requests = await Promise.all(['a', 'a', 'b', 'c'].map((key) => app.test.post('/v1/payouts', body, { 'Idempotency-Key': key })));
  assert.equal(await count(), 1, 'four requests at the same moment are one payout');
  const made = requests.find(({ status }) => status === 201)!.json;
  assert.deepEqual(
    [made.status, made.amount, made.currency, made.network, made.amount_usd, made.address, made.payout_reference, made.description],
    ['requested', '0.00100000', 'BTC', 'bitcoin', '97.00', ADDRESS, 'ada-1', 'November'],
  );
  refused(await stranger.get(`/v1/payouts/${made.id}`), 404, 'payout_not_found');
  refused(await app.live.get(`/v1/payouts/${made.id}`), 404, 'payout_not_found');
  const wrong: [body: object, code: string, param: string][] = [
    [{ address: 'LLGXPgH6PB5pEYqbmFP1rDp2eKzTfGVJkS' }, 'address_invalid', 'address'],
    [{ amount: '0.000000001' }, 'amount_precision', 'amount'],
    [{ amount: '0.00000001' }, 'amount_too_small', 'amount'],
    [{ amount: '1000' }, 'amount_too_large', 'amount'],
    [{ amount_usd: '1.00' }, 'parameter_invalid', 'amount_usd'],
    [{ amount: undefined }, 'parameter_missing', 'amount'],
    [{ currency: 'USDC', address: '0x52908400098527886E0F7030069857D2E4169EE7' }, 'parameter_missing', 'network'],
  ];
  for (const [more, code, param] of wrong)
    refused(await app.test.post('/v1/payouts', { ...body, payout_reference: 'wrong', ...more }), 400, code, param);
  refused(await app.test.post('/v1/payouts', body), 409, 'payout_exists', 'payout_reference');
  const nameless = { ...body, payout_reference: undefined };
  refused(await app.test.post('/v1/payouts', nameless), 400, 'payout_reference_missing', 'payout_reference');

  const clicks = await Promise.allSettled(
    [1, 2, 3].map(() => approveOutgoing(app.app.ctx, { kind: 'payout', ...owner(), id: made.id, actor: ACTOR })),
  );
  assert.equal(clicks.filter(({ status }) => status === 'fulfilled').length, 1, 'clicked three times');
  const done = (await app.test.get(`/v1/payouts/${made.id}`)).json;
  assert.equal(done.status, 'confirmed');
  assert.match(done.transaction_hash, /^[0-9a-f]{64}$/);
  refused(await app.test.post(`/v1/payouts/${made.id}/cancel`), 409, 'payout_state');
  const told = await eventually(
    async () => receiver.received.map(({ event }) => event).filter(({ type }) => type.startsWith('payout.')),
    (all) => all.length === 4,
  );
  assert.deepEqual(
    told
      .toSorted((a: any, b: any) => a.data.sequence - b.data.sequence)
      .map(({ type, data }: any) => [type, data.status, data.id === made.id]),
    events.map((type) => [type, type.slice(7), true]),
  );
  const { data } = (await app.test.get('/v1/webhook_deliveries')).json;
  assert.deepEqual(new Set(data.map(({ payment_id }: any) => payment_id)), new Set([null]));
});

const FILE = `reference,currency,network,amount,amount_usd,address,description
eve-1,btc,,0.002,,${ADDRESS},"November, Eve"
fay-1,USDC,base,,50.00,0x52908400098527886E0F7030069857D2E4169EE7,
`;

test('a file: all rows or none, with the lines that are wrong, and never twice', async () => {
  const before = await count();
  const rows: [file: string, reason: RegExp][] = [
    ['', /The first line has no column reference, currency, address/],
    ['reference,currency,address,amont\n', /unknown column "amont"/],
    ['reference,currency,address,amount\n', /no payouts/],
    ['reference,currency,address,amount\n"a,BTC\n', /Line 2 has a quotation mark/],
    [`${FILE}gil-1,BTC,,0.1,,none,\n`, /^Nothing was imported\. Line 4: .*\(address\)$/],
    [`${FILE}eve-1,BTC,,0.1,,${ADDRESS},\n`, /Line 4: .*line 2 has the same one.*\(reference\)/],
    [`${FILE},BTC,,0.1,,${ADDRESS},\n`, /Line 4: .*\(reference\)/],
    [`${FILE}gil-1,BTC,,"0,1",,${ADDRESS},\n`, /Line 4: .*with a point.*\(amount\)/],
    [`${FILE}gil-1,BTC,base,0.1,,${ADDRESS},\n\nhal-1,XMR,,1,,x,`, /Line 4: .*BTC is not on base.* Line 6: .*\(currency\)/],
    [`${FILE}ada-1,BTC,,0.1,,${ADDRESS},\n`, /Line 4: The payout po_\w+ already has the reference "ada-1"/],
  ];
  for (const [file, reason] of rows) await assert.rejects(upload(file), { code: 'payout_import_invalid', message: reason });
  assert.equal(await count(), before, 'nothing was imported');

  // A double upload: two members press at the same moment, and somebody uploads it again later.
  const both = await Promise.all([upload(FILE), upload(FILE)]);
  assert.deepEqual(both.map(({ isKnown }) => isKnown).toSorted(), [false, true]);
  const { id } = both[0]!;
  assert.deepEqual([both[1]!.id, await upload(FILE, 'renamed.csv')], [id, { id, isKnown: true }]);
  assert.equal(await count(), before + 2);
  await assert.rejects(upload(FILE.replace('0.002', '0.003')), { message: /Line 2: .*eve-1.* Line 3: .*fay-1/ }, 'edited');
  // The same file as a spreadsheet of another country saves it is other bytes: its references are known.
  await assert.rejects(upload(`\ufeff${FILE.replaceAll('November, Eve', 'November').replaceAll(',', ';').replaceAll('\n', '\r\n')}`), {
    message: /eve-1/,
  });

  const folder = await mkdtemp(join(tmpdir(), 'florin-payouts-'));
  try {
    await writeFile(join(folder, 'november.csv'), FILE);
    const batch = await operate('payout import', { file: join(folder, 'november.csv') });
    assert.deepEqual([batch.id, batch.known, batch.payouts, batch.amount_usd, batch.states], [id, true, 2, '244.00', { requested: 2 }]);
    assert.deepEqual(batch.totals, [
      { currency: 'BTC', amount: '0.00200000' },
      { currency: 'USDC@base', amount: '50.00' },
    ]);
  } finally {
    await rm(folder, { recursive: true });
  }
  const clicks = await Promise.allSettled([operate('payout approve', { batch: id }), operate('payout approve', { batch: id })]);
  assert.deepEqual(
    clicks
      .map((one) => (one.status === 'fulfilled' ? one.value : one.reason.code))
      .map(String)
      .toSorted(),
    ['[object Object]', 'payout_state'],
  );
  const { payouts } = await operate('payout list', { batch: id });
  assert.deepEqual(
    payouts.map(({ status }: any) => status),
    ['confirmed', 'confirmed'],
  );
  assert.deepEqual(await operate('payout cancel', { batch: id }), { canceled: 0 });
  // After everything of a file was canceled, it can be uploaded again.
  const other = FILE.replaceAll('-1,', '-2,');
  const first = await upload(other);
  assert.deepEqual(await operate('payout cancel', { batch: first.id }), { canceled: 2 });
  assert.equal((await upload(other)).isKnown, false);
});
