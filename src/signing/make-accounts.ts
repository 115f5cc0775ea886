/**
 * Makes the requests of a sweep on a chain of accounts: native coin by one transfer from each address; tokens with EIP-3009 by
 * authorizations that one gas address of the same wallet sends in batches; other tokens after the gas address has paid each address for
 * its gas. The gas address is `1/0` below the account key, so it is never a deposit address.
 */

import { keccak_256 } from '@noble/hashes/sha3.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import { accountOf, checksumAddress, internalKeyOf } from '#addresses';
import { ChainError, type JoinedSource, postingCall } from '#chains';
import { type Coin, chainOf, coinText, feeCoinOf, isToken, type Network } from '#core/coin';
import { formatUnits } from '#core/money';
import { Problem } from '#core/problem';
import type { AccountRequest, BatchRequest, FundRequest, Line } from '#core/signing-file';
import { asObject } from '#core/stored-json';
import { domainSeparator, mostFunded, type Signature, selector, transactionOf, transferData, word } from '#evm';
import type { Holding, StayReason, SweepWallet, SweepWish } from './holdings.ts';
import type { MadeUtxoFile } from './make-utxo.ts';
import { type GasPrices, isDear } from './out-payments.ts';

/** Addresses in one file. */
export const MOST_ADDRESSES = 1_000;
/** Authorizations in one transaction: its data then stays below the 128 kB that nodes relay, its gas below the limit of EIP-7825. */
export const BATCH = 200;
const BATCH_GAS = 60_000n;
const AUTHORIZATION_GAS = 75_000n;
export const TRANSFER_GAS = 21_000n;
/** Authorizations are valid for a week. */
export const VALID_SECONDS = 7 * 86_400;
/** How long after its expiry an authorization is looked at, so that the blocks before it are final. */
export const EXPIRED_SECONDS = 3_600;
const GWEI = 1_000_000_000n;
/** How issuers' contracts say that an account is frozen. */
const FROZEN = ['isBlacklisted(address)', 'isBlackListed(address)', 'isFrozen(address)', 'isBlocked(address)'].map(selector);
/** Versions of EIP-712 domains to try where the contract does not say its own. */
const VERSIONS = ['1', '2'];

export type GasPrice = { max: bigint; tip: bigint };
type AccountWork = {
  holdings: readonly Holding[];
  wallet: SweepWallet;
  destination: string;
  wish: SweepWish;
  reference: string;
  coin: Coin;
  network: Network;
  chainId: number;
  contract: string | null;
  gasPrice: GasPrice;
  nowSeconds: number;
};
/** Everything on one address. */
export type AccountLot = { address: string; index: number; units: bigint; holdings: Holding[] };

type Reply = { result: unknown; error: { message: string } | null };
const hexOf = ({ result, error }: Reply): string => {
  if (error || typeof result !== 'string' || !/^0x[0-9a-fA-F]*$/.test(result))
    throw new ChainError('outage', error?.message ?? 'the source returned an invalid value');
  return result;
};
const numberOf = (reply: Reply): bigint => BigInt(hexOf(reply) === '0x' ? '0x0' : hexOf(reply).slice(0, 66));
const call = (to: string, data: string) => ['eth_call', { to, data: `0x${data}` }, 'latest'] as const;

/** The base fee per gas that the next block takes (EIP-1559); zero where the source does not say it. */
export async function readBaseFee(chain: JoinedSource): Promise<bigint> {
  const [reply] = await chain.ask([['eth_feeHistory', '0x1', 'latest', []]]);
  const fees = reply && !reply.error ? asObject(reply.result ?? {}).baseFeePerGas : undefined;
  // The last one is that of the block after the newest.
  const base = Array.isArray(fees) ? fees.at(-1) : undefined;
  return typeof base === 'string' && /^0x[0-9a-f]{1,64}$/i.test(base) ? BigInt(base) : 0n;
}
/**
 * The price per gas that lasts for a while, because files are signed offline: half above the current one, and at least twice the base fee,
 * which a full block raises by an eighth, with the tip besides.
 */
