/** What a real node answers fits the proofs: headers of several forks, receipts of all its transaction types, accounts and storage. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { readAccountProof } from '../../src/chains/ethereum/account-proof.ts';
import { provenHeader } from '../../src/chains/ethereum/block-header.ts';
import { checkTransactionsSteps, identityOf } from '../../src/chains/ethereum/block-transactions.ts';
import { ProofError } from '../../src/chains/ethereum/proof-values.ts';
import { proveReceipts } from '../../src/chains/ethereum/proven-block.ts';
import { checkReceipts } from '../../src/chains/ethereum/receipts.ts';
import { atOnce } from '../../src/chains/ethereum/steps.ts';
import { bytesOfHex } from '../kit/ethereum-data.ts';
import { type EthNode, startAnvil } from '../kit/nodes.ts';

/** Stores the number of the block in slot 3 and logs the value that it receives: NUMBER PUSH1 3 SSTORE, CALLVALUE MSTORE, LOG1, STOP. */
const RECORDER = '0x43600355346000526007602060' + '00a100';
const RECORDER_AT = `0x${'ab'.repeat(20)}`;
/** Fails: REVERT(0, 0). */
const FAILING_AT = `0x${'cd'.repeat(20)}`;
const GAS = { gas: '0x30d40' };

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
