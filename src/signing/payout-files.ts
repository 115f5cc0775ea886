/**
 * Signing files for approved payouts. A payout can be executed once only. In Bitcoin-like coins, one transaction pays up to 100 of them from
 * deposits: the first file fixes an output, the anchor, that every later transaction of the payout spends too, so at most one of them can be
 * mined. Payouts with the same anchor stay together. For chains of accounts see payout-accounts.ts.
 */
import { hexToBytes } from '@noble/hashes/utils.js';
import { type BitcoinScript, decodeAddress } from '#addresses';
import type { JoinedSource } from '#chains';
import type { Context } from '#context';
import { ALL_COINS, COIN, type Coin, coinText, contractOf, isToken, kindOf } from '#core/coin';
import { newId } from '#core/id';
import { Problem } from '#core/problem';
import type { Line, Request } from '#core/signing-file';
import type { Sql, Tx } from '#db';
import type { Actor } from '#people';
import { readDestinations } from '#wallets';
import { boundText, goneText, readPayoutLegacy } from './canceled.ts';
import {
  DEFAULT_WISH,
  type PayoutParts,
  partsFromJson,
  partsToJson,
  readHoldings,
  readWallets,
  type SweepWallet,
  type SweepWish,
  selectHoldings,
} from './holdings.ts';
import { type GasPrice, readGasPrice } from './make-accounts.ts';
import { type MadeUtxoFile, mostBlocksOf } from './make-utxo.ts';
import { watchMissing } from './moved.ts';
import { anchorOf, blocksOf, type Chosen, chooseLots, MAX_REFUND_FEE_PERCENT, type OutputLot, readGasPrices } from './out-payments.ts';
import { makeAccountPayouts } from './payout-accounts.ts';
import { buildRequests, MOST_TRIES, outputLots, planSpendable } from './refund-files.ts';
import { asking, chainFor, fileOf, lockPayments, paymentsIn, rateFor, type Sweep, signingChainId, store } from './signing-files.ts';

/** Payouts in one file. The signer shows at most 200 recipients. */
const MOST_PAYOUTS = 100;

type Owner = { merchantId: string };
type PayoutToPay = {
  number: bigint;
  id: string;
  units: bigint;
  address: string;
  reference: string | null;
  anchor: string | null;
  parts: unknown;
  isPublished: boolean;
};
/** `anchors`: the outputs or the account nonce that it has to use: of its own earlier files, and of canceled payouts to the same recipient. */
type TiedPayout = PayoutToPay & { anchors: readonly string[] };
/** Why an approved payout is not in the file. */
type SkippedPayout = { id: string; reason: string };
type MadePayoutFile = { sweep: Sweep; payouts: string[]; left: SkippedPayout[] };

const REASONS = {
  short: 'the confirmed money on deposit addresses is not enough for it and the fee',
  moved:
    'another transaction spent the deposit that an earlier file of it spends; look where the money went, then mark it as sent or cancel it',
  waits: 'the deposit that an earlier file of it spends is not confirmed at the moment; try again later',
  gone: goneText('payout'),
  bound: boundText('payout'),
  fee: `the network fee would be more than ${MAX_REFUND_FEE_PERCENT} percent of the amount; try again when fees are lower`,
  many: 'it needs more deposits than fit into one transaction; sweep first, and send it from your own wallet',
  later: 'the file is full; it can be in the next one',
} as const;
const NONE = 'none is approved';

/** Approved and in no file, or published in one that failed: it can be in the next one, which authorizes exactly the same. */
const isReady = (sql: Sql | Tx) => sql`
  (file_id is null and (state = 'approved' or (state in ('signed', 'sent') and published_until is not null)))`;

