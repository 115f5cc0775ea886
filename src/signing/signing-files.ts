/** Sweeps: list what can be moved, make a signing file, take the signed file back. Nothing here can spend: keys stay with the merchant. */

import { isBitcoinLike, keysOf, PARAMS, signersOf } from '#addresses';
import { ChainError, type JoinedSource } from '#chains';
import type { Context } from '#context';
import { ALL_COINS, CHAIN, CHAINS, COIN, type Coin, chainCode, chainOf, contractOf, feeCoinOf, isToken, kindOf } from '#core/coin';
import { newId } from '#core/id';
import { formatUnits } from '#core/money';
import { Problem } from '#core/problem';
import { linesOf, type Request, readSignedFile, type SigningFile, signingFileOf, signingFileText } from '#core/signing-file';
import type { Sql, Tx } from '#db';
import { feeOf, transactionOf } from '#evm';
import { type Actor, writeAudit } from '#people';
import { readDestinations } from '#wallets';
import { usedAmong } from './canceled.ts';
import { noteFile } from './file-fence.ts';
import {
  DEFAULT_WISH,
  type Holding,
  hasOpenRefund,
  lockRefundsIn,
  MOST_TRANSFERS,
  type Remainder,
  readHoldings,
  readUnpayable,
  readWallets,
  remainderOf,
  type StayReason,
  type SweepWallet,
  type SweepWish,
  selectHoldings,
} from './holdings.ts';
import { type GasPrice, gasInput, makeAccountRequests, readBaseFee, readGasPrice, TRANSFER_GAS } from './make-accounts.ts';
import { type MadeUtxoFile, makePsbts } from './make-utxo.ts';
import { watchCanceled, watchMissing } from './moved.ts';
import { readGasPrices } from './out-payments.ts';
import { lastFundOf, raiseAccounts, replacePsbts, STAY_TEXT } from './replace.ts';
import { readUpload, type Upload } from './signed.ts';
import { tipsIn } from './simulated-blocks.ts';
import { isFeeTooLarge } from './utxo.ts';
import { type CheckedTransaction, sizeOfRaw } from './utxo-check.ts';

export const SWEEP_STATES = ['made', 'signed', 'sent', 'confirmed', 'failed', 'canceled'] as const;
type SweepState = (typeof SWEEP_STATES)[number];
export type Sweep = {
  number: bigint;
  id: string;
  walletId: string;
  coin: Coin;
  /** Refunds and payouts go to others, and what is left of the deposits that pay for them to the destination. */
  purpose: 'sweep' | 'refund' | 'payout';
  state: SweepState;
  round: number;
  destination: string;
  totalUnits: bigint;
  feeUnits: bigint;
  inputCount: number;
  madeBy: string;
  madeAt: Date;
  signedAt: Date | null;
  sentAt: Date | null;
  endedAt: Date | null;
  failure: string | null;
  /** Who has signed it while others have to sign it too, by the order of the wallet's keys. */
  signedBy: number[];
  chainKey: string;
  accountKey: string;
  path: string;
};
const COLUMNS = (sql: Sql | Tx) => sql`
  number, id, wallet_id as "walletId", coin, purpose, state, round, destination, total_units as "totalUnits", fee_units as "feeUnits",
  input_count as "inputCount", signed_by as "signedBy", (select chain_key from wallets where wallets.id = wallet_id) as "chainKey",
  (select account_key from wallets where wallets.id = wallet_id) as "accountKey", (select path from wallets where wallets.id = wallet_id) as path, made_by as "madeBy", made_at as "madeAt", signed_at as "signedAt", sent_at as "sentAt",
  ended_at as "endedAt",
  case when state in ('signed', 'sent') and unsearched_below is not null then concat_ws('; ', failure, 'no source has the blocks below '
    || unsearched_below || ' any more, so a transaction in one of them is found only while one of its outputs is unspent') else failure end as failure`;

type Owner = { merchantId: string };

/** The chain of a coin. Errors: not_supported. */
export function chainFor(ctx: Context, coin: Coin): JoinedSource {
  const chain = ctx.chains.get(COIN[coin].chain);
  const missing = ctx.mode === 'test' ? `${coin} cannot be rehearsed in test mode` : `no ${coin} source is configured`;
  if (!chain) throw new Problem('not_supported', { coin, missing });
  return chain;
}

/** Failures of the chain as documented errors. */
export async function asking<T>(coin: Coin, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof ChainError)) throw error;
    if (error.kind === 'unsupported') throw new Problem('not_supported', { coin, missing: error.message }, { cause: error });
    throw new Problem('chain_unavailable', { coin, reason: error.message }, { retryAfterSeconds: 30, cause: error });
  }
}

/** Coins that arrived on addresses of a wallet, also by mistake, in the order of the catalog. */
async function readCoinsIn(ctx: Context, { merchantId, wallet }: Owner & { wallet: SweepWallet }): Promise<Coin[]> {
  const coins = ALL_COINS.filter((one) => COIN[one].family === wallet.family);
  const rows = await ctx.db.sql<{ coin: Coin }[]>`
    select coin from unnest(${coins}::text[]) as c (coin)
    where exists (select 1 from transfers t where t.merchant_id = ${merchantId} and t.coin = c.coin)`;
  return coins.filter((coin) => rows.some((row) => row.coin === coin));
}

