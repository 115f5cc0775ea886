/** Settings with less obvious rules: the trust level of sources. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { ConfigError, readConfig } from './config.ts';

const BTC = { BTC_NODE_URL: 'http://bitcoind:8332,http://8.8.8.8:8332,https://node.example' };

test('each source is trusted by its address, or as configured: one word for all, or one for each', () => {
  const trusts = (BTC_TRUST = '') => readConfig({ ...BTC, BTC_TRUST }).trusts.BTC;
  assert.deepEqual(trusts(), ['own', 'untrusted', 'untrusted']);
  assert.deepEqual(trusts('own'), ['own', 'own', 'own']);
  assert.deepEqual(trusts('untrusted'), ['untrusted', 'untrusted', 'untrusted']);
  assert.deepEqual(trusts('own, own,untrusted'), ['own', 'own', 'untrusted']);
  for (const wrong of ['mine', 'own,untrusted', 'own,own,own,own', 'Own']) assert.throws(() => trusts(wrong), ConfigError, wrong);
  assert.deepEqual(readConfig({ LTC_TRUST: 'own' }).trusts.LTC, []);
});

test('peers are host:port; a proxy speaks SOCKS5', () => {
  const peers = (BTC_PEERS: string) => readConfig({ BTC_PEERS, BTC_NETWORK: 'regtest' }).peers.BTC;
  assert.deepEqual(peers('127.0.0.1:18444, [::1]:18444,peer.lan:1'), ['127.0.0.1:18444', '[::1]:18444', 'peer.lan:1']);
  assert.deepEqual(peers(''), []);
  for (const wrong of ['127.0.0.1', '127.0.0.1:70000', 'http://127.0.0.1:1', 'a b:1'])
    assert.throws(() => peers(wrong), ConfigError, wrong);
  const proxy = (P2P_PROXY: string) => readConfig({ P2P_PROXY }).p2pProxy;
  assert.deepEqual([proxy(''), proxy('socks5://127.0.0.1:9050')], [null, 'socks5://127.0.0.1:9050']);
  for (const wrong of ['http://127.0.0.1:9050', 'socks5://127.0.0.1', '127.0.0.1:9050'])
    assert.throws(() => proxy(wrong), ConfigError, wrong);
});

test('peers are used once a wallet needs them, unless a source is set; on test networks only those that are named', () => {
  const p2p = (env: Record<string, string>) => readConfig(env).p2p;
  const used = Object.entries(p2p({})).filter(([, how]) => how !== 'off');
  assert.deepEqual(Object.fromEntries(used), { BTC: 'on_demand', LTC: 'on_demand', DASH: 'on_demand', DOGE: 'on_demand' });
  assert.equal(p2p({ BTC_NODE_URL: 'http://127.0.0.1:8332' }).BTC, 'headers', 'only headers, beside the node');
  assert.equal(p2p({ BTC_NODE_URL: 'http://127.0.0.1:8332', BTC_P2P: 'off' }).BTC, 'off');
  assert.equal(p2p({ BTC_NODE_URL: 'http://127.0.0.1:8332', BTC_P2P: 'on' }).BTC, 'on');
  assert.equal(p2p({ BTC_P2P: 'off', BTC_PEERS: '127.0.0.1:8333' }).BTC, 'off');
  const named = { BTC_PEERS: '127.0.0.1:18444' };
  assert.deepEqual(
    [p2p(named).BTC, p2p({ ...named, BTC_NETWORK: 'regtest' }).BTC, p2p({ BTC_NETWORK: 'regtest' }).BTC],
    ['on_demand', 'on', 'off'],
  );
  assert.equal(p2p({ BTC_NETWORK: 'testnet' }).BTC, 'off');
  assert.throws(() => p2p({ BTC_P2P: 'yes' }), /BTC_P2P must be auto, on or off/);
  assert.throws(() => p2p({ BTC_P2P: 'on', BTC_NETWORK: 'regtest' }), /BTC_P2P needs BTC_PEERS on regtest/);
  assert.throws(() => p2p({ BTC_P2P: 'on', BTC_NETWORK: 'testnet' }), /BTC_P2P cannot be used on testnet/);
  assert.throws(() => p2p({ ...named, BTC_NETWORK: 'testnet' }), /BTC_PEERS cannot be used on testnet/);
});

test('Electrum servers use TLS, except at private and onion addresses; the public ones are for the main networks', () => {
  const servers = (BTC_ELECTRUM_URL: string, BTC_NETWORK = 'mainnet') => readConfig({ BTC_ELECTRUM_URL, BTC_NETWORK }).electrumUrls.BTC;
  assert.equal(servers(''), null, 'nothing is set');
  assert.deepEqual(
    ['mainnet', 'testnet', 'regtest'].map((network) => servers('off', network)),
    [[], [], []],
  );
  assert.throws(() => servers('off, tls://a.example:1'), ConfigError);
  const several = ['tls://electrum.example:50002', 'tcp://10.0.0.5:50001', 'tcp://abc.onion:50001', 'tls://[2001:db8::1]:50002', 'public'];
  assert.deepEqual(servers(several.join(', ')), several);
  assert.deepEqual(servers('tcp://127.0.0.1:50001', 'regtest'), ['tcp://127.0.0.1:50001']);
  for (const wrong of [
    'https://a.example:1',
    'electrum.example:50002',
    'tls://a.example',
    'tls://a.example:70000',
    'tls://u:p@a.example:1',
    'tls://a:1/x',
  ])
    assert.throws(() => servers(wrong), ConfigError, wrong);
  assert.throws(() => servers('tcp://8.8.8.8:50001'), /BTC_ELECTRUM_URL must use tls:/);
  assert.throws(() => servers('public', 'regtest'), /public only on mainnet/);
  assert.throws(() => servers('tls://a.example:1', 'testnet'), /only be used on mainnet and regtest/);
  assert.deepEqual(readConfig({ ETH_ELECTRUM_URL: 'tls://a.example:1' }).electrumUrls.ETH, []);
});

test('the quorum amount is in whole dollars, 1,000 by default', () => {
  const above = (QUORUM_ABOVE?: string) => readConfig({ ...BTC, QUORUM_ABOVE }).quorumAboveUsdCents;
  assert.deepEqual([above(), above('0'), above('25000')], [100_000n, 0n, 2_500_000n]);
  for (const wrong of ['-1', '10.50', '1e3']) assert.throws(() => above(wrong), ConfigError, wrong);
});

test('beacon servers are URLs, and the checkpoint is the root of a block', () => {
  assert.deepEqual(readConfig({}).beacon, { urls: [], checkpoint: null });
  const root = `0x${'Ab'.repeat(32)}`;
  assert.deepEqual(readConfig({ ETH_BEACON_URL: 'https://a.example/, http://127.0.0.1:5052', ETH_CHECKPOINT: root }).beacon, {
    urls: ['https://a.example', 'http://127.0.0.1:5052'],
    checkpoint: root.toLowerCase(),
  });
  for (const wrong of ['14017856', '0x12', root.slice(2)])
    assert.throws(() => readConfig({ ETH_CHECKPOINT: wrong }), /ETH_CHECKPOINT must be 0x and 64 hex digits/, wrong);
  assert.throws(() => readConfig({ ETH_BEACON_URL: 'a.example' }), /ETH_BEACON_URL must look like https:\/\/host/);
});

test('the public address is an origin: Florin cannot be served below a path', () => {
  const address = (PUBLIC_URL: string) => readConfig({ PUBLIC_URL }).publicUrl;
  for (const [given, kept] of [
    ['https://pay.example', 'https://pay.example'],
    ['https://pay.example/', 'https://pay.example'],
    ['https://Pay.Example:8443', 'https://Pay.Example:8443'],
    ['https://pay.example:443', 'https://pay.example:443'],
    ['http://[::1]:3000', 'http://[::1]:3000'],
  ] as const)
    assert.equal(address(given), kept);
  for (const wrong of ['/florin', '/florin/', '?shop=1', '/?', '#top', '/#'])
    assert.throws(() => address(`https://pay.example${wrong}`), /PUBLIC_URL must be only a scheme, .*below a path/, wrong);
  assert.throws(() => address('https://olga:secret@pay.example'), /PUBLIC_URL must be only/);
});

test('the setup code is long, comes from one place, and from a file without its line end', (t) => {
  const code = 'a'.repeat(24);
  const folder = mkdtempSync(join(tmpdir(), 'florin-config-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'code');
  writeFileSync(file, `${code}\n`);
  assert.equal(readConfig({}).setupToken, null);
  assert.equal(readConfig({ SETUP_TOKEN: code }).setupToken, code);
  assert.equal(readConfig({ SETUP_TOKEN_FILE: file }).setupToken, code);
  for (const wrong of ['a'.repeat(23), 'a'.repeat(65), `${code} b`, `${code}#`])
    assert.throws(() => readConfig({ SETUP_TOKEN: wrong }), /SETUP_TOKEN must be 24 to 64/);
  assert.throws(() => readConfig({ SETUP_TOKEN: code, SETUP_TOKEN_FILE: file }), /cannot both be set/);
  assert.throws(() => readConfig({ SETUP_TOKEN_FILE: join(folder, 'none') }), /SETUP_TOKEN_FILE cannot be read/);
  assert.deepEqual([readConfig({}).backupBeforeUpgrade, readConfig({ BACKUP_BEFORE_UPGRADE: 'off' }).backupBeforeUpgrade], [true, false]);
  assert.throws(() => readConfig({ BACKUP_BEFORE_UPGRADE: 'no' }), /must be on or off/);
});
