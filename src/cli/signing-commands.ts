/** Operator commands for money that leaves: sweeps, refunds and payouts, their files to sign, and signed files. */
import { readFile, writeFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { COIN, type Coin, coinText } from '#core/coin';
import { formatUnits, readAmountText } from '#core/money';
import { REFUND_STATES } from '#core/refund';
import { MAX_SIGNED_BYTES, signingFileText } from '#core/signing-file';
import {
  approveOutgoing,
  batchBody,
  cancelBatch,
  cancelOutgoing,
  getBatch,
  getOutgoing,
  importPayouts,
  listOutgoing,
  markOutgoingSent,
  payoutDetail,
  proveRefund,
  refundDetail,
  renewClaimLink,
} from '#outgoing';
import {
  acceptSigned,
  cancelSweep,
  DEFAULT_WISH,
  forMode,
  getSweep,
  listSweepable,
  listSweeps,
  MAX_FEE_PERCENT,
  makePayoutFile,
  makeRefundFile,
  makeSweep,
  readFileToSign,
  remainsBody,
  replaceSweep,
  SWEEP_SPEEDS,
  type SweepWish,
  sweepBody,
} from '#signing';
import { listDestinations, setDestination } from '#wallets';
import {
  ARRIVED_COIN_OPTION,
  arrivedCoinOf,
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

const SWEEP: Option = { value: 'ID', about: 'Sweep, such as swp_... ("sweep history" shows them)', required: true };
const whole = (flags: Flags, name: string, fallback: number, most: number): number => {
  const text = flags[name];
  if (text === undefined) return fallback;
  if (!/^\d{1,6}$/.test(text) || Number(text) > most) throw new UsageError(`--${name} must be a whole number up to ${most}`);
  return Number(text);
};

/** For commands that make a signing file. */
const FILE_OPTIONS = {
  out: { value: 'FILE', about: 'Where to write the file', required: true },
  speed: { value: SWEEP_SPEEDS.join('|'), about: 'Fee (default normal)' },
  psbt: { about: 'Write a PSBT for another wallet instead of the file for the signer' },
} as const satisfies Record<string, Option>;
const speedOf = ({ speed }: Flags): SweepWish['speed'] =>
  speed === undefined ? DEFAULT_WISH.speed : oneOfOption(speed, SWEEP_SPEEDS, 'speed');

function wishOf(flags: Flags, coin: Coin): SweepWish {
  const minUnits = readAmountText(flags['min-amount'] ?? '0', COIN[coin].decimals);
  if (minUnits === null) throw new UsageError('--min-amount must be an amount such as 0.01');
  return {
    minUnits,
    minAgeHours: whole(flags, 'min-age-hours', DEFAULT_WISH.minAgeHours, 87_600),
    maxFeePercent: whole(flags, 'max-fee-percent', DEFAULT_WISH.maxFeePercent, MAX_FEE_PERCENT),
    speed: speedOf(flags),
  };
}

/** In test mode, files are rehearsals on simulated chains. */
const inModes = (commands: Commands): Commands =>
  Object.fromEntries(
    Object.entries(commands).map(([name, command]) => {
      if (!('run' in command)) return [name, command];
      const run: typeof command.run = (ctx, flags) => command.run(forMode(ctx, liveOwnerOf(flags).mode), flags);
      return [name, { ...command, options: { ...command.options, mode: LIVE_MODE }, run }];
    }),
  );

const FILE_COMMANDS: Commands = inModes({
  'sweep list': {
    about: 'Show what lies on deposit addresses, and why a part of it stays',
    options: { merchant: MERCHANT },
    columns: ['wallet', 'currency', 'amount', 'transfers', 'addresses', 'destination'],
    run: async (ctx, flags) => {
      const merchantId = need(flags, 'merchant');
      const found = await listSweepable(ctx, { merchantId });
      const destinations = await listDestinations(ctx, ctx.db.sql, { merchantId, coins: found.map(({ coin }) => coin) });
      return {
        sweepable: found.map(({ wallet, coin, count, units, addresses, remains }, i) => ({
          ...{ wallet: wallet.id, currency: coin, name: coinText(coin), amount: formatUnits(coin, units), transfers: count, addresses },
          destination: destinations[i]!.current?.address ?? null,
          remains: remainsBody(coin, remains),
        })),
      };
    },
  },
  'sweep make': {
    about: 'Make a file to sign offline',
    options: {
      merchant: MERCHANT,
      coin: ARRIVED_COIN_OPTION,
      out: { value: 'FILE', about: 'Where to write the file', required: true },
      wallet: { value: 'ID', about: 'Wallet, such as wal_... (default: the one in use)' },
      'min-age-hours': { value: 'N', about: 'Only money that arrived at least this long ago' },
      'min-amount': { value: 'AMOUNT', about: 'Only addresses with at least this much' },
      'max-fee-percent': {
        value: 'N',
        about: `Leave money whose fee is a larger part of it (default ${DEFAULT_WISH.maxFeePercent}, at most ${MAX_FEE_PERCENT})`,
      },
      speed: { value: SWEEP_SPEEDS.join('|'), about: 'Fee (default normal)' },
      psbt: { about: 'Write a PSBT for another wallet instead of the file for the signer' },
    },
    notes: 'Open /signer.html of your Florin on an offline computer to sign it. With --psbt, the file must have one transaction.',
    run: async (ctx, flags) => {
      const [merchantId, coin] = [need(flags, 'merchant'), arrivedCoinOf(flags)];
      const wanted = { coin, walletId: flags.wallet ?? null, wish: wishOf(flags, coin) };
      const { sweep, remains } = await makeSweep(ctx, { merchantId, ...wanted, actor: OPERATOR_ACTOR });
      await writeSweep(await readFileToSign(ctx, { merchantId, id: sweep.id }), flags);
      return { ...sweepBody(sweep), file: flags.out, remains: remainsBody(coin, remains) };
    },
  },
  'sweep file': {
    about: 'Write the file of a sweep again',
    options: {
      merchant: MERCHANT,
      sweep: SWEEP,
      out: { value: 'FILE', about: 'Where to write the file', required: true },
      psbt: { about: 'Write a PSBT for another wallet instead of the file for the signer' },
    },
    run: async (ctx, flags) => {
      const id = need(flags, 'sweep');
      await writeSweep(await readFileToSign(ctx, { merchantId: need(flags, 'merchant'), id }), flags);
      return { id, file: flags.out };
    },
  },
  'sweep replace': {
    about: 'Make the file again with a higher fee, while its transaction waits to be mined',
    options: {
      merchant: MERCHANT,
      sweep: SWEEP,
      out: { value: 'FILE', about: 'Where to write the file', required: true },
      speed: { value: SWEEP_SPEEDS.join('|'), about: 'Fee (default fast); at least a quarter above the last one' },
      psbt: { about: 'Write a PSBT for another wallet instead of the file for the signer' },
    },
    notes: 'It spends the same money, so only one of the two transactions can be mined. Sign and send it like the first one.',
    run: async (ctx, flags) => {
      const [merchantId, id] = [need(flags, 'merchant'), need(flags, 'sweep')];
      const speed = flags.speed === undefined ? 'fast' : oneOfOption(flags.speed, SWEEP_SPEEDS, 'speed');
      const sweep = await replaceSweep(ctx, { merchantId, id, speed, actor: OPERATOR_ACTOR });
      await writeSweep(await readFileToSign(ctx, { merchantId, id }), flags);
      return { ...sweepBody(sweep), file: flags.out };
    },
  },
  'sweep send': {
    about: 'Check a signed file and send it',
    options: { merchant: MERCHANT, file: { value: 'FILE', about: 'Signed file, signed PSBT or raw transaction', required: true } },
    notes: 'The running service sends it and follows it to its confirmation: "sweep show" has the state.',
    run: async (ctx, flags) => {
      const bytes = await readFile(need(flags, 'file'));
      if (bytes.length > MAX_SIGNED_BYTES) throw new UsageError(`The file has more than ${MAX_SIGNED_BYTES} bytes`);
      // Wallets save PSBTs as bytes or as text.
      const content = bytes.subarray(0, 5).toString('latin1') === 'psbt\xff' ? bytes.toString('base64') : bytes.toString('utf8');
      const { sweep, isKnown } = await acceptSigned(ctx, { merchantId: need(flags, 'merchant'), content, actor: OPERATOR_ACTOR });
      return { ...sweepBody(sweep), known: isKnown };
    },
  },
  'sweep history': {
    about: 'List sweeps, newest first',
    options: { merchant: MERCHANT, limit: LIMIT, after: { value: 'ID', about: 'Show sweeps after this one' } },
    columns: ['id', 'state', 'currency', 'amount', 'fee', 'inputs', 'made_at'],
    run: async (ctx, flags) => {
      const page = { limit: limitOf(flags), startingAfter: flags.after ?? null };
      const { sweeps, hasMore } = await listSweeps(ctx, { merchantId: need(flags, 'merchant'), ...page });
      return { sweeps: sweeps.map(sweepBody), has_more: hasMore };
    },
  },
  'sweep show': {
    about: 'Show a sweep and its transactions',
    options: { merchant: MERCHANT, sweep: SWEEP },
    run: async (ctx, flags) => {
      const { sweep, transactions } = await getSweep(ctx, { merchantId: need(flags, 'merchant'), id: need(flags, 'sweep') });
      return {
        ...sweepBody(sweep),
        transactions: transactions.map(({ txid, sentAt, blockHeight, refusal }) => ({
          ...{ transaction_id: txid, sent_at: sentAt?.toISOString() ?? null, block_height: blockHeight, refusal },
        })),
      };
    },
  },
  'sweep cancel': {
    about: 'Cancel a sweep that was not sent, so that another file may spend the same money',
    options: { merchant: MERCHANT, sweep: SWEEP },
    run: async (ctx, flags) => {
      const id = need(flags, 'sweep');
      await cancelSweep(ctx, { merchantId: need(flags, 'merchant'), id, actor: OPERATOR_ACTOR });
      return { id, state: 'canceled' };
    },
  },
});

export const SWEEP_COMMANDS: Commands = {
  ...FILE_COMMANDS,
  'sweep destination': {
    about: 'Set the address that sweeps of a coin and its network go to',
    options: {
      merchant: MERCHANT,
      coin: COIN_OPTION,
      address: { value: 'ADDRESS', about: 'Your own address', required: true },
      ends: { value: 'TEXT', about: 'Its last six characters, read from the device that holds its key', required: true },
    },
    notes: 'It takes effect immediately.',
    run: async (ctx, flags) => {
      const [coin, address] = [coinOf(flags), need(flags, 'address')];
      await setDestination(ctx, { merchantId: need(flags, 'merchant'), coin, address, ends: need(flags, 'ends'), actor: null });
      return { currency: coin, destination: address };
    },
  },
};

async function writeSweep(file: Parameters<typeof signingFileText>[0], flags: Flags): Promise<void> {
  const [first, ...more] = file.requests;
  if (flags.psbt !== undefined && (first?.kind !== 'psbt' || more.length > 0))
    throw new UsageError('A PSBT is one Bitcoin-like transaction, but this sweep is not; write the file for the signer instead');
  const text = flags.psbt !== undefined && first?.kind === 'psbt' ? first.psbt : signingFileText(file);
  await writeFile(need(flags, 'out'), `${text}\n`, { mode: 0o600 });
}

// Operator commands for payouts to third parties.

const PAYOUT: Option = { value: 'ID', about: 'Payout, such as po_... ("payout list" shows them)' };
const BATCH: Option = { value: 'ID', about: 'Batch, such as bat_...: all payouts of one file' };
const SIGN: Option = { about: 'In test mode: wait for a signing file, to rehearse it' };
const signsOf = ({ sign }: Flags): { signs: boolean } => ({ signs: sign !== undefined });
/** Either `--payout` or `--batch`. */
function whichOf({ payout, batch }: Flags): { id: string } | { batchId: string } {
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
      const filter = { kind: 'payout', state, batchId: flags.batch ?? null, reference: flags.reference ?? null } as const;
      const page = { limit: limitOf(flags), startingAfter: flags.after ?? null };
      const { found, hasMore } = await listOutgoing(ctx, { ...liveOwnerOf(flags), ...page, ...filter });
      return { payouts: found.map(payoutDetail), has_more: hasMore };
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
    options: { merchant: MERCHANT, mode: LIVE_MODE, payout: PAYOUT, batch: BATCH, sign: SIGN },
    notes: 'Approve only what you are going to send. In test mode, payouts are sent and confirmed immediately, unless you pass --sign.',
    run: (ctx, flags) =>
      approveOutgoing(ctx, { ...liveOwnerOf(flags), kind: 'payout', ...whichOf(flags), ...signsOf(flags), actor: OPERATOR_ACTOR }),
  },
  ...inModes({
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
  }),
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
      const of = { ...liveOwnerOf(flags), kind: 'payout', id: need(flags, 'payout') } as const;
      return payoutDetail(await markOutgoingSent(ctx, { ...of, txid, actor: OPERATOR_ACTOR }));
    },
  },
  'payout cancel': {
    about: 'Cancel a payout whose money was not sent, or those of a batch that nobody approved',
    options: { merchant: MERCHANT, mode: LIVE_MODE, payout: PAYOUT, batch: BATCH },
    run: async (ctx, flags) => {
      const which = whichOf(flags);
      if ('batchId' in which) return { canceled: await cancelBatch(ctx, { ...liveOwnerOf(flags), ...which, actor: OPERATOR_ACTOR }) };
      await cancelOutgoing(ctx, {
        ...liveOwnerOf(flags),
        kind: 'payout',
        ...which,
        actor: OPERATOR_ACTOR,
        idempotency: null,
        render: () => ({ status: 200, body: '' }),
      });
      return { canceled: 1 };
    },
  },
};