type Sweepable = { wallet: SweepWallet; coin: Coin; count: number; units: bigint; addresses: number; remains: Remainder[] };
/** What lies on the addresses of each wallet, by coin, and what of it stays. Only the ledger is read. */
export async function listSweepable(ctx: Context, { merchantId }: Owner): Promise<Sweepable[]> {
  const found: Sweepable[] = [];
  for (const wallet of await readWallets(ctx, { merchantId }))
    for (const coin of await readCoinsIn(ctx, { merchantId, wallet })) {
      const { holdings, dust, now } = await readHoldings(ctx, { merchantId, walletId: wallet.id, coin });
      if (holdings.length === 0 && dust.count === 0) continue;
      const chosen = selectHoldings(holdings, { wish: DEFAULT_WISH, now, wholeAddress: kindOf(coin) === 'ethereum' });
      const ready = chosen.filter(({ stays }) => stays === null);
      found.push({
        ...{ wallet, coin, count: ready.length, remains: remainderOf(chosen, dust) },
        units: ready.reduce((sum, { units }) => sum + units, 0n),
        addresses: new Set(ready.map(({ address }) => address)).size,
      });
    }
  return found;
}

type SweepWanted = { coin: Coin; walletId: string | null; wish: SweepWish };

async function walletFor(
  ctx: Context,
  { merchantId, coin, walletId }: Owner & { coin: Coin; walletId: string | null },
): Promise<SweepWallet> {
  const wallets = (await readWallets(ctx, { merchantId })).filter((one) => one.family === COIN[coin].family);
  const wallet = walletId === null ? wallets[0] : wallets.find(({ id }) => id === walletId);
  if (!wallet && ctx.mode === 'test') throw new Problem('sweep_empty', { coin, reason: reasonText([]) });
  if (!wallet) throw new Problem('wallet_not_found', { coin });
  return wallet;
}

export async function rateFor(chain: JoinedSource, { speed }: SweepWish): Promise<bigint> {
  const tiers = await chain.fees();
  return (tiers.find((tier) => tier.speed === speed) ?? tiers[0])!.rateE8;
}

/** How often a file is made, when refunds are requested meanwhile. */
const MOST_TRIES = 3;

/**
 * Makes a signing file and reserves what it spends. Errors: sweep_destination_missing, sweep_destination_frozen, sweep_destination_code,
 * sweep_empty, sweep_busy, sweep_gas_missing, wallet_not_found, not_supported, chain_unavailable.
 */
export async function makeSweep(ctx: Context, wanted: Owner & SweepWanted & { actor: Actor }): Promise<MadeSweep> {
  // A refund that is requested while the file is made wins: the file is made again without its payment.
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const made = await tryToMake(ctx, wanted);
    if (made) return made;
  }
  throw new Problem('sweep_busy', {});
}

type MadeSweep = { sweep: Sweep; remains: Remainder[] };
/** Null: a refund of one of the payments was requested meanwhile. */
async function tryToMake(
  ctx: Context,
  { merchantId, coin, walletId, wish, actor }: Owner & SweepWanted & { actor: Actor },
): Promise<MadeSweep | null> {
  const chain = chainFor(ctx, coin);
  const wallet = await walletFor(ctx, { merchantId, coin, walletId });
  const { current } = await readDestinations(ctx, ctx.db.sql, { merchantId, coin });
  if (!current) throw new Problem('sweep_destination_missing', { coin: COIN[coin].family });
  if (kindOf(coin) === 'ethereum') await asking(coin, checkDestinationCode(ctx, { coin, address: current.address }));
  const id = newId('swp', ctx.random);
  const made = await findRequests(ctx, chain, { merchantId, wallet, coin, wish, destination: current.address, reference: id });
  const remains = remainderOf(made.kept, made.dust);
  if (made.requests.length === 0) throw new Problem('sweep_empty', { coin, reason: reasonText(remains) });
  const file = fileOf(ctx, { id, round: 0, coin, wallet, requests: made.requests, gasPrice: made.gasPrice });
  const lock = (tx: Tx) => lockPayments(ctx, tx, { merchantId, ids: paymentsIn(made.inputs) });
  const sweep = await store(ctx, { merchantId, wallet, file, destination: current.address, inputs: made.inputs, actor, lock });
  return sweep && { sweep, remains };
}

/** How often older transfers, none of which can be moved, make place for newer ones. */
const MOST_READS = 10;
/** The requests for the oldest transfers that can be moved, and everything that was looked at with the reasons why it stays. */
async function findRequests(
  ctx: Context,
  chain: JoinedSource,
  { merchantId, coin, ...work }: Owner & Omit<Work, 'holdings'> & { coin: Coin },
): Promise<RequestsToSign & { kept: Pick<Holding, 'stays' | 'units'>[]; dust: Remainder }> {
  const kept: Pick<Holding, 'stays' | 'units'>[] = [];
  for (let read = 1; ; read++) {
    const { holdings, dust, now } = await readHoldings(ctx, { merchantId, walletId: work.wallet.id, coin, skip: kept.length });
    const chosen = selectHoldings(holdings, { wish: work.wish, now, wholeAddress: kindOf(coin) === 'ethereum' });
    const ready = chosen.filter(({ stays }) => stays === null);
    const made = await asking(coin, makeRequests(ctx, chain, { ...work, holdings: ready, coin, now }));
    await watchMissing(ctx, { merchantId, holdings: ready.filter((holding) => mayBeMoved(holding, made)) });
    for (const holding of chosen) kept.push({ units: holding.units, stays: holding.stays ?? made.stay.get(holding) ?? null });
    if (made.requests.length > 0 || holdings.length < MOST_TRANSFERS || read === MOST_READS) return { ...made, kept, dust };
  }
}

