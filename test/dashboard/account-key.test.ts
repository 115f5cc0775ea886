/** What pasted texts, files and codes before a camera are taken for, before anything is sent. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HDKey } from '@scure/bip32';
import { readCode, readGiven } from '../../dashboard/lib/account-key.ts';

const account = HDKey.fromMasterSeed(new Uint8Array(32).fill(7)).derive("m/84'/0'/0'");
const xpub = account.publicExtendedKey;
const other = account.deriveChild(1).publicExtendedKey;
const phrase = 'legal winner thank year wave sausage worth useful legal winner thank yellow';

test('keys and descriptors are taken as they stand; files and codes of wallets for the one key in them', () => {
  for (const text of [
    xpub,
    ` ${xpub}\n`,
    `wpkh([73c5da0a/84h/0h/0h]${xpub}/0/*)`,
    JSON.stringify({ ExtPubKey: xpub, MasterFingerprint: '73c5da0a' }),
  ])
    for (const read of [readGiven, readCode])
      assert.deepEqual(read(text), { kind: 'key', text: text.includes('ExtPubKey') ? xpub : text.trim() });
  assert.equal(readGiven(JSON.stringify({ bip84: { xpub }, bip49: { xpub: other } })).kind, 'other');
  assert.equal(readGiven('not finished ye').kind, 'key', 'what is typed stays until it is sent');
});

test('what can spend is refused wherever it stands', () => {
  for (const text of [
    account.privateExtendedKey,
    phrase,
    '5HueCGU8rMjxEXxiPuD5BDku4MkFqeZyd4dZ1jvhTVqvbTLvyTJ',
    // The example of BIP-38.
    '6PRVWUbkzzsbcVac2qwfssoUJAN1Xhrg6bNk8J7Nzm5H7kxEbn2Nh2ZoGg',
    // SeedQR, test vector 1 of its text.
    '011513251154012711900771041507421289190620080870026613431420201617920614089619290300152408010643',
    JSON.stringify({ keystore: { xpub, seed: phrase } }),
    JSON.stringify({ keystore: { xpub, xprv: account.privateExtendedKey } }),
  ])
    for (const read of [readGiven, readCode]) assert.deepEqual(read(text), { kind: 'private' }, text);
  assert.deepEqual(readCode('UR:CRYPTO-SEED/OEADGDSTASLTLAKSLUGHLYLSGW'), { kind: 'private' });
});

test('codes that are no key are named, and never taken for one', () => {
  for (const [code, says] of [
    ['ur:crypto-hdkey/onaxhdclaojlvoechgferkdpqd', /“UR” \(crypto-hdkey\)/],
    ['UR:CRYPTO-ACCOUNT/1-3/LPADAXCFAXIACYVWHDFHNDHKADCLHDCX', /“UR” \(crypto-account\)/],
    ['ur:crypto-psbt/1-2/lpadaxcf', /transaction to sign/],
    ['B$2J0300FMAABBCC', /BBQr/],
    ['p1of3 cHNidP8B', /animated/],
    ['bitcoin:bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu?amount=1', /one address/],
    ['https://wallet.example/x', /no account key/],
    // Sixteen bytes of a recovery phrase (CompactSeedQR), as a reader of text sees them.
    ['[\u00bd\u009dq\u00a8\u00eciB\u0011\u00f3l\u008b\u00a6\u0001', /no account key/],
  ] as const) {
    const given = readCode(code);
    assert.ok(given.kind === 'other' && says.test(given.why), code);
  }
});