export async function readGasPrice(chain: JoinedSource, { speed }: SweepWish): Promise<GasPrice> {
  const [tiers, base] = await Promise.all([chain.fees(), readBaseFee(chain)]);
  const usual = ((tiers.find((tier) => tier.speed === speed) ?? tiers[0])!.rateE8 * 10n * 3n) / 2n;
  const [reply] = await chain.ask([['eth_maxPriorityFeePerGas']]);
  const suggested = reply && !reply.error ? numberOf(reply) : GWEI;
  // The tip of one stranger can raise what a node suggests, but not what most blocks were paid.
  const most = usual > base ? usual - base : 0n;
  const tip = suggested < most ? suggested : most;
  const lasting = 2n * base + tip;
  return { max: usual > lasting ? usual : lasting, tip };
}

export function accountLots(holdings: readonly Holding[]): AccountLot[] {
  const lots = new Map<string, AccountLot>();
  for (const holding of holdings) {
    const { address, index, leftUnits: units } = holding;
    const lot = lots.get(address) ?? { address, index: Number(index), units: 0n, holdings: [] };
    lots.set(address, { ...lot, units: lot.units + units, holdings: [...lot.holdings, holding] });
  }
  return [...lots.values()];
}

/** Only so much is moved as the ledger knows and the chain still has. */
export async function onChain(chain: JoinedSource, lots: readonly AccountLot[], contract: string | null): Promise<AccountLot[]> {
  const replies = await chain.ask(
    lots.map(({ address }) =>
      contract === null ? (['eth_getBalance', address, 'latest'] as const) : call(contract, selector('balanceOf(address)') + word(address)),
    ),
  );
  return lots.map((lot, i) => {
    const held = numberOf(replies[i]!);
    return held < lot.units ? { ...lot, units: held } : lot;
  });
}

/** The addresses that the issuer of a token froze. */
export async function frozenAmong(chain: JoinedSource, contract: string, addresses: readonly string[]): Promise<ReadonlySet<string>> {
  const probes = await chain.ask(FROZEN.map((name) => call(contract, name + word(addresses[0]!))));
  const names = FROZEN.filter((_, i) => !probes[i]!.error && String(probes[i]!.result).length === 66);
  const asked = names.flatMap((name) => addresses.map((address) => ({ name, address })));
  const replies = asked.length === 0 ? [] : await chain.ask(asked.map(({ name, address }) => call(contract, name + word(address))));
  return new Set(asked.flatMap(({ address }, i) => (numberOf(replies[i]!) === 0n ? [] : [address])));
}

const textOf = ({ result, error }: Reply): string | null => {
  if (error || typeof result !== 'string' || result.length < 2 + 128) return null;
  const length = Number(BigInt(`0x${result.slice(66, 130)}`));
  if (length > 64 || result.length < 130 + length * 2) return null;
  return Buffer.from(result.slice(130, 130 + length * 2), 'hex').toString('utf8');
};
/** The EIP-712 domain of a token with transfers by authorization, proven by the separator of its contract; null if it has none. */
export async function domainFor(
  chain: JoinedSource,
  { contract, chainId }: { contract: string; chainId: number },
): Promise<BatchRequest['domain'] | null> {
  const [name, version, separator, state] = (await chain.ask([
    call(contract, selector('name()')),
    call(contract, selector('version()')),
    call(contract, selector('DOMAIN_SEPARATOR()')),
    call(contract, selector('authorizationState(address,bytes32)') + word(contract) + word(0n)),
  ])) as [Reply, Reply, Reply, Reply];
  const named = textOf(name);
  if (named === null || separator.error || state.error || String(state.result).length !== 66) return null;
  for (const one of [textOf(version) ?? '', ...VERSIONS])
    if (`0x${domainSeparator({ name: named, version: one, chainId, contract })}` === separator.result) return { name: named, version: one };
  return null;
}

/** One authorization for the same transfers in any file, so that they can be moved once only. */
const authorizationNonce = (coin: Coin, { address, holdings }: AccountLot): string =>
  `0x${bytesToHex(keccak_256(utf8ToBytes(JSON.stringify(['florin sweep', coin, address, holdings.map(({ ref }) => ref).sort()]))))}`;

/** The address that pays for gas, with its next nonce and what it holds. */
export async function readGasAccount(
  chain: JoinedSource,
  { wallet, network }: Pick<AccountWork, 'wallet' | 'network'>,
): Promise<{ address: string; nonce: number; units: bigint }> {
  const address = checksumAddress(accountOf(internalKeyOf(wallet.accountKey, { coin: wallet.family, network })));
  const [[nonce], [units]] = await Promise.all([readNonces(chain, [address]), readBalances(chain, [address])]);
  return { address, nonce: nonce!, units: units! };
}