/** Whether the chain has so little of it that another wallet may have moved it: what is left of native coin is not worth its fee. */
function mayBeMoved(holding: Holding, { stay, gasPrice }: RequestsToSign): boolean {
  const reason = stay.get(holding);
  return reason === 'spent' || (reason === 'dust' && gasPrice !== null && holding.units > TRANSFER_GAS * gasPrice.max);
}

const WORDS: Readonly<Record<StayReason, string>> = {
  unconfirmed: 'not confirmed yet',
  immature: 'too new to be spent',
  disputed: 'in a block that a source disputes',
  undecided: 'of payments that are open or need a decision',
  refund_requested: 'of payments with an open refund',
  payout_approved: 'in deposits that an approved payout has to spend',
  young: 'younger than the age you chose',
  small: 'below the amount you chose',
  dust: 'worth less than the fee to move it',
  fee: 'above the share of fees you chose',
  frozen: 'frozen by the issuer of the token',
  refused: 'refused by the network or the contract of the token, which may be paused',
  unclear: 'left, because the source of the network could not say what moving them needs; try again in a minute',
  spent: 'already moved by another wallet',
  busy: 'in another signing file',
  unreadable: 'in a form that cannot be spent from here',
  later: 'left for the next file',
};
const stayText = (reason: StayReason): string => WORDS[reason];
const reasonText = (remains: readonly Remainder[]): string =>
  remains.length === 0
    ? 'nothing has arrived on its deposit addresses since the last sweep'
    : remains.map(({ reason, count }) => `${count} ${count === 1 ? 'transfer is' : 'transfers are'} ${WORDS[reason]}`).join('; ');

type Work = { holdings: readonly Holding[]; wallet: SweepWallet; destination: string; wish: SweepWish; reference: string };
type RequestsToSign = MadeUtxoFile<Request> & { gasPrice: GasPrice | null };
async function makeRequests(ctx: Context, chain: JoinedSource, work: Work & { coin: Coin; now: Date }): Promise<RequestsToSign> {
  const { coin, now } = work;
  if (kindOf(coin) !== 'ethereum')
    return { ...(await makePsbts(chain, { ...work, rateE8: await rateFor(chain, work.wish) })), gasPrice: null };
  const gasPrice = await readGasPrice(chain, work.wish);
  const network = ctx.settings.networks[COIN[coin].chain];
  const nowSeconds = Math.floor(now.getTime() / 1000);
  const on = {
    network,
    chainId: signingChainId(ctx, coin),
    contract: contractOf(coin, network),
    gasPrice,
    nowSeconds,
    prices: readGasPrices(ctx, coin),
  };
  return { ...(await makeAccountRequests(chain, { ...work, ...on })), gasPrice };
}
/** The number of a chain of accounts in its signatures. */
export const signingChainId = (ctx: Context, coin: Coin): number => {
  const { chain, chainIds } = chainOf(coin);
  // One number for all simulated chains.
  return ctx.mode === 'test' || chain === CHAIN.ethereum.chain ? ctx.settings.ethChainId : chainIds![ctx.settings.networks[chain]];
};

export function fileOf(
  ctx: Context,
  {
    id,
    round,
    coin,
    wallet,
    requests,
    gasPrice,
  }: { id: string; round: number; coin: Coin; wallet: SweepWallet; requests: readonly Request[]; gasPrice: GasPrice | null },
): SigningFile {
  const chainId = gasPrice && signingChainId(ctx, coin);
  const origins = wallet.signers.map(({ path }) => (path.startsWith('m') ? path.split('/').slice(0, -1).join('/') : null));
  return {
    ...{ id, round, coin, network: ctx.settings.networks[COIN[coin].chain], chainId, gasPrice, requests },
    account: { chainKey: wallet.chainKey, script: wallet.script, origins },
    ...sumsOf(requests, { chainId, gasPrice }),
  };
}

/** What the recipients of requests get, and what the requests cost at most. */
function sumsOf(requests: readonly Request[], price: Pick<SigningFile, 'chainId' | 'gasPrice'>): { totalUnits: bigint; feeUnits: bigint } {
  const sum = (values: readonly bigint[]) => values.reduce((a, b) => a + b, 0n);
  return {
    totalUnits: sum(linesOf({ requests }).map(({ units }) => units)),
    feeUnits: sum(requests.map((request) => (request.kind === 'psbt' ? request.feeUnits : feeOf(request, price)))),
  };
}

/** Files are stored as they are downloaded. */
const stored = (tx: Tx, file: SigningFile) => tx.json(JSON.parse(signingFileText(file)) as never);
const isTaken = (error: unknown): boolean => (error as { code?: unknown }).code === '23505';

/**
 * Locks the payments whose money a file spends. False: one of them has an open refund. `despite`: those whose money only this file may
 * spend, so that their refunds are paid from other deposits.
 */
