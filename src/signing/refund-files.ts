/**
 * Signing files for approved refunds. A refund can be executed once only: on Bitcoin-like chains it is a transaction of its own that spends
 * what the customer sent, as every other transaction of the same refund does; for chains of accounts see refund-accounts.ts.
 */
import { hexToBytes } from '@noble/hashes/utils.js';
import { type BitcoinScript, decodeAddress } from '#addresses';
import type { JoinedSource } from '#chains';
import type { Context } from '#context';
import { ALL_COINS, COIN, type Coin, coinText, contractOf, familyIn, isToken, kindOf, LIGHTNING } from '#core/coin';
import { newId } from '#core/id';
import { Problem } from '#core/problem';
import type { Line, PsbtRequest, Request } from '#core/signing-file';
import type { Tx } from '#db';
import type { Actor } from '#people';
import { readDestinations } from '#wallets';
import { goneText, readRefundLegacy } from './canceled.ts';
import {
  DEFAULT_WISH,
  type Holding,
  hasOpenRefund,
  readHoldings,
  readUnpayable,
  readWallets,
  type SweepWallet,
  type SweepWish,
} from './holdings.ts';
import { type GasPrice, readGasPrice } from './make-accounts.ts';
import { type MadeUtxoFile, mostBlocksOf, outputsOfHolding, type Previous, previousOf, spentAmong } from './make-utxo.ts';
import { readRobbed, watchMissing } from './moved.ts';
import {
  anchorOf,
  blocksOf,
  type Chosen,
  chooseLots,
  lotOf,
  MAX_REFUND_FEE_PERCENT,
  MOST_REFUNDS,
  type OutputLot,
  readGasPrices,
} from './out-payments.ts';
import { makeAccountRefunds } from './refund-accounts.ts';
import { asking, chainFor, fileOf, paymentsIn, rateFor, type Sweep, signingChainId, store } from './signing-files.ts';
import { buildPayment, bytesOfOutput, MAX_FILE_BYTES } from './utxo.ts';

/** Approved refunds that are looked at for one file: more than fit, because some may wait for money. */
const MOST_LOOKED_AT = 200;
/** How often the file is made, when refunds change meanwhile. */
export const MOST_TRIES = 3;

type Owner = { merchantId: string };
type RefundToPay = { id: string; paymentId: string; units: bigint; address: string; anchor: string | null };
/** `anchors`: the outputs that it has to spend: that of its own earlier files, and those of canceled refunds of its payment. */
type TiedRefund = RefundToPay & { anchors: readonly string[] };
/** Why an approved refund is not in the file. */
type SkippedRefund = { id: string; reason: string };
type MadeRefundFile = { sweep: Sweep; refunds: string[]; left: SkippedRefund[] };

const REASONS = {
  short: 'the confirmed money on deposit addresses is not enough for it and the fee',
  moved: 'another transaction spent the money of an earlier file of it; look where it went, then mark it as sent or cancel it',
  fee: `the network fee would be more than ${MAX_REFUND_FEE_PERCENT} percent of its amount; try again when fees are lower, or send it from your own wallet and mark it as sent`,
  many: 'it needs more deposits than fit into one transaction; send it from your own wallet and mark it as sent',
  later: 'the file is full; it can be in the next one',
  waits: 'a deposit that it has to spend is in this file, or is not free or not confirmed at the moment; try again later',
  gone: goneText('refund'),
  elsewhere:
    'a transaction that Florin does not know spent a deposit of its payment; look where that money went: if it was returned, mark the refund as sent with that transaction, else send it from your own wallet and mark it as sent',
  open: 'its payment is not final at the moment, and more money could complete it; try again once it is',
  unpaid:
    'what its payment received is not confirmed any more, or is less than its refunds return; wait until it is confirmed again, or cancel it',
  payout: 'an approved payout has to spend its deposit; make the file of that payout first, or cancel the payout',
} as const;

const NONE = 'none is approved';

