/** Lookups of balances, fees and transactions: exact, or with the reason why not; for every coin, in both modes. */
// Invariant: A lookup is exact, or says which source is missing.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { sha256 } from '@noble/hashes/sha2.js';
import { createBase58check } from '@scure/base';
import { addressOfScript } from '../../src/addresses/address.ts';
import { checksumAddress } from '../../src/addresses/evm-address.ts';
import { COIN, type Coin, chainOf, NATIVE_COINS } from '../../src/core/coin.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';
import { type CoreNode, startCoreNode } from '../kit/core-node.ts';
import { startBitcoind, type TestNode } from '../kit/nodes.ts';
import { account, giveWallet, openPayment, reach } from '../kit/shop.ts';
import { createTestChain, type TestChain } from '../kit/test-chain.ts';

const UTXO = ['BTC', 'LTC', 'DASH', 'DOGE'] as const;
const PRICE = { BTC: 97_000, ETH: 3_500, LTC: 100, DASH: 30, DOGE: 0.2 };
const addressOf = (coin: Coin, n: number): string => {
  const hash = n.toString(16).padStart(2, '0').repeat(20);
  return coin === 'ETH' ? checksumAddress(hash) : addressOfScript(`76a914${hash}88ac`, { coin, network: 'mainnet' })!;
};

type Utxo = (typeof UTXO)[number];
let chains: Record<Utxo, TestChain>;
let nodes: Record<Utxo, CoreNode>;
let app: TestApp;
before(async () => {
  chains = {} as typeof chains;
  nodes = {} as typeof nodes;
  for (const coin of UTXO) {
    chains[coin] = createTestChain({ coin });
    nodes[coin] = await startCoreNode(chains[coin]);
  }
  app = await startTestApp(Object.fromEntries(UTXO.map((coin) => [`${coin}_NODE_URL`, nodes[coin].url])));
});
after(async () => {
  await app?.stop();
  for (const node of Object.values(nodes ?? {})) await node.close();
});
const lookUp = (kind: string, query: string): Promise<Reply> => app.live.get(`/api/crypto/${kind}${query}`);
const refused = (reply: Reply, status: number, code: string, message: RegExp) => {
  assert.deepEqual([reply.status, reply.json.error?.code], [status, code], reply.text);
  assert.match(reply.json.error.message, message);
};

for (const coin of UTXO) {
  test(`${coin}: a transaction, field by field, pending and mined`, async () => {
    const chain = chains[coin];
    const to = addressOf(coin, 7);
    const txid = chain.pay([[to, 200_000_000n]]);
    const waiting = (await lookUp(`transaction/${txid}`, `?currency=${coin}`)).json;
    assert.deepEqual(
      [waiting.status, waiting.confirmations, waiting.block_height, waiting.block_hash, waiting.timestamp],
      ['pending', 0, null, null, null],
    );
    const [block] = chain.mine();
    chain.mine();
    const { tx } = chain.find(txid)!;
    const { status, json } = await lookUp(`transaction/${txid.toUpperCase()}`, `?currency=${coin}`);
    assert.equal(status, 200);
    const amount = (units: bigint) => `${units / 100_000_000n}.${String(units % 100_000_000n).padStart(8, '0')}`;
    assert.deepEqual(json, {
      success: true,
      txid,
      currency: coin,
      status: 'confirmed',
      confirmations: 2,
      block_height: block!.height,
      block_hash: block!.hash,
      timestamp: new Date(block!.time * 1000).toISOString(),
      amount: amount(tx.outputs.reduce((sum, o) => sum + o.units, 0n)),
      fee: '0.00010000',
      inputs: tx.inputs.map((i) => ({ address: i.address, amount: amount(i.units) })),
      outputs: tx.outputs.map((o) => ({ address: o.address, amount: amount(o.units) })),
    });
    refused(await lookUp(`transaction/${'ab'.repeat(32)}`, `?currency=${coin}`), 404, 'transaction_not_found', /No such transaction/);
  });

  test(`${coin}: fees with their unit, the size of a typical payment and the total in ${coin} and USD`, async () => {
    const { status, json } = await lookUp('fees', `?currency=${coin}`);
    assert.equal(status, 200);
    assert.deepEqual([json.fee_unit, json.typical_size], [chainOf(coin).feeUnit, COIN[coin].typicalSize]);
    assert.deepEqual(Object.keys(json.fees), ['fast', 'normal', 'slow']);
    // 0.0003 per kilobyte; Dogecoin's floor is 0.01.
    const perUnit = coin === 'DOGE' ? 1000 : 30;
    const { fast, normal, slow } = json.fees;
    assert.equal(fast.fee_per_byte, perUnit);
    const total = (perUnit * COIN[coin].typicalSize * 1e-8).toFixed(8);
    assert.deepEqual([fast[`total_fee_${coin.toLowerCase()}`], fast.total_fee], [total, total]);
    assert.equal(fast.total_fee_usd, (Number(total) * PRICE[coin]).toFixed(2));
    assert.ok(fast.fee_per_byte >= normal.fee_per_byte && normal.fee_per_byte >= slow.fee_per_byte);
    assert.match(fast.estimated_confirmation, /^\d+-\d+ minutes$/);
  });
}

