/** Random schedules on a Bitcoin-like chain: BTC on a real node. */
import assert from 'node:assert/strict';
import { secp256k1 } from '@noble/curves/secp256k1.js';
import { HDKey } from '@scure/bip32';
import { p2wpkh, Transaction } from '@scure/btc-signer';
import { addressOfScript } from '../../src/addresses/address.ts';
import { formatUnits } from '../../src/core/money.ts';
import { type MoneyChain, openMoneyChain, type SeenOutput } from './money-chain.ts';
import { CONFIRMATIONS, type Deposit, type Ended, type Ground, hashOf, type Merchant, sum } from './money-ground.ts';
import { type RealNode, startBitcoind } from './nodes.ts';

const PAID_AT_ONCE = 8;
const FUNDED_AT_ONCE = 50;
/** Coins of the wallet that pays by hand. Each payment keeps one, also if it is never sent. */
const HAND_COINS = 300;
const ON = { coin: 'BTC', network: 'regtest' } as const;
const ELSEWHERE_SCRIPT = `0014${'22'.repeat(20)}`;
const ELSEWHERE = Buffer.from(ELSEWHERE_SCRIPT, 'hex');
const ELSEWHERE_ADDRESS = addressOfScript(ELSEWHERE_SCRIPT, ON)!;
/** Leaves the money of a deposit to another wallet: more than any file pays. */
const OTHER_FEE = 90_000n;
/** What each customer has who may send a payment elsewhere. */
const PAYER_UNITS = 5_000_000n;
const REGTEST = { bech32: 'bcrt', pubKeyHash: 0x6f, scriptHash: 0xc4, wif: 0xef };

/** `indexed`: whether the node finds transactions in blocks. */
export async function openOutputGround({ indexed }: { indexed: boolean }): Promise<Ground> {
  const node = await startBitcoind({ txindex: indexed });
  try {
    return outputGround(node, await openMoneyChain(node));
  } catch (error) {
    await node.destroy();
    throw error;
  }
}

function outputGround(node: RealNode, chain: MoneyChain): Ground {
  const send: Ground['send'] = (raw) => node.rpc('sendrawtransaction', raw).catch(() => null);
  const read: Ground['read'] = async () => {
    const { mined, waiting } = await chain.read();
    const paid = (txs: typeof mined) => txs.flatMap(({ outputs }) => outputs);
    return { mined: paid(mined), waiting: paid(waiting) };
  };
  return {
    coins: ['BTC'],
    kinds: ['refund', 'payout'],
    requests: 4,
    amounts: () => ['0.005', '0.012', '0.03'],
    copies: false,
    pauseMs: 0,
    environment: {
      ...{ BTC_NODE_URL: node.url, BTC_NETWORK: 'regtest', BTC_CONFIRMATIONS: CONFIRMATIONS, PRICES: 'static:BTC=1000.00' },
    },
    accountPath: "m/84'/1'/0'",
    strangerOf: (name) => addressOfScript(`0014${hashOf(name).toString('hex').slice(0, 40)}`, ON)!,
    ...{ read, send },
    newest: () => node.rpc('getbestblockhash'),
    mine: (blocks) => chain.mine(blocks),
    reorganize: chain.reorganize,
    prepare: async ({ payers }) => {
      const given = Array.from({ length: payers }, (_, i) => [addressOfPayer(i), formatUnits('BTC', PAYER_UNITS)] as const);
      const all: (readonly [string, string])[] = [...given];
      for (let i = 0; i < HAND_COINS; i++) all.push([await node.newAddress(), '0.2']);
      for (let i = 0; i < all.length; i += FUNDED_AT_ONCE) await node.payMany(all.slice(i, i + FUNDED_AT_ONCE));
      await chain.mine(1);
    },
    payAs: async (customer, { address, units }) => {
      const { mined } = await read();
      const own = addressOfPayer(customer);
      const { outpoint } = (mined as SeenOutput[]).find((one) => one.address === own)!;
      const from = { key: payerOf(customer), outpoint, units: PAYER_UNITS };
      const rest = { script: ELSEWHERE, units: PAYER_UNITS - OTHER_FEE };
      return {
        pays: spend(from, [
          { address, units },
          { ...rest, units: rest.units - units },
        ]),
        other: spend(from, [rest]),
      };
    },
    pay: async (payments) => {
      // Files contain the whole transaction that each deposit is an output of, so those are small.
      for (let i = 0; i < payments.length; i += PAID_AT_ONCE)
        await node.payMany(payments.slice(i, i + PAID_AT_ONCE).map(({ address, amount }) => [address, amount] as const));
    },
    payAgain: async () => {},
    payByHand: async ({ address, units }) => {
      const { hex } = await node.rpc(
        'fundrawtransaction',
        await node.rpc('createrawtransaction', [], [{ [address]: formatUnits('BTC', units) }]),
        { lockUnspents: true },
      );
      const signed = await node.rpc('signrawtransactionwithwallet', hex);
      const { txid } = await node.rpc('decoderawtransaction', signed.hex);
      return { txid, raw: signed.hex };
    },
    addressesIn: async (raws) => {
      const decoded = await Promise.all(raws.map((raw) => node.rpc('decoderawtransaction', raw)));
      return decoded.flatMap(({ vout }) => vout.map((one: any) => one.scriptPubKey.address as string));
    },
    leak: async (raws) => {
      for (const raw of raws) await send(raw);
    },
    spendElsewhere: async (merchant, deposit) => {
      const { mined } = await read();
      const paid = (mined as SeenOutput[]).find(({ address }) => address === deposit.address);
      if (paid) await send(otherSpend(merchant, { ...deposit, outpoint: paid.outpoint }));
    },
    checkMoney: (ended) => checkMoney(chain, ended),
    stop: () => node.destroy(),
  };
}

