/** Payouts through the dashboard's API: roles, recent authentication, the approval of a second member, files, and other merchants. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { mayDo, ROLES } from '../../src/core/roles.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { importPayouts } from '../../src/outgoing/payout-batches.ts';
import { startTestApp, type TestApp } from '../kit/app.ts';
import { ageRoles, type Person, setUpPartner, setUpPerson } from '../kit/person.ts';

const ADDRESS = 'tb1q6rz28mcfaxtmd6v789l9rrlrusdprr9pqcpvkl';
let app: TestApp;
let owner: Person;
let partner: Person;
before(async () => {
  app = await startTestApp();
  owner = await setUpPerson(app);
  partner = await setUpPartner(app);
  await ageRoles(app);
});
after(() => app?.stop());

let made = 0;
const bodyOf = (more: object = {}) => ({
  ...{ currency: 'BTC', amount_usd: '10.00', address: ADDRESS, payout_reference: `invoice-${++made}` },
  ...more,
});
const ask = (more: object = {}, person = owner) => person.post('/test/payouts', bodyOf(more));
const request = async (more: object = {}, person = owner) => (await ask(more, person)).json.payout;
const answer = ({ status, json }: { status: number; json: any }) => [status, json?.error?.code ?? json?.payout?.status];
const approve = (id: string, person = owner) => person.post(`/test/payouts/${id}/approve`);
const setRole = (role: string) => app.app.ctx.db.sql`
  update members set role = ${role} where user_id = (select id from users where email = 'pia@shop.example')`;

test('only owners, admins and finance members see and request payouts, and admins do not approve them', async () => {
  const rolesFor = (action: 'payouts.read' | 'payouts.request' | 'payouts.approve') => ROLES.filter((role) => mayDo(role, action));
  assert.deepEqual(rolesFor('payouts.read'), ['owner', 'admin', 'finance']);
  assert.deepEqual(rolesFor('payouts.request'), ['owner', 'admin', 'finance']);
  assert.deepEqual(rolesFor('payouts.approve'), ['owner', 'finance']);
  const { id } = await request();
  for (const [role, reads, acts] of [['admin', 200, 403] as const, ['support', 403, 403] as const, ['viewer', 403, 403] as const]) {
    await setRole(role);
    for (const path of ['', `/${id}`, '/counts'])
      assert.equal((await partner.get(`/test/payouts${path}`)).status, reads, `${role} reads ${path}`);
    assert.equal((await ask({}, partner)).status, reads, `${role} requests`);
    for (const act of ['approve', 'sent', 'cancel'])
      assert.equal((await partner.post(`/test/payouts/${id}/${act}`, { txid: 'ab'.repeat(32) })).status, acts, `${role} ${act}`);
  }
  await setRole('owner');
});

test('a payout is requested, refused when it is wrong, and approved; a second one with its reference is refused', async () => {
  const rows: [more: object, code: string, param: string][] = [
    [{ address: 'LLGXPgH6PB5pEYqbmFP1rDp2eKzTfGVJkS' }, 'address_invalid', 'address'],
    [{ amount_usd: '0' }, 'amount_invalid', 'amount_usd'],
    [{ amount_usd: '1.001' }, 'amount_precision', 'amount_usd'],
    [{ amount_usd: undefined, amount: '0.00000001' }, 'amount_too_small', 'amount'],
    [{ payout_reference: '' }, 'parameter_invalid', 'payout_reference'],
    [{ payout_reference: undefined }, 'payout_reference_missing', 'payout_reference'],
    [{ amount_usd: '1000000.01' }, 'amount_too_large', 'amount_usd'],
    [{ amount_usd: `1${'0'.repeat(20)}` }, 'amount_too_large', 'amount_usd'],
    [{ amount_usd: undefined, amount: '1000' }, 'amount_too_large', 'amount'],
  ];
  for (const [more, code, param] of rows) {
    const { status, json } = await ask(more);
    assert.deepEqual([status, json.error.code, json.error.param], [400, code, param], JSON.stringify(more));
  }
  const asked = await request({ amount_usd: undefined, amount: '0.001', payout_reference: 'twice', description: 'November' });
  const { payout: first } = (await owner.get(`/test/payouts/${asked.id}`)).json;
  assert.deepEqual(
    [first.status, first.amount, first.currency, first.payout_reference, first.description, first.requested_by, first.transaction_hash],
    ['requested', '0.00100000', 'BTC', 'twice', 'November', 'Olga Owner', null],
  );
  const again = await ask({ payout_reference: 'twice' });
  assert.deepEqual([again.status, again.json.error.code, again.json.error.param], [409, 'payout_exists', 'payout_reference']);
  assert.deepEqual(answer(await approve(first.id)), [200, 'confirmed']);
  assert.deepEqual(answer(await approve(first.id)), [409, 'payout_state'], 'a second click');
  const { payout } = (await owner.get(`/test/payouts/${first.id}`)).json;
  assert.match(payout.transaction_hash, /^[0-9a-f]{64}$/);
  const canceled = await request();
  assert.deepEqual(answer(await owner.post(`/test/payouts/${canceled.id}/cancel`)), [200, 'canceled']);
  const { data } = (await owner.get('/test/payouts?state=canceled')).json;
  assert.deepEqual(
    data.map(({ id }: any) => id),
    [canceled.id],
  );
});

test('above the limit two members approve, also when both press the button at the same moment', async () => {
  assert.equal((await owner.post('/live/settings/business', { refund_limit_usd: 5 })).status, 200);
  const own = await request();
  assert.deepEqual(answer(await approve(own.id)), [409, 'second_member_required'], 'the request of the same member');
  const { id } = (await app.test.post('/v1/payouts', { currency: 'BTC', amount_usd: '20.00', address: ADDRESS, payout_reference: 'key' }))
    .json;
  const both = await Promise.all([approve(id), approve(id, partner)]);
  assert.deepEqual(both.map(answer).toSorted(), [
    [200, 'confirmed'],
    [200, 'requested'],
  ]);
  const { payout } = (await owner.get(`/test/payouts/${id}`)).json;
  assert.ok(['Olga Owner and Pia Partner', 'Pia Partner and Olga Owner'].includes(payout.approved_by), payout.approved_by);
  const types = (await app.test.get('/v1/events?limit=100')).json.data.filter((event: any) => event.data.id === id);
  assert.deepEqual(
    types.map(({ type }: any) => type).toReversed(),
    ['payout.requested', 'payout.approved', 'payout.sent', 'payout.confirmed'],
    'paid once',
  );
  // Owner and partner approve the one that the owner requested: only one of the partner's two clicks counts.
  const clicks = await Promise.all([approve(own.id, partner), approve(own.id, partner)]);
  assert.deepEqual(clicks.map(answer).toSorted(), [
    [200, 'confirmed'],
    [409, 'payout_state'],
  ]);
});

test('a file is imported once, approved as one amount, and canceled as a whole', async () => {
  const upload = (content: string, name = 'november.csv', person = owner) => person.post('/test/payout-batches', { name, content });
  const rows = (prefix: string) =>
    `reference,currency,amount,address\n${prefix}-1,BTC,0.001,${ADDRESS}\n${prefix}-2,BTC,0.002,${ADDRESS}\n`;
  const wrong = await upload(rows('nov').replace('0.002', 'x'));
  assert.deepEqual([wrong.status, wrong.json.error.code], [400, 'payout_import_invalid']);
  assert.match(wrong.json.error.message, /Line 3/);
  const both = await Promise.all([upload(rows('nov')), upload(rows('nov'), 'same.csv', partner)]);
  assert.deepEqual(both.map(({ json }) => json.is_known).toSorted(), [false, true]);
  const { id } = both[0]!.json.batch;
  assert.equal(both[1]!.json.batch.id, id);
  const [listed] = (await owner.get('/test/payout-batches')).json.data;
  assert.deepEqual(
    [listed.id, listed.payouts, listed.open, listed.states],
    [id, 2, { payouts: 2, amount_usd: '291.00', totals: [{ currency: 'BTC', amount: '0.00300000' }] }, { requested: 2 }],
  );
  const [notice] = (await partner.get('/test/notices?limit=1')).json.data;
  assert.deepEqual([notice.text, notice.screen], ['2 payouts are waiting for approval.', 'payouts']);
  // The limit of five dollars is still set: the member who imported it cannot approve it alone.
  const [importer, other] = listed.requested_by === 'Olga Owner' ? [owner, partner] : [partner, owner];
  assert.deepEqual(answer(await importer.post(`/test/payout-batches/${id}/approve`)), [409, 'second_member_required']);
  const approved = (await other.post(`/test/payout-batches/${id}/approve`)).json.batch;
  assert.deepEqual([approved.open.payouts, approved.states], [0, { confirmed: 2 }]);
  const { data } = (await owner.get(`/test/payouts?batch=${id}`)).json;
  assert.deepEqual(
    data.map(({ payout_reference, status }: any) => [payout_reference, status]),
    [
      ['nov-2', 'confirmed'],
      ['nov-1', 'confirmed'],
    ],
  );
  const huge = await upload(`reference,currency,amount_usd,address\nbig-1,BTC,50000000000000000,${ADDRESS}\n`);
  assert.deepEqual([huge.status, huge.json.error.code], [400, 'payout_import_invalid']);
  assert.match(huge.json.error.message, /Line 2: .*1000000\.00/);
  const next = (await upload(rows('dec'))).json.batch;
  // Amounts of an earlier version had no maximum.
  await app.app.ctx.db.sql`update outgoing_payments set usd_cents = 5000000000000000000 where batch_id = ${next.id}`;
  const [large] = (await owner.get('/test/payout-batches')).json.data;
  assert.deepEqual([large.id, large.amount_usd], [next.id, '100000000000000000.00']);
  const canceled = (await owner.post(`/test/payout-batches/${next.id}/cancel`)).json.batch;
  assert.deepEqual([canceled.payouts, canceled.open.payouts, canceled.states], [0, 0, { canceled: 2 }]);
  assert.equal((await upload(rows('dec'))).json.is_known, false, 'after all of it was canceled');
});

test('of a batch, what one member may approve alone is approved, and the rest waits: the log says how many of each', async () => {
  const { ctx } = app.app;
  assert.equal((await owner.post('/live/settings/business', { refund_limit_usd: 200 })).status, 200);
  const content = `reference,currency,amount,address\njan-1,BTC,0.003,${ADDRESS}\njan-2,BTC,0.0001,${ADDRESS}\n`;
  const at = { merchantId: app.merchant.merchantId, mode: 'test' } as const;
  const { id } = await importPayouts(ctx, {
    ...at,
    content,
    name: 'january.csv',
    actor: { userId: '', name: 'Operator', ip: '' },
  });
  const [, large] = (await owner.get(`/test/payouts?batch=${id}`)).json.data;
  assert.deepEqual(answer(await approve(large.id)), [200, 'requested'], 'the first of two');
  const approveBatch = (person = owner) => person.post(`/test/payout-batches/${id}/approve`);
  const { batch } = (await approveBatch()).json;
  assert.deepEqual(batch.states, { confirmed: 1, requested: 1 });
  assert.deepEqual(answer(await approveBatch()), [409, 'second_member_required'], 'nothing else is left');
  assert.deepEqual((await approveBatch(partner)).json.batch.states, { confirmed: 2 });
  const lines = await ctx.db.sql`select action, after from audit_log where object = ${id} order by id`;
  assert.deepEqual(
    lines.slice(1).map(({ action, after }) => [action, after.approved, after.waiting]),
    [
      ['payout.approved', 1, 1],
      ['payout.approved', 1, 0],
    ],
  );
});

test('test mode makes no file of what is confirmed; another merchant sees no payout and changes none', async () => {
  assert.deepEqual(answer(await owner.post('/test/payout-files', { currency: 'BTC' })), [409, 'payout_file_empty']);
  assert.deepEqual(answer(await owner.post('/live/payout-files', { currency: 'ETH' })), [409, 'sweep_destination_missing']);
  const other = await createMerchant(app.app.ctx, { name: 'Second shop' });
  const stranger = await setUpPerson(app, other, 'second@shop.example');
  const { id } = await request();
  const [batch] = (await owner.get('/test/payout-batches')).json.data;
  for (const reply of [
    await stranger.get(`/test/payouts/${id}`),
    ...(await Promise.all(['approve', 'cancel'].map((act) => stranger.post(`/test/payouts/${id}/${act}`)))),
    await stranger.post(`/test/payouts/${id}/sent`, { txid: 'ab'.repeat(32) }),
    await stranger.get(`/test/payout-batches/${batch.id}`),
    ...(await Promise.all(['approve', 'cancel'].map((act) => stranger.post(`/test/payout-batches/${batch.id}/${act}`)))),
    await owner.get(`/live/payouts/${id}`),
  ])
    assert.equal(reply.status, 404, JSON.stringify(reply.json));
  for (const path of ['payouts', 'payout-batches', `payouts?batch=${batch.id}`])
    assert.deepEqual((await stranger.get(`/test/${path}`)).json.data, []);
});
