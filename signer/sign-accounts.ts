/** Checks requests of chains of accounts against the file around them and against the wallet, and signs them. */
import { bytesToHex } from '@noble/hashes/utils.js';
import type { HDKey } from '@scure/bip32';
import { accountOf } from '../src/addresses/evm-address.ts';
import { CHAIN, CHAINS, COIN, chainOf, contractOf, feeCoinOf, isToken } from '../src/core/coin.ts';
import type {
  AccountPath,
  AccountRequest,
  BatchRequest,
  NativeRequest,
  Request,
  SigningFile,
  TokenRequest,
} from '../src/core/signing-file.ts';
import {
  authorizationHash,
  domainOf,
  feeOf,
  gasLimits,
  mostFunded,
  signedBytes,
  signHash,
  signingHash,
  transactionOf,
  transfersOf,
} from '../src/evm/transaction.ts';
import { type Account, refuse, SignerError } from './secret.ts';
import type { Steps } from './steps.ts';

const keyOf = ({ account, addresses }: Account, { chain, index }: AccountPath): HDKey =>
  (chain === 0 ? addresses : account.deriveChild(1)).deriveChild(index);

function checkOwn(account: Account, from: string, path: AccountPath): void {
  if (accountOf(keyOf(account, path).publicKey!) !== from.slice(2).toLowerCase())
    refuse(`The address ${from} does not belong to path ${path.chain}/${path.index} of this wallet.`);
}

const MAINNETS = CHAINS.flatMap((chain) => CHAIN[chain].chainIds?.mainnet ?? []);
const LISTED = CHAINS.flatMap((chain) => Object.values(CHAIN[chain].chainIds ?? {}));

/** Whether the signatures are valid only on a test network. A private copy of a chain may have the number of the original. */
export const isTestChain = ({ coin, network, chainId }: SigningFile): boolean =>
  network !== 'mainnet' && chainId !== null && chainId === chainOf(coin).chainIds?.[network] && !MAINNETS.includes(chainId);

/** The network that the file names, by the number that its signatures contain. Errors: SignerError. */
export function checkChain({ coin, network, chainId, gasPrice }: SigningFile): void {
  const { chainIds } = chainOf(coin);
  if (!chainIds || chainId === null || gasPrice === null) throw new SignerError('The file mixes two kinds of chains.');
  // Test networks may have a number of their own, but never that of another chain.
  const isOther = chainId !== chainIds[network] && (network === 'mainnet' || LISTED.includes(chainId));
  if (isOther) refuse('The file is for another network than it says.');
  if (gasPrice.max > gasLimits({ coin }).price || gasPrice.tip > gasPrice.max) refuse('The price of gas in the file is too high.');
}

/** Whether an address cannot pay for the gas of a request from what it sends. A sweep of native coin sends less. */
const needsGas = (request: Request): request is NativeRequest | TokenRequest =>
  request.kind === 'token' || (request.kind === 'native' && request.line.purpose !== 'sweep');

/** Florin makes authorizations that are valid for a week. One that lasts longer could be sent long after its file was canceled. */
const MOST_VALID_SECONDS = 8 * 86_400;

/** The most that a transaction may cost for each address without a typed word, in base units: 0.05 ETH, or 10 POL. */
const MOST_FEE = 5n * 10n ** 16n;
const MOST_FEE_IN_POL = 10n ** 19n;
/** Whether a request costs so much for each of its addresses that the person has to type that this is right. */
export const isFeeHigh = (request: AccountRequest, file: SigningFile): boolean => {
  const addresses = request.kind === 'batch' ? BigInt(Math.max(1, request.authorizations.length)) : 1n;
  return feeOf(request, file) > (COIN[feeCoinOf(file.coin)].asset === 'POL' ? MOST_FEE_IN_POL : MOST_FEE) * addresses;
};

