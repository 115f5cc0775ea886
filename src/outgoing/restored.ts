/**
 * After the database went back in time: approved refunds and payouts may have been paid with a signing file that it no longer knows. The
 * file beside the database remembers the newest signing file. Where the database knows only older ones, no file is made until what was
 * approved and was in no file yet has lost its approval: members look whether it was paid before they approve it again.
 */
import type { Context } from '#context';
import type { Tx } from '#db';
import { writeAudit } from '#people';
import { FILE_FENCE, newestFile } from '#signing';
import { type Fence, keepNumber, readWalletIndexes } from '#wallets';
import { notifyOfOutgoing } from './approvals.ts';
import type { OutgoingPayment } from './outgoing-payments.ts';

type TakenBack = Pick<OutgoingPayment, 'kind' | 'id' | 'merchantId' | 'mode' | 'coin' | 'units'>;
/** Takes back approvals of what no signing file fixed: everything else can be executed only once. */
export async function takeBackApprovals(tx: Tx): Promise<TakenBack[]> {
  const which = tx`mode = 'live' and state = 'approved' and anchor is null and file_id is null`;
  await tx`select 1 from payments where id in (select payment_id from outgoing_payments where ${which}) order by id for update`;
  const taken = await tx<TakenBack[]>`
    update outgoing_payments set state = 'requested', backed_by = null, approved_by = null, approved_by_user = null, approved_at = null,
      approved_usd_cents = null
    where ${which} returning kind, id, merchant_id as "merchantId", mode, coin, units`;
  const actor = { userId: '', name: 'Florin', ip: '' };
  for (const { kind, id, merchantId, mode } of taken)
    await writeAudit(tx, { merchantId, mode, actor, action: `${kind}.approval_ended`, object: id });
  return [...taken];
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
  const approvals = await ctx.db.begin(async (tx) => {
    const taken = await takeBackApprovals(tx);
    const [refunds, payouts] = [taken.filter(({ kind }) => kind === 'refund'), taken.filter(({ kind }) => kind === 'payout')];
    for (const refund of refunds) await notifyOfOutgoing(ctx, tx, [refund], 'approval');
    for (const some of Map.groupBy(payouts, ({ merchantId }) => merchantId).values()) await notifyOfOutgoing(ctx, tx, some, 'approval');
    return taken.length;
  });
  ctx.log.warn(
    { approvals },
    'The database does not know the newest signing files, so what was approved has to be approved again; look first whether it was paid',
  );
  // Only now, so that nothing is forgotten if the process ends in between.
  await ctx.db.begin((tx) => keepNumber(ctx, tx, { name: FILE_FENCE, next: () => newestFile(tx) }));
  return approvals;
}

/** The part of the fence that guards signing files: compares whenever the data folder remembers another one than the newest. */
export const fileFence: Fence = {
  reads: (sql) => sql`(select coalesce(max(number), 0)::bigint from signing_files)`,
  check: async (ctx, newest) => {
    const numbers = await readWalletIndexes(ctx.settings.dataFolder);
    if ((numbers.get(FILE_FENCE) ?? 0n) !== newest) await compareFiles(ctx);
  },
};
