/**
 * Payouts on chains of accounts, from deposit addresses. Each can be executed once only. Tokens with EIP-3009: one address authorizes the
 * whole payout, the gas address sends the authorizations of many payouts in one transaction, and their nonces follow from the payout. If no
 * address holds enough, others first authorize transfers to the one that pays. Native coin and other tokens: an address that holds enough
 * sends a transaction of its own, with the account nonce that the first file of the payout fixed.
 */
import { keccak_256 } from '@noble/hashes/sha3.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import type { JoinedSource } from '#chains';
import type { AccountRequest, Authorization, BatchRequest, Line } from '#core/signing-file';
import { boundText, usedAmong } from './canceled.ts';
import { accountOfAnchor, type Holding, type PayoutParts } from './holdings.ts';
import {
  type AccountLot,
  accountLots,
  addressesOf,
  BATCH,
  batchOf,
  checkGas,
  domainFor,
  frozenAmong,
  gasInput,
  MOST_ADDRESSES,
  onChain,
  readAuthorizationGas,
  readGasAccount,
  readPublishingFee,
  readPublishingFees,
  TRANSFER_BYTES,
  withPostingGas,
} from './make-accounts.ts';
import type { MadeUtxoFile } from './make-utxo.ts';
import { isDear, MAX_REFUND_FEE_PERCENT } from './out-payments.ts';
import {
  type AskedTransfer,
  type FundedRequest,
  type Left,
  type MadeTransfers,
  NOTHING_MADE,
  sharesOf,
  sift,
  transferEach,
  type Work,
} from './refund-accounts.ts';

/**
 * `isPublished`: an earlier file failed, but anybody can still send its authorizations. `isTied`: its anchor is that of a canceled payout to
 * the same recipient.
 */
type AccountPayout = AskedTransfer & { line: Line; parts: PayoutParts | null; isPublished: boolean; isTied?: boolean };
/** `ready`: what a sweep could move. `holdings`: also what is reserved for payouts. */
type PayoutWork = Work & { ready: readonly Holding[] };
/** `parts`: the deposits that every later file of a payout by authorization uses. */
type MadePayouts<T> = MadeUtxoFile<AccountRequest> & {
  chosen: Map<T, { anchor: string; number: number; parts: PayoutParts | null }>;
  left: Left[];
};

const OWN_WALLET = 'sweep first, and send it from your own wallet';
const REASONS = {
  short: 'the confirmed money on deposit addresses is not enough for it',
  single: `no deposit address holds enough for it; ${OWN_WALLET}`,
  moved:
    'the deposits that an earlier file of it spends are not all there any more; cancel it, and request it again once that file can never be sent, or send it from your own wallet and mark it as sent',
  expiring:
    'the deposits that an earlier file of it spends are not all there any more; once that file has expired it fails, then request it again',
  waits: 'a deposit that an earlier file of it spends is not confirmed at the moment; try again later',
  frozen: 'the issuer of the token froze its address, or a deposit address that an earlier file of it spends',
  paid: 'it was already paid, because somebody sent an earlier file of it; find the transaction, then mark it as sent',
  confirming: 'it was already paid, because somebody sent an earlier file of it; it is confirmed once that file has expired',
  used: 'its deposit address sent another transaction since an earlier file of it was made; look where the money went, then mark it as sent or cancel it',
  changed: 'the token has other functions than when an earlier file of it was made; cancel it, and request it again',
  refused: 'a transfer to its address would fail; cancel it, and ask for another address',
  unclear: 'the source of the network could not say what a transfer of it needs; try again in a minute',
  fee: `the network fee would be more than ${MAX_REFUND_FEE_PERCENT} percent of its amount; try again when fees are lower`,
  many: `it needs more deposits than fit into one transaction; ${OWN_WALLET}`,
  later: 'the file is full; it fits into the next one',
  bound: boundText('payout'),
  turn: 'its deposit pays another payout in this file; make the next file once this one is confirmed',
} as const;
type Reason = keyof typeof REASONS;

const nonceFor = (...name: readonly string[]): string =>
  `0x${bytesToHex(keccak_256(utf8ToBytes(JSON.stringify(['florin payout', ...name]))))}`;
/** Never change, so every file of a payout has the same ones: of its payment, and of each address that adds to it. */
export const payoutNonce = (id: string): string => nonceFor(id);
export const gatherNonce = (id: string, address: string): string => nonceFor(id, address);