/** Approved refunds whose payment used the wallet and that are in no file: those of earlier files first, then the oldest. */
const readApproved = (ctx: Context, { merchantId, coin, walletId }: Owner & { coin: Coin; walletId: string }): Promise<RefundToPay[]> =>
  ctx.db.sql<RefundToPay[]>`
    select r.id, r.payment_id as "paymentId", r.units, r.address, r.anchor
    from outgoing_payments r join deposit_addresses a on a.payment_id = r.payment_id and a.family = ${familyIn(ctx.mode, coin)} and a.wallet_id = ${walletId}
    where r.merchant_id = ${merchantId} and r.mode = ${ctx.mode} and r.coin = ${coin} and r.state = 'approved' and r.file_id is null
    order by r.anchor is null, r.number limit ${MOST_LOOKED_AT}`;

/** Those that can be paid now, with the outputs that they have to spend, and why the others cannot. Errors: ChainError. */
async function readPayable(
  ctx: Context,
  { merchantId, coin, walletId }: Owner & { coin: Coin; walletId: string },
): Promise<{ asked: TiedRefund[]; kept: SkippedRefund[] }> {
  // None, if another file has taken all of them since this one was asked for.
  const all = await readApproved(ctx, { merchantId, coin, walletId });
  const unpayable = await readUnpayable(ctx, ctx.db.sql, { merchantId, coin, asked: all });
  const kept = all.flatMap(({ id }) => {
    const why = unpayable.get(id);
    return why === undefined ? [] : [{ id, reason: why === 'open' ? REASONS.open : REASONS.unpaid }];
  });
  const payable = all.filter(({ id }) => !unpayable.has(id));
  const { ties, left } = await readRefundLegacy(ctx, { merchantId, coin, asked: payable });
  const free = payable.filter(({ id }) => !left.some((one) => one.id === id));
  const anchorsOf = ({ id, anchor }: RefundToPay): string[] => [
    ...new Set([...(anchor === null ? [] : [anchor]), ...(ties.get(id) ?? []).map((tie) => tie.anchor)]),
  ];
  return { asked: free.map((one) => ({ ...one, anchors: anchorsOf(one) })), kept: [...kept, ...left] };
}

/** Wallets with approved refunds in no file: those first whose refunds wait longest. */
async function walletsInTurn(ctx: Context, { merchantId, coin }: Owner & { coin: Coin }): Promise<SweepWallet[]> {
  const wallets = (await readWallets(ctx, { merchantId })).filter((one) => one.family === COIN[coin].family);
  const rows = await ctx.db.sql<{ walletId: string }[]>`
    select a.wallet_id as "walletId"
    from outgoing_payments r join deposit_addresses a on a.payment_id = r.payment_id and a.family = ${familyIn(ctx.mode, coin)}
    where r.merchant_id = ${merchantId} and r.mode = ${ctx.mode} and r.coin = ${coin} and r.state = 'approved' and r.file_id is null
      and a.wallet_id = any(${wallets.map(({ id }) => id)}::text[])
    group by a.wallet_id order by min(r.number)`;
  return rows.flatMap(({ walletId }) => wallets.find(({ id }) => id === walletId) ?? []);
}

/** Coins with approved refunds that are in no file, in the order of the catalog. */
export async function readReadyCoins(ctx: Context, { merchantId }: Owner): Promise<Coin[]> {
  const rows = await ctx.db.sql<{ coin: Coin }[]>`
    select coin from unnest(${[...ALL_COINS]}::text[]) as coin where exists (
      select 1 from outgoing_payments r where r.kind = 'refund' and r.merchant_id = ${merchantId} and r.mode = ${ctx.mode} and r.coin = coin.coin
        and r.state = 'approved' and r.file_id is null)`;
  // What arrived over Lightning is on no deposit address.
  return ALL_COINS.filter((coin) => coin !== LIGHTNING && rows.some((row) => row.coin === coin));
}

/** What may pay for a refund: money of its own payment, also if it needs a decision, and money that a sweep could move. */
const isOwn = ({ stays }: Holding): boolean => stays === null || stays === 'refund_requested' || stays === 'undecided';
export const outputLots = (holdings: readonly Holding[]): OutputLot[] =>
  holdings.flatMap((holding) => {
    const parts = outputsOfHolding(holding);
    return parts === 'unreadable' ? [] : [lotOf(holding, parts)];
  });

/**
 * Why the deposits of others do not pay for a refund now. Its own ones can supply what is missing later, or somebody moved one with a
 * transaction that Florin does not know, perhaps to return it. `all` are the lots of the ledger, `lots` those that the chain still has,
 * `robbed` the payments of which one is known to be spent elsewhere.
 */
