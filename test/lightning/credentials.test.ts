/** What a back end is asked with: none that can spend is accepted, and nobody can read one who should not. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, afterEach, before, test } from 'node:test';
import { inspect } from 'node:util';
import { readLightning } from '../../src/lightning/access.ts';
import { eventually } from '../kit/app.ts';
import { LNBITS_KEYS, PHOENIXD_PASSWORDS } from '../kit/lightning-fronts.ts';
import { CREDENTIALS, type LightningShop, MACAROONS, runeOf, startLightningShop } from '../kit/lightning-shop.ts';
import { NWC_SECRET } from '../kit/nostr-relay.ts';

let shop: LightningShop;
before(async () => {
  shop = await startLightningShop();
});
after(() => shop?.stop());
afterEach(async () => {
  shop.fronts.behave();
  shop.fronts.relay.reset();
  await shop.app.app.ctx.db.sql`update lightning_backends set away_until = null`;
});

test('hostile case 22: a certificate that changed gets no macaroon', async () => {
  await shop.use('lnd');
  const { id } = await shop.ask();
  const other = readFileSync('test/fixtures/hooks.example.pem', 'utf8').match(/-----BEGIN CERTIFICATE[\s\S]*?-----END[^\n]*/)![0];
  const before = shop.fronts.asked.length;
  await assert.rejects(shop.use('lnd', { certificate: other }), /certificate/);
  assert.ok(shop.fronts.asked.slice(before).every(({ path }) => path.startsWith('/v1/invoice/')));
  assert.equal((await shop.detail(id)).status, 'pending');
});

