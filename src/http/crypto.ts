/** Market and chain lookups: exact values, or 501 naming the missing source, or 503. Nothing is estimated. */
import type { TObject } from 'typebox';
import { decodeAddress, isTransactionId } from '#addresses';
import { type AddressSummary, ChainError, type ChainTransaction, type FeeTier, type JoinedSource } from '#chains';
import { type Asset, COIN, type Coin, chainOf, isToken, kindOf, type Network } from '#core/coin';
import { divideHalfEven, e8ToCents, formatDecimal, formatUnits, formatUsd, worthUsdE8 } from '#core/money';
import { Problem } from '#core/problem';
import { isTestAddress } from '#core/simulated';
import type { AgreedPrice } from '#prices';
import { findTransferBlock, getDepositBalance, getRecordedTransaction, getSimulatedTransaction, getTestBalance } from '#queries';
import { type Query, readAssets, readCoin, readQuery } from './read.ts';
import { type Answer, type ApiCall, type ApiRoute, apiRoute } from './route.ts';
import { BalanceQuery, BalanceReply, CoinQuery, FeesReply, PricesQuery, PricesReply, TransactionReply } from './schema-lookups.ts';

/** The source of a live coin; its failures become the documented errors. */
async function ask<T>({ ctx }: Pick<ApiCall, 'ctx'>, coin: Coin, question: (source: JoinedSource) => Promise<T>): Promise<T> {
  const source = ctx.chains.get(COIN[coin].chain);
  if (!source)
    throw new Problem('not_supported', { coin, missing: `no ${coin} node is configured (${coin}_NODE_URL)` }, { param: 'currency' });
  try {
    return await question(source);
  } catch (error) {
    if (!(error instanceof ChainError)) throw error;
    switch (error.kind) {
      case 'unsupported':
        throw new Problem('not_supported', { coin, missing: error.message }, { param: 'currency', cause: error });
      case 'pruned':
        throw new Problem('history_pruned', { coin }, { param: 'txid', cause: error });
      case 'not_found':
        throw new Problem('transaction_not_found', { coin, id: error.message }, { param: 'txid', cause: error });
      case 'outage':
      case 'behind':
      case 'unproven':
      case 'wrong_network':
      case 'refused':
      case 'unseen':
        throw new Problem('chain_unavailable', { coin, reason: error.message }, { retryAfterSeconds: 30, cause: error });
    }
  }
}

function priceOf({ ctx, owner }: Pick<ApiCall, 'ctx' | 'owner'>, asset: Asset): AgreedPrice {
  const price = owner.mode === 'test' ? ctx.prices.forTest(asset) : ctx.prices.look(asset);
  if (price) return price;
  const why = ctx.prices.quotable(asset);
  throw new Problem(
    'price_unavailable',
    { coin: asset, reason: 'reason' in why ? why.reason : 'the last price is too old' },
    { param: 'currencies', retryAfterSeconds: 30 },
  );
}

/** The coin of a look-up. Sources answer in the native coin of their chain, which must not be shown as an amount of a token. */
function readNativeCoin(query: Query): Coin {
  const coin = readCoin(query);
  if (!isToken(coin)) return coin;
  throw new Problem('not_supported', { coin, missing: 'look-ups are answered for native coins, not for tokens' }, { param: 'currency' });
}

const networkOf = ({ ctx }: Pick<ApiCall, 'ctx'>, coin: Coin): Network => ctx.settings.networks[COIN[coin].chain];

/** A decimal string as a JSON number. Display only: nothing is computed with it. */
const number = (text: string): number => Number(text);

async function readPrices(call: ApiCall<string, typeof PricesQuery, TObject, typeof PricesReply>): Promise<Answer> {
  const prices = readAssets(call.query).map((asset) => priceOf(call, asset));
  const oldest = prices.reduce((a, b) => (b.asOf < a.asOf ? b : a));
  return call.reply({
    success: true,
    timestamp: oldest.asOf.toISOString(),
    prices: Object.fromEntries(
      prices.map((price) => [
        price.asset,
        {
          usd: number(formatDecimal(price.priceE8, 8, 2)),
          change_24h: number(formatDecimal(price.change24hBasisPoints, 2)),
          change_from: price.changeFrom,
          as_of: price.asOf.toISOString(),
          sources: price.sources,
          ...(price.stale && { stale: true }),
          ...(price.sample && { sample: true }),
        },
      ]),
    ),
  });
}

