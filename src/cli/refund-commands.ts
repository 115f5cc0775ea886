/** Operator commands for refunds. */
import { REFUND_STATES } from '../core/refund.ts';
import { makeRefundFile } from '../money-out/refund-files.ts';
import { approveRefund, cancelRefund, getRefund, listRefunds, markRefundSent, refundDetail, renewClaimLink } from '../money-out/refunds.ts';
import { sweepBody } from '../money-out/sweep-body.ts';
import { readFileToSign } from '../money-out/sweeps.ts';
import {
  ARRIVED_COIN_OPTION,
  arrivedCoinOf,
  type Commands,
  LIMIT,
  LIVE_MODE,
  limitOf,
  liveOwnerOf,
  MERCHANT,
  need,
  OPERATOR_ACTOR,
  type Option,
  oneOfOption,
} from './command.ts';
import { FILE_OPTIONS, speedOf, writeSweep } from './sweep-commands.ts';

const REFUND: Option = { value: 'ID', about: 'Refund, such as ref_... ("refund list" shows them)', required: true };

export const REFUND_COMMANDS: Commands = {
  'refund list': {
    about: 'List refunds, newest first',
    options: {
      merchant: MERCHANT,
      mode: LIVE_MODE,
      state: { value: REFUND_STATES.join('|'), about: 'Only refunds in this state' },
      payment: { value: 'ID', about: 'Only refunds of this payment' },
      limit: LIMIT,
      after: { value: 'ID', about: 'Show refunds after this one' },
    },
    columns: ['id', 'status', 'amount', 'currency', 'network', 'address', 'payment_id'],
    run: async (ctx, flags) => {
      const state = flags.state === undefined ? null : oneOfOption(flags.state, REFUND_STATES, 'state');
      const page = { limit: limitOf(flags), startingAfter: flags.after ?? null, paymentId: flags.payment ?? null, state };
      const { refunds, hasMore } = await listRefunds(ctx, { ...liveOwnerOf(flags), ...page });
      return { refunds: refunds.map((refund) => refundDetail(ctx, refund)), has_more: hasMore };
    },
  },
  'refund approve': {
    about: 'Approve a refund',
    options: { merchant: MERCHANT, mode: LIVE_MODE, refund: REFUND },
    notes: 'Approve only what you are going to send. In test mode, the refund is sent and confirmed immediately.',
    run: async (ctx, flags) =>
      refundDetail(ctx, await approveRefund(ctx, { ...liveOwnerOf(flags), id: need(flags, 'refund'), actor: OPERATOR_ACTOR })),
  },
  'refund make': {
    about: 'Make a signing file of approved refunds, up to 20, oldest first',
    options: {
      merchant: MERCHANT,
      coin: ARRIVED_COIN_OPTION,
      ...FILE_OPTIONS,
    },
    notes:
      'Confirmed money on deposit addresses pays. Sign it with /signer.html, and give it back with "sweep send", which also writes, replaces and cancels it like the file of a sweep. Refunds that are not in it are listed with the reason.',
    run: async (ctx, flags) => {
      const [merchantId, coin] = [need(flags, 'merchant'), arrivedCoinOf(flags)];
      const { sweep, refunds, left } = await makeRefundFile(ctx, { merchantId, coin, speed: speedOf(flags), actor: OPERATOR_ACTOR });
      await writeSweep(await readFileToSign(ctx, { merchantId, id: sweep.id }), flags);
      return { ...sweepBody(sweep), file: flags.out, refunds, left };
    },
  },
  'refund send': {
    about: 'Record the transaction in which you sent an approved refund',
    options: {
      merchant: MERCHANT,
      mode: LIVE_MODE,
      refund: REFUND,
      txid: { value: 'TXID', about: 'Transaction that you signed with your own wallet and sent', required: true },
    },
    notes: 'The same transaction again changes nothing, and another one is refused, so that a refund is not sent twice.',
    run: async (ctx, flags) => {
      const txid = need(flags, 'txid');
      return refundDetail(
        ctx,
        await markRefundSent(ctx, { ...liveOwnerOf(flags), id: need(flags, 'refund'), txid, actor: OPERATOR_ACTOR }),
      );
    },
  },
  'refund link': {
    about: 'Replace the claim link of a refund that has no address yet',
    options: { merchant: MERCHANT, mode: LIVE_MODE, refund: REFUND },
    notes: 'The link before stops working. The new one is valid for 30 days, and is mailed if the customer left an email address.',
    run: async (ctx, flags) => {
      const of = { ...liveOwnerOf(flags), id: need(flags, 'refund') };
      await renewClaimLink(ctx, { ...of, actor: OPERATOR_ACTOR, idempotency: null, render: () => ({ status: 200, body: '' }) });
      return refundDetail(ctx, await getRefund(ctx, of));
    },
  },
  'refund cancel': {
    about: 'Cancel a refund whose money was not sent',
    options: { merchant: MERCHANT, mode: LIVE_MODE, refund: REFUND },
    run: async (ctx, flags) => {
      const id = need(flags, 'refund');
      await cancelRefund(ctx, {
        ...liveOwnerOf(flags),
        id,
        actor: OPERATOR_ACTOR,
        idempotency: null,
        render: () => ({ status: 200, body: '' }),
      });
      return { id, status: 'canceled' };
    },
  },
};
