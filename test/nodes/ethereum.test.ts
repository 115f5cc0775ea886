/** Live ETH payments on a real EVM: what wallets, exchanges and contracts send, and what only looks like a payment. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { HDKey } from '@scure/bip32';
import { chainOf } from '../../src/core/coin.ts';
import { eventually } from '../kit/app.ts';
import { base58check } from '../kit/base58.ts';
import { type EthProxy, startEthProxy } from '../kit/eth-proxy.ts';
import { isLongRun } from '../kit/long.ts';
import { type EthNode, startAnvil } from '../kit/nodes.ts';
import { type Service, startService } from '../kit/service.ts';
import { CALL_WITH_VALUE, VALUE_FORWARDER, word } from '../kit/token-contracts.ts';

/** 25 USD at the test price. */
const AMOUNT = 10n ** 16n;
const ETH = 10n ** 18n;
const HOUR = 3_600;
const ACCOUNT_KEY = base58check.respell(
  HDKey.fromMasterSeed(new Uint8Array(32).fill(9)).derive("m/44'/60'/0'").publicExtendedKey,
  0x043587cf,
);

/** Forwards to one address in its code (PUSH20), so that no transaction names it. */
const FORWARDER_TO = (address: string) => `${CALL_WITH_VALUE(`73${address.slice(2).toLowerCase()}`)}00`;
/** Forwards, then reverts everything: REVERT(0, 0) in place of STOP. */
const REVERTER = `${CALL_WITH_VALUE('600035')}60006000fd`;
/**
 * Calls the contract in the second word with the first word as call data and the full value, and ignores the result: CALLDATACOPY(0, 0,
 * 32), then CALL with 32 bytes of input, STOP.
 */
const IGNORER = '60206000600037' + '6000600060206000346020355af100';
/**
 * Pays out a list of pairs (address, wei) from its call data:
 *   PUSH1 0                                                    i = 0
 *   JUMPDEST CALLDATASIZE DUP2 LT ISZERO PUSH1 22 JUMPI        (02) until the end:
 *   PUSH1 0 four times, DUP5 PUSH1 20 ADD CALLDATALOAD         no input, no output, the wei
 *   DUP6 CALLDATALOAD GAS CALL POP                             the address
 *   PUSH1 40 ADD PUSH1 02 JUMP                                 i += 64
 *   JUMPDEST STOP                                              (22)
 */
const BATCH = '60005b368110156022576000600060006000' + '846020013585355af150' + '6040016002565b00';
/** Pretends to be a token that moved: MSTORE(0, second word), then LOG3 with the topic of Transfer, the caller, and the first word. */
const FAKE_TOKEN = `602035600052600035337fddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef60206000a300`;

/** Another account. */
const OTHER = '0x00000000000000000000000000000000000000aa';
/** Sends the transactions that are replaced; nobody else uses its nonces. */
const PAYER = (node: EthNode) => node.accounts[3]!;
const toHex = (value: number | bigint) => `0x${value.toString(16)}`;

const TRACES = ['debug_traceTransaction', 'debug_traceBlockByHash', 'trace_transaction', 'trace_block'];
/**
 * A contract creation that grows its memory to 128 KiB and calls an empty account 600 times with all of it: 190,000 gas, and 157 MB of trace.
 *   PUSH2 0258                                                  600 times:
 *   JUMPDEST PUSH1 0 PUSH1 0 PUSH3 020000 PUSH1 0 PUSH1 0       (03) no output, 128 KiB of input, no value
 *   PUSH2 dead GAS CALL POP                                     the account
 *   PUSH1 1 SWAP1 SUB DUP1 PUSH1 03 JUMPI STOP
 */
const FLOOD = '610258' + '5b60006000620200006000600061dead5af150' + '600190038060035700';

/** The same stories with each method of reading value moves that a node may offer. */
const PROVIDERS: readonly { name: string; refused: readonly string[]; namesInner: boolean; isMore?: true }[] = [
  { name: 'a node that runs the tracers of others', refused: [], namesInner: true, isMore: true },
  {
    name: 'a node with flat traces, without block receipts and mempool',
    refused: ['debug_traceTransaction', 'debug_traceBlockByHash', 'eth_getBlockReceipts', 'txpool_status'],
    namesInner: true,
    isMore: true,
  },
  {
    name: 'a provider with balances alone',
    refused: [...TRACES, 'txpool_status', 'txpool_content', 'net_peerCount'],
    namesInner: false,
  },
];