const isSame = (one: string, other: string): boolean => one.toLowerCase() === other.toLowerCase();
const sum = (values: readonly bigint[]): bigint => values.reduce((a, b) => a + b, 0n);
const bySize = (one: AccountLot, other: AccountLot): number => (one.units === other.units ? 0 : one.units > other.units ? -1 : 1);

/** A deposit address, and what it authorizes. */
type PayingAddress = { lot: AccountLot; units: bigint };
/**
 * The smallest lot that is enough. Otherwise the largest, which pays, and the next largest ones, of which the last gives only what is
 * missing: nothing is left on the address that pays.
 */
export function chooseSources(units: bigint, lots: readonly AccountLot[]): PayingAddress[] | 'short' {
  const large = lots.filter((lot) => lot.units > 0n).sort(bySize);
  const single = large.findLast((lot) => lot.units >= units);
  if (single) return [{ lot: single, units }];
  const sources: PayingAddress[] = [];
  let missing = units;
  for (const lot of large) {
    const taken = missing < lot.units ? missing : lot.units;
    sources.push({ lot, units: taken });
    missing -= taken;
    if (missing === 0n) return sources;
  }
  return 'short';
}

/** What may pay for payouts that were in no file yet, with what the chain says that it holds. */
async function readFree(chain: JoinedSource, { ready, contract }: PayoutWork): Promise<AccountLot[]> {
  const lots = accountLots(ready).sort(bySize).slice(0, MOST_ADDRESSES);
  if (lots.length === 0) return [];
  const [held, frozen] = await Promise.all([
    onChain(chain, lots, contract),
    contract === null ? new Set<string>() : frozenAmong(chain, contract, addressesOf(lots)),
  ]);
  return held.filter(({ address, units }) => units > 0n && !frozen.has(address));
}

/** The transfers that an earlier file used, which must all be there and reserved for nothing else. */
function findFixed(holdings: readonly Holding[], wanted: (holding: Holding) => boolean): Holding[] | 'waits' | null {
  const found = holdings.filter(wanted);
  if (found.length === 0) return null;
  return found.every(({ stays }) => stays === null || stays === 'payout_approved') ? found : 'waits';
}

/** `holdings`: all that lies on deposit addresses. Errors: ChainError, sweep_gas_missing. */
export async function makeAccountPayouts<T extends AccountPayout>(
  chain: JoinedSource,
  all: readonly T[],
  work: PayoutWork,
): Promise<MadePayouts<T>> {
  const { contract, chainId } = work;
  const domain = contract === null ? null : await domainFor(chain, { contract, chainId });
  // Only one of two ways is ever signed for a payout.
  const asked = all.map((one) => ({ asked: one }));
  const fitting = sift(asked, REASONS, ({ asked: { anchor } }) =>
    anchor !== null && (accountOfAnchor(anchor) === null) !== (domain !== null) ? 'changed' : null,
  );
  const paid = contract === null ? new Set<string>() : await frozenAmong(chain, contract, [contract, ...all.map(({ address }) => address)]);
  const open = sift(fitting.found, REASONS, ({ asked: { address } }) => (paid.has(address) ? 'frozen' : null));
  const payouts = open.found.map(({ asked }) => asked);
  const made =
    contract !== null && domain !== null
      ? await authorizeAll(chain, payouts, { ...work, contract, domain })
      : await sendEach(chain, payouts, work);
  return { ...made, left: [...fitting.left, ...open.left, ...made.left] };
}

/** A transaction of one address for each payout. */
async function sendEach<T extends AccountPayout>(chain: JoinedSource, payouts: readonly T[], work: PayoutWork): Promise<MadePayouts<T>> {
  const left: Left[] = [];
  const leave = ({ id }: T, reason: Reason) => void left.push({ id, reason: REASONS[reason] });
  const chosen: (FundedRequest<T> & { isFixed: boolean })[] = [];
  for (const payout of payouts) {
    if (payout.anchor === null) continue;
    const from = accountOfAnchor(payout.anchor);
    const found = findFixed(work.holdings, ({ address }) => from !== null && isSame(address, from));
    if (found === 'waits' || found === null) leave(payout, found ?? (payout.isTied ? 'bound' : 'moved'));
    else if (chosen.some(({ lot }) => isSame(lot.address, from!))) leave(payout, 'turn');
    else chosen.push({ asked: payout, lot: accountLots(found)[0]!, held: 0n, isFixed: true });
  }
  const lots = chosen.map(({ lot }) => lot);
  const [held, free] = await Promise.all([lots.length === 0 ? [] : onChain(chain, lots, work.contract), readFree(chain, work)]);
  const fixed = sift(
    chosen.map((one, i) => ({ ...one, held: held[i]!.units })),
    REASONS,
    ({ asked, held }) => (held >= asked.units ? null : asked.isTied ? 'bound' : 'moved'),
  );
  const candidates: FundedRequest<T>[] = [...fixed.found];
  const used = new Set(chosen.map(({ lot }) => lot.address));
  for (const payout of payouts) {
    if (payout.anchor !== null) continue;
    const enough = free.filter(({ address, units }) => units >= payout.units && !used.has(address) && !isSame(address, payout.address));
    const lot = enough.sort(bySize).at(-1);
    if (!lot) {
      leave(payout, 'single');
      continue;
    }
    used.add(lot.address);
    candidates.push({ asked: payout, lot, held: lot.units });
  }
  if (candidates.length === 0) return { ...NOTHING_MADE, chosen: new Map(), left: [...left, ...fixed.left] };
  const made: MadeTransfers<T> = await transferEach(chain, candidates, work, {
    lineOf: ({ line }) => line,
    reasons: REASONS,
    most: candidates.length,
  });
  return {
    ...made,
    chosen: new Map([...made.chosen].map(([payout, one]) => [payout, { ...one, parts: null }])),
    left: [...left, ...fixed.left, ...made.left],
  };
}