// Operator commands for refunds.

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
      const { found, hasMore } = await listOutgoing(ctx, { ...liveOwnerOf(flags), kind: 'refund', ...page });
      return { refunds: found.map((refund) => refundDetail(ctx, refund)), has_more: hasMore };
    },
  },
  'refund approve': {
    about: 'Approve a refund',
    options: { merchant: MERCHANT, mode: LIVE_MODE, refund: REFUND, sign: SIGN },
    notes: 'Approve only what you are going to send. In test mode, the refund is sent and confirmed immediately, unless you pass --sign.',
    run: async (ctx, flags) => {
      const of = { ...liveOwnerOf(flags), kind: 'refund', id: need(flags, 'refund') } as const;
      await approveOutgoing(ctx, { ...of, ...signsOf(flags), actor: OPERATOR_ACTOR });
      return refundDetail(ctx, await getOutgoing(ctx, of));
    },
  },
  ...inModes({
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
  }),
  'refund send': {
    about: 'Record the transaction in which you sent an approved refund, or the preimage of the Lightning invoice that you paid',
    options: {
      merchant: MERCHANT,
      mode: LIVE_MODE,
      refund: REFUND,
      txid: { value: 'TXID', about: 'Transaction that you signed with your own wallet and sent' },
      preimage: { value: 'HEX', about: 'What your Lightning wallet shows for the paid invoice: 64 hex digits' },
    },
    notes: 'The same transaction again changes nothing, and another one is refused, so that a refund is not sent twice.',
    run: async (ctx, flags) => {
      const of = { ...liveOwnerOf(flags), kind: 'refund', id: need(flags, 'refund') } as const;
      if (flags.preimage !== undefined) {
        await proveRefund(ctx, { ...of, preimage: flags.preimage, actor: OPERATOR_ACTOR });
        return refundDetail(ctx, await getOutgoing(ctx, of));
      }
      const txid = need(flags, 'txid');
      return refundDetail(ctx, await markOutgoingSent(ctx, { ...of, txid, actor: OPERATOR_ACTOR }));
    },
  },
  'refund link': {
    about: 'Replace the claim link of a refund that has no address yet',
    options: { merchant: MERCHANT, mode: LIVE_MODE, refund: REFUND },
    notes: 'The link before stops working. The new one is valid for 30 days, and is mailed if the customer left an email address.',
    run: async (ctx, flags) => {
      const of = { ...liveOwnerOf(flags), id: need(flags, 'refund') };
      await renewClaimLink(ctx, { ...of, actor: OPERATOR_ACTOR, idempotency: null, render: () => ({ status: 200, body: '' }) });
      return refundDetail(ctx, await getOutgoing(ctx, { ...of, kind: 'refund' }));
    },
  },
  'refund cancel': {
    about: 'Cancel a refund whose money was not sent',
    options: { merchant: MERCHANT, mode: LIVE_MODE, refund: REFUND },
    run: async (ctx, flags) => {
      const id = need(flags, 'refund');
      await cancelOutgoing(ctx, {
        ...liveOwnerOf(flags),
        kind: 'refund',
        id,
        actor: OPERATOR_ACTOR,
        idempotency: null,
        render: () => ({ status: 200, body: '' }),
      });
      return { id, status: 'canceled' };
    },
  },
};