for (const { name, hex, receive_only: isGood } of MACAROONS)
  test(`a macaroon is ${isGood ? 'accepted' : 'refused with the command that makes a good one'}: ${name}`, async () => {
    const before = shop.fronts.asked.length;
    if (isGood) return shop.use('lnd', { credential: hex });
    await assert.rejects(shop.use('lnd', { credential: hex }), /can do more than receive \(.*lncli bakemacaroon/);
    assert.ok(shop.fronts.asked.slice(before).every(({ headers }) => headers['grpc-metadata-macaroon'] !== hex));
  });

/** Each: a rune, and what it can do beyond receiving; null: nothing. */
const RUNES: readonly (readonly [string, string | null])[] = [
  ['=1&method=invoice|method=listinvoices', null],
  ['=2&method=invoice|method=listinvoices|method=waitanyinvoice|method=getinfo&rate=60', null],
  // One limit is enough, because all restrictions must hold.
  ['=3&method=invoice|method=pay&method=invoice|method=listinvoices', null],
  ['=0', 'every command'],
  ['=4&method=pay', 'pay'],
  ['=5&method=invoice|method=xpay', 'xpay'],
  ['=6&method^list|method^get', 'every command'],
  ['=7&method=invoice|method^pay', 'every command'],
  ['=8&method/pay', 'every command'],
  ['=9&method=invoice|id=03', 'every command'],
  ['=10&pnameamountmsat<10000', 'every command'],
  ['=11&method=invoice\\|method=listinvoices', 'invoice\\\\|method=listinvoices'],
  ['=12&method=Invoice', 'Invoice'],
];
for (const [restrictions, excess] of RUNES)
  test(`a rune is ${excess === null ? 'accepted' : 'refused with the command that makes a good one'}: ${restrictions}`, async () => {
    const rune = runeOf(restrictions);
    if (excess === null) return shop.use('cln', { credential: rune });
    const before = shop.fronts.asked.length;
    await assert.rejects(shop.use('cln', { credential: rune }), ({ message }: Error) => {
      assert.ok(message.includes(`it can do more than receive (${excess.replaceAll('\\\\', '\\')})`), message);
      return message.includes('lightning-cli createrune');
    });
    assert.equal(shop.fronts.asked.length, before, 'nothing was sent');
  });
test('published runes of Core Lightning that are not limited to receiving are refused', async () => {
  const { runes } = JSON.parse(readFileSync('test/fixtures/lightning/vectors.json', 'utf8'));
  for (const { rune } of runes.cases) await assert.rejects(shop.use('cln', { credential: rune }), /can do more than receive/);
  assert.equal(runes.cases.length, 3);
  await assert.rejects(shop.use('cln', { credential: runeOf('=1&method?pay') }), /a restriction that is not known/);
  await assert.rejects(shop.use('cln', { credential: 'not a rune' }), /not a rune/);
});

for (const [kind, credential, advice] of [
  ['phoenixd', PHOENIXD_PASSWORDS.full, /http-password-limited-access/],
  ['lnbits', LNBITS_KEYS.admin, /Invoice\/read key/],
] as const)
  test(`a credential of ${kind} that can spend is refused, and so is one of which it does not say`, async () => {
    await assert.rejects(
      shop.use(kind, { credential }),
      (error: Error) => /can do more than receive/.test(error.message) && advice.test(error.message),
    );
    shop.fronts.behave((usual, { path, body }) => (path === '/payinvoice' || body?.out === true ? { status: 500, json: {} } : usual));
    await assert.rejects(shop.use(kind), /does not say whether it can pay invoices/);
    shop.fronts.behave((_, { path, body }) => (path === '/payinvoice' || body?.out === true ? { status: 200, json: {} } : _));
    await assert.rejects(shop.use(kind), /can do more than receive/);
  });

test('hostile case 17: a connection over NWC that can pay is refused by the name of each method, also where only the wallet says so', async () => {
  const { says } = shop.fronts.relay;
  const { nip47 } = JSON.parse(readFileSync('test/fixtures/lightning/vectors.json', 'utf8'));
  for (const method of [...nip47.known_other_methods, 'a_method_of_next_year']) {
    says.methods = ['make_invoice', 'lookup_invoice', method];
    await assert.rejects(shop.use('nwc'), ({ message }: Error) => message.includes(`can do more than receive (${method})`));
  }
  // The wallet can do more than the connection may.
  says.info = ['pay_invoice', 'make_invoice', 'lookup_invoice'];
  says.methods = nip47.allowed_methods;
  await shop.use('nwc');
  says.methods = null;
  await assert.rejects(shop.use('nwc'), /can do more than receive \(pay_invoice\)/);
  says.info = ['make_invoice', 'get_info'];
  await assert.rejects(shop.use('nwc'), /it cannot lookup_invoice/);
  shop.fronts.relay.reset();
  says.encryption = null;
  await assert.rejects(shop.use('nwc'), /too old/);
  shop.fronts.relay.reset();
  says.network = 'mainnet';
  await assert.rejects(shop.use('nwc'), /on mainnet, not on regtest/);
});

test('hostile case 17: a connection over NWC that may pay by the next day is turned off, and the merchant receives a mail', async () => {
  const { says } = shop.fronts.relay;
  const { ctx } = shop.app.app;
  await shop.use('nwc');
  const { id, invoice } = await shop.ask();
  const { sql } = ctx.db;
  says.methods = [...says.methods!, 'pay_invoice', 'multi_pay_keysend'];
  await sql`update lightning_backends set check_at = check_at - interval '1 day' where active`;
  await eventually(
    () => readLightning(ctx, shop.app.merchant),
    (state) => state === null,
  );
  const [told] = await sql<
    { detail: { off?: string } }[]
  >`select detail from notices where kind = 'wallet_changed' order by id desc limit 1`;
  assert.match(told?.detail.off ?? '', /can do more than receive \(pay_invoice, multi_pay_keysend\)/);
  const audit = await sql`select 1 from audit_log where action = 'lightning.turned_off'`;
  assert.equal(audit.length, 1);
  // A customer who has an invoice can still pay it, and no other customer gets one.
  assert.notEqual((await shop.choose(await shop.create())).status, 200);
  shop.pair.pay(invoice);
  await shop.reached(id, 'completed');
});

for (const credential of [
  'https://example.com',
  'nostr+walletconnect://00?relay=wss%3A%2F%2Frelay.example&secret=11',
  `nostr+walletconnect://${'ff'.repeat(32)}?relay=wss%3A%2F%2Frelay.example&secret=${'11'.repeat(32)}`,
  `nostr+walletconnect://${'ab'.repeat(32)}?relay=file%3A%2F%2F%2Fetc%2Fpasswd&secret=${'11'.repeat(32)}`,
])
  test(`${credential.slice(0, 60)} is not a connection over NWC`, () =>
    assert.rejects(shop.use('nwc', { credential }), /connection string/));

/** All that is handed to the log meanwhile. */
async function logOf(work: () => Promise<void>): Promise<string> {
  const { log } = shop.app.app.ctx;
  const before = { ...log };
  let said = '';
  for (const level of ['debug', 'info', 'warn', 'error'] as const)
    log[level] = (fields, message) => {
      said += `${message} ${inspect(fields, { depth: 8 })}\n`;
    };
  try {
    await work();
  } finally {
    Object.assign(log, before);
  }
  return said;
}

for (const kind of ['lnd', 'cln', 'phoenixd', 'lnbits', 'nwc'] as const)
  test(`hostile case 29: no credential of ${kind} is in the database as it is, nor in an error or the log`, async () => {
    const credential = kind === 'nwc' ? NWC_SECRET : CREDENTIALS[kind];
    const log = await logOf(async () => {
      await shop.use(kind);
      const asked = await shop.ask();
      shop.fronts.behave((_, { path, headers }) => {
        const sent = headers['grpc-metadata-macaroon'] ?? headers.rune ?? headers.authorization ?? headers['x-api-key'] ?? NWC_SECRET;
        const message = `wrong ${sent}`;
        const error = { code: 'OTHER', message };
        return { status: 500, json: { message, detail: message, result_type: path.slice('nwc:'.length), error } };
      });
      await eventually(
        () => shop.row(asked.id),
        ({ failure }) => failure !== null,
      );
      const id = await shop.create();
      await shop.choose(id);
    });
    assert.match(log, /No Lightning invoice/);
    const { sql } = shop.app.app.ctx.db;
    const tables = await sql<
      { name: string }[]
    >`select table_name as name from information_schema.tables where table_schema = current_schema()`;
    assert.ok(tables.length > 30);
    const encoded = [
      credential,
      Buffer.from(credential).toString('base64'),
      Buffer.from(`:${credential}`).toString('base64'),
      Buffer.from(credential, 'hex').toString('base64'),
    ];
    const secrets = encoded.map((secret) => secret.slice(0, 24)).filter((secret) => secret.length === 24);
    assert.ok(secrets.length >= 1);
    for (const { name } of tables) {
      const rows = await sql<{ text: string }[]>`select row_to_json(t)::text as text from ${sql(name)} t`;
      for (const { text } of rows) for (const secret of secrets) assert.ok(!text.includes(secret), name);
    }
    for (const secret of secrets) assert.ok(!log.includes(secret), log);
  });