export async function lockPayments(
  { mode }: Pick<Context, 'mode'>,
  tx: Tx,
  { merchantId, ids, despite = [] }: Owner & { ids: readonly string[]; despite?: readonly string[] },
): Promise<boolean> {
  const mine = tx`p.id = any(${ids as string[]}::text[]) and p.merchant_id = ${merchantId} and p.mode = ${mode}`;
  await tx`select 1 from payments p where ${mine} order by p.id for share`;
  // A second statement also sees refunds that were committed while this one waited for the lock.
  const [refunding] = await tx`
    select 1 from payments p where ${mine} and p.id <> all(${despite as string[]}::text[]) and ${hasOpenRefund(tx)} limit 1`;
  return !refunding;
}

/** The payments whose money is spent. */
export const paymentsIn = (inputs: MadeUtxoFile<Request>['inputs']): string[] => [
  ...new Set(inputs.flatMap(({ holding }) => holding?.paymentId ?? [])),
];

/**
 * Writes the file and reserves its inputs. `lock` locks the payments and says whether their money can still be spent; `also` writes what
 * belongs to it. Null: it cannot. Errors: sweep_busy.
 */
export async function store(
  ctx: Context,
  {
    merchantId,
    wallet,
    file,
    destination,
    inputs,
    actor,
    purpose = 'sweep',
    lock,
    also,
  }: Owner & {
    wallet: SweepWallet;
    file: SigningFile;
    destination: string;
    inputs: MadeUtxoFile<Request>['inputs'];
    actor: Actor;
    purpose?: Sweep['purpose'];
    lock(tx: Tx): Promise<boolean>;
    also?(tx: Tx): Promise<void>;
  },
): Promise<Sweep | null> {
  const { id, coin, totalUnits, feeUnits } = file;
  try {
    return await ctx.db.begin(async (tx) => {
      if (!(await lock(tx))) return null;
      // Once, because the simulated tip follows the clock: height and hash are of one block.
      const tips = tipsIn(ctx, tx, coin);
      const [sweep] = await tx<Sweep[]>`
        insert into signing_files (id, merchant_id, mode, wallet_id, coin, purpose, state, file, destination, total_units, fee_units, input_count, made_by,
          read_height, read_hash)
        values (${id}, ${merchantId}, ${ctx.mode}, ${wallet.id}, ${coin}, ${purpose}, 'made', ${stored(tx, file)}, ${destination}, ${totalUnits.toString()},
          ${feeUnits.toString()}, ${inputs.filter(({ holding }) => holding !== null).length}, ${actor.name},
          (select height from ${tips} where chain = ${chainCode(coin)}), (select hash from ${tips} where chain = ${chainCode(coin)}))
        returning ${COLUMNS(tx)}`;
      await tx`
        insert into signing_inputs (file_id, number, chain, input, coin, payment_id, ref, units)
        select ${id}, number, ${chainCode(coin)}, input, case when payment is null then null else ${coin} end, payment, ref, units::numeric
        from unnest(${inputs.map((_, i) => i)}::int[], ${inputs.map(({ input }) => input)}::text[],
          ${inputs.map(({ holding }) => holding?.paymentId ?? null)}::text[], ${inputs.map(({ holding }) => holding?.ref ?? null)}::text[],
          ${inputs.map(({ units }) => units?.toString() ?? null)}::text[]) as given (number, input, payment, ref, units)`;
      const after = { currency: coin, destination, total: totalUnits.toString(), fee: feeUnits.toString(), inputs: inputs.length };
      await writeAudit(tx, {
        merchantId,
        mode: ctx.mode,
        actor,
        action: purpose === 'sweep' ? 'sweep.made' : purpose === 'refund' ? 'refund.file_made' : 'payout.file_made',
        object: id,
        after,
      });
      await also?.(tx);
      await noteFile(ctx, tx, sweep!);
      return sweep!;
    });
  } catch (error) {
    if (isTaken(error)) throw new Problem('sweep_busy', {}, { cause: error });
    throw error;
  }
}

type SweepTransaction = {
  round: number;
  number: number;
  txid: string;
  sentAt: Date | null;
  refusal: string | null;
  blockHeight: number | null;
};
/** A page of sweeps, newest first. */
export async function listSweeps(
  ctx: Context,
  { merchantId, limit, startingAfter }: Owner & { limit: number; startingAfter: string | null },
): Promise<{ sweeps: Sweep[]; hasMore: boolean }> {
  const { sql } = ctx.db;
  const sweeps = await sql<Sweep[]>`
    select ${COLUMNS(sql)} from signing_files where merchant_id = ${merchantId} and mode = ${ctx.mode}
      ${startingAfter === null ? sql`` : sql`and number < (select number from signing_files where id = ${startingAfter} and merchant_id = ${merchantId})`}
    order by number desc limit ${limit + 1}`;
  return { sweeps: sweeps.slice(0, limit), hasMore: sweeps.length > limit };
}

/** Errors: sweep_not_found. */
export async function getSweep(
  ctx: Context,
  { merchantId, id }: Owner & { id: string },
): Promise<{ sweep: Sweep; transactions: SweepTransaction[] }> {
  const { sql } = ctx.db;
  const [sweep] = await sql<
    Sweep[]
  >`select ${COLUMNS(sql)} from signing_files where id = ${id} and merchant_id = ${merchantId} and mode = ${ctx.mode}`;
  if (!sweep) throw new Problem('sweep_not_found', { id: id.slice(0, 40) });
  const transactions = await sql<SweepTransaction[]>`
    select round, number, txid, sent_at as "sentAt", refusal, block_height::int as "blockHeight" from signed_transactions
    where file_id = ${id} order by round, number limit 2000`;
  return { sweep, transactions };
}