/** Coins with payouts that can be in a file, in the order of the catalog. */
export async function readPayoutCoins(ctx: Context, { merchantId }: Owner): Promise<Coin[]> {
  const rows = await ctx.db.sql<{ coin: Coin }[]>`
    select distinct coin from outgoing_payments where kind = 'payout' and merchant_id = ${merchantId} and mode = ${ctx.mode} and ${isReady(ctx.db.sql)}`;
  return ALL_COINS.filter((coin) => rows.some((row) => row.coin === coin));
}

/** Payouts for a file that the wallet may pay: those with an anchor first, which stay together, then the oldest. */
async function readApproved(
  ctx: Context,
  { merchantId, coin, walletId }: Owner & { coin: Coin; walletId: string },
): Promise<PayoutToPay[]> {
  const rows = await ctx.db.sql<PayoutToPay[]>`
    select number, id, units, address, reference, anchor, parts, published_until is not null as "isPublished" from outgoing_payments
    where kind = 'payout' and merchant_id = ${merchantId} and mode = ${ctx.mode} and coin = ${coin} and ${isReady(ctx.db.sql)}
      and (wallet_id is null or wallet_id = ${walletId})
    order by anchor nulls last, number limit ${MOST_PAYOUTS + 1}`;
  const cut = rows[MOST_PAYOUTS]?.anchor ?? null;
  return cut === null ? rows.slice(0, MOST_PAYOUTS) : rows.filter(({ anchor }) => anchor !== cut);
}

/** Those that can be paid now, with what they have to use, and why the others cannot. Errors: ChainError. */
async function readPayable(
  ctx: Context,
  { merchantId, coin, walletId }: Owner & { coin: Coin; walletId: string },
): Promise<{ asked: TiedPayout[]; kept: SkippedPayout[] }> {
  const all = await readApproved(ctx, { merchantId, coin, walletId });
  const legacy = await readPayoutLegacy(ctx, { merchantId, coin, asked: all });
  const kept = [...legacy.left];
  const asked: TiedPayout[] = [];
  for (const one of all.filter(({ id }) => !kept.some((left) => left.id === id))) {
    const ties = legacy.ties.get(one.id) ?? [];
    const anchors = [...new Set([...(one.anchor === null ? [] : [one.anchor]), ...ties.map(({ anchor }) => anchor)])];
    const isElsewhere = ties.some((tie) => tie.walletId !== null && tie.walletId !== walletId);
    if (isElsewhere || (kindOf(coin) === 'ethereum' && anchors.length > 1)) kept.push({ id: one.id, reason: REASONS.bound });
    else asked.push({ ...one, anchors });
  }
  return { asked, kept };
}

type Options = { coin: Coin; network: JoinedSource['network']; wallet: SweepWallet; rateE8: bigint; mostBlocks: number };
type Plan = { chosen: Map<readonly TiedPayout[], Chosen>; left: SkippedPayout[] };
/** Payouts that have to spend the same outputs are paid together, because only one transaction can spend them. Those without any come last. */
type Group = { payouts: readonly TiedPayout[]; anchors: readonly string[] };
function groupByAnchors<T extends { anchors: readonly string[] }>(
  asked: readonly T[],
): { payouts: readonly T[]; anchors: readonly string[] }[] {
  let groups: { payouts: readonly T[]; anchors: readonly string[] }[] = [];
  for (const one of asked.filter(({ anchors }) => anchors.length > 0)) {
    const linked = groups.filter(({ anchors }) => anchors.some((anchor) => one.anchors.includes(anchor)));
    const merged = {
      payouts: [...linked.flatMap(({ payouts }) => payouts), one],
      anchors: [...new Set([...linked.flatMap(({ anchors }) => anchors), ...one.anchors])],
    };
    groups =
      linked.length === 0
        ? [...groups, merged]
        : groups.flatMap((group) => (group === linked[0] ? [merged] : linked.includes(group) ? [] : [group]));
  }
  const fresh = asked.filter(({ anchors }) => anchors.length === 0);
  return fresh.length === 0 ? groups : [...groups, { payouts: fresh, anchors: [] }];
}

