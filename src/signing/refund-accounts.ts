/**
 * Refunds on chains of accounts, from the deposit address of the payment. Each can be executed once only. Tokens with EIP-3009: the address
 * authorizes exactly the amount, the gas address sends all authorizations in one transaction, and the nonce of an authorization follows
 * from the refund. Native coin and other tokens: the address sends a transaction of its own, and every transaction of the same refund has
 * the same account nonce, so at most one of them can be mined.
 */
import { keccak_256 } from '@noble/hashes/sha3.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import type { JoinedSource } from '#chains';
import type { AccountRequest, Line } from '#core/signing-file';
import { transferData } from '#evm';
import { usedAmong } from './canceled.ts';
import { type Holding, nonceIn } from './holdings.ts';
import {
  type AccountLot,
  accountLots,
  batchOf,
  checkGas,
  domainFor,
  estimateEach,
  frozenAmong,
  fundedTransfers,
  gasInput,
  nonceInput,
  onChain,
  type PricedWork,
  readAuthorizationGas,
  readBalances,
  readGasAccount,
  readNonces,
  readPublishingFee,
  readPublishingFees,
  TRANSFER_BYTES,
  TRANSFER_GAS,
  withPostingGas,
} from './make-accounts.ts';
import type { MadeUtxoFile } from './make-utxo.ts';
import { isDear, MAX_REFUND_FEE_PERCENT, MOST_REFUNDS } from './out-payments.ts';

/** `anchor`: what every transaction of the refund or payout uses, once it was in a file. */
export type AskedTransfer = { id: string; units: bigint; address: string; anchor: string | null };
type AskedRefundTransfer = AskedTransfer & { paymentId: string };
const OWN_WALLET = 'send it from your own wallet and mark it as sent';
const REASONS = {
  moved: `its deposit address does not hold enough: the money was moved, paid for gas, or is in another signing file; wait for that file, or ${OWN_WALLET}`,
  frozen: 'the issuer of the token froze its deposit address or the address of the customer',
  paid: 'it was already paid, because somebody sent an earlier file of it; find the transaction, then mark it as sent',
  used: 'its deposit address sent another transaction since an earlier file of it was made; look where the money went, then mark it as sent or cancel it',
  changed: 'the token has other functions than when an earlier file of it was made; cancel it, and request it again',
  refused: 'a transfer to the address of the customer would fail; cancel it, and ask for another address',
  unclear: 'the source of the network could not say what a transfer of it needs; try again in a minute',
  fee: `the network fee would be more than ${MAX_REFUND_FEE_PERCENT} percent of its amount; try again when fees are lower, or ${OWN_WALLET}`,
  later: 'another refund of the same payment is in this file',
} as const;
type Reason = keyof typeof REASONS;

/** Never changes, so every file of a refund has the same one. */
export const refundNonce = (id: string): string => `0x${bytesToHex(keccak_256(utf8ToBytes(JSON.stringify(['florin refund', id]))))}`;
const isAccountNonce = (anchor: string): boolean => anchor.startsWith('nonce:');

/**
 * What a refund takes from each transfer, oldest first. A transfer of which nothing remains is taken as a whole, with what earlier files took
 * of it; so are all of them when nothing remains on the address.
 */
export function sharesOf(lot: AccountLot, { held, units }: { held: bigint; units: bigint }): { holding: Holding; units: bigint }[] {
  let missing = units;
  return lot.holdings.map((holding) => {
    if (units === held) return { holding, units: holding.units };
    const taken = missing < holding.leftUnits ? missing : holding.leftUnits;
    missing -= taken;
    return { holding, units: taken === holding.leftUnits ? holding.units : taken };
  });
}

/** What is asked for, the address that pays it, and how much that holds. */
export type FundedRequest<T> = { asked: T; lot: AccountLot; held: bigint };
export type Left = { id: string; reason: string };
/** Those that pass, and why the others do not. */
export function sift<F extends { asked: { id: string } }, R extends string>(
  found: readonly F[],
  reasons: Readonly<Record<R, string>>,
  reasonOf: (one: F, i: number) => R | null,
): { found: F[]; left: Left[] } {
  const given = found.map(reasonOf);
  const left = found.flatMap(({ asked: { id } }, i): Left[] => (given[i] ? [{ id, reason: reasons[given[i]] }] : []));
  return { found: found.filter((_, i) => given[i] === null), left };
}

