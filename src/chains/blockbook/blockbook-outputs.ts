/** What a Blockbook server shows of Bitcoin-like chains. */
import type { BitcoinFamily } from '../../core/coin.ts';
import { tierOf } from '../bitcoin/core-fees.ts';
import { PARAMS } from '../bitcoin/params.ts';
import type { AddressSummary, ChainTransaction, Unspent } from '../chain.ts';
import type { Fields } from '../reply.ts';
import { type BlockbookRules, type OutputsOf, placeOf, type RulesInput, readAddress } from './blockbook-rules.ts';
import { firstAddress, integer, rows, text, type Units } from './replies.ts';

const sum = (parts: readonly { units: bigint }[]): bigint => parts.reduce((total, { units }) => total + units, 0n);

export function describeOutputs(tx: Fields, units: Units): ChainTransaction {
  const { mined, ...place } = placeOf(tx);
  const amountUnits = units(tx.value ?? '0', 'the amount');
  const outputs = rows(tx.vout).map((output) => {
    const address = output.isAddress === true ? firstAddress(output.addresses) : '';
    const value = units(output.value ?? '0', 'the value of an output');
    return { address, units: value, ...(address === '' && { type: text(output.type) || 'nonstandard' }) };
  });
  const vin = rows(tx.vin);
  const coinbase = vin.length === 1 && !vin[0]?.txid;
  const inputs = coinbase
    ? [{ address: 'coinbase', units: amountUnits }]
    : vin
        .filter((input) => input.txid)
        .map((input) => ({ address: firstAddress(input.addresses), units: units(input.value ?? '0', 'the value of an input') }));
  const fee = tx.fees === undefined ? 0n : units(tx.fees, 'the fee');
  // LTC: transactions into or out of MWEB have hidden inputs and outputs, so the fee is unknown.
  const feeUnits = sum(inputs) - sum(outputs) === fee ? fee : null;
  return {
    txid: text(tx.txid),
    status: mined ? 'confirmed' : 'pending',
    ...place,
    amountUnits,
    feeUnits: coinbase ? 0n : feeUnits,
    inputs,
    outputs,
  };
}

export function createOutputRules(family: BitcoinFamily, { get, units }: RulesInput): BlockbookRules {
  return {
    describe: (tx) => describeOutputs(tx, units),
    addressSummary: async (address): Promise<AddressSummary> => {
      const found = await readAddress(get, address);
      return {
        balanceUnits: units(found.balance, 'the balance'),
        unconfirmedUnits: units(found.unconfirmedBalance, 'the unconfirmed balance'),
        receivedUnits: units(found.totalReceived, 'what was received'),
        sentUnits: units(found.totalSent, 'what was sent'),
        transactions: integer(found.txs),
      };
    },
    readUnspent: async ({ address, outputs }: OutputsOf): Promise<Unspent> => {
      const refsOf = async (query: string) =>
        new Set(rows(await get(`v2/utxo/${address}${query}`)).map((o) => `${text(o.txid)}:${integer(o.vout)}`));
      const mined = await refsOf('?confirmed=true');
      const all = await refsOf('');
      const there = outputs.filter((output) => mined.has(output.ref));
      return { units: sum(there), leavingUnits: sum(there.filter((output) => !all.has(output.ref))) };
    },
    lowestRate: PARAMS[family].floorPerKilobyte,
    tierAt: (rate) => tierOf(family, rate),
    minutes: PARAMS[family].minutes,
  };
}
