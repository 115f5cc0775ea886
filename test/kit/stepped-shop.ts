/** A shop whose follower and guard are stepped by the test, over nodes on mainnet: nothing depends on the speed of the machine. */
import type { Role } from '../../src/app.ts';
import { ChainError } from '../../src/chains/chain-source.ts';
import type { PeerAddress } from '../../src/connections/socks5.ts';
import { COIN, type Coin } from '../../src/core/coin.ts';
import type { TrustSetting } from '../../src/core/guard.ts';
import { createGuard } from '../../src/follow/chain-guard.ts';
import { createFollower } from '../../src/follow/follow.ts';
import { settleDuePayments } from '../../src/settling/settle-payments.ts';
import { startTestApp, type TestApp } from './app.ts';
import { type CoreNode, startCoreNode } from './core-node.ts';
import { giveWallet, openPayment, units } from './shop.ts';
import { createTestChain, provenBy, type TestChain } from './test-chain.ts';

export type SteppedShop = {
  app: TestApp;
  chain: TestChain;
  /** One for each trust level, in order. */
  servers: CoreNode[];
  /** One look, as the watcher does it, and the work that follows from it. */
  look(times?: number): Promise<void>;
  /** Opens payments of so many dollars each, and pays all of them on a chain. */
  pay(on: TestChain, ...dollars: number[]): Promise<string[]>;
  detail(id: string): Promise<any>;
  statuses(ids: readonly string[]): Promise<string[]>;
};

/**
 * Steps the follower and the guard of a coin in a service that runs without them. `binding`: as strict as on mainnet, also on other
 * networks.
 */
export function stepByHand(
  { app: { ctx } }: TestApp,
  { coin = 'BTC', binding, lookMs = 60_000 }: { coin?: Coin; binding?: boolean; lookMs?: number } = {},
): SteppedShop['look'] {
  const source = ctx.chains.get(COIN[coin].chain)!;
  const how = binding === undefined ? {} : { binding };
  const guard = createGuard(ctx, source, how);
  const follower = createFollower(ctx, source, how);
  // Recent answers of a source remain valid for some seconds: each look is later than the previous one by `lookMs`.
  const monotonicMs = ctx.clock.monotonicMs.bind(ctx.clock);
  let skippedMs = 0;
  Object.assign(ctx.clock, { monotonicMs: () => monotonicMs() + skippedMs });
  return async (times = 1) => {
    for (let i = 0; i < times; i++) {
      skippedMs += lookMs;
      try {
        await follower.step(undefined, await guard.check());
        await guard.agree();
      } catch (error) {
        // A source that is away or behind is tried again.
        if (!(error instanceof ChainError)) throw error;
      }
      while ((await settleDuePayments(ctx, { limit: 100 })) > 0);
    }
  };
}

/** A shop that reads a coin, BTC unless another is named, from one server for each trust level, in order of preference. */
export async function tellStepped(
  trusts: readonly TrustSetting[],
  story: (told: SteppedShop) => Promise<void>,
  {
    coin = 'BTC',
    helpers = async () => [],
    peers = null,
    prepare = () => {},
    environment = {},
    roles = ['api'],
    work = null,
  }: {
    coin?: Coin;
    /** Starts the peers that bring headers. */
    helpers?: (chain: TestChain) => Promise<readonly PeerAddress[]>;
    /** Starts peers that are a source beside the others. */
    peers?: ((chain: TestChain) => Promise<readonly PeerAddress[]>) | null;
    /** Changes what the sources show before anything reads them. */
    prepare?: (servers: SteppedShop['servers']) => void;
    environment?: Record<string, string>;
    roles?: readonly Role[];
    /** A chain whose blocks have work, which is required: its length and the age of its tip. */
    work?: { length?: number; age?: number } | null;
  } = {},
): Promise<void> {
  const chain = createTestChain({ coin, ...(work && { work: 'real' as const, ...work }) });
  const servers: CoreNode[] = [];
  for (const _ of trusts) servers.push(await startCoreNode(chain));
  prepare(servers);
  const beside = (await peers?.(chain)) ?? [];
  const app = await startTestApp(
    {
      [`${coin}_NODE_URL`]: servers.map(({ url }) => url).join(','),
      [`${coin}_TRUST`]: trusts.join(','),
      LOG_LEVEL: 'silent',
      ...(beside.length > 0 && { [`${coin}_P2P`]: 'on', [`${coin}_PEERS`]: beside.map(({ host, port }) => `${host}:${port}`).join(',') }),
      ...environment,
    },
    { roles, helpers: await helpers(chain), ...(work && { starts: provenBy(chain) }) },
  );
  const { sources, watch } = app.app.ctx.chains.get(COIN[coin].chain)!;
  const connections = [...sources.flatMap(({ connection }) => connection ?? []), ...(watch ? [watch] : [])];
  // Peers notice time that passes, too: one that is silent for long is left.
  const look = stepByHand(app, { coin, ...(connections.length > 0 && { lookMs: 11_000 }) });
  const detail = async (id: string) => (await app.live.get(`/api/payment/${id}`)).json;
  try {
    await giveWallet(app, coin);
    for (const connection of connections) await connection.start();
    await look();
    await story({
      ...{ app, chain, servers, look, detail },
      pay: async (on, ...dollars) => {
        const ids: string[] = [];
        for (const amount of dollars) {
          const opened = await openPayment(app, coin, amount);
          on.pay([[opened.address, units(opened.amount)]]);
          ids.push(opened.id);
        }
        return ids;
      },
      statuses: async (ids) => Promise.all(ids.map(async (id) => (await detail(id)).status)),
    });
  } finally {
    for (const connection of connections) await connection.stop();
    await app.stop();
    for (const server of servers) await server.close();
  }
}
