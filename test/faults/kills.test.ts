/**
 * A killed process loses nothing: the service is killed with -9 at random moments while payments are created, paid, confirmed and
 * reported. Everything acknowledged exists afterwards, once; everything paid completes; every event arrives.
 */
// Invariant: A killed process loses nothing.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { HDKey } from '@scure/bip32';
import { type Client, eventually, type Reply } from '../kit/app.ts';
import { base58check } from '../kit/base58.ts';
import { isLongRun } from '../kit/long.ts';
import { startBitcoind, type TestNode } from '../kit/nodes.ts';
import { type Service, startService } from '../kit/service.ts';

const KILLS = isLongRun ? 300 : 4;
/** So many customers pay at a time, so that every kill hits payments in each phase. */
const PAYERS = 6;
/** At least so many payments are paid meanwhile. If they take longer, there are more kills, up to twice as many. */
const PAID = Math.max(5, KILLS / 5);

let node: TestNode;
let service: Service;
before(async () => {
  node = await startBitcoind();
  service = await startService({
    environment: { BTC_NODE_URL: node.url, BTC_NETWORK: 'regtest', BTC_CONFIRMATIONS: '2', PRICES: 'static:BTC=97000.00' },
  });
  const account = HDKey.fromMasterSeed(new Uint8Array(32).fill(9)).derive("m/84'/1'/0'").publicExtendedKey;
  await service.florin(
    ...['wallet', 'set', '--merchant', service.merchantId, '--coin', 'BTC', '--mode', 'live'],
    ...['--key', base58check.respell(account, 0x043587cf), '--script', 'p2wpkh'],
  );
});
after(async () => {
  await service?.destroy();
  await node?.destroy();
});

/** How many answers arrived, from any process, and when the last one did. */
let answers = 0;
let answeredAt = performance.now();
let killing = true;

/**
 * Repeats a request until it succeeds, like a client of a service that is killed again and again. Any answer to any client counts as
 * progress, because the time that the kills take depends on the machine.
 */
async function insist<T>(ask: () => Promise<T>, good: (answer: T) => boolean): Promise<T> {
  let from = performance.now();
  for (;;) {
    const answer: T | Error = await ask().catch((error: Error) => error);
    if (!(answer instanceof Error)) {
      answers++;
      answeredAt = performance.now();
      if (good(answer)) return answer;
    }
    if (killing) from = Math.max(from, answeredAt);
    if (performance.now() - from > 180_000)
      throw new Error(`no good answer within three minutes: ${answer instanceof Error ? answer : JSON.stringify(answer)}`);
    await sleep(50);
  }
}
const ok = (reply: Reply) => reply.status < 300;

test(`${KILLS} kills at random moments between creation and completion lose nothing`, async (t) => {
  const { live } = service;
  const done = new AbortController();
  const acknowledged = new Map<string, string>();
  let kills = 0;
  let paid = 0;

  const payer = async (number: number) => {
    for (let turn = 0; !done.signal.aborted; turn++) {
      const key = `payer-${number}-${turn}`;
      const id = await createOnce(live, key);
      // A choice whose answer was lost is still valid: the page then no longer asks.
      const address = await insist(
        async () => {
          const before = (await live.get(`/api/payment/${id}`)).json.payment_address;
          if (before === null) await service.choose(id, 'BTC');
          return (before ?? (await live.get(`/api/payment/${id}`)).json.payment_address) as string | null | undefined;
        },
        (given) => typeof given === 'string',
      );
      acknowledged.set(id, address!);
      await node.pay(address!, '0.00025774');
      paid++;
      await insist(
        () => live.get(`/api/payment/${id}`),
        (reply) => ok(reply) && (reply.json.status !== 'pending' || done.signal.aborted),
      );
    }
  };
  const miner = async () => {
    while (!done.signal.aborted) {
      await node.mine(1);
      await sleep(700);
    }
  };
  const killer = async () => {
    for (; kills < KILLS || (paid < PAID && kills < 2 * KILLS); kills++) {
      // Time is counted in answers, so that a slow machine gets as far between two kills as a fast one.
      const until = answers + Math.random() * 40;
      while (answers < until && !done.signal.aborted) await sleep(5);
      await sleep(Math.random() * 100);
      await service.end('SIGKILL');
      await service.start();
    }
    done.abort();
  };
  done.signal.addEventListener('abort', () => {
    killing = false;
  });
  const parts = [killer(), miner(), ...Array.from({ length: PAYERS }, (_, i) => payer(i))];
  // The first failure ends the others.
  await Promise.all(parts.map((part) => part.finally(() => done.abort()))).finally(() => Promise.allSettled(parts));

  await node.mine(2);
  // As if the leases of the killed workers had ended.
  await service.database.db.sql`update deliveries set leased_until = leased_until - interval '1 minute' where state = 'pending'`;
  for (const id of acknowledged.keys()) {
    const end = await eventually(
      () => live.get(`/api/payment/${id}`),
      (reply) => reply.json.status === 'completed',
      120_000,
    );
    assert.equal(end.json.amount_received, '0.00025774');
    assert.equal(end.json.exception, null);
    assert.equal(end.json.transfers.length, 1);
    await eventually(
      async () => service.eventsOf(id).join(' '),
      (events) => events === 'created processing completed',
      120_000,
    );
  }
  assert.equal(new Set(acknowledged.values()).size, acknowledged.size, 'no address is given twice');
  const list = (await live.get('/api/payments?limit=1')).json;
  assert.equal(list.total_count, acknowledged.size, 'nothing is there twice, nothing is missing');
  const { sql } = service.database.db;
  // A delivery that arrived but was not recorded is repeated.
  await eventually(
    async () => (await sql<{ count: bigint }[]>`select count(*) from deliveries where state <> 'delivered'`)[0]!.count,
    (count) => count === 0n,
    120_000,
  );
  assert.equal((await service.florin('verify')).ok, true);
  assert.ok(paid >= PAID, `only ${paid} payments were made`);
  t.diagnostic(`${kills} kills, ${paid} payments paid and completed, ${service.receiver.received.length} deliveries`);
});

/** Creates with an idempotency key, again and again until there is an answer: one payment, whatever happens in between. */
async function createOnce(live: Client, key: string): Promise<string> {
  const reply = await insist(
    () => live.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/' }, { 'idempotency-key': key }),
    (answer) => answer.status === 201,
  );
  return reply.json.transaction_id;
}
