/** Operator commands for payouts to third parties. */
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { REFUND_STATES } from '../core/refund.ts';
import { getBatch, importPayouts } from '../money-out/payout-batches.ts';
import { batchBody } from '../money-out/payout-body.ts';
import { makePayoutFile } from '../money-out/payout-files.ts';
import { approvePayouts, cancelBatch, cancelPayout, listPayouts, markPayoutSent, payoutDetail, type Which } from '../money-out/payouts.ts';
import { sweepBody } from '../money-out/sweep-body.ts';
import { readFileToSign } from '../money-out/sweeps.ts';
import {
  COIN_OPTION,
  type Commands,
  coinOf,
  type Flags,
  LIMIT,
  LIVE_MODE,
  limitOf,
  liveOwnerOf,
  MERCHANT,
  need,
  OPERATOR_ACTOR,
  type Option,
  oneOfOption,
  UsageError,
} from './command.ts';
import { FILE_OPTIONS, speedOf, writeSweep } from './sweep-commands.ts';

const PAYOUT: Option = { value: 'ID', about: 'Payout, such as po_... ("payout list" shows them)' };
const BATCH: Option = { value: 'ID', about: 'Batch, such as bat_...: all payouts of one file' };
/** Either `--payout` or `--batch`. */
function whichOf({ payout, batch }: Flags): Which {
  if ((payout === undefined) === (batch === undefined)) throw new UsageError('Give either --payout or --batch');
  return payout === undefined ? { batchId: batch! } : { id: payout };
}

export const PAYOUT_COMMANDS: Commands = {
  'payout list': {
    about: 'List payouts, newest first',
    options: {
      merchant: MERCHANT,
      mode: LIVE_MODE,
      state: { value: REFUND_STATES.join('|'), about: 'Only payouts in this state' },
      batch: BATCH,
      reference: { value: 'TEXT', about: 'Only payouts with this reference' },
      limit: LIMIT,
      after: { value: 'ID', about: 'Show payouts after this one' },
    },
    columns: ['id', 'payout_reference', 'status', 'amount', 'currency', 'network', 'address'],
    run: async (ctx, flags) => {
      const state = flags.state === undefined ? null : oneOfOption(flags.state, REFUND_STATES, 'state');
      const filter = { state, batchId: flags.batch ?? null, reference: flags.reference ?? null };
      const page = { limit: limitOf(flags), startingAfter: flags.after ?? null };
      const { payouts, hasMore } = await listPayouts(ctx, { ...liveOwnerOf(flags), ...page, ...filter });
      return { payouts: payouts.map(payoutDetail), has_more: hasMore };
    },
  },
  'payout import': {
    about: 'Request the payouts of a CSV file: all of them or none',
    options: { merchant: MERCHANT, mode: LIVE_MODE, file: { value: 'FILE', about: 'CSV file with up to 1,000 payouts', required: true } },
    notes:
      'The first line names the columns: reference, currency, amount or amount_usd, address, and if needed network and description. The same file again changes nothing.',
    run: async (ctx, flags) => {
      const [owner, file] = [liveOwnerOf(flags), need(flags, 'file')];
      const content = (await readFile(file)).toString('utf8');
      const { id, isKnown } = await importPayouts(ctx, { ...owner, content, name: basename(file), actor: OPERATOR_ACTOR });
      return { ...batchBody(await getBatch(ctx, { ...owner, id })), known: isKnown };
    },
  },
  'payout approve': {
    about: 'Approve a payout, or all payouts of a batch',
    options: { merchant: MERCHANT, mode: LIVE_MODE, payout: PAYOUT, batch: BATCH },
    notes: 'Approve only what you are going to send. In test mode, payouts are sent and confirmed immediately.',
    run: async (ctx, flags) => approvePayouts(ctx, { ...liveOwnerOf(flags), which: whichOf(flags), actor: OPERATOR_ACTOR }),
  },
  'payout make': {
    about: 'Make a signing file of approved payouts, up to 100, oldest first',
    options: {
      merchant: MERCHANT,
      coin: COIN_OPTION,
      ...FILE_OPTIONS,
    },
    notes:
      'Confirmed money on deposit addresses pays. For tokens, and where too little is left for the fee, the gas address of the wallet pays it, as for sweeps. Sign it with /signer.html, and give it back with "sweep send", which also writes, replaces and cancels it like the file of a sweep. Payouts that are not in it are listed with the reason.',
    run: async (ctx, flags) => {
      const [merchantId, coin] = [need(flags, 'merchant'), coinOf(flags)];
      const { sweep, payouts, left } = await makePayoutFile(ctx, { merchantId, coin, speed: speedOf(flags), actor: OPERATOR_ACTOR });
      await writeSweep(await readFileToSign(ctx, { merchantId, id: sweep.id }), flags);
      return { ...sweepBody(sweep), file: flags.out, payouts, left };
    },
  },
  'payout send': {
    about: 'Record the transaction in which you sent an approved payout',
    options: {
      merchant: MERCHANT,
      mode: LIVE_MODE,
      payout: { ...PAYOUT, required: true },
      txid: { value: 'TXID', about: 'Transaction that you signed with your own wallet and sent', required: true },
    },
    notes: 'The same transaction again changes nothing, and another one is refused, so that a payout is not sent twice.',
    run: async (ctx, flags) => {
      const txid = need(flags, 'txid');
      return payoutDetail(await markPayoutSent(ctx, { ...liveOwnerOf(flags), id: need(flags, 'payout'), txid, actor: OPERATOR_ACTOR }));
    },
  },
  'payout cancel': {
    about: 'Cancel a payout whose money was not sent, or those of a batch that nobody approved',
    options: { merchant: MERCHANT, mode: LIVE_MODE, payout: PAYOUT, batch: BATCH },
    run: async (ctx, flags) => {
      const which = whichOf(flags);
      if ('batchId' in which) return { canceled: await cancelBatch(ctx, { ...liveOwnerOf(flags), ...which, actor: OPERATOR_ACTOR }) };
      await cancelPayout(ctx, {
        ...liveOwnerOf(flags),
        ...which,
        actor: OPERATOR_ACTOR,
        idempotency: null,
        render: () => ({ status: 200, body: '' }),
      });
      return { canceled: 1 };
    },
  },
};
