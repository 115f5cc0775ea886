/** Sweeps: what lies on deposit addresses, files to sign, signed files, and where the money goes. In test mode they are rehearsals. */
import Type from 'typebox';
import type { Context } from '#context';
import { COIN, COINS, type Coin, isCoin } from '#core/coin';
import { formatUnits, readAmountText } from '#core/money';
import { explorerUrl } from '#core/networks';
import { Problem } from '#core/problem';
import { signingFileText } from '#core/signing-file';
import { literals } from '#http';
import { hashSigner } from '#operate';
import {
  acceptSigned,
  cancelSweep,
  DEFAULT_WISH,
  forMode,
  getSweep,
  keyPathsOf,
  listSweepable,
  listSweeps,
  MAX_FEE_PERCENT,
  makeSweep,
  psbtsOf,
  readFileToSign,
  readSigningFileOf,
  remainsBody,
  replaceSweep,
  STAY_REASONS,
  SWEEP_SPEEDS,
  SWEEP_STATES,
  type SweepWish,
  sweepBody,
} from '#signing';
import {
  CHANGE_WAIT_HOURS,
  confirmDestination,
  type Destination,
  dropDestination,
  listDestinations,
  setDestination,
  TEST_SEED_WORDS,
} from '#wallets';
import { AnyCoinField, CoinName, Done, Instant, NoFields, Nullable, PlainText, pageIn, pageOf, paging } from './fields.ts';
import { type DashboardRoute, inOnePart, type MemberCall, memberRoute } from './route.ts';

/** A file of 20 transactions with 500 signed inputs each has 3.5 MB. The parser of JSON cannot read strings of more than about 6 MB. */
const UPLOAD_BYTES = 4 * 1024 * 1024;
const Speed = literals(SWEEP_SPEEDS);

const Remains = Type.Array(Type.Object({ reason: literals(STAY_REASONS), text: PlainText, transfers: Type.Integer(), amount: PlainText }));

export const SweepBody = Type.Object({
  id: PlainText,
  purpose: literals(['sweep', 'refund', 'payout'] as const),
  state: literals(SWEEP_STATES),
  currency: AnyCoinField,
  destination: PlainText,
  inputs: Type.Integer(),
  amount: PlainText,
  fee: PlainText,
  /** The coin that pays the fee. */
  fee_currency: AnyCoinField,
  made_by: PlainText,
  made_at: Instant,
  sent_at: Nullable(Instant),
  ended_at: Nullable(Instant),
  failure: Nullable(PlainText),
  /** Of a wallet with several keys: how many of them have to sign, and which have while others are missing. */
  signatures: Nullable(
    Type.Object({
      required: Type.Integer(),
      signers: Type.Array(Type.Object({ fingerprint: Nullable(PlainText), path: PlainText, has_signed: Type.Boolean() })),
    }),
  ),
});

const DestinationBody = Type.Object({ address: PlainText, asked_by: PlainText, asked_by_me: Type.Boolean(), due_at: Instant });
const destinationBody = (call: MemberCall, one: Destination | null) =>
  one && {
    ...{ address: one.address, asked_by: one.askedByName, asked_by_me: one.askedBy === call.actor.userId },
    due_at: one.dueAt.toISOString(),
  };

const ownerOf = (call: MemberCall): { merchantId: string } => ({ merchantId: call.member.merchantId });
/** With the chains of the mode. */
const on = ({ ctx, mode }: MemberCall): Context => forMode(ctx, mode);
/** A rehearsal has a destination that nobody sets. Errors: live_mode_only. */
const liveOnly = (call: MemberCall): { merchantId: string } => {
  if (call.mode !== 'live') throw new Problem('live_mode_only');
  return { merchantId: call.member.merchantId };
};
/** The coin that names its family. Errors: wallet_not_found. */
const coinIn = (text: string): Coin => {
  if (!isCoin(text)) throw new Problem('wallet_not_found', { coin: text.slice(0, 10) });
  return text;
};
/** The families of chains that have a source. */
const familiesOf = (ctx: Context): Coin[] => [
  ...new Set(COINS.filter((coin) => ctx.chains.has(COIN[coin].chain)).map((coin): Coin => COIN[coin].family)),
];

type Wanted = { currency: Coin; speed?: SweepWish['speed']; max_fee_percent?: number; min_age_hours?: number; min_amount?: string };
/** Errors: parameter_invalid. */
function wishOf({ currency, speed, max_fee_percent, min_age_hours, min_amount }: Wanted): SweepWish {
  const minUnits = readAmountText(min_amount ?? '0', COIN[currency].decimals);
  if (minUnits === null) throw new Problem('parameter_invalid', { reason: 'it must be an amount such as 0.01' }, { param: 'min_amount' });
  return {
    minUnits,
    minAgeHours: min_age_hours ?? DEFAULT_WISH.minAgeHours,
    maxFeePercent: max_fee_percent ?? DEFAULT_WISH.maxFeePercent,
    speed: speed ?? DEFAULT_WISH.speed,
  };
}

