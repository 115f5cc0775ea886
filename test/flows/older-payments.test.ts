/** Payments from older versions can be read by this one: the API, the page and everything that follows. */
// Invariant: A payment of an older version can be read after a coin or rule is added.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createTogether, prepareCreate } from '../../src/payments/create-payments.ts';
import { readRecords } from '../../src/settling/facts.ts';
import { type Reply, startTestApp, type TestApp } from '../kit/app.ts';

let app: TestApp;
before(async () => {
  app = await startTestApp();
});
after(async () => {
  await app?.stop();
});
const ok = (reply: Reply, status = 200): any => {
  assert.equal(reply.status, status, reply.text);
  return reply.json;
};

/** A payment with rules as an older version wrote them; `rules` removes what that version did not know. */
async function createOlder(rules: string): Promise<string> {
  const { sql } = app.app.ctx.db;
  const body = { amount_usd: '97.00', return_url: 'https://shop.example/thanks', description: 'Older' };
  const id: string = ok(await app.test.post('/api/payment/create/simple', body), 201).transaction_id;
  // Under an ID that no process has read yet.
  await sql`
    with old as (
      insert into rule_sets (hash, rules)
      select sha256(convert_to(${id}, 'utf8')), ${sql.unsafe(rules)} from rule_sets r join payments p on p.rule_set = r.id where p.id = ${id}
      returning id
    )
    update payments p set rule_set = old.id, request = request - 'v' from old where p.id = ${id}`;
  return id;
}

for (const [what, rules] of [
  ['a coin was added', "r.rules #- '{confirmations,LTC}'"],
  ['a rule was added', "r.rules - 'protectionHours' - 'toleranceCapUsdCents'"],
  ['stored rules had a version', "r.rules - 'v'"],
  ['a coin was taken out', `jsonb_set(r.rules, '{confirmations,XMR}', '[[null, 10, "confirmations"]]')`],
] as const) {
  test(`a payment from before ${what} can be read and paid`, async () => {
    const id = await createOlder(rules);
    const detail = ok(await app.test.get(`/api/payment/${id}`));
    assert.deepEqual([detail.status, detail.description], ['pending', 'Older']);
    const page = await fetch(`${app.url}/pay?id=${id}`);
    assert.equal(page.status, 200);
    assert.match(await page.text(), /Litecoin/);
    // In the coin that its rules did not know, with the confirmations from the table.
    const chosen = ok(await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario: 'slow', currency: 'LTC' }));
    assert.deepEqual([chosen.currency, chosen.confirmations_required], ['LTC', 6]);
    assert.equal((await fetch(`${app.url}/pay?id=${id}`)).status, 200);
    assert.equal(ok(await app.test.get(`/v1/events?payment_id=${id}`)).data.at(-1).type, 'payment.created');
  });
}

const REQUEST = { returnUrl: null, description: null, items: null, taxMinor: null, fiat: null, locale: null, asset: null };

test('after the database went back, a payment has the rules of its own request, whatever another process stored meanwhile', async () => {
  const { ctx } = app.app;
  const { sql } = ctx.db;
  /** A payment that another process creates, with a window of its own. */
  const create = async (process: typeof ctx, expiresInSeconds: number): Promise<string> => {
    const draft = {
      ...{ amountUsdCents: 2_500n, fixed: null, coin: null, request: REQUEST, invoiceId: null },
      ...{ metadata: {}, expiresInSeconds, scenario: null },
    };
    const made = await prepareCreate(process, {
      ...{ merchantId: app.merchant.merchantId, mode: 'test', createdWith: 'secret', draft, idempotency: null },
      render: (view) => ({ status: 201, body: view.facts.id }),
    });
    await createTogether(process, made);
    return made.id;
  };
  const windowOf = async (id: string) => (await readRecords({ ...ctx }, sql, [id]))[0]?.facts.rules.windowSeconds;
  const [one, other] = [{ ...ctx }, { ...ctx }];
  const lost = await create(one, 1_111);
  assert.equal(await windowOf(lost), 1_111);
  // What a standby that was behind, a snapshot or a restored copy does not have.
  await sql`
    with gone as (delete from payments where id = ${lost} returning rule_set)
    delete from rule_sets using gone where id = gone.rule_set`;
  await sql`select setval(pg_get_serial_sequence('rule_sets', 'id'), (select coalesce(max(id), 1) from rule_sets where id < 1000000))`;
  const strange = await create(other, 2_222);
  const again = await create(one, 1_111);
  assert.deepEqual([await windowOf(strange), await windowOf(again)], [2_222, 1_111]);
});
