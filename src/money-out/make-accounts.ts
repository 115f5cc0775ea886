/**
 * Makes the requests of a sweep on a chain of accounts: native coin by one transfer from each address; tokens with EIP-3009 by
 * authorizations that one gas address of the same wallet sends in batches; other tokens after the gas address has paid each address for
 * its gas. The gas address is `1/0` below the account key, so it is never a deposit address.
 */
import { keccak_256 } from '@noble/hashes/sha3.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import { internalKeyOf } from '../chains/account-key.ts';
import { type Chain, ChainError } from '../chains/chain.ts';
import { accountOf, checksumAddress } from '../chains/ethereum/address.ts';
import { domainSeparator, selector, transferData, word } from '../chains/ethereum/token-calls.ts';
import { type Coin, feeCoinOf, isToken, type Network } from '../core/coin.ts';
import { formatUnits } from '../core/money.ts';
import { Problem } from '../core/problem.ts';
import type { AccountRequest, BatchRequest, FundRequest, Line } from '../core/signing-file.ts';
import type { Holding, StayReason, SweepWallet, SweepWish } from './holdings.ts';
import type { Made } from './make-utxo.ts';

/** Addresses in one file. */
const MOST_ADDRESSES = 1_000;
/** Authorizations in one transaction: its data then stays below the 128 kB that nodes relay, its gas below the limit of EIP-7825. */
const BATCH = 200;
const BATCH_GAS = 60_000n;
const AUTHORIZATION_GAS = 75_000n;
export const TRANSFER_GAS = 21_000n;
/** Authorizations are valid for a week. */
const VALID_SECONDS = 7 * 86_400;
const GWEI = 1_000_000_000n;
/** How issuers' contracts say that an account is frozen. */
const FROZEN = ['isBlacklisted(address)', 'isBlackListed(address)', 'isFrozen(address)', 'isBlocked(address)'].map(selector);
/** Versions of EIP-712 domains to try where the contract does not say its own. */
const VERSIONS = ['1', '2'];

