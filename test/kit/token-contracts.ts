/** Code of small token contracts for a test EVM, and calls to them. */

/** keccak256('Transfer(address,address,uint256)'). */
export const TRANSFER = 'ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef';
const byte = (value: number): string => value.toString(16).padStart(2, '0');
/** 32 bytes of call data. */
export const word = (value: bigint | string): string =>
  (typeof value === 'string' ? value.replace('0x', '').toLowerCase() : value.toString(16)).padStart(64, '0');

/** Where the answers of `decimals()` and `paused()` are stored: in the slot named like the selector. */
export const DECIMALS_SLOT = '0x313ce567';
export const PAUSED_SLOT = '0x5c975abb';
/** Where a proxy stores the contract that it runs (EIP-1967). */
export const IMPLEMENTATION_SLOT = '0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc';

/**
 * A token that reports one transfer for each pair (account, amount) in its call data, and returns nothing. Shorter call data is a question,
 * answered from the slot that is named like its selector:
 *   PUSH1 20 CALLDATASIZE LT PUSH1 view JUMPI
 *   PUSH1 0                                                          i = 0
 *   JUMPDEST CALLDATASIZE DUP2 LT ISZERO PUSH1 end JUMPI             (09) until the end:
 *   DUP1 PUSH1 20 ADD CALLDATALOAD [less] PUSH1 0 MSTORE             the amount
 *   DUP1 CALLDATALOAD [from] PUSH32 Transfer PUSH1 20 PUSH1 0 LOG3   from the caller to the account
 *   PUSH1 40 ADD PUSH1 09 JUMP                                       i += 64
 *   JUMPDEST [last]                                                  (end)
 *   JUMPDEST PUSH1 0 CALLDATALOAD PUSH1 e0 SHR SLOAD PUSH1 0 MSTORE PUSH1 20 PUSH1 0 RETURN   (view)
 */
export function tokenCode({ less = '', from = '33', last = '00' } = {}): string {
  const body = `8060200135${less}6000528035${from}7f${TRANSFER}60206000a36040016009565b`;
  // The last byte of the body is the JUMPDEST, seventeen bytes after the start.
  const end = 16 + body.length / 2;
  const view = end + 1 + last.length / 2;
  return `6020361060${byte(view)}5760005b3681101560${byte(end)}57${body}${last}5b60003560e01c5460005260206000f3`;
}
/** A hundredth of the amount stays with the contract: PUSH1 64 DUP2 DIV SWAP1 SUB. */
export const FEE_TOKEN = tokenCode({ less: '606481049003' });
/**
 * Reverts when it would pay an account on the blacklist, that is one with something stored in the slot named like it:
 * DUP2 CALLDATALOAD SLOAD ISZERO PUSH1 21 JUMPI PUSH1 0 DUP1 REVERT JUMPDEST (21).
 */
export const BLACKLISTING_TOKEN = tokenCode({ less: '81355415602157600080fd5b' });
/** Reports the transfers, then reverts. */
export const REVERTING_TOKEN = tokenCode({ last: '60006000fd' });
/** Its transfers come from nobody: PUSH1 0. */
export const MINTING_TOKEN = tokenCode({ from: '6000' });
/** Its transfers come from this account, no matter who calls: PUSH20. */
export const tokenFrom = (account: string): string => tokenCode({ from: `73${account.replace('0x', '').toLowerCase()}` });

/**
 * Calls `to` (the word before, in the call data at `at`) with the full value of the call: PUSH 0 four times, CALLVALUE, address, GAS,
 * CALL.
 */
export const CALL_WITH_VALUE = (address: string): string => `600060006000600034${address}5af1`;
/** Forwards the ETH that it receives to the address in its call data: CALLDATALOAD(0), STOP. */
export const VALUE_FORWARDER = `${CALL_WITH_VALUE('600035')}00`;

/** Passes call data on to the contract named by its first word, as batch contracts do. */
export const FORWARDER = `6020360380602060003760006000826000600060003 55af100`.replace(' ', '');

/** Reverts unless the function is called: CALLDATALOAD(0) PUSH1 e0 SHR PUSH4 selector EQ PUSH1 13 JUMPI PUSH1 0 DUP1 REVERT JUMPDEST (13). */
const only = (selector: string): string => `60003560e01c63${selector}14601357600080fd5b`;
/** `GasPriceOracle` of the OP stack: `getL1Fee(bytes)` charges so many wei for each byte: CALLDATALOAD(24) PUSH32 wei MUL, returned. */
export const gasPriceOracle = (wei: bigint): string => `${only('49948e0e')}6024357f${word(wei)}0260005260206000f3`;
/** The same for `getL1FeeUpperBound(uint256)`, from the size alone: CALLDATALOAD(4) PUSH32 wei MUL, returned. */
export const publishingFee = (wei: bigint): string => `${only('f1c7a58b')}6004357f${word(wei)}0260005260206000f3`;
/**
 * `NodeInterface` of Arbitrum: `gasEstimateL1Component(address,bool,bytes)` charges so much gas for each byte, at a price:
 * CALLDATALOAD(64) PUSH32 gas MUL PUSH1 0 MSTORE PUSH32 price PUSH1 20 MSTORE PUSH1 60 PUSH1 0 RETURN.
 */
export const nodeInterface = ({ gas, price }: { gas: bigint; price: bigint }): string =>
  `${only('77d488a2')}6064357f${word(gas)}026000527f${word(price)}60205260606000f3`;

/** Call data for these transfers. */
export const transferData = (pairs: readonly (readonly [account: string, units: bigint])[]): string =>
  `0x${pairs.map(([account, units]) => word(account) + word(units)).join('')}`;

type Rpc = (method: string, ...params: unknown[]) => Promise<unknown>;
/** Puts a token at an address. */
export async function putToken(
  rpc: Rpc,
  contract: string,
  { decimals, code = tokenCode() }: { decimals: number; code?: string },
): Promise<void> {
  await rpc('anvil_setCode', contract, `0x${code}`);
  await rpc('anvil_setStorageAt', contract, `0x${word(DECIMALS_SLOT)}`, `0x${word(BigInt(decimals))}`);
}