/** One transaction for the payouts of each group. */
function plan(asked: readonly TiedPayout[], lots: readonly OutputLot[], { coin, network, wallet, rateE8, mostBlocks }: Options): Plan {
  const made: Plan = { chosen: new Map(), left: [] };
  const used = new Set<OutputLot>();
  const leave = (payouts: readonly TiedPayout[], reason: keyof typeof REASONS) =>
    void made.left.push(...payouts.map(({ id }) => ({ id, reason: REASONS[reason] })));
  const groups: Group[] = groupByAnchors(asked);
  const tied = new Set(groups.flatMap(({ anchors }) => anchors));
  const isFree = (lot: OutputLot): boolean => lot.holding.stays === null && !used.has(lot) && !tied.has(anchorOf(lot));
  const worth = (): bigint => lots.reduce((sum, lot) => (isFree(lot) ? sum + lot.units : sum), 0n);
  const choose = ({ payouts, anchors }: Group): ReturnType<typeof chooseLots> | 'waits' | 'gone' => {
    const fixed = lots.filter((lot) => anchors.includes(anchorOf(lot)));
    if (fixed.some(({ holding: { stays } }) => stays !== null && stays !== 'payout_approved')) return 'waits';
    const missing = anchors.filter((anchor) => !fixed.some((lot) => anchorOf(lot) === anchor));
    if (missing.length > 0) return payouts.some(({ anchor }) => anchor !== null && missing.includes(anchor)) ? 'moved' : 'gone';
    return chooseLots({
      ...{ units: unitsOf(payouts), anchors, wallet, rateE8, mostBlocks, own: [] },
      scripts: payouts.map(({ address }) => hexToBytes(decodeAddress(address, { coin, network }).key)),
      others: lots.filter((lot) => fixed.includes(lot) || isFree(lot)),
    });
  };
  for (const group of groups) {
    let { payouts } = group;
    let found = choose(group);
    // The newest wait for more money. Those with an anchor stay together: once it is spent, no other transaction can pay them.
    while (group.anchors.length === 0 && payouts.length > 1 && (found === 'short' || found === 'many')) {
      const free = worth();
      do payouts = payouts.slice(0, -1);
      while (payouts.length > 1 && unitsOf(payouts) > free);
      found = choose({ payouts, anchors: [] });
    }
    if (typeof found === 'string') leave(group.payouts, found);
    else if (blocksOf([...used, ...found.lots]).size > mostBlocks) leave(group.payouts, 'later');
    else {
      made.chosen.set(payouts, found);
      leave(group.payouts.slice(payouts.length), 'short');
      for (const lot of found.lots) used.add(lot);
    }
  }
  return made;
}
const unitsOf = (payouts: readonly PayoutToPay[]): bigint => payouts.reduce((sum, { units }) => sum + units, 0n);

/** Locks what a file pays and what it spends. False: something changed, or a refund of a payment whose money it spends was requested. */
async function lockAll(
  ctx: Context,
  tx: Tx,
  { merchantId, asked, inputs }: Owner & { asked: readonly PayoutToPay[]; inputs: MadeUtxoFile<Request>['inputs'] },
) {
  const anchors = inputs.filter(({ holding }) => holding?.stays === 'payout_approved');
  if (!(await lockPayments(ctx, tx, { merchantId, ids: paymentsIn(inputs), despite: paymentsIn(anchors) }))) return false;
  const rows = await tx<PayoutToPay[]>`
    select id, units, address, anchor from outgoing_payments
    where id = any(${asked.map(({ id }) => id)}::text[]) and merchant_id = ${merchantId} and ${isReady(tx)}
    order by number for update`;
  const now = new Map(rows.map((row) => [row.id, row]));
  return asked.every(({ id, anchor }) => now.has(id) && now.get(id)!.anchor === anchor);
}

