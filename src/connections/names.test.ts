/** Names that merchants gave, resolved by a real DNS server that answers, answers late, or never does. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventually } from '../../test/kit/app.ts';
import { type NameAnswer, startNameServer } from '../../test/kit/name-server.ts';
import { createNames, LOOK_UPS_PER_MERCHANT, NameError, parseHosts } from './names.ts';

const LONG_MS = 120_000;
const shop = { merchantId: 'mer_shop' };
const leadsNowhere = (because: RegExp) => (error: unknown) => {
  assert.ok(error instanceof NameError, String(error));
  assert.match(error.message, because);
  return true;
};

test('a name resolves to all its addresses, IPv4 first', async (t) => {
  const server = await startNameServer((name) => (name === 'hooks.example' ? ['11.11.11.11', '11.11.11.12'] : []));
  t.after(server.stop);
  const { resolve } = createNames({ servers: [server.address], lookUpMs: LONG_MS });
  assert.deepEqual(await resolve('hooks.example', shop), [
    { address: '11.11.11.11', family: 4 },
    { address: '11.11.11.12', family: 4 },
  ]);
  await assert.rejects(resolve('unknown.example', shop), leadsNowhere(/^the name unknown\.example does not resolve$/));
});

test('a name server that never answers costs the time limit and two questions, and nothing more for a moment', async (t) => {
  const server = await startNameServer(() => null);
  t.after(server.stop);
  const { resolve } = createNames({ servers: [server.address], lookUpMs: 300, failedMs: LONG_MS });
  await assert.rejects(resolve('slow.example', shop), leadsNowhere(/name servers of slow\.example do not answer/));
  const questions = server.asked.length;
  assert.ok(questions >= 1 && questions <= 2, String(questions));
  await assert.rejects(resolve('slow.example', { merchantId: 'mer_other' }), NameError);
  assert.equal(server.asked.length, questions);
});

test('a name that did not resolve is asked for again after that moment', async (t) => {
  let answer: NameAnswer = [];
  const server = await startNameServer(() => answer);
  t.after(server.stop);
  const { resolve } = createNames({ servers: [server.address], lookUpMs: LONG_MS, failedMs: 0 });
  await assert.rejects(resolve('new.example', shop), NameError);
  answer = ['11.11.11.11'];
  assert.equal((await resolve('new.example', shop))[0]!.address, '11.11.11.11');
});

test('a merchant resolves eight names at a time, and other merchants do not wait for them', async (t) => {
  const held = Promise.withResolvers<NameAnswer>();
  const server = await startNameServer((name) => (name.startsWith('slow') ? held.promise : ['11.11.11.11']));
  t.after(server.stop);
  const { resolve } = createNames({ servers: [server.address], lookUpMs: LONG_MS });
  const names = Array.from({ length: 20 }, (_, i) => `slow${i}.example`);
  // Each name by two attempts at once: one question.
  const slow = [...names, ...names].map((name) => resolve(name, shop));
  const asked = () => new Set(server.asked.filter((name) => name.startsWith('slow'))).size;
  await eventually(
    async () => asked(),
    (count) => count === LOOK_UPS_PER_MERCHANT,
  );
  assert.equal((await resolve('other.example', { merchantId: 'mer_other' }))[0]!.address, '11.11.11.11');
  assert.equal(asked(), LOOK_UPS_PER_MERCHANT);
  held.resolve(['11.11.11.12']);
  assert.equal((await Promise.all(slow)).length, 40);
  assert.equal(server.asked.filter((name) => name.startsWith('slow')).length, 20);
});

test('a lookup that nobody waits for any more is not made', async (t) => {
  const held = Promise.withResolvers<NameAnswer>();
  const server = await startNameServer(() => held.promise);
  t.after(server.stop);
  const { resolve } = createNames({ servers: [server.address], lookUpMs: LONG_MS });
  const first = Array.from({ length: LOOK_UPS_PER_MERCHANT }, (_, i) => resolve(`first${i}.example`, shop));
  const given = new AbortController();
  const left = assert.rejects(resolve('left.example', { ...shop, signal: given.signal }), leadsNowhere(/nobody waits/));
  given.abort();
  held.resolve(['11.11.11.11']);
  await Promise.all([...first, left]);
  assert.ok(!server.asked.includes('left.example'));
});

test('names in the hosts file, localhost and names of the operator’s network need no name server', async (t) => {
  const server = await startNameServer(() => []);
  const folder = mkdtempSync(join(tmpdir(), 'florin-hosts-'));
  t.after(() => {
    server.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  const hostsFile = join(folder, 'hosts');
  writeFileSync(hostsFile, '# own machines\n10.0.0.7\tshop.internal Shop\n::1 shop.internal # both\nnonsense x.internal\n');
  const { resolve } = createNames({ servers: [server.address], hostsFile, lookUpMs: LONG_MS });
  const addressesOf = async (host: string) => (await resolve(host, shop)).map(({ address }) => address);
  assert.deepEqual(await addressesOf('shop.internal'), ['10.0.0.7', '::1']);
  assert.deepEqual(await addressesOf('shop'), ['10.0.0.7']);
  assert.deepEqual(await addressesOf('localhost'), ['127.0.0.1', '::1']);
  assert.deepEqual(await addressesOf('shop.localhost'), ['127.0.0.1', '::1']);
  // A name without a dot belongs to a private network: without WEBHOOK_ALLOW it could lead nowhere that is allowed.
  await assert.rejects(addressesOf('intranet'), NameError);
  assert.deepEqual(server.asked, []);
  await assert.rejects(addressesOf('x.internal'), NameError);
  assert.deepEqual(server.asked, ['x.internal']);
});

test('hosts named in WEBHOOK_ALLOW, and names without a dot where anything is allowed, are resolved by the system', async (t) => {
  const server = await startNameServer(() => []);
  const folder = mkdtempSync(join(tmpdir(), 'florin-hosts-'));
  t.after(() => {
    server.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  // Without a hosts file of ours, only the system knows what localhost is.
  const hostsFile = join(folder, 'none');
  const { resolve } = createNames({ servers: [server.address], hostsFile, allowedHosts: new Set(['localhost']), asksSystem: true });
  assert.ok((await resolve('localhost', shop)).some(({ address }) => address === '127.0.0.1' || address === '::1'));
  await assert.rejects(resolve('intranet-that-nobody-has', shop), NameError);
  assert.deepEqual(server.asked, []);
});

test('a hosts file is read as hosts(5) says', () => {
  assert.deepEqual(
    [...parseHosts('127.0.0.1 localhost\r\n::1\tlocalhost ip6-localhost\n#10.0.0.1 no\n300.1.1.1 no\n\n')],
    [
      [
        'localhost',
        [
          { address: '127.0.0.1', family: 4 },
          { address: '::1', family: 6 },
        ],
      ],
      ['ip6-localhost', [{ address: '::1', family: 6 }]],
    ],
  );
});