/** The file to sign. Errors: sweep_not_found; sweep_state, if it ended and was erased with the data of its customers. */
export async function readSigningFileOf(ctx: Context, { merchantId, id }: Owner & { id: string }): Promise<SigningFile> {
  const [row] = await ctx.db.sql<{ file: unknown; state: SweepState; isErased: boolean }[]>`
    select file, state, erased_at is not null as "isErased" from signing_files where id = ${id} and merchant_id = ${merchantId} and mode = ${ctx.mode}`;
  if (!row) throw new Problem('sweep_not_found', { id: id.slice(0, 40) });
  if (row.isErased) throw new Problem('sweep_state', { id, state: row.state });
  return signingFileOf(row.file);
}

/**
 * The file for somebody who is about to sign it: not one whose fee the network would refuse now. Errors: those of `readSigningFileOf`,
 * sweep_fee_low.
 */
export async function readFileToSign(ctx: Context, of: Owner & { id: string }): Promise<SigningFile> {
  const file = await readSigningFileOf(ctx, of);
  const chain = ctx.chains.get(COIN[file.coin].chain);
  const [signed] = await ctx.db.sql`
    select 1 from signing_files s where s.id = ${of.id} and (s.state not in ('made', 'signed', 'sent')
      or exists (select 1 from signed_transactions t where t.file_id = s.id and t.round = s.round))`;
  if (!file.gasPrice || signed || !chain) return file;
  // Where no source answers now, the fee is looked at when the transaction is sent.
  const base = await readBaseFee(chain).catch((error: unknown) => {
    if (error instanceof ChainError) return 0n;
    throw error;
  });
  if (base <= file.gasPrice.max) return file;
  const named = (wei: bigint) => `${formatUnits('ETH', wei * GWEIS)} gwei`;
  throw new Problem('sweep_fee_low', { id: of.id, paid: named(file.gasPrice.max), needed: named(base) });
}
/** Gwei in ETH, to show a price per gas. */
const GWEIS = 10n ** 9n;

type LockedSweep = { id: string; coin: Coin; state: SweepState; round: number; walletId: string; file: unknown; signedBy: number[] };
async function lockSweep({ mode }: Pick<Context, 'mode'>, tx: Tx, { merchantId, id }: Owner & { id: string }): Promise<LockedSweep> {
  const [row] = await tx<LockedSweep[]>`
    select id, coin, state, round, wallet_id as "walletId", file, signed_by as "signedBy" from signing_files where id = ${id} and merchant_id = ${merchantId} and mode = ${mode} for update`;
  if (!row) throw new Problem('sweep_not_found', { id: id.slice(0, 40) });
  return row;
}

/** The sweep that a signed file belongs to: by its ID, or by the inputs of its transaction. Errors: sweep_not_found. */
async function sweepOf(ctx: Context, { merchantId, id, input }: Owner & { id: string | null; input: string | null }): Promise<string> {
  if (id !== null) return id;
  const [row] = await ctx.db.sql<{ id: string }[]>`
    select s.id from signing_inputs i join signing_files s on s.id = i.file_id
    where i.input = ${input ?? ''} and i.released_at is null and s.merchant_id = ${merchantId} and s.mode = ${ctx.mode} limit 1`;
  if (!row) throw new Problem('sweep_not_found', { id: 'for these inputs' });
  return row.id;
}

/**
 * Takes a signed file: the file of the signer page, a PSBT in base64, or a raw transaction in hex. It is checked against what was asked,
 * stored, and sent by the process that follows the chain. The same file again changes nothing. Errors: signed_file_private,
 * signed_file_refused, sweep_not_found, sweep_state.
 */