export type GasPrice = { max: bigint; tip: bigint };
export type AccountWork = {
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
export type Lot = { address: string; index: number; units: bigint; holdings: Holding[] };

type Reply = { result: unknown; error: { message: string } | null };
const hexOf = ({ result, error }: Reply): string => {
  if (error || typeof result !== 'string' || !/^0x[0-9a-fA-F]*$/.test(result))
    throw new ChainError('outage', error?.message ?? 'the source returned an invalid value');
  return result;
};
const numberOf = (reply: Reply): bigint => BigInt(hexOf(reply) === '0x' ? '0x0' : hexOf(reply).slice(0, 66));
const call = (to: string, data: string) => ['eth_call', { to, data: `0x${data}` }, 'latest'] as const;

/** The price per gas that lasts for a while: half above the current one. */
export async function readGasPrice(chain: Chain, { speed }: SweepWish): Promise<GasPrice> {
  const tiers = await chain.fees();
  const max = ((tiers.find((tier) => tier.speed === speed) ?? tiers[0])!.rateE8 * 10n * 3n) / 2n;
  const [reply] = await chain.ask([['eth_maxPriorityFeePerGas']]);
  const tip = reply && !reply.error ? numberOf(reply) : GWEI;
  return { max, tip: tip < max ? tip : max };
}

export function lotsOf(holdings: readonly Holding[]): Lot[] {
  const lots = new Map<string, Lot>();
  for (const holding of holdings) {
    const { address, index, units } = holding;
    const lot = lots.get(address) ?? { address, index: Number(index), units: 0n, holdings: [] };
    lots.set(address, { ...lot, units: lot.units + units, holdings: [...lot.holdings, holding] });
  }
  return [...lots.values()];
}

/** Only so much is moved as the ledger knows and the chain still has. */
export async function onChain(chain: Chain, lots: readonly Lot[], contract: string | null): Promise<Lot[]> {
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
export async function frozenAmong(chain: Chain, contract: string, addresses: readonly string[]): Promise<ReadonlySet<string>> {
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
  chain: Chain,
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
const authorizationNonce = (coin: Coin, { address, holdings }: Lot): string =>
  `0x${bytesToHex(keccak_256(utf8ToBytes(JSON.stringify(['florin sweep', coin, address, holdings.map(({ ref }) => ref).sort()]))))}`;

/** The address that pays for gas, with its next nonce and what it holds. */
export async function readGasAccount(
  chain: Chain,
  { wallet, network }: Pick<AccountWork, 'wallet' | 'network'>,
): Promise<{ address: string; nonce: number; units: bigint }> {
  const address = checksumAddress(accountOf(internalKeyOf(wallet.accountKey, { coin: wallet.coin, network })));
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
async function estimate(chain: Chain, call: Call): Promise<bigint> {
  const [reply] = await chain.ask([['eth_estimateGas', call]]);
  return withReserve(numberOf(reply!));
}
/** What each call needs; null: the chain refuses it. */
export async function estimateEach(chain: Chain, calls: readonly Call[]): Promise<(bigint | null)[]> {
  const replies = await chain.ask(calls.map((call) => ['eth_estimateGas', call] as const));
  return replies.map((reply) => (reply.error ? null : withReserve(numberOf(reply))));
}
/** The next nonces of accounts, and what they hold, in order. */
export async function readNonces(chain: Chain, addresses: readonly string[]): Promise<number[]> {
  const replies = await chain.ask(addresses.map((address) => ['eth_getTransactionCount', address, 'latest'] as const));
  return replies.map((reply) => Number(numberOf(reply)));
}
/** Says what publishing on Ethereum costs (GasPriceOracle of the OP stack). Other chains have nothing at this address. */
export const PUBLISHING_CONTRACT = '0x420000000000000000000000000000000000000F';
/**
 * What the sender pays besides gas on chains of the OP stack, for publishing the transaction, in base units: twice of what it costs now,
 * because that changes until it is mined. `bytes`: of the unsigned transaction.
 */
export async function readPublishingFee(chain: Chain, bytes: number): Promise<bigint> {
  const data = selector('getL1FeeUpperBound(uint256)') + word(BigInt(bytes));
  const [reply] = await chain.ask([call(PUBLISHING_CONTRACT, data)]);
  return 2n * numberOf(reply!);
}
/** Bytes of transactions without their signatures: of a transfer of native coin or of a token, and of each authorization in a batch. */
export const TRANSFER_BYTES = 150;
const AUTHORIZATION_BYTES = 480;
export async function readBalances(chain: Chain, addresses: readonly string[]): Promise<bigint[]> {
  return (await chain.ask(addresses.map((address) => ['eth_getBalance', address, 'latest'] as const))).map(numberOf);
}
const addressesOf = (lots: readonly Lot[]): string[] => lots.map(({ address }) => address);

type Planned = { requests: AccountRequest[]; moved: Lot[]; reserved: string[] };
const lineTo = ({ destination, reference }: AccountWork, units: bigint): Line => ({ purpose: 'sweep', to: destination, units, reference });

async function planNative(chain: Chain, lots: readonly Lot[], work: AccountWork, stay: Map<Holding, StayReason>): Promise<Planned> {
  const gas = await estimate(chain, { from: lots[0]!.address, to: work.destination, value: '0x1' });
  const fee = gas * work.gasPrice.max;
  const publishing = await readPublishingFee(chain, TRANSFER_BYTES);
  const cost = fee + publishing;
  const moved = lots.filter((lot) => {
    const reason = lot.units <= cost ? 'dust' : cost * 100n > lot.units * BigInt(work.wish.maxFeePercent) ? 'fee' : null;
    if (reason) for (const holding of lot.holdings) stay.set(holding, reason);
    return reason === null;
  });
  const nonces = await readNonces(chain, addressesOf(moved));
  const requests = moved.map(({ address, index, units }, i): AccountRequest => {
    return { kind: 'native', from: address, path: { chain: 0, index }, nonce: nonces[i]!, gas, line: lineTo(work, units - cost) };
  });
  return { requests, moved, reserved: moved.map(({ address }, i) => nonceInput(address, nonces[i]!)) };
}

/** Authorizations that the gas address `from` sends in one transaction. */
export const batchOf = (
  authorizations: BatchRequest['authorizations'],
  { contract, domain, nowSeconds, from, nonce }: Pick<BatchRequest, 'domain' | 'from' | 'nonce'> & { contract: string; nowSeconds: number },
): BatchRequest => ({
  ...{ kind: 'batch', from, path: { chain: 1, index: 0 }, nonce, gas: BATCH_GAS + AUTHORIZATION_GAS * BigInt(authorizations.length) },
  ...{ contract, domain, validBefore: nowSeconds + VALID_SECONDS, authorizations },
});

async function planBatches(chain: Chain, lots: readonly Lot[], work: AccountWork, domain: BatchRequest['domain']): Promise<Planned> {
  const gasAccount = await readGasAccount(chain, work);
  const requests: AccountRequest[] = [];
  const on = { contract: work.contract!, domain, nowSeconds: work.nowSeconds, from: gasAccount.address };
  for (let at = 0; at < lots.length; at += BATCH) {
    const authorizations = lots.slice(at, at + BATCH).map((lot) => ({
      ...{ from: lot.address, path: { chain: 0, index: lot.index } as const, nonce: authorizationNonce(work.coin, lot) },
      line: lineTo(work, lot.units),
    }));
    requests.push(batchOf(authorizations, { ...on, nonce: gasAccount.nonce + requests.length }));
  }
  const publishing = await readPublishingFee(chain, AUTHORIZATION_BYTES * lots.length + TRANSFER_BYTES * requests.length);
  checkGas(
    work.coin,
    gasAccount,
    requests.reduce((sum, { gas }) => sum + gas * work.gasPrice.max, publishing),
  );
  return { requests, moved: [...lots], reserved: [`gas:${gasAccount.address}`] };
}

/** A transfer by the account that holds the money. */
export type Transfer = { from: string; index: number; nonce: number; gas: bigint; line: Line };
/**
 * Transfers, and before them a payment from the gas address to each account that holds too little for its fee. Errors: ChainError,
 * sweep_gas_missing.
 */
export async function fundedTransfers(
  chain: Chain,
  transfers: readonly Transfer[],
  work: Pick<AccountWork, 'wallet' | 'network' | 'coin' | 'contract' | 'gasPrice'>,
): Promise<{ requests: AccountRequest[]; reserved: string[] }> {
  const { coin, contract, gasPrice } = work;
  const accounts = transfers.map(({ from }) => from);
  const [gasAccount, balances, publishing] = await Promise.all([
    readGasAccount(chain, work),
    readBalances(chain, accounts),
    readPublishingFee(chain, TRANSFER_BYTES),
  ]);
  const fundGas = await estimate(chain, { from: gasAccount.address, to: accounts[0]! });
  const funds: FundRequest[] = [];
  const own = transfers.map(({ from, index, nonce, gas, line }, i): AccountRequest => {
    const fee = gas * gasPrice.max;
    // The signer pays no address more than twice its fee.
    const cost = fee + (publishing < fee ? publishing : fee);
    const missing = cost + (contract === null ? line.units : 0n) - balances[i]!;
    if (missing > 0n) {
      const sender = { from: gasAccount.address, path: { chain: 1, index: 0 } as const, nonce: gasAccount.nonce + funds.length };
      funds.push({ kind: 'fund', ...sender, gas: fundGas, to: from, units: missing });
    }
    const sender = { from, path: { chain: 0, index } as const, nonce, gas };
    return contract === null ? { kind: 'native', ...sender, line } : { kind: 'token', ...sender, contract, line };
  });
  const needed = funds.reduce((sum, { gas, units }) => sum + gas * gasPrice.max + units + publishing, 0n);
  checkGas(coin, gasAccount, needed);
  const gasInput = funds.length > 0 ? [`gas:${gasAccount.address}`] : [];
  return { requests: [...funds, ...own], reserved: [...gasInput, ...transfers.map(({ from, nonce }) => nonceInput(from, nonce))] };
}
/** The nonce of an account, which one transaction uses, as an input of a file. */
export const nonceInput = (address: string, nonce: number): string => `nonce:${address}:${nonce}`;

async function planFunded(chain: Chain, lots: readonly Lot[], work: AccountWork): Promise<Planned> {
  const [first] = lots;
  const contract = work.contract!;
  const gas = await estimate(chain, { from: first!.address, to: contract, data: `0x${transferData(work.destination, first!.units)}` });
  const nonces = await readNonces(chain, addressesOf(lots));
  const transfers = lots.map(({ address, index, units }, i): Transfer => {
    return { from: address, index, nonce: nonces[i]!, gas, line: lineTo(work, units) };
  });
  return { ...(await fundedTransfers(chain, transfers, work)), moved: [...lots] };
}

/** Errors: ChainError, sweep_gas_missing. */
export async function makeAccountRequests(chain: Chain, work: AccountWork): Promise<Made<AccountRequest>> {
  const { coin, contract } = work;
  const stay = new Map<Holding, StayReason>();
  const keep = (lot: Lot, reason: StayReason): void => {
    for (const holding of lot.holdings) stay.set(holding, reason);
  };
  const all = lotsOf(work.holdings);
  for (const lot of all.slice(MOST_ADDRESSES)) keep(lot, 'later');
  const some = all.slice(0, MOST_ADDRESSES);
  if (some.length === 0) return { requests: [], inputs: [], stay };
  const frozen = contract === null ? new Set<string>() : await frozenAmong(chain, contract, addressesOf(some));
  const lots = (await onChain(chain, some, contract)).filter((lot) => {
    const reason = frozen.has(lot.address) ? 'frozen' : lot.units === 0n ? 'spent' : null;
    if (reason) keep(lot, reason);
    return reason === null;
  });
  if (lots.length === 0) return { requests: [], inputs: [], stay };
  const domain = isToken(coin) ? await domainFor(chain, { contract: contract!, chainId: work.chainId }) : null;
  const plan = !isToken(coin)
    ? await planNative(chain, lots, work, stay)
    : domain
      ? await planBatches(chain, lots, work, domain)
      : await planFunded(chain, lots, work);
  const inputs = plan.moved.flatMap(({ holdings }) =>
    holdings.map((holding) => ({ input: `${coin}:${holding.paymentId}:${holding.ref}`, holding, units: holding.units })),
  );
  return { requests: plan.requests, inputs: [...inputs, ...plan.reserved.map((input) => ({ input, holding: null, units: null }))], stay };
}
