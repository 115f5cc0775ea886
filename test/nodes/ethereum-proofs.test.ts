/** What a real node answers fits the proofs: headers of several forks, receipts of all its transaction types, accounts and storage. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { provenHeader } from '../../src/chains/ethereum/block-header.ts';
import { checkTransactionsSteps, identityOf, proveReceipts } from '../../src/chains/ethereum/eth-block.ts';
import { createEthereumSource } from '../../src/chains/ethereum/ethereum.ts';
import type { LightService } from '../../src/chains/ethereum/light-client/light-service.ts';
import { checkReceipts } from '../../src/chains/ethereum/receipts.ts';
import { syncedSource } from '../../src/chains/ethereum/synced-source.ts';
import { readAccountProof } from '../../src/chains/ethereum/trie.ts';
import { createOutgoing } from '../../src/connections/http-client.ts';
import { atOnce, ProofError } from '../../src/evm/rlp.ts';
import { createLog } from '../../src/log.ts';
import { startEthProxy } from '../kit/eth-proxy.ts';
import { hashHeader } from '../kit/ethereum-blocks.ts';
import { bytesOfHex } from '../kit/ethereum-data.ts';
import { type EthNode, startAnvil } from '../kit/nodes.ts';

/** Stores the number of the block in slot 3 and logs the value that it receives: NUMBER PUSH1 3 SSTORE, CALLVALUE MSTORE, LOG1, STOP. */
const RECORDER = '0x43600355346000526007602060' + '00a100';
const RECORDER_AT = `0x${'ab'.repeat(20)}`;
/** Fails: REVERT(0, 0). */
const FAILING_AT = `0x${'cd'.repeat(20)}`;
const GAS = { gas: '0x30d40' };

const log = createLog('silent');
const nodes: EthNode[] = [];
after(async () => {
  for (const node of nodes) await node.destroy();
});

/** Mines a block with payments, calls that log and one that fails, as plain, access-list and fee-market transactions. */
async function mineBlock(node: EthNode): Promise<string> {
  const [from, to] = node.accounts as [string, string];
  await node.rpc('anvil_setCode', RECORDER_AT, RECORDER);
  await node.rpc('anvil_setCode', FAILING_AT, '0x60006000fd');
  const calls = [
    { to, value: '0x5', type: '0x0', gasPrice: '0x77359400' },
    { to: RECORDER_AT, value: '0x7', type: '0x0', gasPrice: '0x77359400' },
    { to: RECORDER_AT, value: '0x9', type: '0x1', gasPrice: '0x77359400', accessList: [{ address: to, storageKeys: [] }] },
    { to: FAILING_AT },
    { to: RECORDER_AT },
  ];
  for (const call of calls) await node.rpc('eth_sendTransaction', { from, ...GAS, ...call });
  await node.mine(1);
  return ((await node.rpc('eth_getBlockByNumber', 'latest', false)) as { hash: string }).hash;
}