const PSBTS: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/sweeps/:id/psbts',
    action: 'sweeps.read',
    /**
     * `has_origin`: whether they name keys by the fingerprint of the seed, by which hardware wallets find them. `highest_index`: of the
     * addresses that they spend from.
     */
    reply: Type.Object({
      success: Type.Boolean(),
      count: Type.Integer(),
      has_origin: Type.Boolean(),
      highest_index: Nullable(Type.Integer()),
    }),
    handle: async (call) => {
      const file = await readSigningFileOf(on(call), { ...ownerOf(call), id: call.params.id });
      const { hasOrigin, highestIndex } = await keyPathsOf(file);
      return { success: true, count: psbtsOf(file).length, has_origin: hasOrigin, highest_index: highestIndex };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/sweeps/:id/psbts/:number',
    action: 'sweeps.read',
    recent: true,
    reply: NoFields,
    /** `number`: counted from 1. Errors: sweep_not_found. */
    handle: async (call) => {
      const { id, number } = call.params;
      const file = await readSigningFileOf(on(call), { ...ownerOf(call), id });
      const psbts = psbtsOf(file);
      const psbt = /^[1-9]\d{0,2}$/.test(number) ? psbts[Number(number) - 1] : undefined;
      if (psbt === undefined) throw new Problem('sweep_not_found', { id: `with a PSBT of this number: ${file.id}` });
      const name = psbts.length === 1 ? `${file.id}.psbt` : `${file.id}-${number}.psbt`;
      return { name, type: 'application/octet-stream', parts: inOnePart(Buffer.from(psbt, 'base64')) };
    },
  }),
];

const READS: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/sweeps/overview',
    action: 'sweeps.read',
    reply: Type.Object({
      success: Type.Boolean(),
      wait_hours: Type.Integer(),
      /** SHA-256 of `/signer.html`; null while it is not built. */
      signer_sha256: Nullable(PlainText),
      /** The published seed phrase that signs rehearsals; null in live mode. */
      test_seed: Nullable(PlainText),
      holdings: Type.Array(
        Type.Object({
          ...{ wallet: PlainText, is_wallet_active: Type.Boolean(), currency: AnyCoinField, amount: PlainText },
          ...{ transfers: Type.Integer(), addresses: Type.Integer(), remains: Remains, has_destination: Type.Boolean() },
        }),
      ),
      destinations: Type.Array(Type.Object({ currency: CoinName, current: Nullable(DestinationBody), waiting: Nullable(DestinationBody) })),
    }),
    handle: async (call) => {
      const [wait_hours, signer_sha256] = [CHANGE_WAIT_HOURS, await hashSigner()];
      const [ctx, owner] = [on(call), ownerOf(call)];
      const families = familiesOf(ctx);
      const [found, stored] = await Promise.all([
        listSweepable(ctx, owner),
        listDestinations(ctx, ctx.db.sql, { ...owner, coins: families }),
      ]);
      const destinations = families.map((coin, i) => ({ coin, ...stored[i]! }));
      const ready = new Set(destinations.filter(({ current }) => current !== null).map(({ coin }) => coin));
      return {
        ...{ success: true, wait_hours, signer_sha256, test_seed: call.mode === 'test' ? TEST_SEED_WORDS : null },
        holdings: found.map(({ wallet, coin, count, units, addresses, remains }) => ({
          ...{ wallet: wallet.id, is_wallet_active: wallet.active, currency: coin, amount: formatUnits(coin, units), transfers: count },
          ...{ addresses, remains: remainsBody(coin, remains), has_destination: ready.has(COIN[coin].family) },
        })),
        destinations: destinations.map(({ coin, current, waiting }) => ({
          ...{ currency: coin, current: destinationBody(call, current), waiting: destinationBody(call, waiting) },
        })),
      };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/sweeps',
    action: 'sweeps.read',
    query: Type.Object(paging),
    reply: pageOf(SweepBody),
    handle: async (call) => {
      const { sweeps, hasMore } = await listSweeps(on(call), { ...ownerOf(call), ...pageIn(call.query, 20) });
      return { success: true, data: sweeps.map(sweepBody), has_more: hasMore };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/sweeps/:id',
    action: 'sweeps.read',
    reply: Type.Object({
      success: Type.Boolean(),
      sweep: SweepBody,
      transactions: Type.Array(
        Type.Object({
          ...{ transaction_id: PlainText, explorer_url: Nullable(PlainText), sent_at: Nullable(Instant) },
          ...{ block_height: Nullable(Type.Integer()), refusal: Nullable(PlainText) },
        }),
      ),
    }),
    handle: async (call) => {
      const { sweep, transactions } = await getSweep(on(call), { ...ownerOf(call), id: call.params.id });
      const network = on(call).settings.networks[COIN[sweep.coin].chain];
      return {
        ...{ success: true, sweep: sweepBody(sweep) },
        transactions: transactions.map(({ txid, sentAt, blockHeight, refusal }) => ({
          ...{ transaction_id: txid, explorer_url: explorerUrl(sweep.coin, network, txid), sent_at: sentAt?.toISOString() ?? null },
          ...{ block_height: blockHeight, refusal },
        })),
      };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/sweeps/:id/file',
    action: 'sweeps.read',
    recent: true,
    reply: NoFields,
    handle: async (call) => {
      const file = await readFileToSign(on(call), { ...ownerOf(call), id: call.params.id });
      return { name: `${file.id}.json`, type: 'application/json; charset=utf-8', parts: inOnePart(`${signingFileText(file)}\n`) };
    },
  }),
];

