/** The transaction that each request of a signing file asks for. The signer signs it, and the service compares what comes back with it. */
import { invariant } from '../../core/invariant.ts';
import type { AccountRequest, BatchRequest, SigningFile } from '../../core/signing-file.ts';
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

/** `signatures`: of the authorizations of a batch, in order. `mayFail` false: for an estimate that shows every failure. */
export function transactionOf(
  request: AccountRequest,
  { chainId, gasPrice }: In,
  { signatures = [], mayFail = true }: { signatures?: readonly Signature[]; mayFail?: boolean } = {},
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
      const calls = transfersOf(request).map((transfer, i) => authorizedData(transfer, signatures[i]!));
      return { ...common, to: bare(MULTICALL3), units: 0n, data: aggregateData(request.contract, calls, { mayFail }) };
    }
  }
}

/** The highest fee that a request can cost. */
export const feeOf = ({ gas }: AccountRequest, { gasPrice }: In): bigint => gas * gasPrice!.max;
