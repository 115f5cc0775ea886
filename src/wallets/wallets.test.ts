/** Wallets: public keys only, one owner each, and addresses that are never issued twice. */
// Invariant: No address is issued twice.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { pbkdf2Sync } from 'node:crypto';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { inspect } from 'node:util';
import { HDKey } from '@scure/bip32';
import { asIfFollowed, startTestApp, type TestApp, testEnvironment } from '../../test/kit/app.ts';
import { isLongRun } from '../../test/kit/long.ts';
import { parseAccountKey } from '../addresses/account-key.ts';
import { deriveAddress } from '../addresses/address.ts';
import { createMerchant } from '../merchants/merchants.ts';
import { chooseCoin } from '../payments/payments.ts';
import { nextAddress, PUBLIC_ADDRESSES_PER_HOUR, setWallet } from './wallets.ts';

const WORDS = `${'abandon '.repeat(11)}about`;
const seed = pbkdf2Sync(WORDS, 'mnemonic', 2048, 64, 'sha512');
const spelled = (path: string, versions?: { private: number; public: number }) => HDKey.fromMasterSeed(seed, versions).derive(path);
const accountKey = (account: number, coinType = 0) => spelled(`m/84'/${coinType}'/${account}'`).publicExtendedKey;

let shop: TestApp;
before(async () => {
  // The node is never called: choosing a coin requires the wallet, a price, and a node that answered once.
  shop = await startTestApp({ BTC_NODE_URL: 'http://user:pass@127.0.0.1:9', LOG_LEVEL: 'silent' });
  await asIfFollowed(shop, 'BTC');
});
after(() => shop.stop());
const set = (key: string, more: { merchantId?: string; firstIndex?: bigint } = {}) =>
  setWallet(shop.app.ctx, { merchantId: shop.merchant.merchantId, coin: 'BTC', accountKey: key, script: 'p2wpkh', ...more });
const next = (merchantId = shop.merchant.merchantId) =>
  shop.app.ctx.db.begin((tx) => nextAddress(shop.app.ctx, tx, { merchantId, coin: 'BTC', createdWith: 'secret' }));

const PRIVATE: Readonly<Record<string, string>> = {
  xprv: spelled("m/84'/0'/0'").privateExtendedKey,
  'root xprv': spelled('m').privateExtendedKey,
  yprv: spelled("m/49'/0'/0'", { private: 0x049d7878, public: 0x049d7cb2 }).privateExtendedKey,
  zprv: spelled("m/84'/0'/0'", { private: 0x04b2430c, public: 0x04b24746 }).privateExtendedKey,
  tprv: spelled("m/84'/1'/0'", { private: 0x04358394, public: 0x043587cf }).privateExtendedKey,
  'a private key in a descriptor': `wpkh([73c5da0a/84h/0h/0h]${spelled("m/84'/0'/0'").privateExtendedKey}/0/*)`,
  'WIF, compressed': 'KwDiBf89QgGbjEhKnhXJuH7LrciVrZi3qYjgd9M7rFU73sVHnoWn',
  'WIF, uncompressed': '5HueCGU8rMjxEXxiPuD5BDku4MkFqeZyd4dZ1jvhTVqvbTLvyTJ',
  'hex digits': 'e9873d79c6d87dc0fb6a5778633389f4453213303da61f20bd67fc233aa33262',
  'hex digits with 0x': '0xE9873D79C6D87DC0FB6A5778633389F4453213303DA61F20BD67FC233AA33262',
  'twelve words': 'legal winner thank year wave sausage worth useful legal winner thank yellow',
  'twenty-four words on lines': `${'letter advice cage absurd amount doctor acoustic avoid '.repeat(3).trim().split(' ').join('\n')}`,
};

