/**
 * The cluster of deploy/ha: its leader is killed and hung again and again while shops order, customers choose and pay, and webhooks are
 * sent, by processes of Florin on three machines. FLORIN_KILLS and FLORIN_HANGS are how often. Then another one is upgraded meanwhile.
 */
// Invariant: A failover of the cluster loses nothing that was acknowledged, and issues no address twice.
// Invariant: A cluster is upgraded from one release to the next, machine by machine, and no request fails.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import connectPostgres from '../../src/db/driver.ts';
import { client, eventually } from '../kit/app.ts';
import { base58check } from '../kit/base58.ts';
import { type Cluster, MACHINES, type Machine, missingCluster, startCluster } from '../kit/cluster.ts';
import { copyLastRelease, copySource } from '../kit/copy.ts';
import { type CoreNode, startCoreNode } from '../kit/core-node.ts';
import { type Receiver, startReceiver } from '../kit/receiver.ts';
import { account, units } from '../kit/shop.ts';
import { createTestChain } from '../kit/test-chain.ts';

const KILLS = Number(process.env.FLORIN_KILLS ?? 100);
const HANGS = Number(process.env.FLORIN_HANGS ?? 20);
const skip = missingCluster;
const ORDER = { amount: '25.00', currency: 'USD', return_url: 'https://shop.example/' };

const chain = createTestChain({ coin: 'BTC', network: 'regtest' });
let node: CoreNode;
let receiver: Receiver;
let cluster: Cluster;
let secret: string;
const home = mkdtempSync(join(tmpdir(), 'florin-upgrade-'));
before(async () => {
  if (!skip) [node, receiver] = [await startCoreNode(chain), await startReceiver()];
});
after(async () => {
  await cluster?.stop();
  await node?.close();
  await receiver?.stop();
  rmSync(home, { recursive: true });
});

/** A cluster with a shop, instead of the one before. */
async function open(code?: string): Promise<void> {
  await cluster?.stop();
  cluster = await startCluster({ BTC_NODE_URL: node.url, BTC_NETWORK: 'regtest', BTC_CONFIRMATIONS: '1' }, code);
  const { merchant_id: id, keys } = await cluster.florin('merchant', 'create', '--name', 'Shop', '--plan', 'enterprise');
  secret = keys.live_secret;
  const key = base58check.respell(account('BTC').publicExtendedKey, 0x043587cf);
  await cluster.florin(...['wallet', 'set', '--merchant', id, '--coin', 'BTC', '--mode', 'live', '--key', key, '--script', 'p2wpkh']);
  await cluster.florin('endpoint', 'create', '--merchant', id, '--mode', 'live', '--url', receiver.url, '--events', '*');
}

/** What customers and shops do, and the answers to it. */
type Trade = {
  acknowledged: Set<string>;
  /** Addresses that customers saw, by payment. */
  shown: Map<string, string>;
  paid: Set<string>;
  /** Answers other than success. */
  refused: Map<string, number>;
  successAt: number;
  stop(): Promise<void>;
};

/** A choice of a coin on the page, as a browser without JavaScript makes it. Null: it was refused. */
async function choose(id: string): Promise<boolean> {
  const page = await (await fetch(`${cluster.url}/pay?id=${id}`)).text();
  const token = /name="token" value="([^"]+)"/.exec(page)?.[1];
  if (token === undefined) return false;
  const body = new URLSearchParams({ id, token, currency: 'BTC' }).toString();
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  return (await fetch(`${cluster.url}/pay/select`, { method: 'POST', headers, body })).ok;
}

function startTrade(): Trade {
  const live = client(cluster.url, secret);
  const [acknowledged, shown, paid, refused] = [new Set<string>(), new Map<string, string>(), new Set<string>(), new Map<string, number>()];
  const trade = { acknowledged, shown, paid, refused, successAt: performance.now() };
  let isOpen = true;
  const shop = async (number: number) => {
    for (let turn = 0; isOpen; await sleep(100)) {
      const reply = await live.post('/v1/payments', ORDER, { 'idempotency-key': `shop-${number}-${turn}` }).catch((error: Error) => error);
      if (!(reply instanceof Error) && reply.status === 201) {
        acknowledged.add(reply.json.id);
        trade.successAt = performance.now();
        turn++;
      } else {
        const what =
          reply instanceof Error ? ((reply.cause as { code?: string })?.code ?? reply.name) : `${reply.status} ${reply.json?.error?.code}`;
        refused.set(what, (refused.get(what) ?? 0) + 1);
      }
    }
  };
  const customer = async () => {
    while (isOpen) {
      const id = [...acknowledged].find((one) => !shown.has(one));
      await sleep(100);
      if (id === undefined) continue;
      try {
        await choose(id);
        const { json } = await live.get(`/api/payment/${id}`);
        if (typeof json?.payment_address !== 'string') continue;
        shown.set(id, json.payment_address);
        chain.pay([[json.payment_address, units(json.amount)]]);
        paid.add(id);
      } catch {
        // It is tried again.
      }
    }
  };
  const miner = async () => {
    for (; isOpen; await sleep(1_000)) chain.mine(1);
  };
  const parts = [shop(1), shop(2), customer(), miner()];
  return Object.assign(trade, {
    stop: async () => {
      isOpen = false;
      await Promise.all(parts);
    },
  });
}