function whyOwnOnly(
  { paymentId, units }: RefundToPay,
  { all, lots, robbed }: { all: readonly OutputLot[]; lots: readonly OutputLot[]; robbed: ReadonlySet<string> },
): 'waits' | 'elsewhere' | null {
  const of = all.filter(({ holding }) => holding.paymentId === paymentId);
  const usable = unitsOf(of.filter((lot) => lots.includes(lot) && isOwn(lot.holding)));
  if (usable >= units) return null;
  if (robbed.has(paymentId) || of.some((lot) => !lots.includes(lot))) return 'elsewhere';
  // A stranger can send small amounts to any deposit address, and they wait as long as the stranger likes.
  return usable < unitsOf(of) && unitsOf(of) >= units ? 'waits' : null;
}
const unitsOf = (lots: readonly OutputLot[]): bigint => lots.reduce((sum, { units }) => sum + units, 0n);

type Options = {
  coin: Coin;
  network: JoinedSource['network'];
  wallet: SweepWallet;
  rateE8: bigint;
  mostBlocks: number;
  all: readonly OutputLot[];
  robbed: ReadonlySet<string>;
};
type Plan = { chosen: Map<TiedRefund, Chosen>; left: SkippedRefund[] };
function plan(
  asked: readonly TiedRefund[],
  lots: readonly OutputLot[],
  { coin, network, wallet, rateE8, mostBlocks, all, robbed }: Options,
): Plan {
  const used = new Set<OutputLot>();
  const [chosen, left] = [new Map<TiedRefund, Chosen>(), [] as SkippedRefund[]];
  // The money of a payment whose refund is in this file pays for no other refund before it, and neither does what another one has to spend.
  const refunding = new Set(asked.map(({ paymentId }) => paymentId));
  const tied = new Set(asked.flatMap(({ anchors }) => anchors));
  for (const refund of asked) {
    if (chosen.size === MOST_REFUNDS) break;
    // Only one transaction can spend the deposit, and another one pays the payout.
    if (lots.some(({ holding }) => holding.paymentId === refund.paymentId && holding.stays === 'payout_approved')) {
      left.push({ id: refund.id, reason: REASONS.payout });
      continue;
    }
    const isOf = ({ holding }: OutputLot): boolean => holding.paymentId === refund.paymentId && isOwn(holding);
    const fixed = refund.anchors.map((anchor) => ({ anchor, lot: lots.find((lot) => anchorOf(lot) === anchor) }));
    const gone = fixed.find(({ lot }) => lot === undefined);
    if (gone || fixed.some(({ lot }) => used.has(lot!) || !(isOf(lot!) || lot!.holding.stays === null))) {
      left.push({ id: refund.id, reason: !gone ? REASONS.waits : gone.anchor === refund.anchor ? REASONS.moved : REASONS.gone });
      continue;
    }
    const ownOnly = whyOwnOnly(refund, { all, lots, robbed });
    if (ownOnly !== null) {
      left.push({ id: refund.id, reason: REASONS[ownOnly] });
      continue;
    }
    const free = lots.filter((lot) => !used.has(lot));
    const isFixed = (lot: OutputLot): boolean => fixed.some((one) => one.lot === lot);
    const isFree = (lot: OutputLot): boolean =>
      lot.holding.stays === null && !refunding.has(lot.holding.paymentId) && !tied.has(anchorOf(lot));
    const found = chooseLots({
      ...{ units: refund.units, anchors: refund.anchors, wallet, rateE8, mostBlocks },
      scripts: [hexToBytes(decodeAddress(refund.address, { coin, network }).key)],
      own: free.filter((lot) => isOf(lot) && (isFixed(lot) || !tied.has(anchorOf(lot)))),
      others: free.filter((lot) => !isOf(lot) && (isFixed(lot) || isFree(lot))),
    });
    if (typeof found === 'string') left.push({ id: refund.id, reason: REASONS[found] });
    else if (blocksOf([...used, ...found.lots]).size > mostBlocks) left.push({ id: refund.id, reason: REASONS.later });
    else {
      chosen.set(refund, found);
      for (const lot of found.lots) used.add(lot);
    }
  }
  return { chosen, left };
}

