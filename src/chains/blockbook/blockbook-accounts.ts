/** What a Blockbook server shows of Ethereum-like chains. */
import type { AddressSummary, ChainTransaction } from '../chain.ts';
import { ChainError } from '../chain.ts';
import { checksumAddress, isAddress } from '../ethereum/address.ts';
import { MINUTES, tierAtGasPrice } from '../ethereum/fees.ts';
import { type Fields, fields } from '../reply.ts';
import { type BlockbookRules, placeOf, type RulesInput, readAddress } from './blockbook-rules.ts';
import { firstAddress, integer, rows, text, type Units } from './replies.ts';

/** One point of the balance history for the whole life of an address. */
const HISTORY_SECONDS = 100 * 365 * 86_400;

const accountIn = (value: unknown): string => {
  const address = firstAddress(value);
  return isAddress(address) ? checksumAddress(address.slice(2)) : address;
};

export function describeAccounts(tx: Fields, units: Units): ChainTransaction {
  const failed = fields(tx.ethereumSpecific).status === 0;
  const { mined, ...place } = placeOf(tx);
  const amountUnits = failed ? 0n : units(tx.value ?? '0', 'the amount');
  const outputs = rows(tx.vout).map((output) => {
    const address = output.isAddress === true ? accountIn(output.addresses) : '';
    const value = units(output.value ?? '0', 'the value of an output');
    return { address, units: failed ? 0n : value, ...(address === '' && { type: 'create' }) };
  });
  const fee = tx.fees === undefined ? null : units(tx.fees, 'the fee');
  return {
    txid: text(tx.txid),
    status: failed ? 'failed' : mined ? 'confirmed' : 'pending',
    ...place,
    amountUnits,
    // The fee is known when the transaction is mined.
    feeUnits: mined ? fee : null,
    inputs: rows(tx.vin).map((input) => ({ address: accountIn(input.addresses), units: amountUnits })),
    outputs,
  };
}

/** Blockbook has no totals. They are added up from its history, and used only if they match the balance on the chain. */
async function readSummary(address: string, { get, units }: RulesInput): Promise<AddressSummary> {
  const found = await readAddress(get, address);
  const balanceUnits = units(found.balance, 'the balance');
  let receivedUnits = 0n;
  let sentUnits = 0n;
  for (const point of rows(await get(`v2/balancehistory/${address}?groupBy=${HISTORY_SECONDS}`))) {
    receivedUnits += units(point.received ?? '0', 'what was received');
    sentUnits += units(point.sent ?? '0', 'what was sent');
  }
  if (receivedUnits - sentUnits !== balanceUnits)
    throw new ChainError(
      'unsupported',
      'the history that Blockbook keeps of this ETH address does not add up to its balance (internal transfers are not indexed)',
    );
  // A waiting outgoing transaction lowers the balance by its highest possible fee; the real fee is unknown until it is mined.
  if (integer(found.unconfirmedTxs) > 0 && text(found.unconfirmedSending) !== '' && found.unconfirmedSending !== '0')
    throw new ChainError('outage', 'a transaction of this address is on its way and its fee is known when it is mined');
  const unconfirmedUnits = integer(found.unconfirmedTxs) > 0 ? units(found.unconfirmedBalance, 'the unconfirmed balance') : 0n;
  return { balanceUnits, unconfirmedUnits, receivedUnits, sentUnits, transactions: integer(found.txs) };
}

export function createAccountRules(input: RulesInput): BlockbookRules {
  const { get, units } = input;
  return {
    describe: (tx) => describeAccounts(tx, units),
    addressSummary: (address) => readSummary(address, input),
    readUnspent: async ({ address }) => {
      const { balance } = fields(await get(`v2/address/${address}?details=basic`));
      return { units: units(balance, 'the balance'), leavingUnits: 0n };
    },
    lowestRate: null,
    tierAt: tierAtGasPrice,
    minutes: MINUTES,
  };
}
