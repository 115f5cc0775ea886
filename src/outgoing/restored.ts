/**
 * After the database went back in time: approved refunds and payouts may have been paid with a signing file that it no longer knows. The
 * file beside the database remembers the newest signing file. Where the database knows only older ones, no file is made until what was
 * approved and was in no file yet has lost its approval: members look whether it was paid before they approve it again.
 */
import type { Context } from '#context';
import type { Coin } from '#core/coin';
import type { Tx } from '#db';
import { writeAudit } from '#people';
import { FILE_FENCE, newestFile } from '#signing';
import { type Fence, keepNumber, readWalletIndexes } from '#wallets';
import { notifyOfPayouts, notifyOfRefund } from './approvals.ts';

type TakenBack = { id: string; merchantId: string; mode: 'live'; coin: Coin; units: bigint };
/** Takes back approvals of what no signing file fixed: everything else can be executed only once. */
export async function takeBackApprovals(tx: Tx): Promise<{ refunds: TakenBack[]; payouts: TakenBack[] }> {
  const which = tx`mode = 'live' and state = 'approved' and anchor is null and file_id is null`;
  await tx`select 1 from payments where id in (select payment_id from refunds where ${which}) order by id for update`;
  const requested = tx`
    state = 'requested', backed_by = null, approved_by = null, approved_by_user = null, approved_at = null, approved_usd_cents = null
    where ${which} returning id, merchant_id as "merchantId", mode, coin, units`;
  const refunds = [...(await tx<TakenBack[]>`update refunds set ${requested}`)];
  const payouts = [...(await tx<TakenBack[]>`update payouts set ${requested}`)];
  const actor = { userId: '', name: 'Florin', ip: '' };
  for (const { id, merchantId, mode } of refunds)
    await writeAudit(tx, { merchantId, mode, actor, action: 'refund.approval_ended', object: id });
  for (const { id, merchantId, mode } of payouts)
    await writeAudit(tx, { merchantId, mode, actor, action: 'payout.approval_ended', object: id });
  return { refunds, payouts };
}

/** Compares the newest signing file with the one that the data folder remembers. Returns how many approvals were taken back. */
export async function compareFiles(ctx: Context): Promise<number> {
  const isBehind = await ctx.db.begin(async (tx) => {
    let behind = false;
    const next = async (noted: bigint): Promise<bigint> => {
      const newest = await newestFile(tx);
      behind = noted > newest;
      return behind ? noted : newest;
    };
    await keepNumber(ctx, tx, { name: FILE_FENCE, next });
    return behind;
  });
  if (!isBehind) return 0;
  const { refunds, payouts } = await ctx.db.begin(async (tx) => {
    const taken = await takeBackApprovals(tx);
    for (const refund of taken.refunds) await notifyOfRefund(ctx, tx, refund, 'approval');
    for (const some of Map.groupBy(taken.payouts, ({ merchantId }) => merchantId).values())
      await notifyOfPayouts(ctx, tx, some, 'approval');
    return taken;
  });
  ctx.log.warn(
    { refunds: refunds.length, payouts: payouts.length },
    'The database does not know the newest signing files, so what was approved has to be approved again; look first whether it was paid',
  );
  // Only now, so that nothing is forgotten if the process ends in between.
  await ctx.db.begin((tx) => keepNumber(ctx, tx, { name: FILE_FENCE, next: () => newestFile(tx) }));
  return refunds.length + payouts.length;
}

/** The part of the fence that guards signing files: compares whenever the data folder remembers another one than the newest. */
export const fileFence: Fence = {
  reads: (sql) => sql`(select coalesce(max(number), 0)::bigint from signing_files)`,
  check: async (ctx, newest) => {
    const numbers = await readWalletIndexes(ctx.settings.dataFolder);
    if ((numbers.get(FILE_FENCE) ?? 0n) !== newest) await compareFiles(ctx);
  },
};