/** How often outputs are chosen again, without those that turned out to be spent or unreadable. */
const MOST_PLANS = 50;
/**
 * Plans with outputs that the chain still has and that a PSBT can spend. `missing`: what it does not have; `previous`: the transactions that
 * made them; `full`: what does not
 * fit into the file, and whether it would fit into one of its own (`later`) or never (`many`). Errors: sweep_busy, ChainError.
 */
export async function planSpendable<K, P extends { chosen: ReadonlyMap<K, Chosen> }>(
  chain: JoinedSource,
  { lots: all, wallet }: { lots: readonly OutputLot[]; wallet: SweepWallet },
  plan: (lots: readonly OutputLot[]) => P & { chosen: ReadonlyMap<K, Chosen> },
): Promise<Omit<P, 'chosen'> & { chosen: Map<K, Chosen>; full: Map<K, 'later' | 'many'>; missing: Set<Holding>; previous: Previous }> {
  let lots = all;
  const missing = new Set<Holding>();
  for (let tries = 0; tries < MOST_PLANS; tries++) {
    const made = plan(lots);
    const parts = [...made.chosen.values()].flatMap(partsOf);
    const spent = await spentAmong(
      chain,
      parts.map(({ txid, n }) => `${txid}:${n}`),
    );
    const { previous, unreadable } = await previousOf(chain, wallet.script as BitcoinScript, spent.size > 0 ? [] : parts);
    if (spent.size === 0 && unreadable.size === 0) return { ...made, ...fitIn(made.chosen, previous, wallet), missing, previous };
    for (const { txid, n, holding } of parts) if (spent.has(`${txid}:${n}`)) missing.add(holding);
    lots = lots.filter(({ parts }) => !parts.some(({ txid, n }) => spent.has(`${txid}:${n}`) || unreadable.has(txid)));
  }
  throw new Problem('sweep_busy', {});
}
const partsOf = ({ lots }: Chosen) => lots.flatMap(({ parts }) => parts);

/** As many of the chosen as a file holds, in order. */
function fitIn<K>(
  chosen: ReadonlyMap<K, Chosen>,
  previous: Previous,
  wallet: SweepWallet,
): { chosen: Map<K, Chosen>; full: Map<K, 'later' | 'many'> } {
  const [kept, full] = [new Map<K, Chosen>(), new Map<K, 'later' | 'many'>()];
  let left = MAX_FILE_BYTES;
  for (const [key, one] of chosen) {
    const bytes = partsOf(one).reduce((sum, part) => sum + bytesOfOutput(part, previous, wallet), 0);
    if (bytes > left) full.set(key, bytes > MAX_FILE_BYTES ? 'many' : 'later');
    else {
      kept.set(key, one);
      left -= bytes;
    }
  }
  return { chosen: kept, full };
}

type Work = { wallet: SweepWallet; destination: string; rateE8: bigint; id: string; previous: Previous };
/** One transaction: what it spends, and what it pays to others. */
type Group = { lots: readonly OutputLot[]; lines: readonly Line[] };
/** A PSBT for each group, whose rest goes to the destination. Errors: sweep_busy. */
export function buildRequests(
  { coin, network }: Pick<JoinedSource, 'coin' | 'network'>,
  asked: readonly Group[],
  { wallet, destination, rateE8, id, previous }: Work,
): MadeUtxoFile<PsbtRequest> {
  const scriptOf = (address: string) => hexToBytes(decodeAddress(address, { coin, network }).key);
  const made: MadeUtxoFile<PsbtRequest> = { requests: [], inputs: [], stay: new Map() };
  for (const { lots, lines } of asked) {
    const group = lots.flatMap(({ parts }) => parts);
    const request = buildPayment({
      ...{ group, previous, rateE8, leastUnits: COIN[coin].dustUnits },
      wallet: { ...wallet, script: wallet.script as BitcoinScript },
      to: lines.map(({ units, ...line }) => ({ script: scriptOf(line.to), units, line })),
      rest: { script: scriptOf(destination), line: { purpose: 'sweep', to: destination, reference: id } },
    });
    if (!request) throw new Problem('sweep_busy', {});
    made.requests.push(request);
    for (const { holding, parts } of lots)
      for (const part of parts) made.inputs.push({ input: `${part.txid}:${part.n}`, holding, units: part.units });
  }
  return made;
}