export async function acceptSigned(
  ctx: Context,
  { merchantId, content, actor }: Owner & { content: string; actor: Actor },
): Promise<{ sweep: Sweep; isKnown: boolean }> {
  const upload = readUpload(content, readSignedFile);
  const id = await sweepOf(ctx, { merchantId, id: upload.id, input: upload.input });
  if (upload.sign(await readSigningFileOf(ctx, { merchantId, id }))) {
    const isNew = await addSignatures(ctx, { merchantId, id, upload, actor });
    if (isNew !== null) return { sweep: (await getSweep(ctx, { merchantId, id })).sweep, isKnown: !isNew };
  }
  const asked = await readSigningFileOf(ctx, { merchantId, id });
  const known = upload.check(asked);
  // Once it was sent, its transfers would fail, because they were made.
  if ((await findNew(ctx.db.sql, { id, checked: known, file: asked })).length > 0) await tryBatches(ctx, asked, known);
  const isKnown = await ctx.db.begin(async (tx) => {
    const refunds = await lockRefundsIn(tx, { merchantId, sweepId: id });
    const sweep = await lockSweep(ctx, tx, { merchantId, id });
    const file = signingFileOf(sweep.file);
    // Checking hundreds of signatures takes a second, in which nobody should wait for the lock. Only another round is another file.
    const checked = file.round === asked.round ? known : upload.check(file);
    const added = await findNew(tx, { id, checked, file });
    if (added.length === 0) return true;
    const [{ signed } = { signed: true }] = await tx<{ signed: boolean }[]>`
      select exists (select 1 from signed_transactions where file_id = ${id} and round = ${file.round}) as signed`;
    // A replacement is signed while the transaction before it waits.
    const isOpen = sweep.state === 'made' || sweep.state === 'signed' || sweep.state === 'sent';
    if (!isOpen || signed) throw new Problem('sweep_state', { id, state: sweep.state });
    if (sweep.state === 'made' && (await readUnpayable(ctx, tx, { merchantId, coin: sweep.coin, asked: refunds })).size > 0)
      throw new Problem('signed_file_refused', {
        reason: 'pays a refund of a payment whose money is not confirmed any more; cancel this file and make it again',
      });
    await tx`
      insert into signed_transactions (file_id, round, number, txid, raw, fee_units, after_number)
      select ${id}, ${file.round}, number, txid, decode(raw, 'hex'), fee::numeric, after_number
      from unnest(${added.map(({ number }) => number)}::int[], ${added.map(({ txid }) => txid)}::text[],
        ${added.map(({ raw }) => Buffer.from(raw).toString('hex'))}::text[], ${added.map(({ feeUnits }) => feeUnits.toString())}::text[],
        ${added.map(({ number }) => fundOf(file.requests[number]!, file))}::int[]) as given (number, txid, raw, fee, after_number)`;
    await tx`update signing_files set state = case state when 'made' then 'signed' else state end, signed_at = clock_timestamp() where id = ${id}`;
    const after = { transactions: checked.length };
    await writeAudit(tx, { merchantId, mode: ctx.mode, actor, action: 'sweep.signed', object: id, after });
    return false;
  });
  return { sweep: (await getSweep(ctx, { merchantId, id })).sweep, isKnown };
}

/**
 * Keeps the signatures of some of those who have to sign, so that the next one downloads the file with them. Null: with those that came
 * meanwhile it is whole. Errors: signed_file_refused, sweep_not_found, sweep_state.
 */
const addSignatures = (
  ctx: Context,
  { merchantId, id, upload, actor }: Owner & { id: string; upload: Upload; actor: Actor },
): Promise<boolean | null> =>
  ctx.db.begin(async (tx) => {
    const { state, round, file: before, signedBy } = await lockSweep(ctx, tx, { merchantId, id });
    const found = upload.sign(signingFileOf(before));
    if (!found) return null;
    if (found.signers.every((signer) => signedBy.includes(signer))) return false;
    const [signed] = await tx`select 1 from signed_transactions where file_id = ${id} and round = ${round} limit 1`;
    if (signed || (state !== 'made' && state !== 'signed' && state !== 'sent')) throw new Problem('sweep_state', { id, state });
    await tx`update signing_files set file = ${stored(tx, found.file)}, signed_by = ${found.signers}::int[] where id = ${id}`;
    const after = { signatures: found.signers.length, required: keysOf(found.file.account.chainKey).required };
    await writeAudit(tx, { merchantId, mode: ctx.mode, actor, action: 'sweep.signed', object: id, after });
    return true;
  });

/**
 * The transactions that are not stored yet. With a higher fee for others, a PSBT may be in a file again as it was signed; another signature
 * of the same transaction adds nothing.
 */
async function findNew(
  sql: Sql | Tx,
  { id, checked, file }: { id: string; checked: readonly CheckedTransaction[]; file: SigningFile },
): Promise<(CheckedTransaction & { number: number })[]> {
  const rows = await sql<{ number: number; txid: string; feeUnits: bigint }[]>`
    select number, txid, fee_units as "feeUnits" from signed_transactions where file_id = ${id}`;
  const txids = new Set(rows.map(({ txid }) => txid));
  const fees = new Set(rows.map(({ number, feeUnits }) => `${number} ${feeUnits}`));
  return checked
    .map((one, number) => ({ ...one, number }))
    .filter(
      ({ number, txid, feeUnits }) => !txids.has(txid) && !(file.requests[number]!.kind === 'psbt' && fees.has(`${number} ${feeUnits}`)),
    );
}

/**
 * Runs the batches on the node before anything is sent, in the form in which the first failure ends all of it: a transfer that would fail
 * is known before it costs a fee. Those that somebody sent already fail without harm. Errors: signed_file_refused.
 */
async function tryBatches(ctx: Context, file: SigningFile, checked: readonly CheckedTransaction[]): Promise<void> {
  const chain = chainFor(ctx, file.coin);
  for (const [i, { signatures }] of checked.entries()) {
    const request = file.requests[i]!;
    if (request.kind !== 'batch') continue;
    const used = await asking(file.coin, usedAmong(chain, request.contract, request.authorizations));
    if ([...used].some(({ line }) => line.purpose === 'payout'))
      throw new Problem('signed_file_refused', { reason: 'pays a payout that somebody already sent; cancel this file and make it again' });
    const left = request.authorizations.flatMap((authorization, at) => (used.has(authorization) ? [] : [at]));
    if (left.length === 0) continue;
    const { to, data } = transactionOf({ ...request, authorizations: left.map((at) => request.authorizations[at]!) }, file, {
      signatures: left.map((at) => signatures![at]!),
      mayFail: () => false,
    });
    const call = { from: request.from, to: `0x${to}`, data: `0x${data}` };
    const [reply] = await asking(file.coin, chain.ask([['eth_estimateGas', call, 'latest']]));
    const failure = reply!.error?.message;
    if (failure !== undefined)
      throw new Problem('signed_file_refused', { reason: `contains a token transfer that would fail (${failure.slice(0, 200)})` });
    const needed = BigInt(String(reply!.result));
    if (needed > request.gas)
      throw new Problem('signed_file_refused', {
        reason: `allows ${request.gas} gas for a transaction that now needs ${needed}; cancel the sweep, or raise its fee if it was sent`,
      });
  }
}

