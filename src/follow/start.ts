/** Starts what follows a chain, in the process with the watcher role. Peers are connected only where a wallet needs them. */
import type { JoinedSource } from '#chains';
import type { Context } from '#context';
import { COIN } from '#core/coin';
import { dueIf, startQueue } from '#db';
import { startFollower } from './follow.ts';
import { startRangeFollower } from './follow-ranges.ts';
import { readableSources } from './range-reads.ts';

/** How soon the end of the first sync is noticed. */
const LOOK_MS = 1_000;

type Stoppable = { stop(): Promise<void> };

async function hasWallet(ctx: Context, { coin }: JoinedSource): Promise<boolean> {
  const rows = await ctx.db.sql`select 1 from wallets where family = ${COIN[coin].family} limit 1`;
  return rows.length > 0;
}

/** Connects the sources of a chain that need it, and follows the chain as soon as one of its sources can be read. */
export function startFollowing(ctx: Context, chain: JoinedSource): Stoppable {
  const followers = chain.sources.filter(({ follows }) => follows);
  const connections = followers.flatMap(({ connection }) => connection ?? []);
  let connected = connections.length === 0;
  let watched = chain.watch === null;
  let follower: Stoppable | null = null;
  const loop = startQueue(ctx, {
    name: 'wallets',
    due: (sql) =>
      connected && watched
        ? sql`null::timestamptz`
        : dueIf(sql, sql`exists (select 1 from wallets where family = ${COIN[chain.coin].family})`),
    againMs: LOOK_MS,
    round: async () => {
      if (!connected && (!chain.onDemand || (await hasWallet(ctx, chain)))) {
        for (const connection of connections) await connection.start();
        connected = true;
      }
      if (!watched && (await hasWallet(ctx, chain))) {
        await chain.watch?.start();
        watched = true;
      }
      // A new follower starts at the newest block, which peers know only after their headers were read.
      if (!follower && followers.some(({ connection }) => !connection || connection.isReady()))
        follower = readableSources(chain).length > 0 ? startRangeFollower(ctx, chain) : startFollower(ctx, chain);
      return connected && !follower && LOOK_MS;
    },
    failed: (error, failures) => ctx.log.error({ err: error, coin: chain.coin, failures }, 'Could not start following this chain'),
  });
  const endHints = chain.onHint(loop.nudge);
  return {
    stop: async () => {
      endHints();
      await loop.stop();
      await follower?.stop();
      for (const { stop } of connections) await stop();
      await chain.watch?.stop();
    },
  };
}