/**
 * Locks all payments of a file. False: a refund in it changed or cannot be paid any more, or another one of a payment that pays for it was
 * requested.
 */
async function lockRefunds(
  ctx: Context,
  tx: Tx,
  { merchantId, coin, asked, paymentIds }: Owner & { coin: Coin; asked: readonly RefundToPay[]; paymentIds: readonly string[] },
): Promise<boolean> {
  const own = asked.map(({ paymentId }) => paymentId);
  await tx`
    select 1 from payments where id = any(${[...new Set([...own, ...paymentIds])]}::text[]) and merchant_id = ${merchantId} and mode = ${ctx.mode}
    order by id for update`;
  const rows = await tx<{ id: string; units: bigint; address: string | null }[]>`
    select id, units, address from outgoing_payments
    where id = any(${asked.map(({ id }) => id)}::text[]) and merchant_id = ${merchantId} and state = 'approved' and file_id is null`;
  const isSame = ({ id, units, address }: RefundToPay) =>
    rows.some((row) => row.id === id && row.units === units && row.address === address);
  const paying = paymentIds.filter((id) => !own.includes(id));
  const [other] = await tx`select 1 from payments p where p.id = any(${paying}::text[]) and ${hasOpenRefund(tx)} limit 1`;
  return asked.every(isSame) && !other && (await readUnpayable(ctx, tx, { merchantId, coin, asked })).size === 0;
}

type RefundPlan = {
  made: MadeUtxoFile<Request>;
  /** For each refund in the file, what only one of its transactions can use, and the transaction that pays it. */
  chosen: ReadonlyMap<RefundToPay, { anchor: string; number: number }>;
  left: SkippedRefund[];
  gasPrice: GasPrice | null;
};
type RefundPlanParameters = Owner & RefundWish & { asked: readonly TiedRefund[]; wallet: SweepWallet; destination: string; id: string };

const EMPTY: MadeUtxoFile<Request> = { requests: [], inputs: [], stay: new Map() };

/** Refunds of a Bitcoin-like coin. */
async function planOutputs(
  ctx: Context,
  { merchantId, coin, speed, asked, wallet, destination, id }: RefundPlanParameters,
): Promise<RefundPlan> {
  const chain = chainFor(ctx, coin);
  const [{ holdings }, rateE8, robbed] = await Promise.all([
    readHoldings(ctx, { merchantId, walletId: wallet.id, coin }),
    rateFor(chain, { ...DEFAULT_WISH, speed }),
    readRobbed(ctx, { coin, paymentIds: asked.map(({ paymentId }) => paymentId) }),
  ]);
  const script = wallet.script as BitcoinScript;
  const all = outputLots(holdings);
  const options = { coin, network: chain.network, wallet, rateE8, mostBlocks: mostBlocksOf(chain, script), all, robbed };
  const planned = await planSpendable<TiedRefund, Plan>(chain, { lots: all, wallet }, (lots) => plan(asked, lots, options));
  await watchMissing(ctx, { merchantId, holdings: planned.missing });
  const left = [...planned.left, ...[...planned.full].map(([{ id }, reason]) => ({ id, reason: REASONS[reason] }))];
  if (planned.chosen.size === 0) return { made: EMPTY, chosen: new Map(), left, gasPrice: null };
  const lineOf = ({ address: to, units, paymentId: reference }: RefundToPay): Line => ({ purpose: 'refund', to, units, reference });
  const groups = [...planned.chosen].map(([refund, { lots }]) => ({ lots, lines: [lineOf(refund)] }));
  const made = buildRequests(chain, groups, { wallet, destination, rateE8, id, previous: planned.previous });
  const chosen = new Map([...planned.chosen].map(([one, { anchor }], number) => [one, { anchor: one.anchor ?? anchor, number }]));
  return { made, chosen, left, gasPrice: null };
}