async function readBalance(call: ApiCall<string, typeof BalanceQuery, TObject, typeof BalanceReply>): Promise<Answer> {
  const coin = readNativeCoin(call.query);
  const address = readQuery(call.query, 'address');
  if (address === null || address === '') throw new Problem('parameter_missing', {}, { param: 'address' });
  const simulated = call.owner.mode === 'test';
  const { merchantId } = call.owner;
  // Test addresses are the only ones that exist in test mode alone: all others are checked as in live mode.
  const key = simulated && isTestAddress(address, coin) ? null : decodeAddress(address, { coin, network: networkOf(call, coin) }).key;
  const { summary, isRecorded } =
    simulated || key === null
      ? { summary: await getTestBalance(call.ctx, { merchantId, coin, address }), isRecorded: false }
      : await readLiveBalance(call, { coin, address, key });
  return call.reply({
    success: true,
    address,
    currency: COIN[coin].asset,
    balance: formatUnits(coin, summary.balanceUnits),
    balance_usd: formatUsd(e8ToCents(worthUsdE8(coin, summary.balanceUnits, priceOf(call, COIN[coin].asset).priceE8))),
    unconfirmed_balance: formatUnits(coin, summary.unconfirmedUnits),
    total_received: formatUnits(coin, summary.receivedUnits),
    total_sent: formatUnits(coin, summary.sentUnits),
    transaction_count: summary.transactions,
    ...(isRecorded && { source: 'ledger' as const }),
    ...(simulated && { simulated }),
  });
}

type LiveBalance = { summary: AddressSummary; isRecorded: boolean };
/**
 * Deposit addresses are read from the ledger. Where servers of others are among the sources, that is true of any merchant's, because none
 * of them is sent there. `isRecorded`: it is what Florin recorded, which no source confirmed.
 */
const readLiveBalance = (
  call: Pick<ApiCall, 'ctx' | 'owner'>,
  { coin, address, key }: { coin: Coin; address: string; key: string },
): Promise<LiveBalance> =>
  ask(call, coin, async (source) => {
    const own = await getDepositBalance(call.ctx, source, { merchantId: ownersOf(call, source), coin, key });
    if (own === null) return { summary: await source.lookUps.addressSummary(address), isRecorded: false };
    if (own.isExact) return { summary: own.summary!, isRecorded: false };
    try {
      // An index of one's own knows every transaction.
      return { summary: await source.addressSummary(address), isRecorded: false };
    } catch (error) {
      if (own.summary === null || !(error instanceof ChainError)) throw error;
      return { summary: own.summary, isRecorded: true };
    }
  });
/** Whose payments must not be looked up at a source: this merchant's, or everybody's (null) where servers of others are asked. */
const ownersOf = ({ owner }: Pick<ApiCall, 'owner'>, { sources }: JoinedSource): string | null =>
  sources.some(({ onlyLookUps }) => onlyLookUps) ? null : owner.merchantId;

/** A transaction of a payment is looked up at the sources that payments are read from, and is otherwise shown as it was recorded. */
const readLiveTransaction = (
  call: Pick<ApiCall, 'ctx' | 'owner'>,
  { coin, txid }: { coin: Coin; txid: string },
): Promise<ChainTransaction> =>
  ask(call, coin, async (source) => {
    const known = await findTransferBlock(call.ctx, { merchantId: ownersOf(call, source), coin, txid });
    if (known === null) return source.lookUps.transaction(txid);
    const { blockHash } = known;
    try {
      return await source.transaction(txid, ...(blockHash === null ? [] : [{ blockHash }]));
    } catch (error) {
      if (!(error instanceof ChainError)) throw error;
      const recorded = await getRecordedTransaction(call.ctx, { merchantId: call.owner.merchantId, coin, txid });
      if (recorded === null) throw error;
      return recorded;
    }
  });