/** What the address of each refund holds, and why the others cannot be paid. */
async function findMoney<T extends AskedRefundTransfer>(
  chain: JoinedSource,
  asked: readonly T[],
  { holdings, contract }: { holdings: readonly Holding[]; contract: string | null },
): Promise<{ found: FundedRequest<T>[]; left: Left[] }> {
  const left: Left[] = [];
  const leave = ({ id }: T, reason: Reason) => void left.push({ id, reason: REASONS[reason] });
  const own = new Map<T, AccountLot>();
  const payments = new Set<string>();
  for (const refund of asked) {
    const [lot] = accountLots(holdings.filter(({ paymentId }) => paymentId === refund.paymentId));
    if (!lot) leave(refund, 'moved');
    // Whether an address paid is read from the sender of a transfer, so each address sends one.
    else if (payments.has(refund.paymentId)) leave(refund, 'later');
    else {
      own.set(refund, lot);
      payments.add(refund.paymentId);
    }
  }
  if (own.size === 0) return { found: [], left };
  const pairs = [...own];
  const addresses = pairs.flatMap(([{ address }, lot]) => [lot.address, address]);
  const [onAddresses, frozen] = await Promise.all([
    onChain(chain, [...own.values()], contract),
    contract === null ? new Set<string>() : frozenAmong(chain, contract, addresses),
  ]);
  const sifted = sift(
    pairs.map(([asked, lot], i) => ({ asked, lot, held: onAddresses[i]!.units })),
    REASONS,
    ({ asked, lot, held }) => (frozen.has(lot.address) || frozen.has(asked.address) ? 'frozen' : held < asked.units ? 'moved' : null),
  );
  return { found: sifted.found, left: [...left, ...sifted.left] };
}

export type Work = Omit<PricedWork, 'wish' | 'destination' | 'reference'>;
/** `chosen`: for each that is in the file, what only one of its transactions can use, and the request that pays it. */
export type MadeTransfers<T> = MadeUtxoFile<AccountRequest> & { chosen: Map<T, { anchor: string; number: number }>; left: Left[] };
export const NOTHING_MADE: MadeUtxoFile<AccountRequest> = { requests: [], inputs: [], stay: new Map() };
const lineOf = ({ paymentId, address, units }: AskedRefundTransfer): Line => ({
  purpose: 'refund',
  to: address,
  units,
  reference: paymentId,
});

/** What is reserved of the ledger: `units` of each address. */
const inputsOf = <T>(
  { coin }: Work,
  found: readonly (FundedRequest<T> & { units: bigint })[],
  reserved: readonly string[],
): MadeUtxoFile<AccountRequest>['inputs'] => [
  ...found.flatMap(({ lot, held, units }) =>
    sharesOf(lot, { held, units }).map(({ holding, units }) => ({
      ...{ input: `${coin}:${holding.paymentId}:${holding.ref}`, holding, units },
    })),
  ),
  ...reserved.map((input) => ({ input, holding: null, units: null })),
];

/** `holdings`: confirmed money of payments that a refund may return. Errors: ChainError, sweep_gas_missing. */
export async function makeAccountRefunds<T extends AskedRefundTransfer>(
  chain: JoinedSource,
  asked: readonly T[],
  work: Work,
): Promise<MadeTransfers<T>> {
  const { holdings, contract, chainId } = work;
  const domain = contract === null ? null : await domainFor(chain, { contract, chainId });
  const money = await findMoney(chain, asked, { holdings, contract });
  // Only one of two ways is ever signed for a refund.
  const { found, left } = sift(money.found, REASONS, ({ asked: { anchor } }) =>
    anchor !== null && isAccountNonce(anchor) !== (domain === null) ? 'changed' : null,
  );
  const made =
    found.length === 0
      ? { ...NOTHING_MADE, chosen: new Map(), left: [] }
      : contract !== null && domain !== null
        ? await authorizeAll(chain, found, { ...work, contract, domain })
        : await transferEach(chain, found, work, { lineOf, reasons: REASONS, most: MOST_REFUNDS });
  return { ...made, left: [...money.left, ...left, ...made.left] };
}

