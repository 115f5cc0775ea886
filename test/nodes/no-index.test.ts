/** Lookups of transactions on nodes without an index: exact where possible, null where not, never empty. */
// Invariant: After a sweep was signed and uploaded, no private key is in memory, in the database or in a file.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { HDKey } from '@scure/bip32';
import { signFile } from '../../signer/sign.ts';
import { formatUnits } from '../../src/core/money.ts';
import { eventually } from '../kit/app.ts';
import { base58check } from '../kit/base58.ts';
import { firstOf } from '../kit/long.ts';
import { findInMemory, findOnDisk } from '../kit/memory.ts';
import { type RealNode, startBitcoind, startLitecoind } from '../kit/nodes.ts';
import { setUpPerson } from '../kit/person.ts';
import { startScriptedNode } from '../kit/scripted-node.ts';
import { type Service, startService } from '../kit/service.ts';
import { openSource } from '../kit/source.ts';

test('BTC: your payments and recent transactions are complete, older foreign ones are unknown', async (t) => {
  const node = await startBitcoind({ txindex: false });
  t.after(() => node.destroy());
  const service = await startService({
    environment: { BTC_NODE_URL: node.url, BTC_NETWORK: 'regtest', BTC_CONFIRMATIONS: '1', PRICES: 'static:BTC=97000.00' },
  });
  t.after(() => service.destroy());
  const key = HDKey.fromMasterSeed(new Uint8Array(32).fill(7)).derive("m/84'/1'/0'");
  await service.florin(
    ...['wallet', 'set', '--merchant', service.merchantId, '--coin', 'BTC', '--mode', 'live'],
    ...['--key', base58check.respell(key.publicExtendedKey, 0x043587cf), '--script', 'p2wpkh'],
  );
  await eventually(
    async () => (await (await fetch(`${service.url}/readyz`)).json()) as any,
    (ready) => ready.followers?.BTC !== undefined,
    60_000,
  );
  const created = await service.live.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/' });
  const id = created.json.transaction_id as string;
  await service.choose(id, 'BTC');
  const detail = async () => (await service.live.get(`/api/payment/${id}`)).json;
  const { payment_address: address, amount } = await detail();
  const ours = await node.pay(address, amount);
  // Its wallet chooses lock times at random, so the node must accept each of them.
  const { hex } = await node.rpc('fundrawtransaction', await node.rpc('createrawtransaction', [], [{ [await node.newAddress()]: 1 }], 21));
  const [accepted] = await node.rpc('testmempoolaccept', [(await node.rpc('signrawtransactionwithwallet', hex)).hex]);
  assert.equal(accepted.allowed, true, accepted['reject-reason']);
  const foreign = await node.pay(await node.newAddress(), '1');
  const lookUp = (txid: string) => service.live.get(`/api/crypto/transaction/${txid}?currency=BTC`);
  const spentOf = async (txid: string) => {
    const { fee, hex } = await node.rpc('gettransaction', txid);
    const { vin } = await node.rpc('decoderawtransaction', hex);
    return { fee: (-fee).toFixed(8), inputs: vin.length };
  };
  const isExact = async (txid: string, status: string) => {
    const { json, text } = await lookUp(txid);
    assert.equal(json.status, status, text);
    const wanted = await spentOf(txid);
    assert.deepEqual([json.fee, json.inputs.length], [wanted.fee, wanted.inputs]);
    const sum = (parties: { amount: string }[]) => parties.reduce((all, one) => all + BigInt(one.amount.replace('.', '')), 0n);
    assert.equal(formatUnits('BTC', sum(json.inputs) - sum(json.outputs)), json.fee);
    return json;
  };
  await eventually(detail, (d) => d.status === 'processing', 60_000);
  for (const txid of [ours, foreign]) await isExact(txid, 'pending');
  const [hash] = await node.mine(1);
  await eventually(detail, (d) => d.status === 'completed', 60_000);
  for (const txid of [ours, foreign]) assert.equal((await isExact(txid, 'confirmed')).block_hash, hash);

  await node.mine(15);
  assert.equal((await isExact(ours, 'confirmed')).confirmations, 16);
  const older = await lookUp(foreign);
  assert.equal(older.status, 501, older.text);
  assert.match(older.json.error.message, /last 12 blocks/);
  // Only the merchant whose payment it is gets the block from the ledger.
  const other = await service.florin('merchant', 'create', '--name', 'Another shop', '--plan', 'enterprise');
  const stranger = await fetch(`${service.url}/api/crypto/transaction/${ours}?currency=BTC`, {
    headers: { authorization: `Bearer ${other.keys.live_secret}` },
  });
  assert.equal(stranger.status, 501);
  await sweepAway(t, { service, node, key });
});