/** Whether the usual run also pastes it into the command: a process for each takes a second. */
const isPasted = (name: string): boolean => isLongRun || name === 'xprv' || name === 'twelve words';
for (const [name, secret] of Object.entries(PRIVATE)) {
  test(`never accepted, repeated, logged or stored: ${name}`, async () => {
    const piece = secret.slice(10, 30);
    await assert.rejects(set(` ${secret}\n`), (error: Error & { code: string }) => {
      assert.equal(error.code, 'private_key_refused');
      assert.match(error.message, /This is a private key\./);
      assert.ok(!inspect(error, { depth: null }).includes(piece), 'the error repeats it');
      return true;
    });
    if (isPasted(name)) {
      const { code, output } = await paste(secret);
      assert.equal(code, 1, output);
      assert.match(output, /This is a private key\./);
      assert.ok(!output.includes(piece), output);
    }
    const { sql } = shop.app.ctx.db;
    const tables = await sql<{ name: string }[]>`select tablename as name from pg_tables where schemaname = 'public'`;
    assert.ok(tables.length > 15);
    for (const table of tables) {
      const rows = await sql`select 1 from ${sql(table.name)} t where strpos(t::text, ${piece}) > 0`;
      assert.equal(rows.length, 0, table.name);
    }
  });
}

/** As an operator would, with everything logged. */
const paste = (secret: string) =>
  new Promise<{ code: unknown; output: string }>((resolve) => {
    const args = ['wallet', 'set', '--merchant', shop.merchant.merchantId, '--coin', 'BTC', `--key=${secret}`, '--script', 'p2wpkh'];
    const env = {
      ...testEnvironment(shop.config.databaseUrl!, shop.config.dataFolder, { LOG_LEVEL: 'debug' }),
      NODE_NO_WARNINGS: '1',
    };
    execFile(process.execPath, [join(import.meta.dirname, '../main.ts'), ...args], { env }, (error, stdout, stderr) =>
      resolve({ code: error?.code, output: stdout + stderr }),
    );
  });

const CUSTOMERS = isLongRun ? 200 : 60;
test(`${CUSTOMERS} customers who choose at once get ${CUSTOMERS} consecutive addresses without gaps`, async () => {
  const key = accountKey(1);
  await set(key, { firstIndex: 7n });
  const ids = await Promise.all(
    Array.from({ length: CUSTOMERS }, async () => {
      const reply = await shop.live.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://example.com/' });
      return (reply.json.payment_id ?? reply.json.id) as string;
    }),
  );
  await Promise.all(ids.map((paymentId) => chooseCoin(shop.app.ctx, { paymentId, coin: 'BTC' })));
  const rows = await shop.app.ctx.db.sql<{ address: string; index: bigint }[]>`
    select address, index::bigint as index from deposit_addresses where payment_id = any(${ids}::text[]) order by 2`;
  assert.deepEqual(
    rows.map(({ index }) => index),
    Array.from({ length: CUSTOMERS }, (_, i) => BigInt(i + 7)),
  );
  const { chainKey } = parseAccountKey(key, { coin: 'BTC', network: 'mainnet' });
  for (const { address, index } of rows) {
    assert.equal(address, deriveAddress({ chainKey, script: 'p2wpkh', coin: 'BTC', network: 'mainnet', index }).address);
  }
  assert.equal(new Set(rows.map(({ address }) => address)).size, CUSTOMERS);
  // A customer who chooses again keeps the address.
  await Promise.all(ids.slice(0, 20).map((paymentId) => chooseCoin(shop.app.ctx, { paymentId, coin: 'BTC' })));
  assert.equal((await next()).index, BigInt(CUSTOMERS + 7));
});

test('a transaction that is rolled back returns its address', async () => {
  await set(accountKey(2));
  const { ctx } = shop.app;
  await assert.rejects(
    ctx.db.begin(async (tx) => {
      assert.equal((await nextAddress(ctx, tx, { merchantId: shop.merchant.merchantId, coin: 'BTC', createdWith: 'secret' })).index, 0n);
      throw new Error('no payment after all');
    }),
    /no payment after all/,
  );
  assert.equal((await next()).index, 0n);
});

test('the same key imported again, in any notation, resumes its counter and never goes back', async () => {
  const first = await set(accountKey(3));
  for (let i = 0; i < 3; i++) await next();
  const zpub = spelled("m/84'/0'/3'", { private: 0x04b2430c, public: 0x04b24746 }).publicExtendedKey;
  const again = await set(zpub);
  assert.deepEqual(again, { ...first, nextIndex: 3n });
  // Another key in between, then the first again.
  assert.notEqual((await set(accountKey(4))).walletId, first.walletId);
  assert.equal((await next()).index, 0n);
  assert.equal((await set(accountKey(3), { firstIndex: 1n })).nextIndex, 3n);
  assert.equal((await next()).index, 3n);
  assert.equal((await set(accountKey(3), { firstIndex: 50n })).nextIndex, 50n);
  const active = await shop.app.ctx.db.sql<
    { id: string }[]
  >`select id from wallets where merchant_id = ${shop.merchant.merchantId} and family = 'BTC' and active`;
  assert.deepEqual(
    active.map(({ id }) => id),
    [first.walletId],
  );
});