/** Transactions of sweeps that only pay for the gas of deposit addresses, among these, as merchant ID and transaction ID. */
export async function readGasPayments(sql: Sql | Tx, txids: readonly string[]): Promise<(readonly [merchantId: string, txid: string])[]> {
  const rows = await sql<{ merchantId: string; txid: string }[]>`
    select s.merchant_id as "merchantId", t.txid from signed_transactions t join signing_files s on s.id = t.file_id
    where t.txid = any(${txids as string[]}::text[])
      and exists (select 1 from signed_transactions paid where paid.file_id = t.file_id and paid.after_number = t.number)`;
  return rows.map(({ merchantId, txid }) => [merchantId, txid]);
}

/** The request that pays for the gas of another one and must be mined before it; null: none. */
function fundOf(request: Request, { requests }: SigningFile): number | null {
  if (request.kind !== 'token' && request.kind !== 'native') return null;
  const at = lastFundOf(requests, request.from);
  return at === -1 ? null : at;
}

/**
 * Makes the file again with a higher fee, from the same inputs, while it waits to be mined. What was sent before is followed too. Errors:
 * sweep_not_found, sweep_state, sweep_empty, sweep_gas_missing, sweep_busy, not_supported, chain_unavailable.
 */
export async function replaceSweep(
  ctx: Context,
  { merchantId, id, speed, actor }: Owner & { id: string; speed: SweepWish['speed']; actor: Actor },
): Promise<Sweep> {
  const before = await readSigningFileOf(ctx, { merchantId, id });
  const chain = chainFor(ctx, before.coin);
  const wallet = (await readWallets(ctx, { merchantId })).find(
    ({ family, chainKey }) => family === COIN[before.coin].family && chainKey === before.account.chainKey,
  )!;
  const file = await asking(before.coin, raiseFee(ctx, chain, { file: before, wallet, speed }));
  const payer = file.requests.find((one) => one.kind === 'fund');
  await ctx.db.begin(async (tx) => {
    const { state, round } = await lockSweep(ctx, tx, { merchantId, id });
    if ((state !== 'signed' && state !== 'sent') || round !== before.round) throw new Problem('sweep_state', { id, state });
    if (payer) await reserveGas(tx, { id, coin: file.coin, input: gasInput(payer.from) });
    await tx`
      update signing_files set file = ${stored(tx, file)}, round = ${file.round}, total_units = ${file.totalUnits.toString()},
        fee_units = ${file.feeUnits.toString()}, signed_by = '{}' where id = ${id}`;
    const after = { total: file.totalUnits.toString(), fee: file.feeUnits.toString() };
    await writeAudit(tx, { merchantId, mode: ctx.mode, actor, action: 'sweep.replaced', object: id, after });
  });
  return (await getSweep(ctx, { merchantId, id })).sweep;
}

/** Keeps the gas address for a file that is locked, if it is not kept for it yet. Errors: sweep_busy. */
async function reserveGas(tx: Tx, { id, coin, input }: { id: string; coin: Coin; input: string }): Promise<void> {
  const [mine] = await tx`select 1 from signing_inputs where file_id = ${id} and input = ${input} and released_at is null`;
  if (mine) return;
  const taken = await tx`
    insert into signing_inputs (file_id, number, chain, input)
    select ${id}, max(number) + 1, ${chainCode(coin)}, ${input} from signing_inputs where file_id = ${id} on conflict do nothing returning 1`;
  if (taken.length === 0) throw new Problem('sweep_busy', {});
}

/** The lowest fee for relaying, per virtual byte in 1e-8. */
function relayRateOf(coin: Coin): bigint {
  const { family } = COIN[coin];
  return isBitcoinLike(family) ? PARAMS[family].floorPerKilobyte * 100_000n : 0n;
}

