/** Lookups of balances, fees and transactions: exact, or with the reason why not; for every coin, in both modes. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { sha256 } from '@noble/hashes/sha2.js';
import { createBase58check } from '@scure/base';
import { addressOfScript } from '../../src/chains/address.ts';
import { checksumAddress } from '../../src/chains/ethereum/address.ts';
import { COIN, type Coin, chainOf, NATIVE_COINS } from '../../src/core/coin.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';
import { type Blockbook, startBlockbook } from '../kit/blockbook.ts';
import { startBitcoind, type TestNode } from '../kit/nodes.ts';
import { account, giveWallet, openPayment, reach } from '../kit/shop.ts';
import { createTestChain } from '../kit/test-chain.ts';

const UTXO = ['BTC', 'LTC', 'DASH', 'DOGE'] as const;
const PRICE = { BTC: 97_000, ETH: 3_500, LTC: 100, DASH: 30, DOGE: 0.2 };
const addressOf = (coin: Coin, n: number): string => {
  const hash = n.toString(16).padStart(2, '0').repeat(20);
  return coin === 'ETH' ? checksumAddress(hash) : addressOfScript(`76a914${hash}88ac`, { coin, network: 'mainnet' })!;
};

let servers: Record<Coin, Blockbook>;
let app: TestApp;
before(async () => {
  servers = {} as Record<Coin, Blockbook>;
  const fees = { 2: '0.000000002', 6: '0.0000000015', 24: '0.000000001' };
  for (const coin of NATIVE_COINS) servers[coin] = await startBlockbook(createTestChain({ coin }), coin === 'ETH' ? { fees } : {});
  app = await startTestApp(Object.fromEntries(NATIVE_COINS.map((coin) => [`${coin}_BLOCKBOOK_URL`, servers[coin].url])));
});
after(async () => {
  await app?.stop();
  for (const server of Object.values(servers ?? {})) await server.close();
});
const lookUp = (kind: string, query: string): Promise<Reply> => app.live.get(`/api/crypto/${kind}${query}`);
const refused = (reply: Reply, status: number, code: string, message: RegExp) => {
  assert.deepEqual([reply.status, reply.json.error?.code], [status, code], reply.text);
  assert.match(reply.json.error.message, message);
};

for (const coin of UTXO) {
  test(`${coin}: the balance of any address, field by field`, async () => {
    const { chain } = servers[coin];
    const address = addressOf(coin, 2);
    chain.pay([[address, 150_000_000n]]);
    chain.mine();
    chain.pay([[address, 50_000_000n]]);
    chain.mine();
    chain.pay([[addressOf(coin, 3), 100_000_000n]], { from: address });
    chain.mine();
    chain.pay([[address, 1n]]);
    const { status, json } = await lookUp('balance', `?currency=${coin}&address=${address}`);
    assert.equal(status, 200);
    const sent = chain.tip().txs[1]!.inputs.reduce((sum, i) => sum + i.units, 0n);
    assert.equal(sent, 150_000_000n);
    assert.deepEqual(json, {
      success: true,
      address,
      currency: coin,
      balance: '0.50000000',
      balance_usd: (PRICE[coin] * 0.5).toFixed(2),
      unconfirmed_balance: '0.00000001',
      total_received: '2.00000000',
      total_sent: '1.50000000',
      transaction_count: 3,
    });
  });
}

test('ETH: the balance of an address whose history is consistent, and 501 for one whose history is not', async () => {
  const { chain } = servers.ETH;
  chain.send({ from: addressOf('ETH', 3), to: addressOf('ETH', 2), units: 1_500_000_000_000_000_001n });
  chain.send({
    from: addressOf('ETH', 3),
    to: addressOf('ETH', 9),
    units: 5n,
    internal: [{ from: addressOf('ETH', 9), to: addressOf('ETH', 4), units: 5n, reverted: true }],
  });
  chain.mine();
  const { status, json } = await lookUp('balance', `?currency=ETH&address=${addressOf('ETH', 2)}`);
  assert.equal(status, 200);
  assert.deepEqual(
    [json.balance, json.balance_usd, json.total_received, json.total_sent, json.unconfirmed_balance, json.transaction_count],
    ['1.500000000000000001', '5250.00', '1.500000000000000001', '0.00000000', '0.00000000', 1],
  );
  refused(await lookUp('balance', `?currency=ETH&address=${addressOf('ETH', 4)}`), 501, 'not_supported', /does not add up to its balance/);
});

for (const coin of NATIVE_COINS) {
  test(`${coin}: a transaction, field by field, pending and mined`, async () => {
    const { chain } = servers[coin];
    const to = addressOf(coin, 7);
    const txid = coin === 'ETH' ? chain.send({ from: addressOf('ETH', 3), to, units: 2n * 10n ** 18n }) : chain.pay([[to, 200_000_000n]]);
    const waiting = (await lookUp(`transaction/${txid}`, `?currency=${coin}`)).json;
    assert.deepEqual(
      [waiting.status, waiting.confirmations, waiting.block_height, waiting.block_hash, waiting.timestamp],
      ['pending', 0, null, null, null],
    );
    const [block] = chain.mine();
    chain.mine();
    const { tx } = chain.find(txid)!;
    const { status, json } = await lookUp(`transaction/${txid.toUpperCase().replace('0X', '0x')}`, `?currency=${coin}`);
    assert.equal(status, 200);
    const amount = (units: bigint) =>
      coin === 'ETH' ? '2.00000000' : `${units / 100_000_000n}.${String(units % 100_000_000n).padStart(8, '0')}`;
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
      fee: coin === 'ETH' ? '0.00004200' : '0.00010000',
      inputs: tx.inputs.map((i) => ({ address: i.address, amount: amount(i.units) })),
      outputs: tx.outputs.map((o) => ({ address: o.address, amount: amount(o.units) })),
    });
    const unknown = coin === 'ETH' ? `0x${'ab'.repeat(32)}` : 'ab'.repeat(32);
    refused(await lookUp(`transaction/${unknown}`, `?currency=${coin}`), 404, 'transaction_not_found', /No such transaction/);
  });

  test(`${coin}: fees with their unit, the size of a typical payment and the total in ${coin} and USD`, async () => {
    const { status, json } = await lookUp('fees', `?currency=${coin}`);
    assert.equal(status, 200);
    assert.deepEqual([json.fee_unit, json.typical_size], [chainOf(coin).feeUnit, COIN[coin].typicalSize]);
    assert.deepEqual(Object.keys(json.fees), ['fast', 'normal', 'slow']);
    // 0.0003 per kilobyte; Dogecoin's floor is 0.01. ETH: 2 gwei.
    const perUnit = coin === 'ETH' ? 2 : coin === 'DOGE' ? 1000 : 30;
    const { fast, normal, slow } = json.fees;
    assert.equal(fast.fee_per_byte, perUnit);
    const total = coin === 'ETH' ? '0.00004200' : (perUnit * COIN[coin].typicalSize * 1e-8).toFixed(8);
    assert.deepEqual([fast[`total_fee_${coin.toLowerCase()}`], fast.total_fee], [total, total]);
    assert.equal(fast.total_fee_usd, (Number(total) * PRICE[coin]).toFixed(2));
    assert.ok(fast.fee_per_byte >= normal.fee_per_byte && normal.fee_per_byte >= slow.fee_per_byte);
    assert.match(fast.estimated_confirmation, /^\d+-\d+ minutes$/);
  });
}

test('ETH: a failed transaction moved nothing and says so', async () => {
  const { chain } = servers.ETH;
  const txid = chain.send({ from: addressOf('ETH', 3), to: addressOf('ETH', 7), units: 10n ** 18n, status: 0 });
  chain.mine();
  const { json } = await lookUp(`transaction/${txid}`, '?currency=ETH');
  assert.deepEqual([json.status, json.amount, json.fee, json.outputs[0].amount], ['failed', '0.00000000', '0.00004200', '0.00000000']);
});

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
  assert.equal((await lookUp('balance', '?currency=LTC&address=3P14159f73E4gFr7JterCCQh9QjiTjiZrG')).status, 200);
});

test('a source that is down, overloaded, broken or syncing answers 503 with Retry-After and the reason', async () => {
  const query = `?currency=DOGE&address=${addressOf('DOGE', 5)}`;
  const rows = [
    ['down', /does not answer/],
    ['html', /no JSON/],
    ['too_many_requests', /asked too often/],
    ['node_down', /node behind/],
  ] as const;
  for (const [mood, message] of rows) {
    servers.DOGE.behave(mood);
    const reply = await eventually(
      () => lookUp('balance', query),
      (r) => r.status === 503 && message.test(r.json.error.message),
      // A recent healthy answer remains valid for a while.
      60_000,
    );
    refused(reply, 503, 'chain_unavailable', message);
    assert.match(reply.headers.get('retry-after')!, /^\d+$/);
    assert.deepEqual([reply.json.error.type, reply.json.balance], ['service_unavailable', undefined]);
  }
  servers.DOGE.behave('well');
  await eventually(
    () => lookUp('balance', query),
    (r) => r.status === 200,
    60_000,
  );
  const syncing = await startBlockbook(createTestChain({ coin: 'LTC' }), { nodeAhead: 500 });
  const other = await startTestApp({ LTC_BLOCKBOOK_URL: syncing.url });
  try {
    const reply = await other.live.get(`/api/crypto/balance?currency=LTC&address=${addressOf('LTC', 2)}`);
    refused(reply, 503, 'chain_unavailable', /still syncing \(block 29 of 529\)/);
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
    refused(await read(shop.as(other.keys.liveSecret)), 501, 'not_supported', /BTC_BLOCKBOOK_URL/);

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
