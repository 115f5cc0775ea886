/** Teams over HTTP: invitations that work once, assignable roles, the last owner, several merchants, and the operator's area. */
// Invariant: There is always an owner; invitations work once, for one address.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createMerchant, type NewMerchant } from '../../src/merchants/merchants.ts';
import { changeFromJson } from '../../src/people/members.ts';
import { startTestApp, type TestApp } from '../kit/app.ts';
import { Person, setUpFactor, setUpPerson, setupToken } from '../kit/person.ts';

let app: TestApp;
let owner: Person;
let second: NewMerchant;
let link = '';
const idOf = async (name: string): Promise<string> =>
  (await app.app.ctx.db.sql<{ id: string }[]>`select id from users where name = ${name}`)[0]!.id;
const tokenOf = (url: string): string => url.split('#')[1]!;
async function join(name: string, email: string, role: string): Promise<Person> {
  const invited = await owner.post('/test/team/invites', { email, role });
  assert.equal(invited.status, 200, invited.text);
  const person = new Person(app.url);
  const joined = await person.post('/invite/accept', { token: tokenOf(invited.json.url), name, password: person.password });
  assert.equal(joined.status, 200, joined.text);
  return person;
}

before(async () => {
  app = await startTestApp({ LOG_LEVEL: 'silent' });
  owner = await setUpPerson(app);
  second = await createMerchant(app.app.ctx, { name: 'Second shop' });
});
after(() => app?.stop());