for (const [fork, fields] of [
  ['cancun', 20],
  ['prague', 21],
  ['', 21],
] as const)
  test(`the blocks of a node at ${fork || 'its newest fork'} fit their hashes and roots`, async () => {
    const node = await startAnvil(...(fork ? ['--hardfork', fork] : []));
    nodes.push(node);
    const hash = await mineBlock(node);
    const block = await node.rpc('eth_getBlockByHash', hash, true);
    const receipts = (await node.rpc('eth_getBlockReceipts', hash)) as { status: string; logs: object[]; type: string }[];
    const header = await proveReceipts({ block, hash, receipts });
    assert.equal(header.fieldCount, fields);
    atOnce(checkTransactionsSteps(block.transactions, header.transactionsRoot));
    for (const tx of block.transactions) assert.deepEqual(identityOf(tx), { txid: tx.hash, from: tx.from.slice(2) });
    assert.deepEqual(
      receipts.map(({ status, logs, type }) => [status, logs.length, type]),
      [
        ['0x1', 0, '0x0'],
        ['0x1', 1, '0x0'],
        ['0x1', 1, '0x1'],
        ['0x0', 0, '0x2'],
        ['0x1', 1, '0x2'],
      ],
    );
    assert.throws(() => checkReceipts(receipts.slice(1), header.receiptsRoot), ProofError);
    const before = provenHeader(await node.rpc('eth_getBlockByHash', block.parentHash, false), header.parentHash);
    checkReceipts(await node.rpc('eth_getBlockReceipts', block.parentHash), before.receiptsRoot);

    // Anvil keeps no old tries, but it proves the state of its newest block.
    const ask = async (address: string, ...slots: bigint[]) =>
      readAccountProof(
        await node.rpc(
          'eth_getProof',
          address,
          slots.map((slot) => `0x${slot.toString(16).padStart(64, '0')}`),
          'latest',
        ),
        {
          stateRoot: header.stateRoot,
          address: bytesOfHex(address),
          slots,
        },
      );
    const recorder = await ask(RECORDER_AT, 3n, 4n);
    assert.equal(recorder.account.balance, 16n);
    assert.deepEqual(recorder.slots, [
      { slot: 3n, value: header.number },
      { slot: 4n, value: 0n },
    ]);
    assert.equal((await ask(node.accounts[0]!)).account.nonce, 5n);
    assert.deepEqual((await ask(`0x${'99'.repeat(20)}`)).account.balance, 0n);
  });

test('a gap of hours is linked by the hashes that the newest block proves, and by headers where a node proves none', async () => {
  const node = await startAnvil();
  const proxy = await startEthProxy(node.url);
  nodes.push({ ...node, destroy: async () => void (await Promise.all([proxy.stop(), node.destroy()])) });
  const outgoing = createOutgoing({ allow: [], log });
  await node.mine(300);
  const hashOf = async (height: number): Promise<string> =>
    (await node.rpc('eth_getBlockByNumber', `0x${height.toString(16)}`, false)).hash;
  const head = await hashOf(300);
  const light = {
    ...{ open: async () => {}, trouble: () => null, onHead: () => () => {} },
    heads: () => ({ optimistic: { slot: 9, root: '', executionHash: head }, finalized: { slot: 1, root: '', executionHash: head } }),
  } as unknown as LightService;
  /** What the provider shows of a block far below the head, and how many headers it was asked for. */
  const readAt = async (height: number) => {
    let headers = 0;
    const { change } = proxy;
    proxy.change = (call, result) => {
      if (call.method === 'eth_getBlockByNumber') headers++;
      return change(call, result);
    };
    const plain = createEthereumSource({ network: 'regtest', chainId: 31337, url: proxy.url, isOwn: false, outgoing, log, retryMs: 1 });
    const source = syncedSource({ source: plain, name: 'provider', light });
    await source.requireProof!();
    try {
      await source.tip();
      return { hash: (await source.blockAt(height))?.hash ?? null, headers };
    } finally {
      proxy.change = change;
      plain.close();
    }
  };
  const truth = await hashOf(20);
  assert.deepEqual(await readAt(20), { hash: truth, headers: 1 });
  // A storage proof with another hash proves nothing, so headers lead down.
  const { change } = proxy;
  proxy.change = ({ method }, result) => {
    if (method === 'eth_getProof') result.storageProof[7].value = `0x${'77'.repeat(32)}`;
    return result;
  };
  assert.deepEqual(await readAt(20), { hash: truth, headers: 281 });
  proxy.change = change;
  proxy.refused.add('eth_getProof');
  assert.deepEqual(await readAt(20), { hash: truth, headers: 281 });
  proxy.refused.clear();
  // A block of another branch at that height is refused, although it fits its own hash.
  const other = await node.rpc('eth_getBlockByNumber', '0x13', false);
  proxy.change = ({ method, params }, result) => {
    if (method !== 'eth_getBlockByNumber' || params[0] !== '0x14') return result;
    const header = { ...other, number: '0x14' };
    return { ...header, hash: hashHeader(header) };
  };
  await assert.rejects(readAt(20), { name: 'ChainError', kind: 'unproven' });
  await outgoing.close();
});