/** What one address authorizes for a payout, and what that takes of its transfers. */
type Part = PayingAddress & { shares: readonly { holding: Holding; units: bigint }[] };
/** `parts`: the address that pays comes first. */
type Funded<T> = { asked: T; parts: readonly Part[] };

const authorizationsOf = ({ asked: { id, line }, parts: [payer, ...others] }: Funded<AccountPayout>): Authorization[] => {
  const { address, index } = payer!.lot;
  const gathered = others.map(({ lot, units }): Authorization => {
    const nonce = gatherNonce(id, lot.address);
    return {
      from: lot.address,
      path: { chain: 0, index: lot.index },
      nonce,
      line: { purpose: 'gather', to: address, units, reference: id },
    };
  });
  return [...gathered, { from: address, path: { chain: 0, index }, nonce: payoutNonce(id), line }];
};

/** The same deposits again. */
function fixedParts({ parts }: AccountPayout, holdings: readonly Holding[]): Part[] | 'waits' | null {
  const found: Part[] = [];
  for (const { address, units, transfers } of parts ?? []) {
    const isOf = ({ paymentId, ref }: Holding) => transfers.find((one) => one.paymentId === paymentId && one.ref === ref);
    const there = findFixed(holdings, (holding) => isOf(holding) !== undefined);
    if (there === null || there === 'waits') return there;
    const [lot] = accountLots(there);
    if (there.length < transfers.length || !lot || lot.address !== address) return null;
    found.push({ lot, units, shares: there.map((holding) => ({ holding, units: isOf(holding)!.units })) });
  }
  return found.length === 0 ? null : found;
}

/** Those of earlier files whose deposits can still pay them, and why the others cannot be paid. */
async function findAgain<T extends AccountPayout>(
  chain: JoinedSource,
  payouts: readonly T[],
  { holdings, contract }: { holdings: readonly Holding[]; contract: string },
): Promise<{ found: Funded<T>[]; left: Left[] }> {
  const parts = payouts.map((payout) => fixedParts(payout, holdings));
  const published = payouts.flatMap(({ id, parts }) =>
    (parts ?? []).map(({ address: from }, i) => ({ from, nonce: i === 0 ? payoutNonce(id) : gatherNonce(id, from) })),
  );
  const used = new Set([...(await usedAmong(chain, contract, published))].map(({ nonce }) => nonce));
  const gone = (payout: T): Reason => (payout.isPublished ? 'expiring' : 'moved');
  const there = sift(
    payouts.map((asked, i) => ({ asked, parts: parts[i] ?? null })),
    REASONS,
    ({ asked, parts }) => {
      if (used.has(payoutNonce(asked.id))) return asked.isPublished ? 'confirming' : 'paid';
      if (parts === 'waits') return 'waits';
      return parts === null ? gone(asked) : null;
    },
  );
  const found = there.found as Funded<T>[];
  if (found.length === 0) return { found, left: there.left };
  // What was gathered already is on the address that pays.
  const needed = found.flatMap(({ asked, parts: [payer, ...others] }) => {
    const missing = others.filter(({ lot }) => !used.has(gatherNonce(asked.id, lot.address)));
    const wanted = missing.map(({ lot, units }) => ({ asked, lot: { ...lot, units } }));
    return [...wanted, { asked, lot: { ...payer!.lot, units: asked.units - sum(missing.map(({ units }) => units)) } }];
  });
  const lots = needed.map(({ lot }) => lot);
  const [held, frozen] = await Promise.all([onChain(chain, lots, contract), frozenAmong(chain, contract, addressesOf(lots))]);
  const short = new Set(needed.flatMap(({ asked, lot }, i) => (held[i]!.units < lot.units ? [asked] : [])));
  const stuck = new Set(needed.flatMap(({ asked, lot }) => (frozen.has(lot.address) ? [asked] : [])));
  const sifted = sift(found, REASONS, ({ asked }) => (stuck.has(asked) ? 'frozen' : short.has(asked) ? gone(asked) : null));
  return { found: sifted.found, left: [...there.left, ...sifted.left] };
}