/** Refunds on a chain of accounts. */
async function planAccounts(ctx: Context, { merchantId, coin, speed, asked, wallet }: RefundPlanParameters): Promise<RefundPlan> {
  const chain = chainFor(ctx, coin);
  const [{ holdings, now }, gasPrice] = await Promise.all([
    readHoldings(ctx, { merchantId, walletId: wallet.id, coin }),
    readGasPrice(chain, { ...DEFAULT_WISH, speed }),
  ]);
  const network = ctx.settings.networks[COIN[coin].chain];
  const contract = contractOf(coin, network);
  if (isToken(coin) && contract === null)
    throw new Problem('refund_file_empty', { coin: coinText(coin), reason: 'the token is not known on this network' });
  // A file of a canceled refund of the same deposit address uses the same nonce, so only one of them can be executed.
  const fixed = asked.map(({ anchors, ...one }) => ({ ...one, anchor: anchors[0] ?? null }));
  const { chosen, left, ...made } = await makeAccountRefunds(chain, fixed, {
    ...{ holdings: holdings.filter(isOwn), wallet, coin, network, gasPrice },
    ...{ chainId: signingChainId(ctx, coin), contract, nowSeconds: Math.floor(now.getTime() / 1000), prices: readGasPrices(ctx, coin) },
  });
  return { made, chosen, left, gasPrice };
}

type RefundAttempt = Owner & RefundWish & { wallet: SweepWallet; destination: string; actor: Actor };
/** Null: a refund changed meanwhile. Without a `sweep`: none of the refunds of the wallet can be paid. */
async function tryToMake(
  ctx: Context,
  { merchantId, coin, wallet, destination, speed, actor }: RefundAttempt,
): Promise<MadeRefundFile | { sweep: null; left: SkippedRefund[] } | null> {
  const { asked, kept } = await asking(coin, readPayable(ctx, { merchantId, coin, walletId: wallet.id }));
  const id = newId('swp', ctx.random);
  const work = { merchantId, coin, speed, asked, wallet, destination, id };
  const { made, chosen, ...planned } = await asking(coin, kindOf(coin) === 'ethereum' ? planAccounts(ctx, work) : planOutputs(ctx, work));
  const { gasPrice } = planned;
  const left = [...kept, ...planned.left];
  const refunds = [...chosen];
  if (refunds.length === 0) return { sweep: null, left };
  const file = fileOf(ctx, { id, round: 0, coin, wallet, requests: made.requests, gasPrice });
  const sweep = await store(ctx, {
    ...{ merchantId, wallet, file, destination, inputs: made.inputs, actor, purpose: 'refund' },
    lock: (tx) => lockRefunds(ctx, tx, { merchantId, coin, asked: refunds.map(([one]) => one), paymentIds: paymentsIn(made.inputs) }),
    also: async (tx) => {
      await tx`
        update outgoing_payments r set file_id = ${id}, transaction_number = given.number, anchor = given.anchor
        from unnest(${refunds.map(([one]) => one.id)}::text[], ${refunds.map(([, { number }]) => number)}::int[],
          ${refunds.map(([, { anchor }]) => anchor)}::text[]) as given (id, number, anchor)
        where r.id = given.id and r.merchant_id = ${merchantId}`;
    },
  });
  return sweep && { sweep, refunds: refunds.map(([one]) => one.id), left };
}

type RefundWish = { coin: Coin; speed: SweepWish['speed'] };
/**
 * Makes a signing file of approved refunds, of one wallet: of those that can pay some, the one whose refunds wait longest. Errors:
 * refund_file_empty, sweep_destination_missing, sweep_busy, not_supported, chain_unavailable.
 */
export async function makeRefundFile(
  ctx: Context,
  { merchantId, coin, speed, actor }: Owner & RefundWish & { actor: Actor },
): Promise<MadeRefundFile> {
  const { current } = await readDestinations(ctx, ctx.db.sql, { merchantId, coin });
  if (!current) throw new Problem('sweep_destination_missing', { coin: COIN[coin].family });
  const left: SkippedRefund[] = [];
  for (const wallet of await walletsInTurn(ctx, { merchantId, coin })) {
    const made = await makeFrom(ctx, { merchantId, coin, wallet, destination: current.address, speed, actor });
    left.push(...made.left);
    if (made.sweep) return { ...made, left };
  }
  throw new Problem('refund_file_empty', { coin: coinText(coin), reason: left[0]?.reason ?? NONE });
}
async function makeFrom(ctx: Context, trying: RefundAttempt): Promise<Exclude<Awaited<ReturnType<typeof tryToMake>>, null>> {
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const made = await tryToMake(ctx, trying);
    if (made) return made;
  }
  throw new Problem('sweep_busy', {});
}
