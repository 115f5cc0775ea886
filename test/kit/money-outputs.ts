/** Random schedules on a Bitcoin-like chain: BTC on a real node. */
import assert from 'node:assert/strict';
import { HDKey } from '@scure/bip32';
import { p2wpkh, Transaction } from '@scure/btc-signer';
import { addressOfScript } from '../../src/chains/address.ts';
import { formatUnits } from '../../src/core/money.ts';
import { type MoneyChain, openMoneyChain, type SeenOutput } from './money-chain.ts';
import { DEEP, type Deposit, type Ended, type Ground, hashOf, type Merchant, sum } from './money-ground.ts';
import { type RealNode, startBitcoind } from './nodes.ts';

const PAID_AT_ONCE = 8;
const ON = { coin: 'BTC', network: 'regtest' } as const;
const ELSEWHERE_SCRIPT = `0014${'22'.repeat(20)}`;
const ELSEWHERE = Buffer.from(ELSEWHERE_SCRIPT, 'hex');
const ELSEWHERE_ADDRESS = addressOfScript(ELSEWHERE_SCRIPT, ON)!;
/** Leaves the money of a deposit to another wallet: more than any file pays. */
const OTHER_FEE = 90_000n;

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
    requests: 3,
    copies: false,
    pauseMs: 0,
    environment: {
      ...{ BTC_NODE_URL: node.url, BTC_NETWORK: 'regtest', BTC_CONFIRMATIONS: String(DEEP), PRICES: 'static:BTC=1000.00' },
    },
    accountPath: "m/84'/1'/0'",
    strangerOf: (name) => addressOfScript(`0014${hashOf(name).toString('hex').slice(0, 40)}`, ON)!,
    ...{ read, send },
    newest: () => node.rpc('getbestblockhash'),
    mine: (blocks) => chain.mine(blocks),
    reorganize: chain.reorganize,
    prepare: async () => {},
    pay: async (payments) => {
      // Files contain the whole transaction that each deposit is an output of, so those are small.
      for (let i = 0; i < payments.length; i += PAID_AT_ONCE)
        await node.payMany(payments.slice(i, i + PAID_AT_ONCE).map(({ address, amount }) => [address, amount] as const));
    },
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
      const { outpoint } = (mined as SeenOutput[]).find(({ address }) => address === deposit.address)!;
      await send(otherSpend(merchant, { ...deposit, outpoint }));
    },
    checkMoney: (ended) => checkMoney(chain, ended),
    stop: () => node.destroy(),
  };
}

/** The merchant's own wallet moves a deposit. */
function otherSpend({ secret }: Merchant, { outpoint, units, index }: Deposit & { outpoint: string }): string {
  const key = HDKey.fromExtendedKey(secret).deriveChild(0).deriveChild(index);
  const tx = new Transaction({ allowUnknownOutputs: true });
  const [txid, n] = outpoint.split(':') as [string, string];
  tx.addInput({ txid, index: Number(n), sequence: 0xfffffffd, witnessUtxo: { script: p2wpkh(key.publicKey!).script, amount: units } });
  tx.addOutput({ script: ELSEWHERE, amount: units - OTHER_FEE });
  tx.sign(key.privateKey!);
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
