/** Operator commands for refunds. */
import { MODES, type Mode } from '../core/coin.ts';
import { REFUND_STATES } from '../core/refund.ts';
import { SWEEP_SPEEDS } from '../money-out/holdings.ts';
import { makeRefundFile } from '../money-out/refund-files.ts';
import { approveRefund, cancelRefund, listRefunds, markRefundSent, refundDetail } from '../money-out/refunds.ts';
import { sweepBody } from '../money-out/sweep-body.ts';
import { readSigningFileOf } from '../money-out/sweeps.ts';
import {
  ARRIVED_COIN_OPTION,
  arrivedCoinOf,
  type Commands,
  type Flags,
  LIMIT,
  limitOf,
  MERCHANT,
  need,
  type Option,
  oneOf,
} from './command.ts';
import { writeSweep } from './sweep-commands.ts';

const ACTOR = { userId: '', name: 'operator command', ip: '' };
const REFUND: Option = { value: 'ID', about: 'Refund, such as ref_... ("refund list" shows them)', required: true };
const MODE: Option = { value: MODES.join('|'), about: 'Mode (default live)' };
const ownerOf = (flags: Flags): { merchantId: string; mode: Mode } => ({
  merchantId: need(flags, 'merchant'),
  mode: flags.mode === undefined ? 'live' : oneOf(flags.mode, MODES, 'mode'),
});

export const REFUND_COMMANDS: Commands = {
  'refund list': {
    about: 'List refunds, newest first',
    options: {
      merchant: MERCHANT,
      mode: MODE,
      state: { value: REFUND_STATES.join('|'), about: 'Only refunds in this state' },
      payment: { value: 'ID', about: 'Only refunds of this payment' },
      limit: LIMIT,
      after: { value: 'ID', about: 'Show refunds after this one' },
    },
    columns: ['id', 'status', 'amount', 'currency', 'network', 'address', 'payment_id'],
    run: async (ctx, flags) => {
      const state = flags.state === undefined ? null : oneOf(flags.state, REFUND_STATES, 'state');
      const page = { limit: limitOf(flags), startingAfter: flags.after ?? null, paymentId: flags.payment ?? null, state };
      const { refunds, hasMore } = await listRefunds(ctx, { ...ownerOf(flags), ...page });
      return { refunds: refunds.map((refund) => refundDetail(ctx, refund)), has_more: hasMore };
    },
  },
  'refund approve': {
    about: 'Approve a refund',
    options: { merchant: MERCHANT, mode: MODE, refund: REFUND },
    notes: 'Approve only what you are going to send. In test mode, the refund is sent and confirmed immediately.',
    run: async (ctx, flags) => refundDetail(ctx, await approveRefund(ctx, { ...ownerOf(flags), id: need(flags, 'refund'), actor: ACTOR })),
  },
  'refund make': {
    about: 'Make a signing file of approved refunds, up to 20, oldest first',
    options: {
      merchant: MERCHANT,
      coin: ARRIVED_COIN_OPTION,
      out: { value: 'FILE', about: 'Where to write the file', required: true },
      speed: { value: SWEEP_SPEEDS.join('|'), about: 'Fee (default normal)' },
      psbt: { about: 'Write a PSBT for another wallet instead of the file for the signer' },
    },
    notes:
      'Confirmed money on deposit addresses pays. Sign it with /signer.html, and give it back with "sweep send", which also writes, replaces and cancels it like the file of a sweep. Refunds that are not in it are listed with the reason.',
    run: async (ctx, flags) => {
      const [merchantId, coin] = [need(flags, 'merchant'), arrivedCoinOf(flags)];
      const speed = flags.speed === undefined ? 'normal' : oneOf(flags.speed, SWEEP_SPEEDS, 'speed');
      const { sweep, refunds, left } = await makeRefundFile(ctx, { merchantId, coin, speed, actor: ACTOR });
      await writeSweep(await readSigningFileOf(ctx, { merchantId, id: sweep.id }), flags);
      return { ...sweepBody(sweep), file: flags.out, refunds, left };
    },
  },
  'refund send': {
    about: 'Record the transaction in which you sent an approved refund',
    options: {
      merchant: MERCHANT,
      mode: MODE,
      refund: REFUND,
      txid: { value: 'TXID', about: 'Transaction that you signed with your own wallet and sent', required: true },
    },
    notes: 'The same transaction again changes nothing, and another one is refused, so that a refund is not sent twice.',
    run: async (ctx, flags) => {
      const txid = need(flags, 'txid');
      return refundDetail(ctx, await markRefundSent(ctx, { ...ownerOf(flags), id: need(flags, 'refund'), txid, actor: ACTOR }));
    },
  },
  'refund cancel': {
    about: 'Cancel a refund whose money was not sent',
    options: { merchant: MERCHANT, mode: MODE, refund: REFUND },
    run: async (ctx, flags) => {
      const id = need(flags, 'refund');
      await cancelRefund(ctx, {
        ...ownerOf(flags),
        id,
        actor: ACTOR,
        idempotency: null,
        render: () => ({ status: 200, body: '' }),
      });
      return { id, status: 'canceled' };
    },
  },
};