test('an address of another coin is refused, and the error says what it is', async () => {
  const rows: readonly (readonly [Coin, string, RegExp])[] = [
    ['BTC', addressOf('LTC', 2), /it is a Litecoin address/],
    ['BTC', addressOf('DASH', 2), /it is a Dash address/],
    ['BTC', addressOf('ETH', 2), /it is an Ethereum address/],
    ['BTC', 'tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx', /address of the testnet network, not of mainnet/],
    ['BTC', 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080', /address of the regtest network, not of mainnet/],
    ['BTC', 'bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5', /its checksum is wrong/],
    ['BTC', '1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN3', /its checksum is wrong/],
    ['BTC', 'hello', /it is not an address/],
    ['ETH', addressOf('BTC', 2), /it is a Bitcoin address/],
    ['ETH', '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAee', /its checksum \(upper and lower case\) is wrong/],
    ['ETH', '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeA', /0x followed by 40 hex digits/],
    ['LTC', 'ltcmweb1qq2muwdtpx36crn9qykq6y5x5kuwzd9q6j0r8vvtx0hsdqxxfw4wzsq', /MWEB balances are private/],
    ['LTC', addressOf('DOGE', 2), /it is a Dogecoin address/],
    ['DASH', addressOf('BTC', 2), /it is a Bitcoin address/],
    ['DASH', addressOf('DASH', 2).replace(/.$/, (last) => (last === '1' ? '2' : '1')), /its checksum is wrong/],
    ['DOGE', addressOf('BTC', 2), /it is a Bitcoin address/],
  ];
  for (const [coin, address, message] of rows) {
    const reply = await lookUp('balance', `?currency=${coin}&address=${address}`);
    refused(reply, 400, 'address_invalid', message);
    assert.equal(reply.json.error.param, 'address');
  }
  // Litecoin's old address format looks like Bitcoin's and is accepted.
  assert.equal((await lookUp('balance', '?currency=LTC&address=3P14159f73E4gFr7JterCCQh9QjiTjiZrG')).json.error.code, 'not_supported');
});

test('a source that is down or syncing answers 503 with Retry-After and the reason', async () => {
  nodes.DOGE.behave('down');
  const reply = await eventually(
    () => lookUp('fees', '?currency=DOGE'),
    ({ status }) => status === 503,
    // A recent healthy answer remains valid for a while.
    60_000,
  );
  refused(reply, 503, 'chain_unavailable', /does not answer/);
  assert.match(reply.headers.get('retry-after')!, /^\d+$/);
  assert.deepEqual([reply.json.error.type, reply.json.fees], ['service_unavailable', undefined]);
  nodes.DOGE.behave('well');
  await eventually(
    () => lookUp('fees', '?currency=DOGE'),
    ({ status }) => status === 200,
    60_000,
  );
  const syncing = await startCoreNode(createTestChain({ coin: 'LTC' }), { ahead: 500 });
  const other = await startTestApp({ LTC_NODE_URL: syncing.url }, { roles: ['api'] });
  try {
    const early = await other.live.get(`/api/crypto/transaction/${'ab'.repeat(32)}?currency=LTC`);
    refused(early, 503, 'chain_unavailable', /still syncing \(block 29 of 529\)/);
  } finally {
    await other.stop();
    await syncing.close();
  }
});

test('without a source, 501 names what is missing; nothing is invented', async () => {
  const bare = await startTestApp();
  try {
    for (const coin of NATIVE_COINS) {
      const unknown = coin === 'ETH' ? `0x${'ab'.repeat(32)}` : 'ab'.repeat(32);
      for (const path of [
        `balance?address=${addressOf(coin, 2)}&currency=${coin}`,
        `fees?currency=${coin}`,
        `transaction/${unknown}?currency=${coin}`,
      ])
        refused(await bare.live.get(`/api/crypto/${path}`), 501, 'not_supported', new RegExp(`${coin}_NODE_URL`));
    }
  } finally {
    await bare.stop();
  }
});

test('the balance of a test address is the sum of its payments', async () => {
  const identifier = 'test_ltc_success';
  const read = async () => (await app.test.get(`/api/crypto/balance?currency=LTC&address=${identifier}`)).json;
  assert.deepEqual(await read(), {
    ...{ success: true, address: identifier, currency: 'LTC', balance: '0.00000000', balance_usd: '0.00' },
    ...{ unconfirmed_balance: '0.00000000', total_received: '0.00000000', total_sent: '0.00000000', transaction_count: 0, simulated: true },
  });
  const pay = async (amount: number) => {
    const created = await app.test.post('/v1/transactions/create', {
      ...{ crypto: 'LTC', amount, currency_fiat: 'USD', payment_address: identifier },
    });
    assert.equal(created.status, 201, created.text);
    const { transaction_id: id } = created.json;
    await fetch(`${app.url}/pay?id=${id}`);
    await eventually(
      async () => (await app.test.get(`/api/payment/${id}`)).json.status,
      (status) => status === 'completed',
    );
  };
  await pay(100);
  await pay(50);
  const found = await read();
  assert.deepEqual(
    [found.balance, found.balance_usd, found.total_received, found.total_sent, found.transaction_count, found.simulated],
    ['1.50000000', '150.00', '1.50000000', '0.00000000', 2, true],
  );
  // Another merchant's test payments are not included.
  const other = await createMerchant(app.app.ctx, { name: 'Another shop' });
  const seen = await app.as(other.keys.testSecret).get(`/api/crypto/balance?currency=LTC&address=${identifier}`);
  assert.equal(seen.json.transaction_count, 0);
});

test("the balance of a merchant's deposit address comes from the ledger, without an index, also when money was sent on from it", async () => {
  const node: TestNode = await startBitcoind();
  const shop = await startTestApp({ BTC_NODE_URL: node.url, BTC_NETWORK: 'regtest' });
  try {
    await giveWallet(shop, 'BTC');
    await eventually(
      () => fetch(`${shop.url}/readyz`).then((reply) => reply.json() as Promise<any>),
      (ready) => ready.followers?.BTC !== undefined,
    );
    const { id, address } = await openPayment(shop, 'BTC', 97);
    const read = async (by = shop.live) => by.get(`/api/crypto/balance?currency=BTC&address=${address}`);
    const told = ({ status, json }: Reply) => [
      status,
      json.balance,
      json.unconfirmed_balance,
      json.total_received,
      json.total_sent,
      json.transaction_count,
    ];
    assert.deepEqual(told(await read()), [200, '0.00000000', '0.00000000', '0.00000000', '0.00000000', 0]);
    const paid = await node.pay(address, '0.00060000');
    await reach(shop, id, (d) => d.amount_announced === '0.00060000');
    assert.deepEqual(told(await read()), [200, '0.00000000', '0.00060000', '0.00000000', '0.00000000', 0]);
    await node.mine(1);
    await reach(shop, id, (d) => d.confirmations === 1);
    await node.pay(address, '0.00040000');
    await reach(shop, id, (d) => d.amount_announced === '0.00040000');
    assert.deepEqual(told(await read()), [200, '0.00060000', '0.00040000', '0.00060000', '0.00000000', 1]);

    // The ledger is used only for the merchant itself: for anyone else it is an ordinary address.
    const other = await createMerchant(shop.app.ctx, { name: 'Another shop' });
    refused(await read(shop.as(other.keys.liveSecret)), 501, 'not_supported', /BTC_ELECTRUM_URL/);

    // The merchant sends the money on.
    const child = account('BTC').deriveChild(0).deriveChild(0);
    const vout = (await node.rpc('getrawtransaction', paid, 1)).vout.findIndex((o: any) => o.scriptPubKey.address === address);
    const raw = await node.rpc('createrawtransaction', [{ txid: paid, vout }], [{ [await node.newAddress()]: '0.00050000' }]);
    const signed = await node.rpc('signrawtransactionwithkey', raw, [wif(child.privateKey!)]);
    await node.rpc('sendrawtransaction', signed.hex);
    assert.deepEqual(told(await read()), [200, '0.00060000', '-0.00020000', '0.00060000', '0.00000000', 1]);
    await node.mine(1);
    await eventually(read, ({ json }) => json.total_received === '0.00100000');
    const moved = await read();
    assert.deepEqual(told(moved), [200, '0.00040000', '0.00000000', '0.00100000', '0.00060000', 3]);
    assert.equal(moved.json.source, 'ledger', 'how many transactions moved it, no source says');

    await node.stop();
    refused(await read(), 503, 'chain_unavailable', /does not answer/);
  } finally {
    await shop.stop();
    await node.destroy();
  }
});

/** A private key in the format of regtest nodes. */
function wif(key: Uint8Array): string {
  return createBase58check(sha256).encode(Uint8Array.of(0xef, ...key, 1));
}