/** The same file for a higher fee. Errors: ChainError, sweep_empty, sweep_gas_missing. */
async function raiseFee(
  ctx: Context,
  chain: JoinedSource,
  { file, wallet, speed }: { file: SigningFile; wallet: SweepWallet; speed: SweepWish['speed'] },
): Promise<SigningFile> {
  const { gasPrice, coin, chainId } = file;
  const found = gasPrice
    ? await raiseAccounts(ctx, chain, { file: { ...file, gasPrice }, wallet, speed })
    : { requests: await raisePsbts(ctx, chain, { file, speed }), gasPrice };
  const empty = (reason: string) => new Problem('sweep_empty', { coin, reason });
  if (!found) throw empty(`${STAY_TEXT.money}, or ${STAY_TEXT.mined}`);
  const { requests } = found;
  if (typeof requests === 'string') throw empty(STAY_TEXT[requests]);
  const sums = sumsOf(requests, { chainId, gasPrice: found.gasPrice });
  // Fees of tokens are paid in another coin.
  if (!isToken(coin) && isFeeTooLarge(sums.feeUnits, sums.totalUnits + sums.feeUnits)) throw empty(STAY_TEXT.share);
  return { ...file, ...sums, round: file.round + 1, gasPrice: found.gasPrice, requests };
}
async function raisePsbts(
  ctx: Context,
  chain: JoinedSource,
  { file: { id, coin, requests }, speed }: { file: SigningFile; speed: SweepWish['speed'] },
): Promise<ReturnType<typeof replacePsbts>> {
  const sent = await ctx.db.sql<{ raw: Uint8Array; feeUnits: bigint; isMined: boolean }[]>`
    select distinct on (number) raw, fee_units as "feeUnits", bool_or(block_height is not null or failed_at is not null)
      over (partition by number) as "isMined"
    from signed_transactions where file_id = ${id} order by number, round desc limit 100`;
  if (sent.length !== requests.length) throw new Problem('sweep_state', { id, state: 'not signed yet' });
  const signed = sent.map(({ raw, feeUnits, isMined }) => ({ feeUnits, isMined, size: BigInt(sizeOfRaw(raw)) }));
  const rateE8 = await rateFor(chain, { ...DEFAULT_WISH, speed });
  return replacePsbts(requests, { signed, rateE8, relayE8: relayRateOf(coin), leastUnits: COIN[coin].dustUnits });
}

/** Cancels a file that was not sent, so that another one may spend the same. Errors: sweep_not_found, sweep_state. */
export const cancelSweep = (ctx: Context, { merchantId, id, actor }: Owner & { id: string; actor: Actor }): Promise<void> =>
  ctx.db.begin(async (tx) => {
    const { state } = await lockSweep(ctx, tx, { merchantId, id });
    if (state !== 'made') throw new Problem('sweep_state', { id, state });
    await tx`update signing_files set state = 'canceled', ended_at = clock_timestamp() where id = ${id}`;
    await tx`update signing_inputs set released_at = clock_timestamp() where file_id = ${id}`;
    await watchCanceled(ctx, tx, { sweepId: id });
    await writeAudit(tx, { merchantId, mode: ctx.mode, actor, action: 'sweep.canceled', object: id });
  });

// Whether the destination of a family of accounts is somebody's on the chain of a file: contracts exist only where they were created.

/** An ordinary account that delegates to a contract (EIP-7702) has its key on every chain. */
const DELEGATED = /^0xef0100[0-9a-f]{40}$/i;

/** Null: the source did not say. */
async function hasCode(chain: JoinedSource, address: string): Promise<boolean | null> {
  const [reply] = await chain.ask([['eth_getCode', address, 'latest']]);
  if (!reply || reply.error || typeof reply.result !== 'string') return null;
  return reply.result !== '0x' && !DELEGATED.test(reply.result);
}

/** Errors: sweep_destination_code, ChainError. */
async function checkDestinationCode(ctx: Context, { coin, address }: { coin: Coin; address: string }): Promise<void> {
  const { chain: id, family } = COIN[coin];
  const network = ctx.settings.networks[id];
  const chain = ctx.chains.get(id);
  if (!chain || (await hasCode(chain, address)) !== false) return;
  for (const other of CHAINS) {
    const source = ctx.chains.get(other);
    if (other === id || CHAIN[other].family !== family || ctx.settings.networks[other] !== network || !source) continue;
    const found = await hasCode(source, address).catch((error: unknown) => {
      // A chain that is away does not stop the others.
      if (error instanceof ChainError) return null;
      throw error;
    });
    if (found) throw new Problem('sweep_destination_code', { address, other: CHAIN[other].name, chain: CHAIN[id].name });
  }
}

// Sweeps as the dashboard and the commands show them.

/** What stays on deposit addresses, and why. */
export const remainsBody = (coin: Coin, remains: readonly Remainder[]) =>
  remains.map(({ reason, count, units }) => ({ reason, text: stayText(reason), transfers: count, amount: formatUnits(coin, units) }));

export const sweepBody = (sweep: Sweep) => ({
  ...{
    id: sweep.id,
    purpose: sweep.purpose,
    state: sweep.state,
    currency: sweep.coin,
    destination: sweep.destination,
    inputs: sweep.inputCount,
  },
  ...{ amount: formatUnits(sweep.coin, sweep.totalUnits), fee: formatUnits(feeCoinOf(sweep.coin), sweep.feeUnits) },
  ...{ fee_currency: feeCoinOf(sweep.coin), made_by: sweep.madeBy, made_at: sweep.madeAt.toISOString() },
  ...{ sent_at: sweep.sentAt?.toISOString() ?? null, ended_at: sweep.endedAt?.toISOString() ?? null, failure: sweep.failure },
  signatures: signaturesBody(sweep),
});

/** Who has to sign, and who has; null where one key signs. */
function signaturesBody(sweep: Sweep) {
  const { required, chainKeys } = keysOf(sweep.chainKey);
  if (chainKeys.length === 1) return null;
  const signers = signersOf(sweep).map(({ fingerprint, path }, i) => ({ fingerprint, path, has_signed: sweep.signedBy.includes(i) }));
  return { required, signers };
}
