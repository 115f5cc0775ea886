/** A service whose database fails over, and a shop that continues ordering meanwhile: what was acknowledged, and which addresses were shown. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { type App, type Role, startApp } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import { createLog } from '../../src/log.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { setWallet } from '../../src/wallets/wallets.ts';
import { type Client, client, eventually, testEnvironment } from './app.ts';
import { base58check } from './base58.ts';
import { type CoreNode, startCoreNode } from './core-node.ts';
import { createTemplate, type Pair, type Server } from './database-pair.ts';
import { account, units } from './shop.ts';
import { createTestChain, type TestChain } from './test-chain.ts';

const ORDER = { amount_usd: 25, return_url: 'https://shop.example/', payment_address: 'test_btc_success' };
const BITCOIN = { BTC_NETWORK: 'regtest', BTC_CONFIRMATIONS: '1' };

async function start(url: string, { roles, environment = {} }: { roles: readonly Role[]; environment?: Record<string, string> }) {
  const folder = mkdtempSync('/dev/shm/florin-data-');
  const config = readConfig(testEnvironment(url, folder, { LOG_LEVEL: 'silent', ...BITCOIN, ...environment }));
  const app = await startApp(config, { roles, log: createLog('silent'), starts: () => null });
  return { app, folder };
}

let keys: { test: string; live: string };
/** A database with a merchant who takes Bitcoin. */
export const createShopTemplate = () =>
  createTemplate(async (url) => {
    const { app, folder } = await start(url, { roles: [] });
    const merchant = await createMerchant(app.ctx, { name: 'Failover' });
    keys = { test: merchant.keys.testSecret, live: merchant.keys.liveSecret };
    const accountKey = base58check.respell(account('BTC').publicExtendedKey, 0x043587cf);
    await setWallet(app.ctx, { merchantId: merchant.merchantId, coin: 'BTC', accountKey, script: 'p2wpkh' });
    await app.stop();
    rmSync(folder, { recursive: true, force: true });
  });

export type Drill = {
  pair: Pair;
  api: App;
  chain: TestChain;
  test: Client;
  live: Client;
  /** IDs of acknowledged test payments. */
  acknowledged: Set<string>;
  /** Every address that a customer saw, by payment. */
  shown: Map<string, string>;
  /** How many orders were refused with a 503. */
  refused(): number;
  /** A live order with its address; null when it was refused. */
  order(through?: App): Promise<{ id: string; address: string; amount: string } | null>;
  /** Waits until both processes accept orders again. */
  works(): Promise<void>;
  /** Waits until exactly one of the two watchers has followed the chain for a while, and the other one has not asked anything. */
  oneFollows(on: Server): Promise<void>;
  stop(): Promise<void>;
};

/** Two processes with separate data folders on one pair of servers: an api that also watches, and a second watcher. */
export async function startDrill(pair: Pair): Promise<Drill> {
  const chain = createTestChain({ coin: 'BTC', network: 'regtest' });
  const sources: CoreNode[] = [await startCoreNode(chain), await startCoreNode(chain)];
  const one = await start(pair.url, { roles: ['api', 'worker', 'watcher'], environment: { BTC_NODE_URL: sources[0]!.url } });
  const two = await start(pair.url, { roles: ['api', 'watcher'], environment: { BTC_NODE_URL: sources[1]!.url } });
  const [test, live] = [client(one.app.url!, keys.test), client(one.app.url!, keys.live)];
  const acknowledged = new Set<string>();
  const shown = new Map<string, string>();
  let isOpen = true;
  let number = 0;
  let refused = 0;
  const shopping = (async () => {
    while (isOpen) {
      const { status, json } = await test.post('/api/payment/create/simple', ORDER, { 'idempotency-key': `order-${number}` });
      if (status === 201) acknowledged.add(json.transaction_id);
      else {
        assert.equal(status, 503, JSON.stringify(json));
        assert.equal(json.error.code, 'database_unavailable');
        refused++;
      }
      if (status === 201) number++;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  })();
  const order: Drill['order'] = async (through = one.app) => {
    const { status, json } = await client(through.url!, keys.live).post('/v1/transactions/create', {
      crypto: 'BTC',
      amount: 30,
      currency_fiat: 'USD',
    });
    if (status !== 201) return null;
    const made = { id: json.transaction_id, address: json.payment_address, amount: json.amount };
    assert.ok(![...shown.values()].includes(made.address), `${made.address} was shown before`);
    shown.set(made.id, made.address);
    return made;
  };
  await eventually(order, (made) => made !== null, 60_000);
  return {
    ...{ pair, chain, test, live, acknowledged, shown, order },
    api: two.app,
    refused: () => refused,
    works: async () => {
      const before = acknowledged.size;
      await eventually(
        async () => acknowledged.size,
        (size) => size > before + 3,
        60_000,
      );
      // Each process finds the new primary for itself.
      await eventually(
        () => order(two.app),
        (taken) => taken !== null,
        60_000,
      );
      const made = await eventually(order, (one) => one !== null, 60_000);
      chain.pay([[made!.address, units(made!.amount)]]);
      chain.mine(1);
      await eventually(
        () => live.get(`/api/payment/${made!.id}`),
        ({ json }) => json?.status === 'completed',
        60_000,
      );
    },
    oneFollows: async (on) => {
      const counts = () => sources.map(({ calls }) => calls.length);
      await eventually(
        async () => {
          const [held] = await on.ask(`select count(*)::int as n from pg_locks where locktype = 'advisory' and objsubid = 2 and granted`);
          const before = counts();
          // The leader asks twice a second.
          await eventually(
            async () => counts(),
            (now) => now.some((n, i) => n >= before[i]! + 12),
          );
          return { held: held!.n, idle: counts().filter((n, i) => n === before[i]).length };
        },
        ({ held, idle }) => held === 1 && idle === 1,
        60_000,
      );
    },
    stop: async () => {
      isOpen = false;
      await shopping;
      await Promise.all([one, two].map(({ app }) => app.stop()));
      for (const source of sources) await source.close();
      for (const { folder } of [one, two]) rmSync(folder, { recursive: true, force: true });
      await pair.stop();
    },
  };
}

/** How many acknowledged payments the database does not have. */
export async function countLost({ acknowledged, test }: Drill): Promise<number> {
  const replies = await Promise.all([...acknowledged].map((id) => test.get(`/api/payment/${id}`)));
  return replies.filter(({ status }) => status !== 200).length;
}