/** As many as fit into one transaction, in order: those of earlier files first. */
function fill<T extends AccountPayout>(
  { again, fresh, free }: { again: readonly Funded<T>[]; fresh: readonly T[]; free: readonly AccountLot[] },
  isAbove: (one: Funded<T>) => boolean,
): { found: Funded<T>[]; left: Left[] } {
  const left: Left[] = [];
  const found: Funded<T>[] = [];
  const used = new Set<string>();
  let count = 0;
  const take = (one: Funded<T>): void => {
    const all = count + one.parts.length;
    const reason: Reason | null = one.parts.length > BATCH ? 'many' : all > BATCH ? 'later' : isAbove(one) ? 'fee' : null;
    if (reason) return void left.push({ id: one.asked.id, reason: REASONS[reason] });
    count = all;
    // What a transaction moved is read from the senders of its transfers, so each address sends one.
    for (const { lot } of one.parts) used.add(lot.address);
    found.push(one);
  };
  for (const one of again) take(one);
  for (const asked of fresh) {
    const sources = chooseSources(
      asked.units,
      free.filter(({ address }) => !used.has(address) && !isSame(address, asked.address)),
    );
    if (sources === 'short') left.push({ id: asked.id, reason: REASONS.short });
    else take({ asked, parts: sources.map(({ lot, units }) => ({ lot, units, shares: sharesOf(lot, { held: lot.units, units }) })) });
  }
  return { found, left };
}

/** Authorizations in one transaction of the gas address. */
async function authorizeAll<T extends AccountPayout>(
  chain: JoinedSource,
  payouts: readonly T[],
  work: PayoutWork & { contract: string; domain: BatchRequest['domain'] },
): Promise<MadePayouts<T>> {
  const again = await findAgain(
    chain,
    payouts.filter(({ anchor }) => anchor !== null),
    work,
  );
  const [free, gas, publishing] = await Promise.all([
    readFree(chain, work),
    readAuthorizationGas(chain, work, Math.max(1, payouts.length)),
    readPublishingFee(chain, TRANSFER_BYTES),
  ]);
  const fee = gas * work.gasPrice.max + publishing;
  const { found, left } = fill({ again: again.found, fresh: payouts.filter(({ anchor }) => anchor === null), free }, ({ asked, parts }) =>
    isDear(work.coin, { ...work, fee: fee * BigInt(parts.length), units: asked.units, percent: MAX_REFUND_FEE_PERCENT }),
  );
  if (found.length === 0) return { ...NOTHING_MADE, chosen: new Map(), left: [...again.left, ...left] };
  const gasAccount = await readGasAccount(chain, work);
  const bare = batchOf(found.flatMap(authorizationsOf), { ...work, from: gasAccount.address, nonce: gasAccount.nonce });
  const [request = bare] = await withPostingGas(chain, [bare], work);
  checkGas(work.coin, gasAccount, request.gas * work.gasPrice.max + (await readPublishingFees(chain, [request])));
  const shares = found.flatMap(({ parts }) => parts.flatMap((part) => part.shares));
  const moved = shares.map(({ holding, units }) => ({ input: `${work.coin}:${holding.paymentId}:${holding.ref}`, holding, units }));
  return {
    ...NOTHING_MADE,
    requests: [request],
    inputs: [...moved, { input: gasInput(gasAccount.address), holding: null, units: null }],
    chosen: new Map(found.map(({ asked, parts }) => [asked, { anchor: payoutNonce(asked.id), number: 0, parts: storedParts(parts) }])),
    left: [...again.left, ...left],
  };
}
const storedParts = (parts: readonly Part[]): PayoutParts =>
  parts.map(({ lot: { address }, units, shares }) => ({
    ...{ address, units },
    transfers: shares.map(({ holding: { paymentId, ref }, units }) => ({ paymentId, ref, units })),
  }));
