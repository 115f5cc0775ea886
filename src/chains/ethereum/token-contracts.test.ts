/** What the contracts of tokens say: a pause, a replacement, and the code of every kind of proxy. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Coin, contractOf } from '../../core/coin.ts';
import { whyNotOffered } from '../../follow/contract-watch.ts';
import type { EthCall } from './eth-rpc.ts';
import { readContracts } from './token-logs.ts';

const POLYGON_SLOT = '0xbaab7dbf64751104133af04abc7d9979f0fda3b059a322a8333f533d3f32bf7f';
const DEPRECATED = '0x0e136b19';
/** The code of a contract that is not a proxy. */
const PLAIN = '0,0,0';
const word = (value: bigint) => `0x${value.toString(16).padStart(64, '0')}`;

/** The state of a coin, when its contract answers these words to these selectors and slots, and reverts for all other functions. */
async function read(coin: Coin, words: Record<string, bigint>, codes: Record<string, string | null> = {}) {
  const to = contractOf(coin, 'mainnet');
  const batch = async (calls: readonly EthCall[]) =>
    calls.map(([method, first, second]) => {
      if (method === 'eth_getCode') {
        const code = codes[first as string];
        return code === null ? { result: null, error: { code: 1, message: 'nope' } } : { result: code ?? '0x6000', error: null };
      }
      const at = method === 'eth_call' ? (first as { to: string; data: string }) : { to: first, data: second as string };
      const said = at.to === to ? words[at.data] : undefined;
      if (method === 'eth_call' && said === undefined && at.data !== '0x313ce567')
        return { result: null, error: { code: 3, message: 'execution reverted' } };
      return { result: word(said ?? (method === 'eth_call' ? 6n : 0n)), error: null };
    });
  const states = await readContracts({ batch }, { coin, network: 'mainnet' });
  return states.find((state) => state.coin === coin)!;
}

test('USDT on Ethereum is not offered once its issuer deprecated the contract', async () => {
  const fine = await read('USDT@ethereum', { [DEPRECATED]: 0n });
  assert.deepEqual([fine.decimals, fine.paused, fine.deprecated, fine.code], [6, false, false, PLAIN]);
  assert.equal(whyNotOffered(fine, fine.code), null);
  const replaced = await read('USDT@ethereum', { [DEPRECATED]: 1n });
  assert.deepEqual([replaced.paused, replaced.deprecated, replaced.code], [false, true, PLAIN]);
  assert.match(whyNotOffered(replaced, replaced.code)!, /is deprecated: its issuer replaced it/);
  // Other contracts have no such function, and may answer anything.
  assert.equal((await read('USDC@ethereum', { [DEPRECATED]: 1n })).deprecated, false);
});

test('an upgrade behind the proxy of the Polygon bridge is seen', async () => {
  const before = await read('USDT@polygon', { [POLYGON_SLOT]: 0xaan });
  const after = await read('USDT@polygon', { [POLYGON_SLOT]: 0xbbn });
  assert.deepEqual([before.code, after.code], ['0,0,aa,0', '0,0,bb,0']);
  assert.equal(whyNotOffered(before, before.code), null);
  assert.match(whyNotOffered(after, before.code)!, /was upgraded/);
});

test('code that was accepted before that place was read is still accepted, and nothing else', async () => {
  const state = await read('USDT@polygon', { [POLYGON_SLOT]: 0xaan });
  assert.equal(whyNotOffered(state, '0,0'), null);
  for (const known of ['0,1', '0,0,a', '1,0']) assert.match(whyNotOffered(state, known) ?? 'offered', /was upgraded/, known);
});

test('an upgrade behind a beacon is seen, and a token that cannot be asked about hides no other', async () => {
  const beacon = '0xa3f0ad74e5423aebfd80d3ef4346578335a9a72aeaee59ff6cb3582b35133d50';
  const before = await read('USDC@polygon', {});
  assert.match(whyNotOffered(await read('USDC@polygon', { [beacon]: 1n }), before.code)!, /was upgraded/);
  const silent = { [contractOf('USDC@polygon', 'mainnet')!]: null };
  assert.equal(await read('USDC@polygon', {}, silent), undefined);
  assert.notEqual(await read('USDT@polygon', {}, silent), undefined);
});