/** The merchant's own wallet moves a deposit. */
function otherSpend({ secret }: Merchant, { outpoint, units, index }: Deposit & { outpoint: string }): string {
  const key = HDKey.fromExtendedKey(secret).deriveChild(0).deriveChild(index).privateKey!;
  return spend({ key, outpoint, units }, [{ script: ELSEWHERE, units: units - OTHER_FEE }]);
}

const payerOf = (i: number): Uint8Array => hashOf(`payer ${i}`);
const scriptOfKey = (key: Uint8Array): Uint8Array => p2wpkh(secp256k1.getPublicKey(key)).script;
const addressOfPayer = (i: number): string => addressOfScript(Buffer.from(scriptOfKey(payerOf(i))).toString('hex'), ON)!;

type To = { units: bigint } & ({ script: Uint8Array } | { address: string });
function spend({ key, outpoint, units }: { key: Uint8Array; outpoint: string; units: bigint }, to: readonly To[]): string {
  const tx = new Transaction({ allowUnknownOutputs: true });
  const [txid, n] = outpoint.split(':') as [string, string];
  tx.addInput({ txid, index: Number(n), sequence: 0xfffffffd, witnessUtxo: { script: scriptOfKey(key), amount: units } });
  for (const one of to) {
    if ('script' in one) tx.addOutput({ script: one.script, amount: one.units });
    else tx.addOutputAddress(one.address, one.units, REGTEST);
  }
  tx.sign(key);
  tx.finalize();
  return tx.hex;
}

/** Where all money of a merchant is, read from the chain, and whether Florin says the same. */
async function checkMoney(chain: MoneyChain, { merchant, deposits: own, outs, byHand, strayed, books: all }: Ended): Promise<void> {
  const { mined } = await chain.read();
  const spent = new Set(mined.flatMap(({ spends }) => spends));
  const arrived = new Map(mined.flatMap(({ outputs }) => outputs.map((one) => [one.outpoint, one] as const)));
  const addresses = new Set(own.map(({ address }) => address));
  const deposits = [...arrived.values()].filter(({ address }) => addresses.has(address));
  const customers = new Set(outs.map(({ address }) => address));
  const outpoints = new Set(deposits.map(({ outpoint }) => outpoint));
  const spending = mined.filter(({ spends }) => spends.some((one) => outpoints.has(one)));
  let [fees, home, paid] = [0n, 0n, 0n];
  for (const { txid, spends, outputs } of spending) {
    assert.ok(
      spends.every((one) => outpoints.has(one)),
      `${txid} spends the money of others`,
    );
    fees += sum(spends.map((one) => arrived.get(one)!.units)) - sum(outputs.map(({ units }) => units));
    for (const { address, units } of outputs) {
      if (address === merchant.destination) home += units;
      else if (customers.has(address)) paid += units;
      else assert.ok(strayed && address === ELSEWHERE_ADDRESS, `${txid} pays ${address}`);
    }
  }
  const left = deposits.filter(({ outpoint }) => !spent.has(outpoint));
  const { listed, accounts } = all.get('BTC')!;
  const refs = listed.map(({ ref }) => ref);
  for (const { outpoint } of left) assert.ok(refs.includes(outpoint), `${outpoint} is unspent and cannot be swept`);
  if (strayed) return;
  assert.deepEqual(refs.toSorted(), left.map(({ outpoint }) => outpoint).toSorted());
  const hand = sum(outs.flatMap(({ id, units }) => (byHand.has(id) ? [units] : [])));
  const account = (name: string): bigint => BigInt(accounts[name] ?? 0);
  assert.deepEqual(
    [account('deposit_addresses'), account('network_fees'), account('destination_wallet')],
    [sum(left.map(({ units }) => units)), fees, home - hand],
  );
  assert.equal(account('refunds') + account('payouts') + account('overpayments'), paid + hand);
}