async function readFees(call: ApiCall<string, typeof CoinQuery, TObject, typeof FeesReply>): Promise<Answer> {
  const coin = readNativeCoin(call.query);
  const price = priceOf(call, COIN[coin].asset);
  // Test mode: round figures of the simulated chain.
  const tiers =
    call.owner.mode === 'test'
      ? (['fast', 'normal', 'slow'] as const).map((speed, i) => {
          const rateE8 = [2_000_000_000n, 1_000_000_000n, 500_000_000n][i]!;
          const perUnit = kindOf(coin) === 'ethereum' ? 1_000_000_000n : 1n;
          return {
            speed,
            rateE8,
            units: divideHalfEven(rateE8 * BigInt(COIN[coin].typicalSize) * perUnit, 100_000_000n),
            minutes: ['10-20', '30-60', '120-240'][i]!,
            source: 'simulated',
          };
        })
      : await ask(call, coin, (source) => source.lookUps.fees());
  const feeOf = (tier: (typeof tiers)[number]) => ({
    fee_per_byte: number(formatDecimal(tier.rateE8, 8, 0)),
    estimated_confirmation: `${tier.minutes} minutes`,
    [`total_fee_${coin.toLowerCase()}`]: formatUnits(coin, tier.units),
    total_fee: formatUnits(coin, tier.units),
    total_fee_usd: formatUsd(e8ToCents(worthUsdE8(coin, tier.units, price.priceE8))),
    source: tier.source,
  });
  // Every source names all three speeds.
  const fees = Object.fromEntries(tiers.map((tier) => [tier.speed, feeOf(tier)])) as Record<FeeTier['speed'], ReturnType<typeof feeOf>>;
  return call.reply({
    success: true,
    currency: COIN[coin].asset,
    timestamp: call.ctx.clock.now().toISOString(),
    fee_unit: chainOf(coin).feeUnit,
    typical_size: COIN[coin].typicalSize,
    fees,
  });
}

async function readTransaction(call: ApiCall<'/:txid', typeof CoinQuery, TObject, typeof TransactionReply>): Promise<Answer> {
  const coin = readNativeCoin(call.query);
  const txid = call.params.txid;
  if (!isTransactionId(txid, coin)) throw new Problem('transaction_not_found', { coin, id: txid.slice(0, 80) }, { param: 'txid' });
  const simulated = call.owner.mode === 'test';
  const found = simulated
    ? await getSimulatedTransaction(call.ctx, { merchantId: call.owner.merchantId, coin, txid: txid.toLowerCase() })
    : await readLiveTransaction(call, { coin, txid: txid.toLowerCase() });
  const party = ({ address, units, ...more }: { address: string; units: bigint; type?: string }) => ({
    address,
    amount: formatUnits(coin, units),
    ...more,
  });
  return call.reply({
    success: true,
    txid: found.txid,
    currency: COIN[coin].asset,
    status: found.status,
    confirmations: found.confirmations,
    block_height: found.blockHeight,
    block_hash: found.blockHash,
    timestamp: found.timestamp?.toISOString() ?? null,
    amount: formatUnits(coin, found.amountUnits),
    fee: found.feeUnits === null ? null : formatUnits(coin, found.feeUnits),
    inputs: found.inputs?.map(party) ?? null,
    outputs: found.outputs.map(party),
    ...(simulated && { simulated }),
  });
}

export const LOOK_UPS: readonly ApiRoute[] = [
  apiRoute({
    id: 'readPrices',
    method: 'GET',
    path: '/api/crypto/prices',
    access: 'secret',
    permission: 'lookups',
    summary: 'List current prices in USD',
    query: PricesQuery,
    reply: PricesReply,
    handle: readPrices,
  }),
  apiRoute({
    id: 'readBalance',
    method: 'GET',
    path: '/api/crypto/balance',
    access: 'secret',
    permission: 'lookups',
    summary: 'Retrieve the balance of an address',
    query: BalanceQuery,
    reply: BalanceReply,
    handle: readBalance,
  }),
  apiRoute({
    id: 'readFees',
    method: 'GET',
    path: '/api/crypto/fees',
    access: 'secret',
    permission: 'lookups',
    summary: 'Estimate network fees',
    query: CoinQuery,
    reply: FeesReply,
    handle: readFees,
  }),
  apiRoute({
    id: 'readTransaction',
    method: 'GET',
    path: '/api/crypto/transaction/:txid',
    access: 'secret',
    permission: 'lookups',
    summary: 'Retrieve an on-chain transaction',
    query: CoinQuery,
    reply: TransactionReply,
    handle: readTransaction,
  }),
];