/** Errors: sweep_gas_missing. */
export function checkGas(coin: Coin, { address, units }: { address: string; units: bigint }, needed: bigint): void {
  if (units >= needed) return;
  const native = feeCoinOf(coin);
  throw new Problem('sweep_gas_missing', { address, coin: native, needed: formatUnits(native, needed), held: formatUnits(native, units) });
}

type Call = { from: string; to: string; value?: string; data?: string };
// Exactly so much between plain accounts; contracts may need more by the time the transaction is mined.
const withReserve = (gas: bigint): bigint => (gas === TRANSFER_GAS ? gas : (gas * 13n) / 10n);
/** The gas of a payment for gas to an account. */
export async function readGasOfPayment(chain: JoinedSource, call: Pick<Call, 'from' | 'to'>): Promise<bigint> {
  const [reply] = await chain.ask([['eth_estimateGas', call]]);
  return withReserve(numberOf(reply!));
}
/** How nodes say that a contract refuses a call. */
const REVERTED = /execution reverted|VM Exception|\brevert(ed)?\b|invalid opcode/i;
type Estimate = bigint | 'refused' | 'unclear';
/** What each call needs. `refused`: a contract refuses it. `unclear`: the source failed, which says nothing about the recipient. */
export async function estimateEach(chain: JoinedSource, calls: readonly Call[]): Promise<Estimate[]> {
  const replies = await chain.ask(calls.map((call) => ['eth_estimateGas', call] as const));
  return replies.map((reply) => {
    if (!reply.error) return withReserve(numberOf(reply));
    return REVERTED.test(reply.error.message) ? 'refused' : 'unclear';
  });
}
/** The next nonces of accounts, and what they hold, in order. */
export async function readNonces(chain: JoinedSource, addresses: readonly string[]): Promise<number[]> {
  const replies = await chain.ask(addresses.map((address) => ['eth_getTransactionCount', address, 'latest'] as const));
  return replies.map((reply) => Number(numberOf(reply)));
}
/** Says what publishing on Ethereum costs (GasPriceOracle of the OP stack). Other chains have nothing at this address. */
export const PUBLISHING_CONTRACT = '0x420000000000000000000000000000000000000F';
/**
 * What the sender pays besides gas on chains of the OP stack, for publishing the transaction, in base units: twice of what it costs now,
 * because that changes until it is mined. `bytes`: of the unsigned transaction.
 */
export async function readPublishingFee(chain: JoinedSource, bytes: number): Promise<bigint> {
  const data = selector('getL1FeeUpperBound(uint256)') + word(BigInt(bytes));
  const [reply] = await chain.ask([call(PUBLISHING_CONTRACT, data)]);
  return 2n * numberOf(reply!);
}
/** Bytes of transactions without their signatures: of a transfer of native coin or of a token, and of each authorization in a batch. */
export const TRANSFER_BYTES = 150;
const AUTHORIZATION_BYTES = 480;
/** What publishing these requests on Ethereum costs, as readPublishingFee says. */
export const readPublishingFees = async (chain: JoinedSource, requests: readonly AccountRequest[]): Promise<bigint> => {
  const bytes = requests.map((one) => TRANSFER_BYTES + (one.kind === 'batch' ? AUTHORIZATION_BYTES * one.authorizations.length : 0));
  return bytes.length === 0
    ? 0n
    : readPublishingFee(
        chain,
        bytes.reduce((sum, one) => sum + one, 0),
      );
};
export async function readBalances(chain: JoinedSource, addresses: readonly string[]): Promise<bigint[]> {
  return (await chain.ask(addresses.map((address) => ['eth_getBalance', address, 'latest'] as const))).map(numberOf);
}
export const addressesOf = (lots: readonly AccountLot[]): string[] => lots.map(({ address }) => address);

type Planned = { requests: AccountRequest[]; reserved: string[] };
const lineTo = ({ destination, reference }: AccountWork, units: bigint): Line => ({ purpose: 'sweep', to: destination, units, reference });

async function planNative(chain: JoinedSource, lots: readonly Movable[], work: AccountWork): Promise<Planned> {
  const nonces = await readNonces(chain, addressesOf(lots));
  const requests = lots.map(({ address, index, units, gas, cost }, i): AccountRequest => {
    return { kind: 'native', from: address, path: { chain: 0, index }, nonce: nonces[i]!, gas, line: lineTo(work, units - cost) };
  });
  return { requests, reserved: lots.map(({ address }, i) => nonceInput(address, nonces[i]!)) };
}

