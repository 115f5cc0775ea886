/** The transaction that each request of a signing file asks for. The signer signs it, and the service compares what comes back with it. */
import { chainOf } from '../../core/coin.ts';
import { invariant } from '../../core/invariant.ts';
import type { AccountRequest, Authorization, BatchRequest, SigningFile } from '../../core/signing-file.ts';
import { isAddress } from './address.ts';
import { type AuthorizedTransfer, aggregateData, authorizedData, MULTICALL3, type TokenDomain, transferData } from './token-calls.ts';
import type { Signature, Transaction } from './transaction.ts';

type In = Pick<SigningFile, 'chainId' | 'gasPrice'>;
/** The 40 hex digits of an address. Anything else throws, so that no other account is ever paid. */
function bare(address: string): string {
  invariant(isAddress(address), 'an account is 0x and 40 hex digits');
  return address.slice(2).toLowerCase();
}

export const domainOf = ({ domain, contract }: BatchRequest, { chainId }: In): TokenDomain => ({ ...domain, chainId: chainId!, contract });
export const transfersOf = ({ authorizations, validBefore }: BatchRequest): AuthorizedTransfer[] =>
  authorizations.map(({ from, nonce, line }) => ({ from, to: line.to, units: line.units, validBefore, nonce }));

/**
 * A payout is paid as a whole: if it fails, so does the transaction. What is gathered for it may be on the address that pays already, because
 * anybody can send an authorization that was published.
 */
const mayFailAlone = ({ line }: Authorization): boolean => line.purpose !== 'payout';

/** `signatures`: of the authorizations of a batch, in order. `mayFail`: others for an estimate, which shows failures. */
export function transactionOf(
  request: AccountRequest,
  { chainId, gasPrice }: In,
  {
    signatures = [],
    mayFail = mayFailAlone,
  }: { signatures?: readonly Signature[]; mayFail?: (authorization: Authorization) => boolean } = {},
): Transaction {
  const { nonce, gas } = request;
  const common = { chainId: chainId!, nonce, gas, tip: gasPrice!.tip, max: gasPrice!.max };
  switch (request.kind) {
    case 'native':
      return { ...common, to: bare(request.line.to), units: request.line.units, data: '' };
    case 'fund':
      return { ...common, to: bare(request.to), units: request.units, data: '' };
    case 'token':
      return { ...common, to: bare(request.contract), units: 0n, data: transferData(request.line.to, request.line.units) };
    case 'batch': {
      const calls = transfersOf(request).map((transfer, i) => {
        return { data: authorizedData(transfer, signatures[i]!), mayFail: mayFail(request.authorizations[i]!) };
      });
      return { ...common, to: bare(MULTICALL3), units: 0n, data: aggregateData(request.contract, calls) };
    }
  }
}

/** The highest fee that a request can cost. */
export const feeOf = ({ gas }: AccountRequest, { gasPrice }: In): bigint => gas * gasPrice!.max;

/** The most gas of one transfer, and the highest price of gas, in wei. */
const MOST_GAS = 300_000n;
const MOST_PRICE = 5_000_000_000_000n;
/** Arbitrum takes what posting on Ethereum costs from the gas of a transaction, at a price that is as much lower. */
const POSTED = 40n;
/** The limits of a signing file: the signer refuses more. */
export const gasLimits = ({ coin }: Pick<SigningFile, 'coin'>): { gas: bigint; price: bigint } =>
  chainOf(coin).dataFee === 'node_interface'
    ? { gas: MOST_GAS * POSTED, price: MOST_PRICE / POSTED }
    : { gas: MOST_GAS, price: MOST_PRICE };

/** The most that publishing one transfer on Ethereum is taken to cost, in wei. */
const MOST_PUBLISHING = 2_000_000_000_000_000n;
/** What the gas address pays an address at most: its highest fee, and where publishing on Ethereum is charged besides, also that. */
export const mostFunded = (paid: AccountRequest, file: Pick<SigningFile, 'coin' | 'chainId' | 'gasPrice'>): bigint =>
  feeOf(paid, file) + (chainOf(file.coin).dataFee === 'gas_price_oracle' ? MOST_PUBLISHING : 0n);