for (const { name: provider, refused, namesInner, isMore } of PROVIDERS) {
  // Most shops have a provider like the last one.
  if (isMore && !isLongRun) continue;
  describe(provider, () => {
    let node: EthNode;
    let proxy: EthProxy;
    let service: Service;
    const expected = new Map<string, { story: string; events: string }>();

    before(async () => {
      node = await startAnvil();
      proxy = await startEthProxy(node.url);
      for (const method of refused) proxy.refused.add(method);
      service = await startService({
        environment: {
          ETH_NODE_URL: proxy.url,
          ETH_CHAIN_ID: '31337',
          ETH_NETWORK: 'regtest',
          ETH_CONFIRMATIONS: '1000:2,10000:4,*:6',
          PRICES: 'static:ETH=2500.00',
        },
      });
      await service.florin('wallet', 'set', '--merchant', service.merchantId, '--coin', 'ETH', '--mode', 'live', '--key', ACCOUNT_KEY);
      await eventually(readiness, (ready) => ready.followers?.ETH !== undefined, 60_000);
    });
    after(async () => {
      await service?.destroy();
      await proxy?.stop();
      await node?.destroy();
    });

    const readiness = async (): Promise<any> => (await fetch(`${service.url}/readyz`)).json();
    const detail = async (id: string) => (await service.live.get(`/api/payment/${id}`)).json;
    const open = async (story: string, events: string): Promise<{ id: string; address: string }> => {
      const created = await service.live.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/' });
      assert.equal(created.status, 201, created.text);
      const id = created.json.transaction_id as string;
      expected.set(id, { story, events });
      await service.choose(id, 'ETH');
      const chosen = await detail(id);
      assert.equal(chosen.amount, '0.01000000');
      assert.equal(chosen.currency, 'ETH');
      assert.match(chosen.payment_address, /^0x[0-9a-fA-F]{40}$/);
      return { id, address: chosen.payment_address };
    };
    const reach = (id: string, status: string, exception: string | null = null, more: (d: any) => boolean = () => true) =>
      eventually(
        () => detail(id),
        (d) => d.status === status && d.exception === exception && more(d),
        60_000,
      );
    const hashAt = async (height: number) => (await node.rpc('eth_getBlockByNumber', toHex(height), false)).hash as string;
    /** Waits until the follower has read everything on the node. */
    const scanned = async () => {
      const tip = await node.rpc('eth_getBlockByNumber', 'latest', false);
      await eventually(
        () => service.database.db.sql<{ hash: string }[]>`select hash from tips where chain = 'ETH'`,
        ([row]) => row?.hash === tip.hash,
        60_000,
      );
    };
    const mine = async (blocks: number) => {
      const height = await node.mine(blocks);
      await scanned();
      return height;
    };
    const told = (name: string, events: string, tell: (name: string, events: string) => Promise<void>) =>
      test(name, () => tell(name, events));
    /** Stories that differ little from others, or that the tests of Bitcoin have too. */
    const further = isLongRun ? told : () => {};

    told('a direct transfer is seen before its block, confirmed twice, completed', 'created processing completed', async (name, events) => {
      const { id, address } = await open(name, events);
      const hash = await node.send({ to: address, value: AMOUNT });
      const seen = await reach(id, 'processing', null, (d) => d.confirmations === 0);
      assert.equal(seen.transaction_hash, hash);
      assert.equal(seen.confirmations_required, 2);
      await mine(1);
      await reach(id, 'processing', null, (d) => d.confirmations === 1);
      await mine(1);
      const done = await reach(id, 'completed');
      assert.equal(done.amount_received, '0.01000000');
      assert.equal(done.transfers.length, 1);
    });

    further('a transfer with call data is a payment like any other', 'created processing completed', async (name, events) => {
      const { id, address } = await open(name, events);
      await node.send({ to: address, value: AMOUNT, data: '0xc0ffee' });
      await mine(2);
      await reach(id, 'completed');
    });

    further('a contract forwards the payment', 'created processing completed', async (name, events) => {
      const { id, address } = await open(name, events);
      const forwarder = await node.deploy(VALUE_FORWARDER);
      const hash = await node.send({ to: forwarder, value: AMOUNT, data: `0x${word(address)}` });
      await mine(1);
      const seen = await reach(id, 'processing', null, (d) => d.confirmations === 1);
      assert.equal(seen.transaction_hash, hash);
      await mine(1);
      assert.equal((await reach(id, 'completed')).amount_received, '0.01000000');
    });

    told('a contract that does not name the address forwards the payment', 'created processing completed', async (name, events) => {
      const { id, address } = await open(name, events);
      const forwarder = await node.deploy(FORWARDER_TO(address));
      const hash = await node.send({ to: forwarder, value: AMOUNT });
      await mine(2);
      const done = await reach(id, 'completed');
      assert.equal(done.amount_received, '0.01000000');
      assert.equal(done.transaction_hash, namesInner ? hash : null);
    });

    told('an exchange pays several payments in one transaction', 'created processing completed', async (name, events) => {
      const one = await open(name, events);
      const two = await open(name, events);
      const batch = await node.deploy(BATCH);
      const list = [
        [one.address, AMOUNT / 4n],
        [two.address, AMOUNT],
        [OTHER, ETH],
        [one.address, (AMOUNT / 4n) * 3n],
      ] as const;
      const hash = await node.send({ to: batch, value: 2n * ETH, data: `0x${list.map(([to, wei]) => word(to) + word(wei)).join('')}` });
      await mine(2);
      for (const { id } of [one, two]) {
        const done = await reach(id, 'completed');
        assert.equal(done.amount_received, '0.01000000');
        assert.equal(done.transaction_hash, hash);
        assert.equal(done.transfers.length, 1);
      }
    });

    // Invariant: A reverted call inside a transaction pays nothing; transfers by contracts count once.
    told('a call that is undone pays nothing, whatever it looked like inside', 'created processing completed', async (name, events) => {
      const { id, address } = await open(name, events);
      const reverter = await node.deploy(REVERTER);
      const ignorer = await node.deploy(IGNORER);
      const hash = await node.send({ to: ignorer, value: AMOUNT, data: `0x${word(address)}${word(reverter)}`, gas: 500_000 });
      await mine(2);
      assert.equal((await node.rpc('eth_getTransactionReceipt', hash)).status, '0x1');
      const before = await detail(id);
      assert.equal(before.status, 'pending');
      assert.deepEqual(before.transfers, []);
      // The address still works afterwards.
      await node.send({ to: await node.deploy(VALUE_FORWARDER), value: AMOUNT, data: `0x${word(address)}` });
      await mine(2);
      assert.equal((await reach(id, 'completed')).transfers.length, 1);
    });

    told('a token that imitates a transfer pays nothing', 'created', async (name, events) => {
      const { id, address } = await open(name, events);
      await node.send({ to: await node.deploy(FAKE_TOKEN), data: `0x${word(address)}${word(AMOUNT)}`, gas: 500_000 });
      await mine(2);
      const seen = await detail(id);
      assert.equal(seen.status, 'pending');
      assert.deepEqual(seen.transfers, []);
    });

    told('a transaction that fails in its block reverses the payment', 'created processing processing completed', async (name, events) => {
      const { id, address } = await open(name, events);
      const failing = await node.send({ to: address, value: AMOUNT, gas: 100_000 });
      await reach(id, 'processing', null, (d) => d.transaction_hash === failing);
      // PUSH1 0 PUSH1 0 REVERT: for one block the address refuses transfers.
      await node.rpc('anvil_setCode', address, '0x60006000fd');
      await mine(1);
      await node.rpc('anvil_setCode', address, '0x');
      assert.equal((await node.rpc('eth_getTransactionReceipt', failing)).status, '0x0');
      const back = await reach(id, 'pending', 'replaced');
      assert.equal(back.amount_received, '0.00000000');
      const shown = await service.live.get(`/api/crypto/transaction/${failing}?currency=ETH`);
      assert.equal(shown.json.status, 'failed');
      assert.equal(shown.json.amount, '0.00000000');
      await node.send({ to: address, value: AMOUNT });
      await mine(2);
      await reach(id, 'completed');
    });

    told('a contract that self-destructs sends its balance', 'created processing completed', async (name, events) => {
      const { id, address } = await open(name, events);
      // PUSH20 address SELFDESTRUCT, as the code of a creation that carries the money.
      const hash = await node.send({ data: `0x73${address.slice(2)}ff`, value: AMOUNT, gas: 200_000 });
      await mine(2);
      const done = await reach(id, 'completed');
      assert.equal(done.amount_received, '0.01000000');
      assert.equal(done.transaction_hash, hash);
    });

    further('two payments in one block, of two kinds', 'created processing completed', async (name, events) => {
      const { id, address } = await open(name, events);
      const forwarder = await node.deploy(VALUE_FORWARDER);
      await node.send({ to: address, value: AMOUNT / 2n });
      await node.send({ to: forwarder, value: AMOUNT / 2n, data: `0x${word(address)}` });
      await mine(2);
      const done = await reach(id, 'completed');
      assert.equal(done.amount_received, '0.01000000');
      assert.equal(done.transfers.length, 2);
    });

    told('the merchant sweeps the address in the block that pays the rest', 'created processing completed', async (name, events) => {
      const { id, address } = await open(name, events);
      const forwarder = await node.deploy(VALUE_FORWARDER);
      await node.send({ to: address, value: AMOUNT / 2n });
      await mine(1);
      await reach(id, 'pending', 'underpaid');
      await node.rpc('anvil_impersonateAccount', address);
      await node.send({ from: address, to: OTHER, value: AMOUNT / 4n });
      await node.send({ to: forwarder, value: AMOUNT / 2n, data: `0x${word(address)}` });
      await mine(2);
      const done = await reach(id, 'completed');
      assert.equal(done.amount_received, '0.01000000');
      assert.equal(done.transfers.length, 2);
    });

    further('too little, then the rest; too much', 'created processing completed', async (name, events) => {
      const part = await open(name, events);
      await node.send({ to: part.address, value: (AMOUNT / 10n) * 4n });
      const partial = await reach(part.id, 'pending', 'underpaid');
      assert.equal(partial.amount_remaining, '0.00600000');
      await node.send({ to: part.address, value: (AMOUNT / 10n) * 6n });
      const over = await open(name, events);
      await node.send({ to: over.address, value: 2n * AMOUNT });
      await mine(2);
      await reach(part.id, 'completed');
      assert.equal((await reach(over.id, 'completed', 'overpaid')).amount_overpaid, '0.01000000');
    });

    further('late: held for the merchant, accepted by the merchant', 'created expired processing completed', async (name, events) => {
      const { id, address } = await open(name, events);
      await service.age(id, 1.1 * HOUR);
      await reach(id, 'expired');
      await node.send({ to: await node.deploy(VALUE_FORWARDER), value: AMOUNT, data: `0x${word(address)}` });
      await mine(1);
      await reach(id, 'expired', 'late');
      const accepted = await service.live.post(`/v1/payments/${id}/resolve`, { action: 'accept' });
      assert.equal(accepted.status, 200, accepted.text);
      await mine(1);
      await reach(id, 'completed');
    });

    further('replaced by one with the same nonce that pays us too', 'created processing completed', async (name, events) => {
      const { id, address } = await open(name, events);
      const nonce = Number(await node.rpc('eth_getTransactionCount', PAYER(node), 'latest'));
      const first = await node.send({ from: PAYER(node), to: address, value: AMOUNT, nonce, gwei: 10 });
      await reach(id, 'processing', null, (d) => d.transaction_hash === first);
      const second = await node.send({ from: PAYER(node), to: address, value: AMOUNT, nonce, gwei: 40 });
      await reach(id, 'processing', null, (d) => d.transaction_hash === second);
      await mine(2);
      const done = await reach(id, 'completed');
      assert.equal(done.amount_received, '0.01000000');
      assert.equal(done.transaction_hash, second);
    });

    told(
      'replaced by one with the same nonce that pays someone else, then paid again',
      'created processing processing completed',
      async (name, events) => {
        const { id, address } = await open(name, events);
        const nonce = Number(await node.rpc('eth_getTransactionCount', PAYER(node), 'latest'));
        await node.send({ from: PAYER(node), to: address, value: AMOUNT, nonce, gwei: 10 });
        await reach(id, 'processing');
        await node.send({ from: PAYER(node), to: OTHER, value: AMOUNT, nonce, gwei: 40 });
        const back = await reach(id, 'pending', 'replaced');
        assert.equal(back.amount_received, '0.00000000');
        await mine(1);
        await node.send({ to: address, value: AMOUNT });
        await mine(2);
        await reach(id, 'completed');
      },
    );

    told('a reorganization moves a payment to another block', 'created processing completed', async (name, events) => {
      const direct = await open(name, events);
      // If nothing names the transaction, the transfer ends with its block and is reported again.
      const inner = await open(name, namesInner ? events : 'created processing processing completed');
      const forwarder = await node.deploy(FORWARDER_TO(inner.address));
      await mine(1);
      const hashes = [await node.send({ to: direct.address, value: AMOUNT }), await node.send({ to: forwarder, value: AMOUNT })];
      const raw = await Promise.all(hashes.map((hash) => node.rpc('eth_getRawTransactionByHash', hash)));
      const height = await mine(1);
      const lost = await hashAt(height);
      for (const { id } of [direct, inner]) await reach(id, 'processing', null, (d) => d.transfers[0].block_hash === lost);
      await node.rpc('anvil_reorg', 1, [[raw[0], 0]]);
      await scanned();
      await reach(direct.id, 'processing', null, (d) => d.confirmations === 1 && d.transfers[0].block_hash !== lost);
      // The other one is in no block now. It is sent again, and counts once.
      await node.rpc('eth_sendRawTransaction', raw[1]);
      await mine(2);
      for (const { id } of [direct, inner]) {
        const done = await reach(id, 'completed', null, (d) => d.transfers[0].block_hash !== lost);
        assert.equal(done.amount_received, '0.01000000');
        assert.equal(done.transfers.length, 1);
      }
    });

    told(
      'a reorganization in which the payer pays someone else instead',
      'created processing processing completed',
      async (name, events) => {
        const { id, address } = await open(name, events);
        const nonce = Number(await node.rpc('eth_getTransactionCount', PAYER(node), 'latest'));
        const hash = await node.send({ from: PAYER(node), to: address, value: AMOUNT, nonce });
        await mine(1);
        await reach(id, 'processing', null, (d) => d.confirmations === 1);
        const instead = {
          from: PAYER(node),
          to: OTHER,
          value: toHex(AMOUNT),
          nonce: toHex(nonce),
          gas: '0x5208',
          gasPrice: toHex(20n * 10n ** 9n),
        };
        await node.rpc('anvil_reorg', 1, [[instead, 0]]);
        assert.equal(await node.rpc('eth_getTransactionByHash', hash), null);
        await reach(id, 'pending', 'reorged', (d) => d.amount_received === '0.00000000');
        await node.send({ to: address, value: AMOUNT });
        await mine(2);
        const done = await eventually(
          () => detail(id),
          (d) => d.status === 'completed',
          60_000,
        );
        assert.equal(done.amount_received, '0.01000000');
      },
    );

    told('paid through a contract while the service is down', 'created processing completed', async (name, events) => {
      const { id, address } = await open(name, events);
      const forwarder = await node.deploy(VALUE_FORWARDER);
      await service.end('SIGKILL');
      await node.send({ to: forwarder, value: AMOUNT, data: `0x${word(address)}` });
      await node.mine(3);
      await service.start();
      await reach(id, 'completed');
    });

    // The end of a window waits two more blocks; once is enough.
    const onTraces = refused.length === 0 ? told : () => {};
    onTraces('the node goes away and comes back; nothing expires meanwhile', 'created processing completed', async (name, events) => {
      const { id, address } = await open(name, events);
      const waiting = await open(`${name} (no payment)`, 'created expired');
      await node.send({ to: address, value: AMOUNT });
      await mine(1);
      await reach(id, 'processing');
      await node.stop();
      await service.passUnread('ETH', waiting.id, chainOf('ETH').slackSeconds + 2);
      assert.equal((await detail(id)).status, 'processing');
      assert.equal((await detail(waiting.id)).status, 'pending', 'nobody looked at the chain: it may not expire');
      await node.start();
      await mine(1);
      await reach(id, 'completed');
      await reach(waiting.id, 'expired');
    });

    told(
      'a provider that limits requests and accepts only small batches is called with delays',
      'created processing completed',
      async (name, events) => {
        const { id, address } = await open(name, events);
        proxy.maxBatch = 2;
        for (let i = 0; i < 5; i++) await node.send({ to: OTHER, value: 1n });
        await node.send({ to: address, value: AMOUNT });
        proxy.limited = 2;
        await mine(2);
        await reach(id, 'completed');
        proxy.maxBatch = 1_000;
      },
    );

    /**
     * A flood, and three payments in the same block: sent directly, forwarded by a contract, and by one that does not name the address.
     */
    const payBesideFlood = async (name: string, events: string) => {
      const paid = [await open(name, events), await open(name, events), await open(name, events)] as const;
      const [direct, naming, silent] = paid;
      const forwarders = [await node.deploy(VALUE_FORWARDER), await node.deploy(FORWARDER_TO(silent.address))];
      // While anvil runs the flood, it returns the new balances for the block before it.
      await scanned();
      const flood = await node.send({ data: `0x${FLOOD}`, gas: 1_000_000 });
      const hashes = [
        await node.send({ to: direct.address, value: AMOUNT }),
        await node.send({ to: forwarders[0]!, value: AMOUNT, data: `0x${word(naming.address)}` }),
        await node.send({ to: forwarders[1]!, value: AMOUNT }),
      ];
      await mine(2);
      assert.ok(Number((await node.rpc('eth_getTransactionReceipt', flood)).gasUsed) < 200_000);
      const done = await Promise.all(paid.map(({ id }) => reach(id, 'completed')));
      for (const { amount_received } of done) assert.equal(amount_received, '0.01000000');
      return { found: done.map((d) => d.transaction_hash), hashes };
    };
    // Invariant: Nothing in a block stops ETH: when an answer is too large, too late or broken, another method is used.
    told('a contract creation that floods the trace does not stop ETH', 'created processing completed', async (name, events) => {
      const { found, hashes } = await payBesideFlood(name, events);
      // A transfer that nothing names shows its transaction only if our tracer succeeds in time.
      assert.deepEqual(found.slice(0, 2), hashes.slice(0, 2));
      assert.ok([...(refused.length === 0 ? [hashes[2]] : []), null].includes(found[2]), found[2]);
    });
    onTraces('a contract creation that floods the callTracer does not stop ETH', 'created processing completed', async (name, events) => {
      proxy.refused.add('custom tracers');
      const { found, hashes } = await payBesideFlood(name, events);
      assert.deepEqual(found, [hashes[0], hashes[1], null]);
      const metrics = await (await fetch(`${service.url}/metrics`)).text();
      assert.match(metrics, /florin_chain_answers_unusable_total\{coin="ETH",source="[^"]+",method="debug_traceBlockByHash"\} [1-9]/);
      // Everything that is not flooded is still read from it.
      const { id, address } = await open(name, events);
      const hash = await node.send({ to: await node.deploy(FORWARDER_TO(address)), value: AMOUNT });
      await mine(2);
      assert.equal((await reach(id, 'completed')).transaction_hash, hash);
    });

    told("a provider's machine that is behind takes nothing back", 'created processing completed', async (name, events) => {
      const { id, address } = await open(name, events);
      await node.send({ to: address, value: AMOUNT });
      const height = await mine(1);
      await reach(id, 'processing', null, (d) => d.confirmations === 1);
      const { xmin: before } = await row(id);
      const old = await node.rpc('eth_getBlockByNumber', toHex(height - 2), false);
      const asksFor = (number: string) => /^0x/.test(number) && Number(number) > height - 2;
      const isAsked = async (times: number) => {
        const asked = proxy.requests;
        await eventually(
          async () => proxy.requests,
          (requests) => requests > asked + times,
          60_000,
        );
      };
      // First it answers everything, then only requests by height.
      proxy.answer = ({ method, params: [number] }) =>
        method !== 'eth_getBlockByNumber' ? undefined : number === 'latest' ? old : asksFor(number) ? null : undefined;
      await isAsked(20);
      assert.equal((await row(id)).xmin, before, 'the transfer was written again');
      proxy.answer = ({ method, params: [number] }) => (method === 'eth_getBlockByNumber' && asksFor(number) ? null : undefined);
      await node.mine(1);
      await isAsked(3);
      assert.equal((await row(id)).xmin, before, 'the transfer was written again');
      proxy.answer = () => undefined;
      await scanned();
      await reach(id, 'completed');
    });
    const row = async (id: string) =>
      (await service.database.db.sql<{ xmin: string }[]>`select xmin::text from transfers where payment_id = ${id}`)[0]!;

    told(
      'lookups of a transaction, of fees, of a deposit address, and an honest answer for any other',
      'created processing completed',
      async (name, events) => {
        const { id, address } = await open(name, events);
        const hash = await node.send({ to: address, value: AMOUNT });
        const waiting = await service.live.get(`/api/crypto/transaction/${hash}?currency=ETH`);
        assert.equal(waiting.json.status, 'pending');
        assert.equal(waiting.json.fee, null);
        await mine(1);
        await reach(id, 'processing');
        const found = await service.live.get(`/api/crypto/transaction/${hash}?currency=ETH`);
        assert.equal(found.status, 200, found.text);
        assert.equal(found.json.status, 'confirmed');
        assert.equal(found.json.confirmations, 1);
        assert.deepEqual(found.json.outputs, [{ address, amount: '0.01000000' }]);
        const { gasUsed, effectiveGasPrice } = await node.rpc('eth_getTransactionReceipt', hash);
        const wei = BigInt(gasUsed) * BigInt(effectiveGasPrice);
        assert.equal(BigInt(found.json.fee.replace('.', '').padEnd(19, '0')), wei);
        const fees = await service.live.get('/api/crypto/fees?currency=ETH');
        assert.equal(fees.status, 200, fees.text);
        assert.equal(fees.json.fee_unit, 'gwei/gas');
        assert.ok(Number(fees.json.fees.fast.total_fee_eth) >= Number(fees.json.fees.slow.total_fee_eth));
        const balance = await service.live.get(`/api/crypto/balance?currency=ETH&address=${address}`);
        assert.equal(balance.status, 200, balance.text);
        const { balance: has, total_received, total_sent, transaction_count } = balance.json;
        assert.deepEqual([has, total_received, total_sent, transaction_count], ['0.01000000', '0.01000000', '0.00000000', 1]);
        const foreign = await service.live.get(`/api/crypto/balance?currency=ETH&address=0x${'5'.repeat(40)}`);
        assert.equal(foreign.status, 501);
        assert.equal(foreign.json.error.code, 'not_supported');
        assert.equal((await service.live.get(`/api/crypto/transaction/0x${'0'.repeat(64)}?currency=ETH`)).status, 404);
        await mine(1);
        await reach(id, 'completed');
      },
    );

    const onBalances = namesInner ? () => {} : told;
    onBalances('a better reading of a block replaces its earlier one', 'created processing completed', async (name, events) => {
      const { id, address } = await open(name, events);
      const naming = await node.deploy(VALUE_FORWARDER);
      const silent = await node.deploy(FORWARDER_TO(address));
      const hashes = [
        await node.send({ to: naming, value: AMOUNT / 2n, data: `0x${word(address)}` }),
        await node.send({ to: silent, value: AMOUNT / 2n }),
      ];
      const raw = await Promise.all(hashes.map((hash) => node.rpc('eth_getRawTransactionByHash', hash)));
      const lost = await hashAt(await mine(1));
      // The balance shows one gain, and the one transaction that names the address gets all of it.
      const coarse = await reach(id, 'processing', null, (d) => d.transfers.length === 1);
      assert.equal(coarse.amount_received, '0.01000000');
      await service.end();
      for (const method of TRACES) proxy.refused.delete(method);
      await service.start();
      await node.rpc('anvil_reorg', 1, [
        [raw[0], 0],
        [raw[1], 0],
      ]);
      await scanned();
      const fine = await reach(id, 'processing', null, (d) => d.transfers.length === 2);
      assert.ok(fine.transfers.every((t: { amount: string; block_hash: string }) => t.amount === '0.00500000' && t.block_hash !== lost));
      assert.equal(fine.amount_received, '0.01000000');
      await mine(1);
      await reach(id, 'completed');
    });

    test('every event of these stories arrived exactly once, in order, with a valid signature', async () => {
      assert.ok(expected.size >= (isLongRun ? 20 : 15), `${expected.size} payments`);
      for (const [id, { story, events }] of expected) {
        await eventually(
          async () => service.eventsOf(id).join(' '),
          (types) => types === events,
          60_000,
        ).catch((error) => assert.fail(`${story}: ${error.message}`));
      }
      const verified = await service.florin('verify');
      assert.equal(verified.ok, true, JSON.stringify(verified));
    });
  });
}

describe('amounts that wait until the chain is final', () => {
  let node: EthNode;
  let proxy: EthProxy;
  let service: Service;
  before(async () => {
    node = await startAnvil();
    proxy = await startEthProxy(node.url);
    service = await startService({
      environment: { ETH_NODE_URL: proxy.url, ETH_CHAIN_ID: '31337', ETH_NETWORK: 'regtest', PRICES: 'static:ETH=2500.00' },
    });
    await service.florin('wallet', 'set', '--merchant', service.merchantId, '--coin', 'ETH', '--mode', 'live', '--key', ACCOUNT_KEY);
    await eventually(readiness, (ready) => ready.followers?.ETH !== undefined, 60_000);
  });
  after(async () => {
    await service?.destroy();
    await proxy?.stop();
    await node?.destroy();
  });
  const readiness = async (): Promise<any> => (await fetch(`${service.url}/readyz`)).json();
  const tips = async () =>
    (
      await service.database.db.sql<{ height: bigint; hash: string; safe: bigint | null; finalized: bigint | null }[]>`
        select height, hash, safe_height as safe, finalized_height as finalized from tips where chain = 'ETH'`
    )[0]!;
  /** Mines, and waits until the follower knows which blocks are final. */
  const mine = async (blocks: number, depth: bigint) => {
    const height = BigInt(await node.mine(blocks));
    return eventually(tips, (row) => row.height === height && row.finalized === (height > depth ? height - depth : 0n), 60_000);
  };
  const detail = async (id: string) => (await service.live.get(`/api/payment/${id}`)).json;
  const pay = async (amountUsd: number, wei: bigint) => {
    const created = await service.live.post('/api/payment/create/simple', { amount_usd: amountUsd, return_url: 'https://shop.example/' });
    const id = created.json.transaction_id as string;
    await service.choose(id, 'ETH');
    await node.send({ to: (await detail(id)).payment_address, value: wei });
    return id;
  };
  const reach = (id: string, status: string, confirmations: number) =>
    eventually(
      () => detail(id),
      (d) => d.status === status && d.confirmations >= confirmations,
      60_000,
    );

  test('a medium amount completes with the safe block, a large one with the finalized block; neither does earlier', async () => {
    // The node in these tests calls a block safe at depth 32 and finalized at depth 64.
    const middle = await pay(5_000, 2n * ETH);
    await mine(32, 64n);
    assert.equal((await reach(middle, 'processing', 32)).completion_rule, 'safe');
    await mine(1, 64n);
    await reach(middle, 'completed', 33);
    const large = await pay(12_500, 5n * ETH);
    await mine(64, 64n);
    assert.equal((await reach(large, 'processing', 64)).completion_rule, 'finalized');
    await mine(1, 64n);
    await reach(large, 'completed', 65);
  });

  test('if the provider does not report them, twice the usual depth replaces these blocks', async () => {
    proxy.answer = ({ method, params }) => (method === 'eth_getBlockByNumber' && /^(safe|finalized)$/.test(params[0]) ? null : undefined);
    const large = await pay(12_500, 5n * ETH);
    const { height, safe, finalized } = await mine(128, 128n);
    assert.deepEqual([height - safe!, height - finalized!], [64n, 128n]);
    await reach(large, 'processing', 128);
    await mine(1, 128n);
    await reach(large, 'completed', 129);
    proxy.answer = () => undefined;
  });

  // Invariant: Finality belongs to the chain that was read.
  test("after a reorganization below the finalized block, the node's word for its height no longer counts", async () => {
    const { height, finalized } = await mine(70, 64n);
    assert.equal(finalized, height - 64n);
    // From here on the node reports nothing about finality: the tip that it is asked for beside the final blocks cannot be read.
    let isFinality = false;
    proxy.answer = ({ method, params }) => {
      if (method !== 'eth_getBlockByNumber') return undefined;
      if (params[0] === 'finalized') isFinality = true;
      if (params[0] !== 'latest' || !isFinality) return undefined;
      isFinality = false;
      return {};
    };
    const stored = () =>
      service.database.db.sql<{ height: bigint; hash: string }[]>`select height, hash from blocks where chain = 'ETH' order by height desc`;
    const old = new Map((await stored()).map((row) => [row.height, row.hash]));
    await node.rpc('anvil_reorg', 80, []);
    const { hash } = await node.rpc('eth_getBlockByNumber', 'latest', false);
    const after = await eventually(tips, (row) => row.hash === hash, 60_000);
    const fork = (await stored()).find((row) => old.get(row.height) === row.hash)!.height;
    assert.ok(fork < finalized);
    assert.deepEqual([after.height, after.safe, after.finalized], [height, fork, fork]);
  });
});