/** The received money is swept: the node shows no mined transactions, and the service never has a key that can spend. */
async function sweepAway(t: TestContext, { service, node, key }: { service: Service; node: RealNode; key: HDKey }): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'florin-sweep-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const destination = await node.newAddress();
  const run = (command: string, ...more: string[]) => service.florin('sweep', command, '--merchant', service.merchantId, ...more);
  await run('destination', '--coin', 'BTC', '--address', destination, '--ends', destination.slice(-6));
  const asked = join(folder, 'sweep.json');
  const { id } = await run('make', '--coin', 'BTC', '--out', asked);
  const secret = key.privateExtendedKey;
  const signed = join(folder, 'signed.json');
  writeFileSync(signed, signFile({ content: readFileSync(asked, 'utf8'), secret, destination }).text);
  // Uploaded in the dashboard, and once more with the command.
  const owner = await setUpPerson({ url: service.url, merchant: service });
  const upload = (content: string) => owner.post('/live/sweeps/signed', { content });
  const uploaded = await upload(readFileSync(signed, 'utf8'));
  assert.deepEqual([uploaded.status, uploaded.json.sweep?.id, uploaded.json.is_known], [200, id, false], uploaded.text);
  await run('send', '--file', signed);
  const { transactions } = (await run('show', '--sweep', id)) as { transactions: { transaction_id: string }[] };
  await eventually(
    () => node.rpc('getrawmempool') as Promise<string[]>,
    (mempool) => mempool.includes(transactions[0]!.transaction_id),
  );
  await node.mine(1);
  await eventually(
    () => service.database.db.sql<{ state: string }[]>`select state from signing_files`,
    ([sweep]) => sweep!.state === 'confirmed',
  );

  const own = key.deriveChild(0).deriveChild(0).privateKey!;
  const secrets = new Map([
    ['extended key', Buffer.from(secret)],
    ['extended key of test networks', Buffer.from(base58check.respell(secret, 0x04358394))],
    ...[key.privateKey!, own].flatMap((bytes, i): [string, Buffer][] => [
      [`key ${i}`, Buffer.from(bytes)],
      [`key ${i} in hex`, Buffer.from(Buffer.from(bytes).toString('hex'))],
      [`key ${i} in base64`, Buffer.from(Buffer.from(bytes).toString('base64'))],
      [`key ${i} as WIF`, Buffer.from(base58check.encode(Buffer.concat([Buffer.of(0xef), bytes, Buffer.of(1)])))],
    ]),
  ]);
  // What is there is found: the address of the service, which was given to it as a setting.
  assert.deepEqual(findInMemory(service.pid(), new Map([...secrets, ['address', Buffer.from(service.url)]])), ['address']);
  // A file with a key is refused, and nothing of it is kept.
  const file = join(folder, 'key.json');
  writeFileSync(file, JSON.stringify({ secret }));
  await assert.rejects(run('send', '--file', file), /private key/);
  const refused = await upload(readFileSync(file, 'utf8'));
  assert.deepEqual([refused.status, refused.json.error.code], [422, 'signed_file_private']);
  assert.deepEqual(findOnDisk(service.database.folder, secrets), []);
  const { sql } = service.database.db;
  const tables = await sql<{ name: string }[]>`select tablename as name from pg_tables where schemaname = current_schema()`;
  assert.ok(tables.length > 50);
  const like = [...secrets].flatMap(([name, bytes]) => (/^key .$/.test(name) ? [] : [`%${bytes.toString()}%`]));
  for (const { name } of tables) {
    const found = await sql`select 1 from ${sql(name)} as t where t::text like any(${like}::text[]) limit 1`;
    assert.equal(found.length, 0, name);
  }
}

test('BTC: an unspent output says in which block its transaction is, however old that is', async (t) => {
  const node = await startBitcoind({ txindex: false });
  const source = openSource('BTC', node.url);
  t.after(async () => {
    await source.close();
    await node.destroy();
  });
  const address = await node.newAddress();
  const txid = await node.pay(address, '1.5');
  const outpoints = [`${txid}:0`, `${txid}:1`];
  const depth = () => source.outlet!.depthOf!(outpoints);
  assert.equal(await depth(), null, 'it waits');
  const [hash] = await node.mine(1);
  await node.mine(20);
  const { best, confirmations } = (await depth())!;
  const { height } = (await source.block(best))!;
  assert.equal((await source.blockAt(height - confirmations + 1))!.hash, hash);
  await node.rpc('sendall', [await node.newAddress()]);
  await node.mine(1);
  assert.equal(await depth(), null, 'its outputs are spent');
});

for (const [coin, start] of firstOf([
  ['LTC', () => startLitecoind({ txindex: false })],
  ['DOGE', () => startScriptedNode('DOGE', { txindex: false })],
] as const)) {
  test(`${coin}: what the node does not know about a mined transaction is null`, async (t) => {
    const node = await start();
    const source = openSource(coin, node.url);
    t.after(async () => {
      await source.close();
      await node.destroy();
    });
    const txid = await node.pay(await node.newAddress(), '1.5');
    const waiting = await source.transaction(txid);
    assert.equal(waiting.status, 'pending');
    assert.equal(waiting.inputs!.reduce((sum, input) => sum + input.units, 0n) - waiting.feeUnits!, waiting.amountUnits);
    const [hash] = await node.mine(1);
    const recent = await source.transaction(txid);
    assert.deepEqual([recent.status, recent.blockHash, recent.outputs], ['confirmed', hash, waiting.outputs]);
    assert.deepEqual([recent.inputs, recent.feeUnits], [null, null]);
    await node.mine(13);
    await assert.rejects(source.transaction(txid), { kind: 'unsupported' });
    assert.deepEqual(await source.transaction(txid, { blockHash: hash! }), { ...recent, confirmations: 14 });
    await assert.rejects(source.transaction('0'.repeat(64)), (error: any) => ['unsupported', 'not_found'].includes(error.kind));
  });
}
