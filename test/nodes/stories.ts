/**
 * What happens to payments on a node, the same for each coin of the family: the payer's wallet, a node, the service as a process, a
 * receiver.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { HDKey } from '@scure/bip32';
import type { Script } from '../../src/addresses/address.ts';
import { chainOf } from '../../src/core/coin.ts';
import { eventually } from '../kit/app.ts';
import { base58check } from '../kit/base58.ts';
import { isLongRun } from '../kit/long.ts';
import type { TestNode } from '../kit/nodes.ts';
import { type Service, startService } from '../kit/service.ts';

export type Chain = {
  coin: 'BTC' | 'LTC' | 'DASH' | 'DOGE';
  startNode(): Promise<TestNode>;
  /** How the service reads the chain of the node; by default through its RPC interface. */
  reads?(node: TestNode): Readonly<Record<string, string>>;
  /** Amount of a payment of 25 USD at the test price. */
  price: string;
  amount: number;
  /** Address types that the merchant's key may use on regtest. */
  addresses: readonly { script: Script; path: string; pattern: RegExp }[];
  /** Names of stories that cannot happen on this chain. */
  without?: readonly string[];
  /** A short form: these stories only. */
  only?: readonly string[];
  /** Stories for this chain only. */
  more?: (kit: StoryKit) => void;
};
export type StoryKit = {
  told(name: string, events: string, tell: (name: string, events: string) => Promise<void>): void;
  open(story: string, events: string): Promise<{ id: string; address: string }>;
  reach(id: string, status: string, exception?: string | null, more?: (d: any) => boolean): Promise<any>;
  mine(blocks: number): Promise<string[]>;
};

/** An account key of the merchant with the prefix of test networks. */
const accountKey = (path: string, seed: number): string =>
  base58check.respell(HDKey.fromMasterSeed(new Uint8Array(32).fill(seed)).derive(path).publicExtendedKey, 0x043587cf);
const HOUR = 3_600;
/** Stories that do not depend on the coin: the usual run tells them of BTC only. Names, or how they begin. */
const FURTHER = [
  ...['two partial payments add up', 'underpaid at the end of the window fails', 'more than needed completes as overpaid', 'late'],
  ...['just inside the grace period', 'paid while the service is down', 'the window ends while the service is down'],
  ...['the node goes away and returns', 'several outputs in one transaction', 'underpaid and confirmed, topped up later'],
  'a reorganization of 13 blocks before completion',
];

