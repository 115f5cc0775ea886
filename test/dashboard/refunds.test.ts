/** Refunds through the dashboard's API: roles, the approval of a second member, states, and other merchants. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { mayDo, ROLES } from '../../src/core/roles.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { ageRoles, type Person, setUpPartner, setUpPerson } from '../kit/person.ts';

const ADDRESS = 'test_btc_payer';
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

async function paid(amount_usd = '25.50'): Promise<string> {
  const { id } = (await app.test.post('/api/payment/create/simple', { amount_usd, return_url: 'https://shop.example/' })).json;
  await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario: 'success', currency: 'BTC' });
  await eventually(
    () => app.test.get(`/api/payment/${id}`),
    ({ json }) => json.status === 'completed',
  );
  return id;
}
const answer = ({ status, json }: { status: number; json: any }) => [status, json?.error?.code ?? json?.refund?.status];
const ask = (payment_id: string, body: object, person = owner) => person.post('/test/refunds', { payment_id, ...body });
const request = async (paymentId: string, body: object) => {
  const { id } = (await ask(paymentId, { address: ADDRESS, ...body })).json.refund;
  return (await owner.get(`/test/refunds/${id}`)).json.refund;
};
const approve = (id: string, person = owner) => person.post(`/test/refunds/${id}/approve`);
const setLimit = (refund_limit_usd: number | null) => owner.post('/live/settings/business', { refund_limit_usd });
const setRole = (role: string) => app.app.ctx.db.sql`
  update members set role = ${role} where user_id = (select id from users where email = 'pia@shop.example')`;

test('only owners and finance members approve, and only owners change the limit', async () => {
  const rolesFor = (action: 'refunds.request' | 'refunds.approve') => ROLES.filter((role) => mayDo(role, action));
  assert.deepEqual(rolesFor('refunds.approve'), ['owner', 'finance']);
  assert.deepEqual(rolesFor('refunds.request'), ['owner', 'admin', 'finance', 'support']);
  assert.deepEqual(
    ROLES.filter((role) => mayDo(role, 'approvals.manage')),
    ['owner'],
  );
  const { id } = await request(await paid(), { amount_usd: '1.00' });
  for (const [role, status] of [['admin', 403] as const, ['support', 403] as const, ['viewer', 403] as const]) {
    await setRole(role);
    for (const act of ['approve', 'sent', 'cancel'])
      assert.equal((await partner.post(`/test/refunds/${id}/${act}`, { txid: 'ab'.repeat(32) })).status, status, `${role} ${act}`);
    assert.equal((await partner.get(`/test/refunds/${id}`)).status, 200);
  }
  await setRole('owner');
});

test('a refund from the request to the confirmation: amounts, the rest, the address of the right coin, the link', async () => {
  const id = await paid();
  const left = async () => (await owner.get(`/test/payments/${id}/refundable`)).json.available[0];
  const received = (await app.test.get(`/api/payment/${id}`)).json.amount_received;
  assert.deepEqual(await left(), { currency: 'BTC', amount: received, worth: { amount: '25.50', currency: 'USD' } });
  const refund = async (body: object) => answer(await ask(id, body));
  assert.deepEqual(await refund({ address: 'LLGXPgH6PB5pEYqbmFP1rDp2eKzTfGVJkS' }), [400, 'address_invalid']);
  assert.deepEqual(await refund({ amount: '0' }), [400, 'amount_invalid']);
  assert.deepEqual(await refund({ amount_usd: '1e3' }), [400, 'parameter_invalid']);
  assert.deepEqual(await refund({ amount_usd: '25.51' }), [409, 'refund_exceeds']);
  const asked = await request(id, { amount_usd: '10.00', address: undefined, reason: 'Broken mug' });
  assert.deepEqual([asked.status, asked.amount, asked.reason, asked.requested_by], ['requested', '0.00010309', 'Broken mug', 'Olga Owner']);
  assert.match(asked.claim.url, /\/claim\/[0-9A-Za-z]{32}$/);
  for (const [role, isShown] of [['viewer', false] as const, ['developer', false] as const, ['support', true] as const]) {
    await setRole(role);
    const { refund: seen } = (await partner.get(`/test/refunds/${asked.id}`)).json;
    const [listed] = (await partner.get(`/test/refunds?payment=${id}`)).json.data;
    assert.deepEqual([seen.claim !== null, listed.claim !== null], [isShown, isShown], `the link and a ${role}`);
  }
  await setRole('owner');
  assert.deepEqual(answer(await approve(asked.id)), [409, 'refund_address_missing']);
  assert.deepEqual(answer(await owner.post(`/test/refunds/${asked.id}/cancel`)), [200, 'canceled']);
  const all = await request(id, {});
  assert.deepEqual([all.amount, all.claim, (await left()).amount], [received, null, '0.00000000']);
  assert.deepEqual(answer(await approve(all.id)), [200, 'confirmed']);
  assert.deepEqual(answer(await approve(all.id)), [409, 'refund_state'], 'a second click');
  assert.equal((await app.test.get(`/api/payment/${id}`)).json.amount_refunded, received);
  const { data } = (await owner.get(`/test/refunds?payment=${id}`)).json;
  assert.deepEqual(
    data.map((one: any) => one.status),
    ['confirmed', 'canceled'],
  );
  assert.deepEqual((await owner.get(`/test/refunds?payment=${id}&state=canceled`)).json.data.length, 1);
  const actions = await app.app.ctx.db
    .sql`select action, before, after from audit_log where object in (${all.id}, ${asked.id}) order by id`;
  assert.deepEqual(
    actions.map(({ action }) => action),
    ['refund.requested', 'refund.canceled', 'refund.requested', 'refund.approved'],
  );
  assert.ok(!JSON.stringify(actions).includes(ADDRESS), 'the log keeps no address that is erased elsewhere');
});

test('members who request refunds can replace the link of one, and the audit log says so', async () => {
  const id = await paid();
  const refund = await request(id, { amount_usd: '1.00', address: undefined });
  await setRole('viewer');
  assert.equal((await partner.post(`/test/refunds/${refund.id}/claim-link`)).status, 403);
  await setRole('support');
  const renewed = await partner.post(`/test/refunds/${refund.id}/claim-link`);
  assert.equal(renewed.status, 200, renewed.text);
  await setRole('owner');
  assert.notEqual(renewed.json.refund.claim.url, refund.claim.url);
  const read = (await owner.get(`/test/refunds/${refund.id}`)).json.refund;
  assert.equal(read.claim.url, renewed.json.refund.claim.url);
  const audited = await app.app.ctx.db.sql`select 1 from audit_log where action = 'refund.link_renewed' and object = ${refund.id}`;
  assert.equal(audited.length, 1);
});

// Invariant: No member approves refunds above the limit alone.
test('above the limit a second member has to approve; nobody gets around it with several refunds or the API', async () => {
  // 25.50 dollars were approved above, within the same day.
  assert.equal((await setLimit(40)).status, 200);
  const id = await paid('100.00');
  const own = await request(id, { amount_usd: '14.51' });
  assert.deepEqual(answer(await approve(own.id)), [409, 'second_member_required'], 'the request of the same member');
  assert.deepEqual(answer(await approve(own.id, partner)), [200, 'confirmed']);
  assert.deepEqual((await owner.get(`/test/refunds/${own.id}`)).json.refund.approved_by, 'Pia Partner');

  // 12 dollars more are fine, and 12 more are not.
  const [first, second] = [await request(id, { amount_usd: '12.00' }), await request(id, { amount_usd: '12.00' })];
  const both = await Promise.all([approve(first.id), approve(second.id)]);
  assert.deepEqual(both.map(({ status }) => status).toSorted(), [200, 409], 'two at the same moment count together');
  const refused = both[0]!.status === 409 ? first : second;
  assert.deepEqual(answer(await approve(refused.id, partner)), [200, 'confirmed']);

  // The API requests: the first approval is recorded, and the same member cannot give the second one.
  const made = (await app.test.post('/v1/refunds', { payment_id: id, amount_usd: '30.00', address: ADDRESS })).json;
  const waits = (await approve(made.id)).json.refund;
  assert.deepEqual([waits.status, waits.approved_by, waits.approved_at], ['requested', 'Olga Owner', null]);
  assert.equal((await app.test.get(`/v1/refunds/${made.id}`)).json.status, 'requested');
  assert.deepEqual(answer(await approve(made.id)), [409, 'second_member_required']);
  const approved = (await approve(made.id, partner)).json.refund;
  assert.deepEqual([approved.status, approved.approved_by], ['confirmed', 'Olga Owner and Pia Partner']);
  assert.equal((await setLimit(null)).status, 200);
  assert.deepEqual(answer(await approve((await request(id, {})).id)), [200, 'confirmed'], 'no limit');
});

test('members see what waits for them: a requested refund, an address of a customer, a second approval', async () => {
  const heard = async () => (await partner.get('/test/notices?limit=1')).json.data[0];
  const id = await paid('40.00');
  await request(id, { amount_usd: '10.00' });
  const asked = await heard();
  assert.match(asked.text, /^A refund of 0\.\d+ BTC is waiting for approval\.$/);
  assert.deepEqual([asked.kind, asked.screen, asked.mode], ['money_out_waiting', 'refunds', 'test']);

  const refund = await request(id, { amount_usd: '20.00', address: undefined });
  assert.equal((await heard()).id, asked.id, 'nobody can approve it before the customer enters an address');
  const fields = new URLSearchParams({ address: ADDRESS, checked: 'yes' });
  const claimed = await fetch(app.url + new URL(refund.claim.url).pathname, { method: 'POST', redirect: 'manual', body: fields });
  assert.equal(claimed.status, 303);
  assert.match((await heard()).text, /^A refund of 0\.\d+ BTC has an address now: the customer entered it\. /);
  assert.equal((await setLimit(1)).status, 200);
  const made = (await app.test.post('/v1/refunds', { payment_id: id, amount_usd: '5.00', address: ADDRESS })).json;
  assert.equal((await approve(made.id)).json.refund.status, 'requested');
  assert.match((await heard()).text, /^A refund of 0\.\d+ BTC is waiting for the approval of a second member\.$/);
  assert.equal((await setLimit(null)).status, 200);
  const { settings } = (await owner.get('/live/notice-settings')).json;
  assert.deepEqual(settings.find(({ kind }: any) => kind === 'money_out_waiting').email, true);
});

test('another merchant sees no refund and changes none', async () => {
  const other = await createMerchant(app.app.ctx, { name: 'Second shop' });
  const stranger = await setUpPerson(app, other, 'second@shop.example');
  const id = await paid();
  const refund = await request(id, {});
  for (const reply of [
    await stranger.get(`/test/refunds/${refund.id}`),
    await stranger.get(`/test/payments/${id}/refundable`),
    await ask(id, {}, stranger),
    ...(await Promise.all(['approve', 'cancel'].map((act) => stranger.post(`/test/refunds/${refund.id}/${act}`)))),
    await stranger.post(`/test/refunds/${refund.id}/sent`, { txid: 'ab'.repeat(32) }),
    await owner.get(`/live/refunds/${refund.id}`),
  ])
    assert.equal(reply.status, 404, JSON.stringify(reply.json));
  assert.deepEqual((await stranger.get('/test/refunds')).json.data, []);
});