const ACTS: readonly DashboardRoute[] = [
  memberRoute({
    method: 'POST',
    path: '/sweeps',
    action: 'sweeps.use',
    recent: true,
    body: Type.Object({
      currency: AnyCoinField,
      wallet: Type.Optional(Type.String({ maxLength: 40 })),
      speed: Type.Optional(Speed),
      max_fee_percent: Type.Optional(Type.Integer({ minimum: 0, maximum: MAX_FEE_PERCENT })),
      min_age_hours: Type.Optional(Type.Integer({ minimum: 0, maximum: 87_600 })),
      min_amount: Type.Optional(Type.String({ maxLength: 40 })),
    }),
    reply: Type.Object({ success: Type.Boolean(), sweep: SweepBody, remains: Remains }),
    handle: async (call) => {
      const { currency: coin, wallet } = call.body;
      const wanted = { coin, walletId: wallet ?? null, wish: wishOf(call.body) };
      const { sweep, remains } = await makeSweep(on(call), { ...ownerOf(call), ...wanted, actor: call.actor });
      return { success: true, sweep: sweepBody(sweep), remains: remainsBody(coin, remains) };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/sweeps/signed',
    action: 'sweeps.use',
    recent: true,
    bodyLimit: UPLOAD_BYTES,
    body: Type.Object({ content: Type.String({ minLength: 1 }) }),
    /** `is_known`: the same file was uploaded before. */
    reply: Type.Object({ success: Type.Boolean(), sweep: SweepBody, is_known: Type.Boolean() }),
    handle: async (call) => {
      const { sweep, isKnown } = await acceptSigned(on(call), { ...ownerOf(call), content: call.body.content, actor: call.actor });
      return { success: true, sweep: sweepBody(sweep), is_known: isKnown };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/sweeps/:id/replace',
    action: 'sweeps.use',
    recent: true,
    body: Type.Object({ speed: Type.Optional(Speed) }),
    reply: Type.Object({ success: Type.Boolean(), sweep: SweepBody }),
    handle: async (call) => {
      const wanted = { id: call.params.id, speed: call.body.speed ?? 'fast' };
      return { success: true, sweep: sweepBody(await replaceSweep(on(call), { ...ownerOf(call), ...wanted, actor: call.actor })) };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/sweeps/:id/cancel',
    action: 'sweeps.use',
    body: NoFields,
    reply: Done,
    handle: async (call) => {
      await cancelSweep(on(call), { ...ownerOf(call), id: call.params.id, actor: call.actor });
      return { success: true };
    },
  }),
];

const DESTINATIONS: readonly DashboardRoute[] = [
  memberRoute({
    method: 'POST',
    path: '/sweep-destinations',
    action: 'sweeps.use',
    recent: true,
    body: Type.Object({
      currency: CoinName,
      address: Type.String({ minLength: 1, maxLength: 200 }),
      ends: Type.String({ minLength: 6, maxLength: 6 }),
    }),
    reply: Type.Object({ success: Type.Boolean(), due_at: Nullable(Instant) }),
    handle: async (call) => {
      const { currency: coin, address, ends } = call.body;
      const { dueAt } = await setDestination(call.ctx, { ...liveOnly(call), coin, address, ends, actor: call.actor });
      return { success: true, due_at: dueAt?.toISOString() ?? null };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/sweep-destinations/:currency/confirm',
    action: 'sweeps.confirm',
    recent: true,
    body: NoFields,
    reply: Done,
    handle: async (call) => {
      await confirmDestination(call.ctx, { ...liveOnly(call), coin: coinIn(call.params.currency), actor: call.actor });
      return { success: true };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/sweep-destinations/:currency/drop',
    action: 'sweeps.use',
    body: NoFields,
    reply: Done,
    handle: async (call) => {
      await dropDestination(call.ctx, { ...liveOnly(call), coin: coinIn(call.params.currency), actor: call.actor });
      return { success: true };
    },
  }),
];

export const SWEEPS: readonly DashboardRoute[] = [...READS, ...PSBTS, ...ACTS, ...DESTINATIONS];