const batchGas = (count: number): bigint => BATCH_GAS + AUTHORIZATION_GAS * BigInt(count);
/**
 * A batch that is signed again with a higher fee: valid for as long as a new one, with the gas that it needs now. Its authorizations keep
 * their nonces, so that each is executed once.
 */
export async function renewBatch(
  chain: JoinedSource,
  batch: BatchRequest,
  { nowSeconds, ...file }: Pick<AccountWork, 'coin' | 'chainId' | 'gasPrice' | 'nowSeconds'>,
): Promise<BatchRequest> {
  const [bare] = await withPostingGas(chain, [{ ...batch, gas: batchGas(batch.authorizations.length) }], file);
  const validBefore = nowSeconds + VALID_SECONDS;
  return {
    ...{ ...batch, gas: bare!.gas > batch.gas ? bare!.gas : batch.gas },
    validBefore: validBefore > batch.validBefore ? validBefore : batch.validBefore,
  };
}

/** Authorizations that the gas address `from` sends in one transaction. */
export const batchOf = (
  authorizations: BatchRequest['authorizations'],
  { contract, domain, nowSeconds, from, nonce }: Pick<BatchRequest, 'domain' | 'from' | 'nonce'> & { contract: string; nowSeconds: number },
): BatchRequest => ({
  ...{ kind: 'batch', from, path: { chain: 1, index: 0 }, nonce, gas: batchGas(authorizations.length) },
  ...{ contract, domain, validBefore: nowSeconds + VALID_SECONDS, authorizations },
});

/** Stands for a signature that is not known yet. As random as one, because how well data compresses decides what posting it costs. */
const blankSignature = (nonce: string): Signature => {
  const number = (text: string) => BigInt(`0x${bytesToHex(keccak_256(utf8ToBytes(text + nonce)))}`);
  return { r: number('r'), s: number('s'), parity: 1 };
};
/**
 * The same batches with gas for posting them on Ethereum, which Arbitrum takes from the gas of a transaction: twice of what that needs now,
 * because it changes until they are mined. For other requests, the node estimates it. Errors: ChainError.
 */
export async function withPostingGas<T extends AccountRequest>(
  chain: JoinedSource,
  requests: readonly T[],
  file: Pick<AccountWork, 'coin' | 'chainId' | 'gasPrice'>,
): Promise<T[]> {
  if (chainOf(file.coin).dataFee !== 'node_interface') return [...requests];
  const calls = requests.map((request) => {
    if (request.kind !== 'batch') return null;
    const { to, data } = transactionOf(request, file, { signatures: request.authorizations.map(({ nonce }) => blankSignature(nonce)) });
    return ['eth_call', postingCall(to, data), 'latest'] as const;
  });
  const replies = await chain.ask(calls.filter((call) => call !== null));
  let next = 0;
  return requests.map((request, i) => (calls[i] === null ? request : { ...request, gas: request.gas + 2n * numberOf(replies[next++]!) }));
}

/** The gas of one authorization beside so many others, with its share of the batch. Errors: ChainError. */
export async function readAuthorizationGas(
  chain: JoinedSource,
  work: Pick<AccountWork, 'coin' | 'chainId' | 'gasPrice' | 'contract' | 'nowSeconds'>,
  count: number,
): Promise<bigint> {
  const from = work.contract!;
  const nonce = `0x${'00'.repeat(32)}`;
  const line: Line = { purpose: 'sweep', to: from, units: 1n, reference: '' };
  const alone = batchOf([{ from, path: { chain: 0, index: 0 }, nonce, line }], {
    ...{ contract: from, domain: { name: '', version: '' }, nowSeconds: work.nowSeconds, from, nonce: 0 },
  });
  const [batch] = await withPostingGas(chain, [alone], work);
  return batch!.gas - BATCH_GAS + BATCH_GAS / BigInt(Math.min(count, BATCH));
}