/** When the new primary commits again, without Florin: what Florin takes beyond that is its own part of the outage. */
async function commitsOn(machine: Machine): Promise<number> {
  const url = new URL(cluster.settings.DATABASE_URL!.replace(/@[^/]*\//, `@${cluster.addressOf(machine)}:5432/`));
  for (;;) {
    const sql = connectPostgres({ url: url.href, max: 1 });
    try {
      await sql.unsafe('create table if not exists probe (at timestamptz)');
      await sql.unsafe('insert into probe values (now())');
      return performance.now();
    } catch {
      await sleep(50);
    } finally {
      await sql.end({ timeout: 1 });
    }
  }
}

type Outage = { seconds: number; own: number };
async function lose(trade: Trade, how: 'kill' | 'hang'): Promise<Outage> {
  await cluster.isSafe();
  const lost = await cluster.leader();
  const from = performance.now();
  if (how === 'kill') cluster.kill(lost);
  else cluster.signal(lost, 'SIGSTOP');
  const next = await eventually(cluster.leader, (machine) => machine !== lost, 120_000);
  const commits = await commitsOn(next);
  await eventually(
    async () => trade.successAt,
    (at) => at > commits,
    120_000,
  );
  const back = trade.successAt;
  if (how === 'kill') cluster.revive(lost);
  else cluster.signal(lost, 'SIGCONT');
  return { seconds: (back - from) / 1_000, own: (back - commits) / 1_000 };
}

const worst = (values: readonly number[]) => Math.max(...values).toFixed(1);
/** Of fewer than a hundred it is the largest. */
const p99 = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.ceil(values.length * 0.99) - 1]!;

/** Everything that was acknowledged is there, no address was shown twice, and what was paid completes and is reported. */
async function assertWhole({ acknowledged, shown, paid, refused }: Trade, allowed: RegExp): Promise<void> {
  const live = client(cluster.url, secret);
  for (const id of acknowledged) {
    const { status } = await eventually(
      () => live.get(`/api/payment/${id}`),
      (reply) => reply.status !== 503,
      60_000,
    );
    assert.equal(status, 200, `${id} was acknowledged and is lost`);
  }
  assert.equal(new Set(shown.values()).size, shown.size, 'no address is issued twice');
  chain.mine(2);
  for (const id of paid)
    await eventually(
      async () => [
        (await live.get(`/api/payment/${id}`)).json?.status,
        receiver.received.some(({ event }) => event.type === 'payment.completed' && event.data.id === id),
      ],
      ([status, isHeard]) => status === 'completed' && isHeard === true,
      120_000,
    );
  for (const what of refused.keys()) assert.match(what, allowed);
}

test('the cluster starts', { skip }, () => open());

for (const [how, rounds] of [
  ['kill', KILLS],
  ['hang', HANGS],
] as const)
  test(`${rounds} leaders are lost (${how}): nothing acknowledged is lost, no address is issued twice, every webhook arrives`, {
    skip,
  }, async (t) => {
    const trade = startTrade();
    t.after(trade.stop);
    const outages: Outage[] = [];
    await eventually(
      async () => trade.paid.size,
      (size) => size > 2,
      60_000,
    );
    for (let round = 0; round < rounds; round++) outages.push(await lose(trade, how));
    await sleep(3_000);
    await trade.stop();
    // Clients may repeat what gets one of these.
    await assertWhole(trade, /^(503 database_unavailable|TimeoutError)$/);
    const [all, own] = [outages.map(({ seconds }) => seconds), outages.map(({ own }) => own)];
    const lengths = `outage at most ${worst(all)} s, p99 ${p99(all).toFixed(1)} s, of which after the database at most ${worst(own)} s`;
    t.diagnostic(
      `${rounds} times: ${trade.acknowledged.size} acknowledged, ${trade.paid.size} paid, ${lengths}, each ${all.map((one) => one.toFixed(1)).join()}, refused ${JSON.stringify([...trade.refused])}`,
    );
    assert.ok(Math.max(...own) < 2, lengths);
    assert.ok(p99(all) < 30, lengths);
  });

/** Two versions of Florin: the last release, and this one with a change of its schema. Before the first release, both are this one. */
function prepareVersions(): { previous: string; next: string } {
  const [previous, next] = [join(home, 'previous'), join(home, 'next')];
  if (!copyLastRelease(previous)) copySource(previous, { linked: true });
  copySource(next, { linked: true });
  const file = join(next, 'package.json');
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), version: '9.0.0' }));
  const migration = 'alter table payments add column more text;\ncreate table more (number int primary key);\n';
  writeFileSync(join(next, 'src/db/migrations/9000_more.sql'), migration);
  return { previous, next };
}

test('machine by machine is upgraded from one version to the next while shops order and customers pay: no request fails', {
  skip,
}, async (t) => {
  const { previous, next } = prepareVersions();
  const code = join(home, 'code');
  mkdirSync(code);
  for (const machine of MACHINES) symlinkSync(previous, join(code, machine));
  await open(code);
  const trade = startTrade();
  t.after(trade.stop);
  await eventually(
    async () => trade.paid.size,
    (size) => size > 2,
    60_000,
  );
  assert.deepEqual(new Set(cluster.running()), new Set([previous]));
  for (const machine of MACHINES) {
    const before = trade.acknowledged.size;
    rmSync(join(code, machine));
    symlinkSync(next, join(code, machine));
    await cluster.restart(machine);
    // HAProxy sees it again.
    await sleep(3_000);
    assert.ok(trade.acknowledged.size > before, 'the others went on');
  }
  assert.deepEqual(new Set(cluster.running()), new Set([next]));
  assert.equal((await cluster.florin('version')).schema, '9000_more.sql');
  await trade.stop();
  assert.deepEqual([...trade.refused], []);
  await assertWhole(trade, /^$/);
  t.diagnostic(`${trade.acknowledged.size} acknowledged, ${trade.paid.size} paid`);
});
