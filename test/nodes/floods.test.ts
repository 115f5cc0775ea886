/** Blocks and transactions crafted to cost much more than they carry: on a scripted Dogecoin node, where outputs are cheapest. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { HDKey } from '@scure/bip32';
import { eventually } from '../kit/app.ts';
import { base58check } from '../kit/base58.ts';
import { type ScriptedNode, startScriptedNode } from '../kit/scripted-node.ts';
import { type Service, startService } from '../kit/service.ts';

const FLOOD = { transactions: 10, inputs: 300, outputs: 1_400, amount: '0.01' } as const;
/** What a payment of 25 USD costs at the test price. */
const AMOUNT = '100.00000000';
const MEMORY_BYTES = 400 * 1024 * 1024;

let node: ScriptedNode;
let service: Service;
before(async () => {
  node = await startScriptedNode('DOGE');
  service = await startService({
    environment: { DOGE_NODE_URL: node.url, DOGE_NETWORK: 'regtest', DOGE_CONFIRMATIONS: '2', PRICES: 'static:DOGE=0.25' },
  });
  const key = HDKey.fromMasterSeed(new Uint8Array(32).fill(7)).derive("m/44'/1'/0'").publicExtendedKey;
  await service.florin(
    ...['wallet', 'set', '--merchant', service.merchantId, '--coin', 'DOGE', '--mode', 'live'],
    ...['--key', base58check.respell(key, 0x043587cf), '--script', 'p2pkh'],
  );
  await eventually(
    () => fetch(`${service.url}/readyz`).then((reply) => reply.json() as Promise<any>),
    (ready) => ready.followers?.DOGE !== undefined,
    60_000,
  );
});
after(async () => {
  await service?.destroy();
  await node?.destroy();
});

const open = async (): Promise<{ id: string; address: string }> => {
  const created = await service.live.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/' });
  const id = created.json.transaction_id as string;
  await service.choose(id, 'DOGE');
  return { id, address: (await detail(id)).payment_address };
};
const detail = async (id: string) => (await service.live.get(`/api/payment/${id}`)).json;
const reach = (id: string, status: string, more: (d: any) => boolean = () => true) =>
  eventually(
    () => detail(id),
    (d) => d.status === status && more(d),
    60_000,
  );
/** Bytes of memory that the service uses, or its maximum. */
const memoryOf = (name: 'VmRSS' | 'VmHWM'): number =>
  Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(readFileSync(`/proc/${service.pid()}/status`, 'utf8'))![1]) * 1024;
const total = (transfers: { amount: string }[]): bigint => transfers.reduce((sum, t) => sum + BigInt(t.amount.replace('.', '')), 0n);

// Invariant: Blocks that are crafted to be expensive are read like others.
test('ten transactions of 300 inputs and 1,400 outputs to one payment cost little, and an honest payment of their block completes', async () => {
  const flooded = await open();
  const honest = await open();
  const hexes = node.flood({ address: flooded.address, ...FLOOD });
  await node.pay(honest.address, AMOUNT);
  const idle = memoryOf('VmRSS');
  await node.mineWith(hexes);
  await node.mine(1);
  await reach(honest.id, 'completed');
  const paid = await reach(flooded.id, 'completed');
  assert.ok(memoryOf('VmHWM') < idle + MEMORY_BYTES, `${memoryOf('VmHWM')} bytes at most, ${idle} before`);
  assert.equal(paid.amount_received, '140.00000000');
  assert.equal(paid.transfers.length, FLOOD.transactions);
  assert.equal(total(paid.transfers), 140n * 100_000_000n);
});

test('a transaction of 300 inputs and 1,400 outputs is one transfer, from the mempool to its block and back', async () => {
  const { id, address } = await open();
  const [hex] = node.flood({ address, ...FLOOD, transactions: 1, amount: '0.08' });
  const txid = node.send(hex!);
  const seen = await reach(id, 'processing');
  assert.deepEqual(
    seen.transfers.map((t: any) => [t.ref, t.amount]),
    [[`${txid}:0`, '112.00000000']],
  );
  const [hash] = await node.mine(1);
  await reach(id, 'processing', (d) => d.confirmations === 1);
  await node.rpc('invalidateblock', hash);
  await node.mine(2);
  const done = await reach(id, 'completed');
  assert.deepEqual(
    done.transfers.map((t: any) => [t.ref, t.amount, t.block_hash === hash]),
    [[`${txid}:0`, '112.00000000', false]],
  );
});

test('a transaction of 300 inputs and 1,400 outputs that is replaced no longer pays anything', async () => {
  const { id, address } = await open();
  const [hex] = node.flood({ address, ...FLOOD, transactions: 1, amount: '0.08' });
  const txid = node.send(hex!);
  await reach(id, 'processing');
  const rival = node.send(node.spendAgain(txid, await node.newAddress(), '1'));
  const replaced = await reach(id, 'pending', (d) => d.exception === 'replaced');
  assert.deepEqual(
    replaced.transfers.map((t: any) => [t.ref, t.replaced_by]),
    [[`${txid}:0`, rival]],
  );
  await node.mine(1);
  const { sql } = service.database.db;
  const conflict = () => sql<{ height: bigint | null }[]>`select conflict_height as height from transfers where payment_id = ${id}`;
  await eventually(conflict, ([row]) => row!.height !== null, 60_000);
});

test('each spent output is stored once, and deleted when no transaction can spend it any more', async () => {
  const { sql } = service.database.db;
  const kept = async () => Number((await sql<{ n: bigint }[]>`select count(*) as n from spent_outpoints`)[0]!.n);
  // Ten floods from the first story, one from each of the others, and one honest payment.
  assert.equal(await kept(), 12 * FLOOD.inputs + 1);
  await sql`update transfers set block_height = block_height - 2000, conflict_height = conflict_height - 2000`;
  await node.mine(16);
  await eventually(kept, (rows) => rows === 0, 60_000);
});