async function planBatches(
  chain: JoinedSource,
  lots: readonly AccountLot[],
  work: AccountWork,
  domain: BatchRequest['domain'],
): Promise<Planned> {
  const gasAccount = await readGasAccount(chain, work);
  const bare: BatchRequest[] = [];
  const on = { contract: work.contract!, domain, nowSeconds: work.nowSeconds, from: gasAccount.address };
  for (let at = 0; at < lots.length; at += BATCH) {
    const authorizations = lots.slice(at, at + BATCH).map((lot) => ({
      ...{ from: lot.address, path: { chain: 0, index: lot.index } as const, nonce: authorizationNonce(work.coin, lot) },
      line: lineTo(work, lot.units),
    }));
    bare.push(batchOf(authorizations, { ...on, nonce: gasAccount.nonce + bare.length }));
  }
  const requests = await withPostingGas(chain, bare, work);
  const publishing = await readPublishingFees(chain, requests);
  checkGas(
    work.coin,
    gasAccount,
    requests.reduce((sum, { gas }) => sum + gas * work.gasPrice.max, publishing),
  );
  return { requests, reserved: [gasInput(gasAccount.address)] };
}

/** A transfer by the account that holds the money. */
type AccountTransfer = { from: string; index: number; nonce: number; gas: bigint; line: Line };
/**
 * Transfers, and before them a payment from the gas address to each account that holds too little for its fee. Errors: ChainError,
 * sweep_gas_missing.
 */
export async function fundedTransfers(
  chain: JoinedSource,
  transfers: readonly AccountTransfer[],
  work: Pick<AccountWork, 'wallet' | 'network' | 'coin' | 'contract' | 'gasPrice'>,
): Promise<{ requests: AccountRequest[]; reserved: string[] }> {
  const { coin, contract, gasPrice } = work;
  const accounts = transfers.map(({ from }) => from);
  const [gasAccount, balances, publishing] = await Promise.all([
    readGasAccount(chain, work),
    readBalances(chain, accounts),
    readPublishingFee(chain, TRANSFER_BYTES),
  ]);
  const fundGas = await readGasOfPayment(chain, { from: gasAccount.address, to: accounts[0]! });
  const funds: FundRequest[] = [];
  const own = transfers.map(({ from, index, nonce, gas, line }, i): AccountRequest => {
    const sender = { from, path: { chain: 0, index } as const, nonce, gas };
    const own: AccountRequest = contract === null ? { kind: 'native', ...sender, line } : { kind: 'token', ...sender, contract, line };
    const missing = gas * gasPrice.max + publishing + (contract === null ? line.units : 0n) - balances[i]!;
    if (missing > 0n) {
      const most = mostFunded(own, { coin, chainId: null, gasPrice });
      const payer = { from: gasAccount.address, path: { chain: 1, index: 0 } as const, nonce: gasAccount.nonce + funds.length };
      funds.push({ kind: 'fund', ...payer, gas: fundGas, to: from, units: missing < most ? missing : most });
    }
    return own;
  });
  const needed = funds.reduce((sum, { gas, units }) => sum + gas * gasPrice.max + units + publishing, 0n);
  checkGas(coin, gasAccount, needed);
  const nonces = transfers.map(({ from, nonce }) => nonceInput(from, nonce));
  return { requests: [...funds, ...own], reserved: funds.length > 0 ? [gasInput(gasAccount.address), ...nonces] : nonces };
}
/** The gas address as an input of a file: it pays for one file at a time, so that its nonces are used in order. */
export const gasInput = (address: string): string => `gas:${address}`;
/** The nonce of an account, which one transaction uses, as an input of a file. */
export const nonceInput = (address: string, nonce: number): string => `nonce:${address}:${nonce}`;

async function planFunded(chain: JoinedSource, lots: readonly Movable[], work: AccountWork): Promise<Planned> {
  const nonces = await readNonces(chain, addressesOf(lots));
  const transfers = lots.map(({ address, index, units, gas }, i): AccountTransfer => {
    return { from: address, index, nonce: nonces[i]!, gas, line: lineTo(work, units) };
  });
  return fundedTransfers(chain, transfers, work);
}

