/** Settings with less obvious rules: the trust level of sources. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConfigError, readConfig } from './config.ts';

const BTC = { BTC_NODE_URL: 'http://bitcoind:8332,http://8.8.8.8:8332', BTC_BLOCKBOOK_URL: 'https://blockbook.example' };

test('each source is trusted by its address, or as configured: one word for all, or one for each', () => {
  const trusts = (BTC_TRUST = '') => readConfig({ ...BTC, BTC_TRUST }).trusts.BTC;
  assert.deepEqual(trusts(), ['own', 'untrusted', 'untrusted']);
  assert.deepEqual(trusts('own'), ['own', 'own', 'own']);
  assert.deepEqual(trusts('untrusted'), ['untrusted', 'untrusted', 'untrusted']);
  assert.deepEqual(trusts('own, own,untrusted'), ['own', 'own', 'untrusted']);
  for (const wrong of ['mine', 'own,untrusted', 'own,own,own,own', 'Own']) assert.throws(() => trusts(wrong), ConfigError, wrong);
  assert.deepEqual(readConfig({ LTC_TRUST: 'own' }).trusts.LTC, []);
});

test('peers are host:port, on regtest only; a proxy speaks SOCKS5', () => {
  const peers = (BTC_PEERS: string, BTC_NETWORK = 'regtest') => readConfig({ BTC_PEERS, BTC_NETWORK }).peers.BTC;
  assert.deepEqual(peers('127.0.0.1:18444, [::1]:18444,peer.lan:1'), ['127.0.0.1:18444', '[::1]:18444', 'peer.lan:1']);
  assert.deepEqual(peers(''), []);
  for (const wrong of ['127.0.0.1', '127.0.0.1:70000', 'http://127.0.0.1:1', 'a b:1'])
    assert.throws(() => peers(wrong), ConfigError, wrong);
  assert.throws(() => peers('127.0.0.1:8333', 'mainnet'), /only be used on regtest/);
  const proxy = (P2P_PROXY: string) => readConfig({ P2P_PROXY }).p2pProxy;
  assert.deepEqual([proxy(''), proxy('socks5://127.0.0.1:9050')], [null, 'socks5://127.0.0.1:9050']);
  for (const wrong of ['http://127.0.0.1:9050', 'socks5://127.0.0.1', '127.0.0.1:9050'])
    assert.throws(() => proxy(wrong), ConfigError, wrong);
});

test('the quorum amount is in whole dollars, 1,000 by default', () => {
  const above = (QUORUM_ABOVE?: string) => readConfig({ ...BTC, QUORUM_ABOVE }).quorumAboveUsdCents;
  assert.deepEqual([above(), above('0'), above('25000')], [100_000n, 0n, 2_500_000n]);
  for (const wrong of ['-1', '10.50', '1e3']) assert.throws(() => above(wrong), ConfigError, wrong);
});