/** Runs all stories on one chain; each payment's events are checked at the end: exactly once, in order, signed. */
export function tellStories({ coin, startNode, reads, price, amount, addresses, without = [], only, more }: Chain): void {
  /** The node is a peer like any other: its work counts, and it answers no lookups. */
  const asPeer = reads !== undefined;
  let node: TestNode;
  let service: Service;
  const expected = new Map<string, { story: string; events: string }>();
  const coins = (share: number) => (amount * share).toFixed(8);

  before(async () => {
    node = await startNode();
    service = await startService({
      environment: {
        ...(reads?.(node) ?? { [`${coin}_NODE_URL`]: node.url }),
        [`${coin}_NETWORK`]: 'regtest',
        [`${coin}_CONFIRMATIONS`]: '2',
        PRICES: `static:${coin}=${price}`,
      },
    });
    await importWallet(addresses[0]!, 7);
    await eventually(
      () => fetch(`${service.url}/readyz`).then((reply) => reply.json() as Promise<any>),
      (ready) => ready.followers?.[coin] !== undefined,
      60_000,
    );
  });
  after(async () => {
    await service?.destroy();
    await node?.destroy();
  });

  const importWallet = ({ script, path }: { script: Script; path: string }, seed: number) =>
    service.florin(
      ...['wallet', 'set', '--merchant', service.merchantId, '--coin', coin, '--mode', 'live'],
      ...['--key', accountKey(path, seed), '--script', script],
    );
  const open = async (story: string, events: string): Promise<{ id: string; address: string }> => {
    const created = await service.live.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/' });
    assert.equal(created.status, 201, created.text);
    const id = created.json.transaction_id as string;
    expected.set(id, { story, events });
    await service.choose(id, coin);
    const chosen = await detail(id);
    assert.equal(chosen.amount, amount.toFixed(8));
    assert.equal(chosen.currency, coin);
    return { id, address: chosen.payment_address };
  };
  /** When the window of a payment ends, in seconds. */
  const ends = async (id: string): Promise<number> => {
    const [row] = await service.database.db.sql<{ at: number }[]>`
      select extract(epoch from expires_at)::float8 as at from payments where id = ${id}`;
    return row!.at;
  };
  /**
   * Freezes the service between two of its transactions, because one in the middle would keep its locks. Returns a function that resumes
   * it.
   */
  const holdStill = async (): Promise<() => void> => {
    const pid = service.pid();
    for (let tries = 0; tries < 500; tries++) {
      process.kill(pid, 'SIGSTOP');
      await new Promise((resolve) => setTimeout(resolve, 20));
      const open = await service.database.db.sql`
        select 1 from pg_stat_activity
        where datname = current_database() and backend_type = 'client backend' and xact_start is not null and pid <> pg_backend_pid()`;
      if (open.length === 0) return () => process.kill(pid, 'SIGCONT');
      process.kill(pid, 'SIGCONT');
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    throw new Error('the service is always in a transaction');
  };
  const detail = async (id: string) => (await service.live.get(`/api/payment/${id}`)).json;
  const reach = (id: string, status: string, exception: string | null = null, more: (d: any) => boolean = () => true) =>
    eventually(
      () => detail(id),
      (d) => d.status === status && d.exception === exception && more(d),
      60_000,
    );
  const scanned = () =>
    eventually(
      async () => (await fetch(`${service.url}/readyz`).then((reply) => reply.json() as Promise<any>)).followers[coin].height as number,
      // The follower has read everything on the node.
      (height) => height >= tip,
      60_000,
    );
  let tip = 0;
  const mine = async (blocks: number) => {
    const hashes = await node.mine(blocks);
    tip = (await node.rpc('getblockcount')) as number;
    return hashes;
  };
  const names = new Set<string>();
  const told: StoryKit['told'] = (name, events, tell) => {
    if (coin !== 'BTC' && !isLongRun && FURTHER.some((one) => name.startsWith(one))) return;
    names.add(name);
    if (only ? only.includes(name) : !without.includes(name)) test(name, () => tell(name, events));
  };

  told('an exact payment is seen, confirmed twice, completed', 'created processing completed', async (name, events) => {
    const { id, address } = await open(name, events);
    assert.match(address, addresses[0]!.pattern);
    const txid = await node.pay(address, coins(1));
    const seen = await reach(id, 'processing');
    assert.equal(seen.transaction_hash, txid);
    assert.equal(seen.confirmations_required, 2);
    await mine(1);
    await reach(id, 'processing', null, (d) => d.confirmations === 1);
    await mine(1);
    const done = await reach(id, 'completed');
    assert.equal(done.amount_received, amount.toFixed(8));
    assert.equal(done.transaction_hash, txid);
  });

  told('two partial payments add up', 'created processing completed', async (name, events) => {
    const { id, address } = await open(name, events);
    await node.pay(address, coins(0.4));
    const partial = await reach(id, 'pending', 'underpaid');
    assert.equal(partial.amount_remaining, coins(0.6));
    await node.pay(address, coins(0.6));
    await reach(id, 'processing');
    await mine(2);
    await reach(id, 'completed');
  });

  told('underpaid and confirmed, topped up later', 'created processing completed', async (name, events) => {
    const { id, address } = await open(name, events);
    await node.pay(address, coins(0.5));
    await mine(3);
    await reach(id, 'pending', 'underpaid');
    // The window was extended by the first part.
    await service.age(id, 0.9 * HOUR);
    await node.pay(address, coins(0.5));
    await reach(id, 'processing');
    await mine(2);
    await reach(id, 'completed');
  });

  told('underpaid at the end of the window fails', 'created failed', async (name, events) => {
    const { id, address } = await open(name, events);
    await node.pay(address, coins(0.5));
    await reach(id, 'pending', 'underpaid');
    await service.age(id, 1.1 * HOUR);
    const failed = await reach(id, 'failed', 'underpaid');
    assert.deepEqual([failed.amount_received, failed.amount_announced], [coins(0), coins(0.5)], 'in no block');
  });

  told('more than needed completes as overpaid', 'created processing completed', async (name, events) => {
    const { id, address } = await open(name, events);
    await node.pay(address, coins(2));
    await mine(2);
    const done = await reach(id, 'completed', 'overpaid');
    assert.equal(done.amount_overpaid, coins(1));
  });

  told('late: held for the merchant, accepted by the merchant', 'created expired processing completed', async (name, events) => {
    const { id, address } = await open(name, events);
    await service.age(id, 1.1 * HOUR);
    await reach(id, 'expired');
    await node.pay(address, coins(1));
    await mine(1);
    await reach(id, 'expired', 'late');
    const accepted = await service.live.post(`/v1/payments/${id}/resolve`, { action: 'accept' });
    assert.equal(accepted.status, 200, accepted.text);
    await mine(1);
    await reach(id, 'completed');
  });

  told('just inside the grace period after the end still counts as in time', 'created processing completed', async (name, events) => {
    const { id, address } = await open(name, events);
    const goOn = await holdStill();
    try {
      await node.pay(address, coins(1));
      // The window has just ended, but not the delay allowed for reading the chain.
      await service.age(id, (await ends(id)) - Date.now() / 1000);
    } finally {
      goOn();
    }
    await reach(id, 'processing');
    await mine(2);
    await reach(id, 'completed');
  });

  told(
    'late, with automatic acceptance: within the minutes allowed it completes',
    'created expired processing completed',
    async (name, events) => {
      await settings({ lateAcceptMinutes: 60 });
      const { id, address } = await open(name, events);
      await settings({ lateAcceptMinutes: null });
      await service.age(id, 1.5 * HOUR);
      await reach(id, 'expired');
      await node.pay(address, coins(1));
      await mine(2);
      await reach(id, 'completed');
    },
  );

  told('late, with automatic acceptance: after the minutes allowed it is held', 'created expired', async (name, events) => {
    await settings({ lateAcceptMinutes: 60 });
    const { id, address } = await open(name, events);
    await settings({ lateAcceptMinutes: null });
    await service.age(id, 2.5 * HOUR);
    await reach(id, 'expired');
    await node.pay(address, coins(1));
    await mine(2);
    await reach(id, 'expired', 'late');
  });

  told('replaced by one that pays us too', 'created processing completed', async (name, events) => {
    const { id, address } = await open(name, events);
    const first = await node.pay(address, coins(1));
    await reach(id, 'processing', null, (d) => d.transaction_hash === first);
    const second = await node.replace(first, address, coins(1));
    await eventually(
      () => detail(id),
      (d) => d.status === 'processing' && d.transaction_hash === second,
      60_000,
    );
    await mine(2);
    const done = await reach(id, 'completed');
    assert.equal(done.amount_received, amount.toFixed(8));
    assert.equal(done.transaction_hash, second);
  });

  told('replaced by one that pays someone else, then paid again', 'created processing processing completed', async (name, events) => {
    const { id, address } = await open(name, events);
    const first = await node.pay(address, coins(1));
    await reach(id, 'processing');
    await node.replace(first, await node.newAddress(), coins(1));
    const back = await reach(id, 'pending', 'replaced');
    assert.equal(back.amount_received, '0.00000000');
    await mine(1);
    await node.pay(address, coins(1));
    await reach(id, 'processing');
    await mine(2);
    await reach(id, 'completed');
  });

  // Invariant: Reorganizations remove confirmations and restore them.
  told('a reorganization of 13 blocks before completion', 'created processing completed', async (name, events) => {
    const { id, address } = await open(name, events);
    await mine(12);
    await node.pay(address, coins(1));
    const [block] = await mine(1);
    await reach(id, 'processing', null, (d) => d.confirmations === 1);
    const back = await node.rpc('getblockhash', tip - 12);
    await node.rpc('invalidateblock', back);
    // Coins that were mature before the reorganization are mature again some blocks later; only then is the wallet read.
    await mine(12);
    await node.rebroadcast();
    await mine(2);
    await scanned();
    await reach(id, 'completed', null, (d) => d.transfers[0].block_hash !== block);
  });

  // Invariant: A completed payment never changes silently.
  told('a reorganization of 13 blocks after completion', 'created processing completed reversed', async (name, events) => {
    const { id, address } = await open(name, events);
    await node.pay(address, coins(1));
    const blocks = await mine(13);
    await reach(id, 'completed', null, (d) => d.confirmations === 13);
    await node.rpc('invalidateblock', blocks[0]);
    // Coins that were mature before the reorganization are mature again some blocks later; only then is the wallet read. A peer that shows
    // a branch with less work than before proves nothing.
    await mine(asPeer ? 14 : 12);
    await reach(id, 'completed', 'reorged', (d) => d.confirmations === 0);
    await node.rebroadcast();
    await mine(2);
    await scanned();
    await reach(id, 'completed', null, (d) => d.confirmations >= 1 && d.transfers[0].block_hash !== blocks[0]);
  });

  // Invariant: What was paid while the service was down counts.
  told('paid while the service is down', 'created processing completed', async (name, events) => {
    const { id, address } = await open(name, events);
    await service.end('SIGKILL');
    await node.pay(address, coins(1));
    await mine(2);
    await service.start();
    await reach(id, 'completed');
  });

  told(
    'the window ends while the service is down, but the payment arrived in time',
    'created processing completed',
    async (name, events) => {
      const { id, address } = await open(name, events);
      await service.end();
      await node.pay(address, coins(1));
      const [block] = await mine(1);
      const { time } = await node.rpc('getblockheader', block);
      // The window ends a second after the block, and the delay allowed for reading the chain has passed too.
      await service.age(id, (await ends(id)) - (time + 1));
      const late = time + 1 + chainOf(coin).slackSeconds + 1;
      await new Promise((resolve) => setTimeout(resolve, late * 1000 - Date.now()));
      await service.start();
      await reach(id, 'processing');
      await mine(1);
      await reach(id, 'completed');
    },
  );

  // After the stories that depend on block times: so many blocks at once run ahead of the clock.
  told(
    'paid by a miner from a block reward: it completes when the reward is mature',
    'created processing completed',
    async (name, events) => {
      const { id, address } = await open(name, events);
      const { coinbaseMaturity } = chainOf(coin);
      await node.mine(1, address);
      await mine(coinbaseMaturity - 2);
      await reach(id, 'processing', 'overpaid', (d) => d.confirmations === coinbaseMaturity - 1);
      await scanned();
      assert.equal((await detail(id)).status, 'processing');
      await mine(1);
      await reach(id, 'completed', 'overpaid');
    },
  );

  told('the node goes away and returns; nothing expires meanwhile', 'created processing completed', async (name, events) => {
    const { id, address } = await open(name, events);
    const waiting = await open(`${name} (no payment)`, 'created expired');
    await node.pay(address, coins(1));
    await reach(id, 'processing');
    await node.stop();
    await service.passUnread(coin, waiting.id, chainOf(coin).slackSeconds + 2);
    assert.equal((await detail(id)).status, 'processing');
    assert.equal((await detail(waiting.id)).status, 'pending', 'nobody looked at the chain: it may not expire');
    await node.start();
    await mine(2);
    await reach(id, 'completed');
    await reach(waiting.id, 'expired');
  });

  told('several outputs in one transaction, to one payment and to another', 'created processing completed', async (name, events) => {
    const one = await open(name, events);
    const two = await open(name, events);
    const txid = await node.payMany([
      [one.address, coins(0.25)],
      [two.address, coins(1)],
      [one.address, coins(0.75)],
    ]);
    const first = await reach(one.id, 'processing');
    // Together they are one transfer.
    assert.deepEqual(
      first.transfers.map((t: any) => [t.transaction_hash, t.amount]),
      [[txid, amount.toFixed(8)]],
    );
    assert.equal(first.amount_announced, amount.toFixed(8));
    assert.equal((await reach(two.id, 'processing')).transaction_hash, txid);
    await mine(2);
    await reach(one.id, 'completed');
    await reach(two.id, 'completed');
  });

  more?.({ told, open, reach, mine });

  for (const [i, form] of addresses.entries()) {
    if (i === 0) continue;
    told(`a key of the type ${form.script} gives addresses that the node pays`, 'created processing completed', async (name, events) => {
      await importWallet(form, 20 + i);
      const { id, address } = await open(name, events);
      assert.match(address, form.pattern);
      await node.pay(address, coins(1));
      await mine(2);
      await reach(id, 'completed');
    });
  }

  told(
    'lookups of a transaction, of fees, of a deposit address, and an honest answer for any other',
    'created processing',
    async (name, events) => {
      const { id, address } = await open(name, events);
      const txid = await node.pay(address, coins(1));
      await mine(1);
      await reach(id, 'processing', null, (d) => d.confirmations === 1);
      const found = await service.live.get(`/api/crypto/transaction/${txid}?currency=${coin}`);
      assert.equal(found.status, 200, found.text);
      assert.equal(found.json.status, 'confirmed');
      assert.ok(
        found.json.outputs.some((o: { address: string; amount: string }) => o.address === address && o.amount === amount.toFixed(8)),
      );
      // Peers know neither the inputs of a transaction nor its fee.
      if (asPeer) assert.deepEqual([found.json.fee, found.json.inputs], [null, null]);
      else assert.ok(Number(found.json.fee) > 0);
      const fees = await service.live.get(`/api/crypto/fees?currency=${coin}`);
      assert.equal(fees.status, 200, fees.text);
      assert.ok(fees.json.fees.fast[`total_fee_${coin.toLowerCase()}`]);
      const balance = await service.live.get(`/api/crypto/balance?currency=${coin}&address=${address}`);
      assert.equal(balance.status, 200, balance.text);
      assert.deepEqual(
        [balance.json.balance, balance.json.total_received, balance.json.total_sent, balance.json.transaction_count],
        [amount.toFixed(8), amount.toFixed(8), '0.00000000', 1],
      );
      // Nor what of an address is unspent: it is what was recorded.
      assert.equal(balance.json.source, asPeer ? 'ledger' : undefined);
      const foreign = await service.live.get(`/api/crypto/balance?currency=${coin}&address=${await node.newAddress()}`);
      assert.equal(foreign.status, 501);
      assert.equal(foreign.json.error.code, 'not_supported');
      const unknown = await service.live.get(`/api/crypto/transaction/${'0'.repeat(64)}?currency=${coin}`);
      assert.equal(unknown.status, asPeer ? 501 : 404);
    },
  );

  // Invariant: Each event arrives once, in order, signed.
  test(`every event of these stories arrived exactly once, in order, with a valid signature`, async () => {
    assert.deepEqual(
      [...without, ...(only ?? [])].filter((name) => !names.has(name)),
      [],
    );
    assert.ok(expected.size >= (only?.length ?? names.size - without.length));
    for (const [id, { story, events }] of expected) {
      await eventually(
        async () => service.eventsOf(id).join(' '),
        (types) => types === events,
        60_000,
      ).catch((error) => assert.fail(`${story}: ${error.message}`));
    }
    const verified = await service.florin('verify');
    assert.equal(verified.ok, true, JSON.stringify(verified));
  });

  const settings = async (change: object) => {
    await service.database.db
      .sql`update merchants set settings = settings || ${service.database.db.sql.json(change as never)} where id = ${service.merchantId}`;
    // The service caches a merchant for up to a second.
    await new Promise((resolve) => setTimeout(resolve, 1_100));
  };
}