/** Money that can be moved, with the gas of its transfer, and what that costs at most with all that belongs to it. */
type Movable = AccountLot & { gas: bigint; cost: bigint };
/** The gas of each transfer. */
async function readGases(
  chain: JoinedSource,
  lots: readonly AccountLot[],
  work: AccountWork,
  isAuthorized: boolean,
): Promise<(readonly [AccountLot, Estimate])[]> {
  const { destination: to, contract } = work;
  if (isAuthorized) {
    const gas = await readAuthorizationGas(chain, work, lots.length);
    return lots.map((lot) => [lot, gas]);
  }
  if (contract === null) {
    const [gas] = await estimateEach(
      chain,
      lots.slice(0, 1).map(({ address: from }) => ({ from, to, value: '0x1' })),
    );
    return lots.map((lot) => [lot, gas!]);
  }
  const gases = await estimateEach(
    chain,
    lots.map(({ address: from, units }) => ({ from, to: contract, data: `0x${transferData(to, units)}` })),
  );
  return lots.map((lot, i) => [lot, gases[i]!]);
}
/** What each of these addresses can send, or why its money stays. */
async function lookAt(
  chain: JoinedSource,
  some: readonly AccountLot[],
  work: PricedWork & { isAuthorized: boolean },
): Promise<(Movable | { lot: AccountLot; reason: StayReason })[]> {
  const { coin, contract, gasPrice, wish, prices, isAuthorized } = work;
  const [frozen, held, publishing] = await Promise.all([
    contract === null ? new Set<string>() : frozenAmong(chain, contract, addressesOf(some)),
    onChain(chain, some, contract),
    readPublishingFee(chain, isAuthorized ? AUTHORIZATION_BYTES : TRANSFER_BYTES),
  ]);
  const there = held.filter(({ address, units }) => !frozen.has(address) && units > 0n);
  const gases = new Map(there.length === 0 ? [] : await readGases(chain, there, work, isAuthorized));
  // An address without authorizations is first paid for its gas.
  const paying = contract === null || isAuthorized ? 0n : TRANSFER_GAS * gasPrice.max + publishing;
  return held.map((lot) => {
    if (frozen.has(lot.address)) return { lot, reason: 'frozen' };
    if (lot.units === 0n) return { lot, reason: 'spent' };
    const gas = gases.get(lot)!;
    if (typeof gas === 'string') return { lot, reason: gas };
    const cost = gas * gasPrice.max + publishing + paying;
    if (contract === null && lot.units <= cost) return { lot, reason: 'dust' };
    const isAbove = isDear(coin, { fee: cost, units: lot.units, percent: BigInt(wish.maxFeePercent), prices });
    return isAbove ? { lot, reason: 'fee' } : { ...lot, gas, cost };
  });
}

/** The oldest addresses whose money can be moved, as many as fit into a file. Those that others emptied take nobody's place. */
async function chooseMovable(
  chain: JoinedSource,
  all: readonly AccountLot[],
  work: PricedWork & { isAuthorized: boolean },
  keep: (lot: AccountLot, reason: StayReason) => void,
): Promise<Movable[]> {
  const found: Movable[] = [];
  for (let at = 0; at < all.length; at += MOST_ADDRESSES) {
    const some = all.slice(at, at + MOST_ADDRESSES);
    const looked =
      found.length === MOST_ADDRESSES ? some.map((lot) => ({ lot, reason: 'later' as const })) : await lookAt(chain, some, work);
    for (const one of looked) {
      if ('reason' in one) keep(one.lot, one.reason);
      else if (found.length === MOST_ADDRESSES) keep(one, 'later');
      else found.push(one);
    }
  }
  return found;
}

export type PricedWork = AccountWork & { prices: GasPrices | null };
/** Errors: ChainError, sweep_gas_missing, sweep_destination_frozen. */
export async function makeAccountRequests(chain: JoinedSource, work: PricedWork): Promise<MadeUtxoFile<AccountRequest>> {
  const { coin, contract, destination } = work;
  const stay = new Map<Holding, StayReason>();
  const keep = (lot: AccountLot, reason: StayReason): void => {
    for (const holding of lot.holdings) stay.set(holding, reason);
  };
  const all = accountLots(work.holdings);
  if (all.length === 0) return { requests: [], inputs: [], stay };
  if (contract !== null && (await frozenAmong(chain, contract, [destination])).size > 0)
    throw new Problem('sweep_destination_frozen', { coin: coinText(coin), address: destination });
  const domain = isToken(coin) ? await domainFor(chain, { contract: contract!, chainId: work.chainId }) : null;
  const lots = await chooseMovable(chain, all, { ...work, isAuthorized: domain !== null }, keep);
  if (lots.length === 0) return { requests: [], inputs: [], stay };
  const plan = !isToken(coin)
    ? await planNative(chain, lots, work)
    : domain
      ? await planBatches(chain, lots, work, domain)
      : await planFunded(chain, lots, work);
  const inputs = lots.flatMap(({ holdings }) =>
    holdings.map((holding) => ({ input: `${coin}:${holding.paymentId}:${holding.ref}`, holding, units: holding.units })),
  );
  return { requests: plan.requests, inputs: [...inputs, ...plan.reserved.map((input) => ({ input, holding: null, units: null }))], stay };
}