test('the same key imported again with its origin keeps its addresses and gets the origin, which a later import without one keeps', async () => {
  const key = accountKey(21);
  const stored = async () => {
    const rows = await shop.app.ctx.db.sql`select id, account_key, path from wallets where account_key like ${`%${key}%`}`;
    return rows.map(({ id, account_key, path }) => ({ id, account_key, path }));
  };
  await set(key);
  const first = await next();
  const [plain] = await stored();
  assert.ok(!plain!.path.startsWith('m'));
  const descriptor = `wpkh([73c5da0a/84h/0h/21h]${key}/0/*)`;
  await set(descriptor);
  const named = await stored();
  assert.deepEqual(named, [{ id: plain!.id, account_key: descriptor, path: "m/84'/0'/21'/0" }]);
  const second = await next();
  assert.equal(second.index, first.index + 1n);
  await set(key);
  assert.deepEqual(await stored(), named);
  const other = await createMerchant(shop.app.ctx, { name: 'Third' });
  await assert.rejects(set(`wpkh([aaaaaaaa/84h/0h/22h]${key}/0/*)`, { merchantId: other.merchantId }), { code: 'account_key_invalid' });
  assert.deepEqual(await stored(), named);
});

test('a key belongs to one merchant; it is refused to another one, who keeps the previous wallet', async () => {
  await set(accountKey(5));
  const other = await createMerchant(shop.app.ctx, { name: 'Other shop' });
  const own = await set(accountKey(6), { merchantId: other.merchantId });
  await assert.rejects(set(accountKey(5), { merchantId: other.merchantId }), { code: 'account_key_invalid', param: 'key' });
  assert.equal((await next(other.merchantId)).walletId, own.walletId);
  await assert.rejects(set(accountKey(7), { merchantId: 'mer_000000000000000000000000' }), { code: 'merchant_not_found' });
});

test('without a wallet no address is issued', async () => {
  const { merchantId } = await createMerchant(shop.app.ctx, { name: 'No wallet' });
  await assert.rejects(next(merchantId), { code: 'coin_not_configured', param: 'currency' });
});

test('payments by public keys use a limited number of addresses per hour; the shop itself is not affected', async () => {
  const { walletId } = await set(accountKey(9));
  const { ctx } = shop.app;
  const create = async (by: 'livePublic' | 'liveSecret') => {
    const reply = await shop
      .as(shop.merchant.keys[by])
      .post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/' });
    assert.equal(reply.status, 201);
    return reply.json.transaction_id as string;
  };
  const first = await create('livePublic');
  assert.equal((await chooseCoin(ctx, { paymentId: first, coin: 'BTC' })).derivationPath, '0/0');
  // Those of the current hour, which may have begun meanwhile.
  await ctx.db.sql`
    update wallets set public_addresses = ${PUBLIC_ADDRESSES_PER_HOUR - 1}, public_hour = date_trunc('hour', clock_timestamp())
    where id = ${walletId}`;
  await chooseCoin(ctx, { paymentId: await create('livePublic'), coin: 'BTC' });
  const refused = await create('livePublic');
  await assert.rejects(
    chooseCoin(ctx, { paymentId: refused, coin: 'BTC' }),
    (error: { code: string; status: number; retryAfterSeconds: number }) =>
      error.code === 'rate_limit_exceeded' && error.status === 429 && error.retryAfterSeconds >= 1 && error.retryAfterSeconds <= 3600,
  );
  // A customer with an address keeps it, and the refused index goes to the next payment.
  await chooseCoin(ctx, { paymentId: first, coin: 'BTC' });
  assert.equal((await chooseCoin(ctx, { paymentId: await create('liveSecret'), coin: 'BTC' })).derivationPath, '0/2');
  await ctx.db.sql`update wallets set public_hour = public_hour - interval '1 hour' where id = ${walletId}`;
  assert.equal((await chooseCoin(ctx, { paymentId: refused, coin: 'BTC' })).derivationPath, '0/3');
});
