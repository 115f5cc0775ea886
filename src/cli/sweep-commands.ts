/** Operator commands for sweeps: what can be moved, files to sign, and signed files. */
import { readFile, writeFile } from 'node:fs/promises';
import { COIN, type Coin, coinText } from '../core/coin.ts';
import { formatUnits, readAmountText } from '../core/money.ts';
import { MAX_SIGNED_BYTES, signingFileText } from '../core/signing-file.ts';
import { listDestinations, setDestination } from '../money-out/destinations.ts';
import { DEFAULT_WISH, SWEEP_SPEEDS, type SweepWish } from '../money-out/holdings.ts';
import { remainsBody, sweepBody } from '../money-out/sweep-body.ts';
import {
  acceptSigned,
  cancelSweep,
  getSweep,
  listSweepable,
  listSweeps,
  makeSweep,
  readFileToSign,
  replaceSweep,
} from '../money-out/sweeps.ts';
import { MAX_FEE_PERCENT } from '../money-out/utxo.ts';
import {
  ARRIVED_COIN_OPTION,
  arrivedCoinOf,
  COIN_OPTION,
  type Commands,
  coinOf,
  type Flags,
  LIMIT,
  limitOf,
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
export const FILE_OPTIONS = {
  out: { value: 'FILE', about: 'Where to write the file', required: true },
  speed: { value: SWEEP_SPEEDS.join('|'), about: 'Fee (default normal)' },
  psbt: { about: 'Write a PSBT for another wallet instead of the file for the signer' },
} as const satisfies Record<string, Option>;
export const speedOf = ({ speed }: Flags): SweepWish['speed'] =>
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

export const SWEEP_COMMANDS: Commands = {
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
};

export async function writeSweep(file: Parameters<typeof signingFileText>[0], flags: Flags): Promise<void> {
  const [first, ...more] = file.requests;
  if (flags.psbt !== undefined && (first?.kind !== 'psbt' || more.length > 0))
    throw new UsageError('A PSBT is one Bitcoin-like transaction, but this sweep is not; write the file for the signer instead');
  const text = flags.psbt !== undefined && first?.kind === 'psbt' ? first.psbt : signingFileText(file);
  await writeFile(need(flags, 'out'), `${text}\n`, { mode: 0o600 });
}
