/** Transfers of tokens to watched accounts, read from the logs of receipts. The same on every Ethereum-like chain. */
import { type Coin, coinsBeside, contractOf, type Network } from '../../core/coin.ts';
import type { Matcher, Sighting } from '../chain.ts';
import { fields } from '../reply.ts';
import { type EthReceipt, type EthTransaction, outpoint, TRANSFER } from './value-moves.ts';

/** Coins by their contract: 40 lowercase hex digits. A token is its contract; anyone can give another one the same name. */
export type Tokens = ReadonlyMap<string, Coin>;

/** The tokens on the chain of a coin that have a contract on this network. */
export const tokensBeside = (coin: Coin, network: Network): Tokens =>
  new Map(
    coinsBeside(coin).flatMap((one): [string, Coin][] => {
      const contract = contractOf(one, network);
      return contract === null ? [] : [[contract.slice(2).toLowerCase(), one]];
    }),
  );

/** One transfer of a token. Accounts are 40 lowercase hex digits. */
export type TokenMove = { coin: Coin; from: string; to: string; units: bigint };

const ADDRESS = /^0x[0-9a-f]{40}$/i;
/** An account as a topic: 32 bytes, of which the first twelve are zero. */
const ACCOUNT_WORD = /^0x0{24}[0-9a-f]{40}$/i;
const WORD = /^0x[0-9a-f]{64}$/i;

const accountIn = (topic: unknown): string | null =>
  typeof topic === 'string' && ACCOUNT_WORD.test(topic) ? topic.slice(26).toLowerCase() : null;

/**
 * The transfer that a log reports; null when it reports none. Only logs of listed contracts count, with exactly the three topics and the
 * 32 bytes of data of an ERC-20 transfer: with a fourth topic it is the transfer of an NFT. The amount is what the contract says arrived,
 * which may be less than what was sent.
 */
export function readTransfer(log: unknown, tokens: Tokens): TokenMove | null {
  const { address, topics, data, removed } = fields(log);
  if (typeof address !== 'string' || !ADDRESS.test(address)) return null;
  const coin = tokens.get(address.slice(2).toLowerCase());
  if (coin === undefined || removed === true || !Array.isArray(topics) || topics.length !== 3) return null;
  if (typeof topics[0] !== 'string' || topics[0].toLowerCase() !== TRANSFER) return null;
  const [from, to] = [accountIn(topics[1]), accountIn(topics[2])];
  if (from === null || to === null || from === to || typeof data !== 'string' || !WORD.test(data)) return null;
  const units = BigInt(data);
  // Anyone can cause transfers of nothing.
  return units > 0n ? { coin, from, to, units } : null;
}

/**
 * What the transactions of a block pay to watched accounts in tokens, each log as a transfer of its own. Who called the contract, and how,
 * does not matter: batches, relayed authorizations, mints and bridges all leave the same logs, and failed transactions leave none.
 *
 * A transfer is named after its transaction, the account, and its place among the transfers to that account. Its number in the block would
 * change when a reorganization moves the transaction to another block.
 */
export function tokenSightings(
  {
    transactions,
    receipts,
  }: {
    transactions: readonly (Pick<EthTransaction, 'txid'> & Partial<Pick<EthTransaction, 'from' | 'nonce'>>)[];
    receipts: readonly Pick<EthReceipt, 'ok' | 'logs'>[];
  },
  tokens: Tokens,
  matcher: Pick<Matcher, 'has'>,
): Sighting[] {
  if (tokens.size === 0) return [];
  let logsBefore = 0;
  return transactions.flatMap((tx, index) => {
    const { ok, logs } = receipts[index]!;
    const first = logsBefore;
    logsBefore += logs.length;
    if (!ok) return [];
    const { txid, from, nonce } = tx;
    const spends = from === undefined || nonce === undefined ? [] : [outpoint({ from, nonce })];
    const places = new Map<string, number>();
    return logs.flatMap((log, i): Sighting[] => {
      const move = readTransfer(log, tokens);
      // What moves between two addresses of this install pays nothing.
      if (!move || !matcher.has(move.to) || matcher.has(move.from)) return [];
      const { coin, to, units } = move;
      const place = places.get(to) ?? 0;
      places.set(to, place + 1);
      const ref = `${txid}:log:${to}:${place}`;
      return [{ coin, key: to, ref, txid, units, kind: 'token', spends, lock: null, place: first + i }];
    });
  });
}