/** Authorizations in one transaction of the gas address. */
async function authorizeAll<T extends AskedRefundTransfer>(
  chain: JoinedSource,
  candidates: readonly FundedRequest<T>[],
  work: Work & { contract: string; domain: { name: string; version: string } },
): Promise<MadeTransfers<T>> {
  const published = candidates.map(({ asked: { id }, lot }) => ({ from: lot.address, nonce: refundNonce(id) }));
  const used = await usedAmong(chain, work.contract, published);
  const [gas, publishing] = await Promise.all([
    readAuthorizationGas(chain, work, candidates.length),
    readPublishingFee(chain, TRANSFER_BYTES),
  ]);
  const fee = gas * work.gasPrice.max + publishing;
  const { found: all, left } = sift(candidates, REASONS, ({ asked: { units } }, i) =>
    used.has(published[i]!) ? 'paid' : isDear(work.coin, { ...work, fee, units, percent: MAX_REFUND_FEE_PERCENT }) ? 'fee' : null,
  );
  const found = all.slice(0, MOST_REFUNDS);
  if (found.length === 0) return { ...NOTHING_MADE, chosen: new Map(), left };
  const gasAccount = await readGasAccount(chain, work);
  const bare = batchOf(
    found.map(({ asked, lot }) => ({
      ...{ from: lot.address, path: { chain: 0, index: lot.index } as const, nonce: refundNonce(asked.id), line: lineOf(asked) },
    })),
    { ...work, from: gasAccount.address, nonce: gasAccount.nonce },
  );
  const [request = bare] = await withPostingGas(chain, [bare], work);
  checkGas(work.coin, gasAccount, request.gas * work.gasPrice.max + (await readPublishingFees(chain, [request])));
  const inputs = inputsOf(
    work,
    found.map((one) => ({ ...one, units: one.asked.units })),
    [gasInput(gasAccount.address)],
  );
  const chosen = new Map(found.map(({ asked }) => [asked, { anchor: refundNonce(asked.id), number: 0 }]));
  return { ...NOTHING_MADE, requests: [request], inputs, chosen, left };
}

/** A transaction from each deposit address. The gas address pays for its gas where too little is left beside the refund. */
export async function transferEach<T extends AskedTransfer>(
  chain: JoinedSource,
  candidates: readonly FundedRequest<T>[],
  work: Work,
  {
    lineOf,
    reasons,
    most,
  }: { lineOf: (asked: T) => Line; reasons: Readonly<Record<'used' | 'refused' | 'unclear' | 'fee', string>>; most: number },
): Promise<MadeTransfers<T>> {
  const { contract, gasPrice } = work;
  const accounts = candidates.map(({ lot }) => lot.address);
  const [nonces, balances, publishing, gases] = await Promise.all([
    readNonces(chain, accounts),
    readBalances(chain, accounts),
    readPublishingFee(chain, TRANSFER_BYTES),
    estimateEach(
      chain,
      candidates.map(({ asked: { address: to, units }, lot: { address: from } }) =>
        contract === null ? { from, to, value: `0x${units.toString(16)}` } : { from, to: contract, data: `0x${transferData(to, units)}` },
      ),
    ),
  ]);
  const anchors = candidates.map(({ asked, lot }, i) => asked.anchor ?? nonceInput(lot.address, nonces[i]!));
  const costs = gases.map((gas) => (typeof gas === 'bigint' ? gas : 0n) * gasPrice.max + publishing);
  const isAbove = ({ asked: { units } }: FundedRequest<T>, i: number): boolean => {
    const needed = costs[i]! + (contract === null ? units : 0n);
    const fee = costs[i]! + (balances[i]! < needed ? TRANSFER_GAS * gasPrice.max + publishing : 0n);
    return isDear(work.coin, { ...work, fee, units, percent: MAX_REFUND_FEE_PERCENT });
  };
  const { found: all, left } = sift(candidates, reasons, (one, i) =>
    nonces[i]! > nonceIn(anchors[i]!) ? 'used' : typeof gases[i] === 'string' ? gases[i] : isAbove(one, i) ? 'fee' : null,
  );
  const found = all.slice(0, most);
  if (found.length === 0) return { ...NOTHING_MADE, chosen: new Map(), left };
  const paying = found.map((one) => {
    const i = candidates.indexOf(one);
    const [anchor, gas] = [anchors[i]!, gases[i] as bigint];
    const spent = one.asked.units + (contract === null ? costs[i]! : 0n);
    const transfer = { from: one.lot.address, index: one.lot.index, nonce: nonceIn(anchor), gas, line: lineOf(one.asked) };
    return { ...one, anchor, transfer, units: spent < one.held ? spent : one.held };
  });
  const { requests, reserved } = await fundedTransfers(
    chain,
    paying.map(({ transfer }) => transfer),
    work,
  );
  const first = requests.length - paying.length;
  const chosen = new Map(paying.map(({ asked, anchor }, i) => [asked, { anchor, number: first + i }]));
  return { ...NOTHING_MADE, requests, inputs: inputsOf(work, paying, reserved), chosen, left };
}
