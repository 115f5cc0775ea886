/** Live ETH payments on a real EVM: what wallets, exchanges and contracts send, and what only looks like a payment. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { HDKey } from '@scure/bip32';
import { client, eventually } from '../kit/app.ts';
import { base58check } from '../kit/base58.ts';
import { type EthNode, startAnvil } from '../kit/nodes.ts';
import { type Service, startService } from '../kit/service.ts';

/** 25 USD at the test price. */
const AMOUNT = 10n ** 16n;
const ETH = 10n ** 18n;
const HOUR = 3_600;
const word = (value: bigint | string) =>
  (typeof value === 'string' ? value.replace('0x', '').toLowerCase() : value.toString(16)).padStart(64, '0');
const accountKey = base58check.respell(
  HDKey.fromMasterSeed(new Uint8Array(32).fill(9)).derive("m/44'/60'/0'").publicExtendedKey,
  0x043587cf,
);

/** Calls `to` (the word before, in the call data at `at`) with all value of the call: PUSH 0 four times, CALLVALUE, address, GAS, CALL. */
const CALL_WITH_VALUE = (address: string) => `600060006000600034${address}5af1`;
/** Passes on what it gets to the address in its call data: CALLDATALOAD(0), STOP. */
const FORWARDER = `${CALL_WITH_VALUE('600035')}00`;
/** Passes on to one address that stands in its code (PUSH20): no transaction names it. */
const FORWARDER_TO = (address: string) => `${CALL_WITH_VALUE(`73${address.slice(2).toLowerCase()}`)}00`;
/** Passes on, then undoes it all: REVERT(0, 0) in place of STOP. */
const REVERTER = `${CALL_WITH_VALUE('600035')}60006000fd`;
/**
 * Calls the contract in the second word with the first word as call data and all value, and does not look at how it went:
 * CALLDATACOPY(0, 0, 32), then CALL with 32 bytes of input, STOP.
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
/**
 * Says to be a token that moved: MSTORE(0, second word), then LOG3 with the topic of Transfer, the caller, and the first word.
 */
const FAKE_TOKEN = `602035600052600035337fddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef60206000a300`;

let node: EthNode;
let service: Service;
const expected = new Map<string, { story: string; events: string }>();

before(async () => {
  node = await startAnvil();
  service = await startService({
    environment: {
      ETH_NODE_URL: node.url,
      ETH_CHAIN_ID: '31337',
      ETH_NETWORK: 'regtest',
      ETH_CONFIRMATIONS: '2',
      PRICES: 'static:ETH=2500.00',
      LOG_LEVEL: process.env.TEST_LOG ?? 'fatal',
    },
  });
  await service.florin(...['wallet', 'set', '--merchant', service.merchantId, '--coin', 'ETH', '--mode', 'live', '--key', accountKey]);
  await eventually(readiness, (ready) => ready.followers?.ETH !== undefined, 20_000);
});
after(async () => {
  await service?.destroy();
  await node?.destroy();
});

const readiness = async (): Promise<any> => (await fetch(`${service.url}/readyz`)).json();
const detail = async (id: string) => (await service.live.get(`/api/payment/${id}`)).json;
const open = async (story: string, events: string, amountUsd = 25): Promise<{ id: string; address: string }> => {
  const created = await service.live.post('/api/payment/create/simple', { amount_usd: amountUsd, return_url: 'https://shop.example/' });
  assert.equal(created.status, 201, created.text);
  const id = created.json.transaction_id as string;
  expected.set(id, { story, events });
  await service.choose(id, 'ETH');
  const chosen = await detail(id);
  assert.equal(chosen.currency, 'ETH');
  assert.match(chosen.payment_address, /^0x[0-9a-fA-F]{40}$/);
  return { id, address: chosen.payment_address };
};
const reach = (id: string, status: string, exception: string | null = null, more: (d: any) => boolean = () => true) =>
  eventually(
    () => detail(id),
    (d) => d.status === status && d.exception === exception && more(d),
    30_000,
  );
/** Mines, and waits until the follower has read it all. */
const mine = async (blocks: number) => {
  const height = await node.mine(blocks);
  await eventually(readiness, (ready) => ready.followers.ETH.height >= height, 30_000);
  return height;
};
const told = (name: string, events: string, tell: (name: string, events: string) => Promise<void>) => test(name, () => tell(name, events));

told('a direct transfer is seen before its block, confirmed twice, completed', 'created processing completed', async (name, events) => {
  const { id, address } = await open(name, events);
  const hash = await node.send({ to: address, value: AMOUNT });
  const seen = await reach(id, 'processing', null, (d) => d.confirmations === 0);
  assert.equal(seen.transaction_hash, hash);
  assert.equal(seen.amount, '0.01000000');
  await mine(1);
  await reach(id, 'processing', null, (d) => d.confirmations === 1);
  await mine(1);
  const done = await reach(id, 'completed');
  assert.equal(done.amount_received, '0.01000000');
  assert.equal(done.transfers.length, 1);
});