function checkRequest(request: AccountRequest, file: SigningFile, { account, nowSeconds }: { account: Account; nowSeconds: number }): void {
  checkOwn(account, request.from, request.path);
  const count = request.kind === 'batch' ? BigInt(request.authorizations.length) : 1n;
  if (request.gas > gasLimits(file).gas * count) refuse('A transaction may use more gas than such a transfer needs.');
  const contract = contractOf(file.coin, file.network);
  if (request.kind !== 'fund' && (request.kind === 'native') === isToken(file.coin)) refuse('The file moves another coin than it says.');
  if ((request.kind === 'token' || request.kind === 'batch') && request.contract.toLowerCase() !== contract?.toLowerCase())
    refuse(`The file calls another contract than that of ${file.coin}.`);
  if (request.kind === 'fund') {
    const paid = file.requests.filter(needsGas).find(({ from }) => from.toLowerCase() === request.to.toLowerCase());
    if (!paid || request.units > mostFunded(paid, file)) refuse('The file sends money for gas to an address that does not need it.');
  }
  if (request.kind === 'batch') {
    if (request.validBefore > nowSeconds + MOST_VALID_SECONDS)
      refuse('The file authorizes transfers for longer than 8 days. If the clock of this computer is right, do not sign it.');
    for (const { from, path } of request.authorizations) checkOwn(account, from, path);
    checkGathered(request);
  }
}

/**
 * Money moves to another address of the wallet only where that address pays a payout with it, later in the same batch. All senders were
 * checked to be of the wallet, so this one is too.
 */
function checkGathered({ authorizations }: BatchRequest): void {
  const gathered = new Map<string, bigint>();
  for (const [i, { from, line }] of authorizations.entries()) {
    if (line.purpose !== 'gather') continue;
    const to = line.to.toLowerCase();
    if (from.toLowerCase() === to) refuse('The file moves money from an address to the same address.');
    const sent = authorizations.filter((one) => one.from.toLowerCase() === to);
    const paying = sent.find((one) => one.line.purpose === 'payout' && authorizations.indexOf(one) > i);
    if (!paying || sent.length > 1) refuse('The file moves money to an address that does not pay it to a recipient afterwards.');
    const units = (gathered.get(to) ?? 0n) + line.units;
    if (units >= (paying?.line.units ?? 0n)) refuse('The file moves more money to an address than that pays to its recipient.');
    gathered.set(to, units);
  }
}

/** Pauses after each request. Errors: SignerError. */
export function* checkAccounts(file: SigningFile, account: Account, nowSeconds: number): Steps<AccountRequest[]> {
  const requests = file.requests.map((request) => (request.kind === 'psbt' ? refuse('The file mixes two kinds of chains.') : request));
  for (const request of requests) {
    checkRequest(request, file, { account, nowSeconds });
    yield;
  }
  const nonces = requests.map(({ from, nonce }) => `${from.toLowerCase()} ${nonce}`);
  if (new Set(nonces).size !== nonces.length) refuse('The file uses the same nonce twice.');
  if (requests.reduce((sum, request) => sum + feeOf(request, file), 0n) !== file.feeUnits)
    refuse('The fee of the file is not the sum of its fees.');
  return requests;
}

/** The signatures in a file. */
export const countSignatures = (requests: readonly Request[]): number =>
  requests.reduce((sum, request) => sum + 1 + (request.kind === 'batch' ? request.authorizations.length : 0), 0);

/** The signed transactions in hex. Pauses after each signature. */
export function* signAccounts(requests: readonly AccountRequest[], file: SigningFile, account: Account): Steps<string[]> {
  const signWith = (path: AccountPath, hash: Uint8Array) => {
    const key = keyOf(account, path);
    const signature = signHash(hash, key.privateKey!);
    key.wipePrivateData();
    return signature;
  };
  const signed: string[] = [];
  for (const request of requests) {
    const signatures: ReturnType<typeof signHash>[] = [];
    if (request.kind === 'batch') {
      const domain = domainOf(request, file);
      for (const [i, transfer] of transfersOf(request).entries()) {
        signatures.push(signWith(request.authorizations[i]!.path, authorizationHash(transfer, domain)));
        yield;
      }
    }
    const tx = transactionOf(request, file, { signatures });
    signed.push(bytesToHex(signedBytes(tx, signWith(request.path, signingHash(tx)))));
    yield;
  }
  return signed;
}