type Wish = { coin: Coin; speed: SweepWish['speed'] };
type PayoutAttempt = Owner & Wish & { wallet: SweepWallet; destination: string; actor: Actor };
/** `anchor` and `parts`: what every transaction of the payout uses. `number`: the transaction that pays it. */
type PlacedPayout = { payout: PayoutToPay; anchor: string; parts: PayoutParts | null; number: number };
type PayoutPlan = { made: MadeUtxoFile<Request>; placed: PlacedPayout[]; left: SkippedPayout[]; gasPrice: GasPrice | null };
const lineOf = ({ address: to, units, reference, id }: PayoutToPay): Line => ({
  ...{ purpose: 'payout', to, units },
  reference: lineReference(reference, id),
});

/** Payouts of a Bitcoin-like coin. */
async function planOutputs(
  ctx: Context,
  asked: readonly TiedPayout[],
  { id, ...making }: PayoutAttempt & { id: string },
): Promise<PayoutPlan> {
  const { merchantId, coin, speed, wallet, destination } = making;
  const chain = chainFor(ctx, coin);
  const [{ holdings }, rateE8] = await Promise.all([
    readHoldings(ctx, { merchantId, walletId: wallet.id, coin }),
    rateFor(chain, { ...DEFAULT_WISH, speed }),
  ]);
  const options = { coin, network: chain.network, wallet, rateE8, mostBlocks: mostBlocksOf(chain, wallet.script as BitcoinScript) };
  const planned = await planSpendable<readonly TiedPayout[], Plan>(chain, { lots: outputLots(holdings), wallet }, (lots) =>
    plan(asked, lots, options),
  );
  const { chosen, full, missing, previous } = planned;
  await watchMissing(ctx, { merchantId, holdings: missing });
  const left = [...planned.left, ...[...full].flatMap(([group, reason]) => group.map(({ id }) => ({ id, reason: REASONS[reason] })))];
  if (chosen.size === 0) return { made: { requests: [], inputs: [], stay: new Map() }, placed: [], left, gasPrice: null };
  const groups = [...chosen].map(([payouts, { lots }]) => ({ lots, lines: payouts.map(lineOf) }));
  const made = buildRequests(chain, groups, { wallet, destination, rateE8, id, previous });
  const placed = [...chosen].flatMap(([payouts, { anchor }], number) =>
    payouts.map((payout) => ({ payout, anchor: payout.anchor ?? anchor, parts: null, number })),
  );
  return { made, placed, left, gasPrice: null };
}

/** Payouts on a chain of accounts. */
async function planAccounts(
  ctx: Context,
  asked: readonly TiedPayout[],
  { merchantId, coin, speed, wallet }: PayoutAttempt,
): Promise<PayoutPlan> {
  const chain = chainFor(ctx, coin);
  const network = ctx.settings.networks[COIN[coin].chain];
  const contract = contractOf(coin, network);
  if (isToken(coin) && contract === null)
    throw new Problem('payout_file_empty', { coin: coinText(coin), reason: 'the token is not known on this network' });
  const [{ holdings, now }, gasPrice] = await Promise.all([
    readHoldings(ctx, { merchantId, walletId: wallet.id, coin }),
    readGasPrice(chain, { ...DEFAULT_WISH, speed }),
  ]);
  const ready = selectHoldings(holdings, { wish: DEFAULT_WISH, now, wholeAddress: true }).filter(({ stays }) => stays === null);
  const oldest = asked.toSorted((a, b) => (a.number < b.number ? -1 : 1));
  const payouts = oldest.map((payout) => ({
    ...{ ...payout, payout, line: lineOf(payout), parts: partsFromJson(payout.parts) },
    // One account sends a payout, so it can be sent instead of one canceled payout only.
    ...{ anchor: payout.anchors[0] ?? null, isTied: payout.anchor === null && payout.anchors.length > 0 },
  }));
  const { chosen, left, ...made } = await makeAccountPayouts(chain, payouts, {
    ...{ holdings, ready, wallet, coin, network, gasPrice, contract },
    ...{ chainId: signingChainId(ctx, coin), nowSeconds: Math.floor(now.getTime() / 1000), prices: readGasPrices(ctx, coin) },
  });
  const placed = [...chosen].map(([{ payout }, one]) => ({ payout, ...one }));
  return { made, placed, left, gasPrice };
}