test('an invitation shows its merchant, address and role to anyone with the link, and works once', async () => {
  const made = await owner.post('/test/team/invites', { email: 'Ada@Shop.Example', role: 'developer' });
  assert.deepEqual([made.status, made.json.mailed], [200, false]);
  link = tokenOf(made.json.url);
  assert.match(made.json.url, /\/dashboard\/invite#\w{32}$/, 'in a fragment, which no log keeps');
  const ada = new Person(app.url);
  const seen = (await ada.post('/invite', { token: link })).json;
  assert.deepEqual(
    [seen.merchant_name, seen.invited_email, seen.role, seen.has_account],
    ['Test shop', 'ada@shop.example', 'developer', false],
  );
  assert.equal((await ada.post('/invite/accept', { token: link, name: 'Ada', password: 'short' })).json.error.param, 'password');
  assert.equal((await ada.post('/invite/accept', { token: link, name: 'Ada', password: ada.password })).status, 200);
  assert.equal((await ada.get('/test/me')).json.role, 'developer');
  assert.equal(
    (await new Person(app.url).post('/invite/accept', { token: link, name: 'Eve', password: ada.password })).json.error.code,
    'invite_invalid',
  );
  const stored = await app.app.ctx.db.sql`select * from audit_log where after::text like ${`%${link}%`} or object like ${`%${link}%`}`;
  assert.equal(stored.length, 0, 'the secret stands nowhere');
});

test('an invitation ends when it is revoked, replaced, or seven days old', async () => {
  const one = (await owner.post('/test/team/invites', { email: 'x@shop.example', role: 'viewer' })).json;
  const two = (await owner.post('/test/team/invites', { email: 'x@shop.example', role: 'viewer' })).json;
  const person = new Person(app.url);
  assert.equal((await person.post('/invite', { token: tokenOf(one.url) })).status, 404);
  assert.equal((await person.post('/invite', { token: tokenOf(two.url) })).status, 200);
  assert.equal((await owner.send('DELETE', `/test/team/invites/${two.invite.id}`, {})).status, 200);
  assert.equal((await person.post('/invite', { token: tokenOf(two.url) })).status, 404);
  const three = (await owner.post('/test/team/invites', { email: 'x@shop.example', role: 'viewer' })).json;
  await app.app.ctx.db.sql`update invites set expires_at = expires_at - interval '7 days'`;
  assert.equal((await person.post('/invite/accept', { token: tokenOf(three.url), name: 'X', password: person.password })).status, 404);
  assert.deepEqual((await owner.get('/test/team')).json.invites, []);
});

test('an invitation works only for its address; one to a member is refused', async () => {
  assert.equal((await owner.post('/test/team/invites', { email: 'ada@shop.example', role: 'viewer' })).json.error.code, 'member_exists');
  const bob = await join('Bob', 'bob@shop.example', 'support');
  const invited = (await owner.post('/test/team/invites', { email: 'carl@shop.example', role: 'viewer' })).json;
  const wrong = await bob.post('/invite/accept', { token: tokenOf(invited.url) });
  assert.deepEqual([wrong.status, wrong.json.error.code], [403, 'invite_not_yours']);
  assert.equal((await bob.post('/invite', { token: tokenOf(invited.url) })).status, 200, 'and is not spent by it');
});

test('only owners can create, change, invite and remove owners and members who approve money', async () => {
  const amy = await join('Amy', 'amy@shop.example', 'admin');
  const me = await idOf('Olga Owner');
  for (const reply of [
    await amy.post('/test/team/invites', { email: 'new@shop.example', role: 'owner' }),
    await amy.post(`/test/team/members/${me}/role`, { role: 'viewer' }),
    await amy.post(`/test/team/members/${await idOf('Amy')}/role`, { role: 'owner' }),
    await amy.send('DELETE', `/test/team/members/${me}`, {}),
    await amy.post('/test/team/invites', { email: 'new@shop.example', role: 'finance' }),
    await amy.post(`/test/team/members/${await idOf('Amy')}/role`, { role: 'finance' }),
    await amy.post(`/test/team/members/${await idOf('Bob')}/role`, { role: 'finance' }),
  ])
    assert.deepEqual([reply.status, reply.json.error.code], [403, 'role_out_of_reach']);
  assert.equal((await amy.post(`/test/team/members/${await idOf('Bob')}/role`, { role: 'developer' })).status, 200);
  const [row] = await app.app.ctx.db.sql`select before, after from audit_log where action = 'member.role_changed' order by id desc limit 1`;
  assert.deepEqual([row!.before, row!.after].map(changeFromJson), [{ role: 'support' }, { role: 'developer' }]);
  assert.deepEqual([row!.before.v, row!.after.v], [1, 1], 'rows are written with the version of their form');
});

test('there is always an owner, even if two step down at the same time', async () => {
  const me = await idOf('Olga Owner');
  assert.equal((await owner.post(`/test/team/members/${me}/role`, { role: 'admin' })).json.error.code, 'last_owner');
  assert.equal((await owner.send('DELETE', `/test/team/members/${me}`, {})).json.error.code, 'last_owner');
  const amyId = await idOf('Amy');
  const amy = new Person(app.url);
  await amy.post('/sign-in', { email: 'amy@shop.example', password: amy.password });
  assert.equal((await owner.post(`/test/team/members/${amyId}/role`, { role: 'owner' })).status, 200);
  const replies = await Promise.all([
    owner.post(`/test/team/members/${me}/role`, { role: 'viewer' }),
    amy.post(`/test/team/members/${amyId}/role`, { role: 'viewer' }),
  ]);
  assert.deepEqual(replies.map((reply) => reply.status).sort(), [200, 409]);
  await app.app.ctx.db
    .sql`update members set role = case when user_id = ${me} then 'owner' else 'viewer' end where user_id in (${me}, ${amyId})`;
});

test('a removed member loses access at once; members of another merchant are not found', async () => {
  const bob = new Person(app.url);
  await bob.post('/sign-in', { email: 'bob@shop.example', password: bob.password });
  assert.equal((await bob.get('/test/me')).status, 200);
  const bobId = await idOf('Bob');
  assert.equal((await owner.send('DELETE', `/test/team/members/${bobId}`, {})).status, 200);
  assert.equal((await bob.get('/test/me')).status, 401);
  for (const reply of [
    await owner.post(`/test/team/members/${bobId}/role`, { role: 'viewer' }),
    await owner.send('DELETE', `/test/team/members/${bobId}`, {}),
  ])
    assert.deepEqual([reply.status, reply.json.error.code], [404, 'member_not_found']);
});

test('a member of two merchants switches between them, and sees one at a time', async () => {
  const token = setupToken(second.setupUrl);
  assert.equal((await owner.post('/set-up', { token })).status, 200);
  const both = (await owner.get('/test/me')).json;
  assert.deepEqual(
    both.merchants.map((m: any) => m.name),
    ['Test shop', 'Second shop'],
  );
  assert.equal(both.merchant.name, 'Test shop');
  assert.equal((await owner.post('/test/merchant', { merchant_id: second.merchantId })).status, 200);
  assert.equal((await owner.get('/live/me')).json.merchant.name, 'Second shop');
  assert.deepEqual(
    (await owner.get('/test/team')).json.members.map((m: any) => m.name),
    ['Olga Owner'],
  );
  const ada = new Person(app.url);
  await ada.post('/sign-in', { email: 'ada@shop.example', password: ada.password });
  assert.equal((await ada.post('/test/merchant', { merchant_id: second.merchantId })).status, 404);
  assert.equal((await owner.post('/test/merchant', { merchant_id: app.merchant.merchantId })).status, 200);
});

test('the audit log: filters, pages, and a separate log for each merchant', async () => {
  const list = async (query: string) => (await owner.get(`/test/audit?limit=100${query}`)).json.data as any[];
  const all = await list('');
  assert.ok(all.length > 8);
  const joined = await list('&action=member.joined');
  assert.deepEqual([...new Set(joined.map((row) => row.action))], ['member.joined']);
  const ada = await idOf('Ada');
  assert.ok((await list(`&actor=${ada}`)).every((row) => row.actor_id === ada));
  assert.equal((await list('&object=bob@shop.example')).length, 1);
  assert.deepEqual(await list('&from=2100-01-01T00:00:00Z'), []);
  assert.deepEqual(await list('&in_mode=live'), []);
  const paged: string[] = [];
  for (let after = ''; ; ) {
    const page = (await owner.get(`/test/audit?limit=3${after}`)).json;
    paged.push(...page.data.map((row: any) => row.id));
    if (!page.has_more) break;
    after = `&starting_after=${page.data.at(-1).id}`;
  }
  assert.deepEqual(
    paged,
    all.map((row) => row.id),
  );
  assert.equal((await owner.get('/test/audit?starting_after=nonsense')).json.error.code, 'cursor_invalid');
  const choices = (await owner.get('/test/audit/choices')).json;
  assert.deepEqual([...choices.actions].sort(), [...new Set(all.map((row) => row.action))].sort());
  await owner.post('/test/merchant', { merchant_id: second.merchantId });
  assert.ok((await list('')).every((row) => row.action !== 'member.joined'));
  await owner.post('/test/merchant', { merchant_id: app.merchant.merchantId });
});

test('the operator area is only for operators: the first owner of the first merchant, and people named by command', async () => {
  assert.equal((await owner.get('/test/me')).json.is_operator, true);
  await setUpFactor(owner);
  const install = await owner.get('/test/operator');
  assert.equal(install.status, 200, install.text);
  assert.equal(install.json.ready, true);
  assert.equal(install.json.coins.find((c: any) => c.coin === 'BTC').price, '97000.00');
  assert.equal(install.json.coins.find((c: any) => c.coin === 'DOGE').price, '0.20');
  const amy = new Person(app.url);
  await amy.post('/sign-in', { email: 'amy@shop.example', password: amy.password });
  await app.app.ctx.db.sql`update members set role = 'owner' where user_id = ${await idOf('Amy')}`;
  for (const path of ['/test/operator', '/test/operator/merchants'])
    assert.deepEqual([(await amy.get(path)).status, (await amy.get(path)).json.error.code], [403, 'operator_only'], path);
  // The checks of `florin doctor`, from the running service; two who ask at once get the answer of one run.
  const [checked, again] = await Promise.all([owner.post('/test/operator/check', {}), owner.post('/test/operator/check', {})]);
  assert.deepEqual([checked.status, again.json], [200, checked.json]);
  const found = new Map(checked.json.findings.map((one: { check: string }) => [one.check, one])) as Map<
    string,
    { ok: boolean; detail: string }
  >;
  assert.match(found.get('database')!.detail, /^PostgreSQL .*every commit is on disk/);
  assert.ok(found.has('email') && found.has('deliveries'));
  assert.equal((await amy.post('/test/operator/check', {})).status, 403);
  assert.equal((await amy.post('/test/operator/releases', {})).status, 403);
  assert.equal(install.json.lists_releases, false);
  assert.match((await owner.post('/test/operator/releases', {})).json.problem, /^Set RELEASES_KEY/);
  assert.equal((await amy.post(`/test/operator/merchants/${second.merchantId}/plan`, { plan: 'enterprise' })).status, 403);
  const { setOperator } = await import('../../src/people/operators.ts');
  await setOperator(app.app.ctx, { email: 'AMY@shop.example', operator: true });
  await setUpFactor(amy);
  assert.equal((await amy.get('/test/operator')).status, 200);
  await setOperator(app.app.ctx, { email: 'amy@shop.example', operator: false });
  assert.equal((await amy.get('/test/operator')).status, 403);
  const page = (await owner.get('/test/operator/merchants?limit=1')).json;
  assert.deepEqual([page.has_more, page.data[0].name, page.data[0].plan], [true, 'Second shop', 'starter']);
  const next = (await owner.get(`/test/operator/merchants?limit=1&starting_after=${page.data[0].id}`)).json;
  assert.deepEqual([next.has_more, next.data[0].name], [false, 'Test shop']);
  assert.equal((await owner.post(`/test/operator/merchants/${second.merchantId}/plan`, { plan: 'professional' })).status, 200);
  const [row] = await app.app.ctx.db.sql`select before, after, merchant_id from audit_log where action = 'plan.set'`;
  assert.deepEqual([row!.before, row!.after].map(changeFromJson), [{ plan: 'starter' }, { plan: 'professional' }]);
  assert.equal(row!.merchant_id, second.merchantId);
  assert.equal((await owner.post('/test/operator/merchants/mer_none/plan', { plan: 'professional' })).status, 404);
});
