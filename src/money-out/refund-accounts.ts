/**
 * Refunds of tokens with EIP-3009: the deposit address of the payment authorizes exactly the amount to the address of the refund, and the
 * gas address sends all authorizations in one transaction. The nonce of an authorization follows from the refund, so the contract executes
 * at most one authorization of a refund, even if it was in several files.
 */
import { keccak_256 } from '@noble/hashes/sha3.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import type { Chain } from '../chains/chain.ts';
import { type Coin, coinText } from '../core/coin.ts';
import { Problem } from '../core/problem.ts';
import type { BatchRequest } from '../core/signing-file.ts';
import { usedAmong } from './authorizations.ts';
import type { Holding } from './holdings.ts';
import { type AccountWork, batchOf, checkGas, domainFor, frozenAmong, type Lot, lotsOf, onChain, readGasAccount } from './make-accounts.ts';
import type { Made } from './make-utxo.ts';

export type AskedRefund = { id: string; paymentId: string; units: bigint; address: string };
const REASONS = {
  moved:
    'its deposit address does not hold the amount any more, because the money was moved; send it from your own wallet and mark it as sent',
  frozen: 'the issuer of the token froze its deposit address or the address of the customer',
  paid: 'it was already paid, because somebody sent an earlier file of it; find the transaction, then mark it as sent',
  later: 'another refund of the same payment is in this file',
} as const;
type Reason = keyof typeof REASONS;

/** Never changes, so every file of a refund has the same one. */
export const refundNonce = (id: string): string => `0x${bytesToHex(keccak_256(utf8ToBytes(JSON.stringify(['florin refund', id]))))}`;

/** What a refund takes from each transfer, oldest first. When nothing remains on the address, it takes all of them. */
export function sharesOf(lot: Lot, { held, units }: { held: bigint; units: bigint }): { holding: Holding; units: bigint }[] {
  let missing = units;
  return lot.holdings.map((holding) => {
    if (units === held) return { holding, units: holding.units };
    const taken = missing < holding.units ? missing : holding.units;
    missing -= taken;
    return { holding, units: taken };
  });
}

type Found<T> = { refund: T; lot: Lot; held: bigint };
/** What the address of each refund holds, and why the others cannot be paid. */
async function findMoney<T extends AskedRefund>(
  chain: Chain,
  asked: readonly T[],
  { holdings, contract }: { holdings: readonly Holding[]; contract: string },
): Promise<{ found: Found<T>[]; left: { id: string; reason: string }[] }> {
  const left: { id: string; reason: string }[] = [];
  const leave = ({ id }: T, reason: Reason) => void left.push({ id, reason: REASONS[reason] });
  const own = new Map<T, Lot>();
  const payments = new Set<string>();
  for (const refund of asked) {
    const [lot] = lotsOf(holdings.filter(({ paymentId }) => paymentId === refund.paymentId));
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
  const published = pairs.map(([{ id }, { address }]) => ({ from: address, nonce: refundNonce(id) }));
  const [onAddresses, frozen, used] = await Promise.all([
    onChain(
      chain,
      pairs.map(([, lot]) => lot),
      contract,
    ),
    frozenAmong(
      chain,
      contract,
      pairs.flatMap(([{ address }, lot]) => [lot.address, address]),
    ),
    usedAmong(chain, contract, published),
  ]);
  const found = pairs.flatMap(([refund, lot], i): Found<T>[] => {
    const held = onAddresses[i]!.units;
    const isFrozen = frozen.has(lot.address) || frozen.has(refund.address);
    const reason = used.has(published[i]!) ? 'paid' : isFrozen ? 'frozen' : held < refund.units ? 'moved' : null;
    if (reason) leave(refund, reason);
    return reason ? [] : [{ refund, lot, held }];
  });
  return { found, left };
}

/** `holdings`: confirmed money of payments that a refund may return. Errors: ChainError, refund_file_empty, sweep_gas_missing. */
export async function makeAccountRefunds<T extends AskedRefund>(
  chain: Chain,
  asked: readonly T[],
  work: Omit<AccountWork, 'wish' | 'destination' | 'reference'>,
): Promise<Made<BatchRequest> & { refunds: T[]; left: { id: string; reason: string }[] }> {
  const { coin, contract } = work;
  const domain = contract === null ? null : await domainFor(chain, { contract, chainId: work.chainId });
  if (!domain || contract === null) throw ownWallet(coin);
  const { found, left } = await findMoney(chain, asked, { holdings: work.holdings, contract });
  const refunds = found.map(({ refund }) => refund);
  if (found.length === 0) return { requests: [], inputs: [], stay: new Map(), refunds, left };
  const gasAccount = await readGasAccount(chain, work);
  const request = batchOf(
    found.map(({ refund: { id, paymentId, units, address }, lot }) => ({
      ...{ from: lot.address, path: { chain: 0, index: lot.index } as const, nonce: refundNonce(id) },
      line: { purpose: 'refund', to: address, units, reference: paymentId } as const,
    })),
    { ...work, contract, domain, from: gasAccount.address, nonce: gasAccount.nonce },
  );
  checkGas(coin, gasAccount, request.gas * work.gasPrice.max);
  const inputs: Made<BatchRequest>['inputs'] = found.flatMap(({ refund, lot, held }) =>
    sharesOf(lot, { held, units: refund.units }).map(({ holding, units }) => ({
      ...{ input: `${coin}:${holding.paymentId}:${holding.ref}`, holding, units },
    })),
  );
  inputs.push({ input: `gas:${gasAccount.address}`, holding: null, units: null });
  return { requests: [request], inputs, stay: new Map(), refunds, left };
}

/** For coins whose refunds cannot be signed here. */
export const ownWallet = (coin: Coin): Problem =>
  new Problem('refund_file_empty', {
    coin: coinText(coin),
    reason: 'send refunds in this coin from your own wallet, and mark them as sent',
  });