/** Null: a payout changed meanwhile. Without a `sweep`: the wallet can pay none of them. */
async function tryToMake(ctx: Context, making: PayoutAttempt): Promise<MadePayoutFile | { sweep: null; left: SkippedPayout[] } | null> {
  const { merchantId, coin, wallet, destination, actor } = making;
  const { asked, kept } = await readPayable(ctx, { merchantId, coin, walletId: wallet.id });
  if (asked.length === 0) return { sweep: null, left: kept };
  const id = newId('swp', ctx.random);
  const planned = kindOf(coin) === 'ethereum' ? planAccounts(ctx, asked, making) : planOutputs(ctx, asked, { ...making, id });
  const { made, placed, gasPrice, ...rest } = await planned;
  const left = [...kept, ...rest.left];
  if (placed.length === 0) return { sweep: null, left };
  const file = fileOf(ctx, { id, round: 0, coin, wallet, requests: made.requests, gasPrice });
  const parts = placed.map(({ parts }) => (parts === null ? null : JSON.stringify(partsToJson(parts))));
  const sweep = await store(ctx, {
    ...{ merchantId, wallet, file, destination, inputs: made.inputs, actor, purpose: 'payout' },
    lock: (tx) => lockAll(ctx, tx, { merchantId, asked: placed.map(({ payout }) => payout), inputs: made.inputs }),
    also: async (tx) => {
      await tx`
        update outgoing_payments p set file_id = ${id}, wallet_id = ${wallet.id}, transaction_number = given.place, anchor = given.first,
          parts = given.parts::jsonb, failure = null
        from unnest(${placed.map(({ payout }) => payout.id)}::text[], ${placed.map(({ number }) => number)}::int[],
          ${placed.map(({ anchor }) => anchor)}::text[], ${parts}::text[]) as given (payout, place, first, parts)
        where p.id = given.payout and p.merchant_id = ${merchantId}`;
    },
  });
  return sweep && { sweep, payouts: placed.map(({ payout }) => payout.id), left };
}
/** What the signer shows beside a recipient: the reference, if its form allows that. */
const lineReference = (reference: string | null, id: string): string =>
  reference !== null && /^[\w:-]{1,80}$/.test(reference) ? reference : id;

/**
 * Makes a signing file of approved payouts, from the first wallet that can pay some of them. Errors: payout_file_empty,
 * sweep_destination_missing, sweep_gas_missing, sweep_busy, not_supported, chain_unavailable.
 */
export async function makePayoutFile(
  ctx: Context,
  { merchantId, coin, speed, actor }: Owner & Wish & { actor: Actor },
): Promise<MadePayoutFile> {
  const empty = (reason: string) => new Problem('payout_file_empty', { coin: coinText(coin), reason });
  const { current } = await readDestinations(ctx, ctx.db.sql, { merchantId, coin });
  if (!current) throw new Problem('sweep_destination_missing', { coin: COIN[coin].family });
  const wallets = (await readWallets(ctx, { merchantId })).filter((one) => one.family === COIN[coin].family);
  let reason: string | null = null;
  for (const wallet of wallets) {
    const made = await makeFrom(ctx, { merchantId, coin, speed, wallet, destination: current.address, actor });
    if (made.sweep) return made;
    reason ??= made.left[0]?.reason ?? null;
  }
  throw empty(reason ?? NONE);
}
async function makeFrom(ctx: Context, making: PayoutAttempt): Promise<Exclude<Awaited<ReturnType<typeof tryToMake>>, null>> {
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const made = await asking(making.coin, tryToMake(ctx, making));
    if (made) return made;
  }
  throw new Problem('sweep_busy', {});
}
