/** Lightning through the dashboard's API: set-up, what waits, second owners, test invoices, and checks that turn off what can spend. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { readServiceReadiness } from '../../src/http/health.ts';
import { readMetrics } from '../../src/http/metrics.ts';
import { diagnose } from '../../src/operate/doctor.ts';
import { eventually } from '../kit/app.ts';
import { PHOENIXD_PASSWORDS } from '../kit/lightning-fronts.ts';
import { CREDENTIALS, type LightningShop, startLightningShop } from '../kit/lightning-shop.ts';
import { type Person, setUpPartner, setUpPerson } from '../kit/person.ts';

let shop: LightningShop;
let owner: Person;
let partner: Person;
before(async () => {
  shop = await startLightningShop();
  owner = await setUpPerson(shop.app);
  partner = await setUpPartner(shop.app);
});
after(() => shop?.stop());

const body = (kind: 'phoenixd' | 'lnbits', credential: string = CREDENTIALS[kind]) => ({ kind, address: shop.fronts.url, credential });
const shown = async () => {
  const { lightning, lightning_waiting: waiting } = (await owner.get('/live/wallets')).json;
  return { lightning, waiting };
};
const sql = () => shop.app.app.ctx.db.sql;
const audited = async (action: string) => (await sql()`select object from audit_log where action = ${action}`).length;

test('a credential that can spend is refused and not stored; the first back end is used immediately', async () => {
  const refused = await owner.post('/live/wallets/lightning', body('phoenixd', PHOENIXD_PASSWORDS.full));
  assert.deepEqual([refused.status, refused.json.error.code, refused.json.error.param], [400, 'parameter_invalid', 'credential']);
  assert.match(refused.json.error.message, /http-password-limited-access/);
  assert.equal((await sql()`select 1 from lightning_backends`).length, 0);
  const set = await owner.post('/live/wallets/lightning', body('phoenixd'));
  assert.deepEqual([set.status, set.json.due_at], [200, null], set.text);
  const { lightning, waiting } = await shown();
  assert.deepEqual([lightning.kind, lightning.node, lightning.last_failure, waiting], ['phoenixd', shop.pair.payee, null, null]);
  assert.ok(!JSON.stringify(await shown()).includes(CREDENTIALS.phoenixd));
  // A merchant needs nothing else to be paid.
  const { steps, payable } = (await owner.get('/live/home/onboarding')).json;
  const done = steps.filter((one: any) => one.done).map((one: any) => one.step as string);
  assert.deepEqual([payable, done.includes('wallet'), done.includes('source')], [['BTC@lightning'], true, true]);
  assert.equal((await owner.post('/test/wallets/lightning', body('phoenixd'))).json.error.code, 'live_mode_only');
});

test('a test invoice that the merchant pays is seen, by its preimage', async () => {
  const made = await owner.post('/live/wallets/lightning/test');
  assert.equal(made.status, 200, made.text);
  const { invoice, token, qr, sat } = made.json;
  assert.match(qr, /^data:image\/svg/);
  assert.equal(sat, '100');
  const look = async () => (await owner.post('/live/wallets/lightning/test/look', { token })).json.paid;
  assert.equal(await look(), false);
  shop.pair.pay(invoice);
  assert.equal(await look(), true);
  assert.ok((await shown()).lightning.tested_at);
  const forged = await owner.post('/live/wallets/lightning/test/look', { token: `${token.slice(0, -4)}AAAA` });
  assert.deepEqual([forged.status, forged.json.error.param], [400, 'token']);
});

test('the same node is used again immediately; another one waits a day, or for a second owner', async () => {
  assert.equal((await owner.post('/live/wallets/lightning', body('phoenixd'))).json.due_at, null);
  const asked = await owner.post('/live/wallets/lightning', body('lnbits'));
  assert.ok(Date.parse(asked.json.due_at) > Date.now() + 23 * 3_600_000, asked.text);
  const { lightning, waiting } = await shown();
  assert.deepEqual([lightning.kind, waiting.kind, waiting.asked_by_me], ['phoenixd', 'lnbits', true]);
  assert.equal((await owner.post('/live/wallets/lightning/change/confirm')).json.error.code, 'second_owner_required');
  assert.equal((await owner.post('/live/wallets/lightning/change/drop')).status, 200);
  assert.equal((await shown()).waiting, null);
  assert.equal((await owner.post('/live/wallets/lightning/change/confirm')).json.error.code, 'nothing_to_confirm');
  await owner.post('/live/wallets/lightning', body('lnbits'));
  await sql()`update members set role_since = role_since - interval '2 days'`;
  const confirmed = await partner.post('/live/wallets/lightning/change/confirm');
  assert.equal(confirmed.status, 200, confirmed.text);
  assert.deepEqual([(await shown()).lightning.kind, (await shown()).waiting], ['lnbits', null]);
  const { length } = await sql()`select 1 from notices where kind = 'wallet_changed'`;
  assert.ok(length >= 3, String(length));
});

test('removing a back end does not skip the wait, and a change takes effect after it', async () => {
  assert.equal((await owner.post('/live/wallets/lightning/remove')).status, 200);
  assert.equal((await shown()).lightning, null);
  assert.ok((await owner.post('/live/wallets/lightning', body('phoenixd'))).json.due_at);
  assert.equal((await shown()).lightning, null);
  await sql()`update lightning_backends set due_at = clock_timestamp() where due_at is not null`;
  await eventually(shown, ({ lightning }) => lightning?.kind === 'phoenixd');
  assert.equal(await audited('lightning.change_took_effect'), 1);
});

test('a back end that can spend by the next check is turned off, told, and in the audit log; one that is away is named', async () => {
  shop.fronts.behave(() => ({ status: 500, json: {} }));
  await sql()`update lightning_backends set check_at = clock_timestamp() where active`;
  const away = await eventually(shown, ({ lightning }) => lightning?.last_failure !== null);
  assert.match(away.lightning.last_failure, /status 500/);
  const { ctx } = shop.app.app;
  const found = (await diagnose(ctx)).findings.find(({ check }) => check === 'lightning')!;
  assert.deepEqual([found.ok, found.fix], [false, `./florin lightning check --merchant ${shop.app.merchant.merchantId}`]);
  assert.match(found.detail, /which fails: it .*status 500/);
  assert.match(await readMetrics(ctx), /^florin_lightning_backends_failing 1$/m);
  const { lightning: counted, warnings } = await readServiceReadiness(ctx);
  assert.deepEqual([counted!.back_ends, counted!.failing], [1, 1]);
  assert.ok(warnings.includes('Lightning: 1 of 1 nodes and providers fail; ./florin doctor names them'), warnings.join());
  shop.fronts.behave();
  assert.equal((await owner.post('/live/wallets/lightning/check')).status, 200);
  assert.equal((await diagnose(ctx)).findings.find(({ check }) => check === 'lightning')!.ok, true);
  assert.match(await readMetrics(ctx), /^florin_lightning_backends_failing 0$/m);
  shop.fronts.behave((usual, { path }) => (path === '/payinvoice' ? { status: 400, json: 'Missing form parameter: invoice' } : usual));
  await sql()`update lightning_backends set check_at = clock_timestamp() where active`;
  await eventually(shown, ({ lightning }) => lightning === null);
  assert.equal(await audited('lightning.turned_off'), 1);
  const told = await sql()<{ detail: any }[]>`select detail from notices where kind = 'wallet_changed' order by id`;
  assert.ok(told.some(({ detail }) => JSON.stringify(detail).includes('pay invoices')));
  shop.fronts.behave();
});

test('a check that a member asks for compares the key of the node, and turns off what can spend', async () => {
  assert.equal((await owner.post('/live/wallets/lightning', body('phoenixd'))).status, 200);
  await sql()`update lightning_backends set due_at = clock_timestamp() where due_at is not null`;
  await eventually(shown, ({ lightning }) => lightning?.kind === 'phoenixd');
  const check = () => owner.post('/live/wallets/lightning/check');
  await sql()`update lightning_backends set payee = ${`02${'11'.repeat(32)}`} where active`;
  const other = await check();
  assert.equal(other.status, 400, other.text);
  assert.match(other.json.error.message, /pay another node/);
  assert.match((await shown()).lightning.last_failure, /pay another node/);
  await sql()`update lightning_backends set payee = ${shop.pair.payee} where active`;
  assert.equal((await check()).status, 200);
  const before = await audited('lightning.turned_off');
  shop.fronts.behave((usual, { path }) => (path === '/payinvoice' ? { status: 400, json: 'Missing form parameter: invoice' } : usual));
  const spends = await check();
  shop.fronts.behave();
  assert.deepEqual([spends.status, spends.json.error.param], [400, 'credential']);
  assert.deepEqual([(await shown()).lightning, await audited('lightning.turned_off')], [null, before + 1]);
});
