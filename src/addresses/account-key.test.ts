/** Private keys in files that merchants upload. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { HDKey } from '@scure/bip32';
import { base58check } from '../../test/kit/base58.ts';
import { containsPrivateKey, internalKeyOf, parseAccountKey } from './account-key.ts';

const node = HDKey.fromMasterSeed(new Uint8Array(32).fill(9)).derive("m/84'/0'/0'");
/** Of the private keys that wallets of all coins export (SLIP-132 and its kin). */
const VERSIONS = [
  0x0488ade4, 0x04358394, 0x049d7878, 0x04b2430c, 0x044a4e28, 0x045f18bc, 0x019d9cfe, 0x01b26792, 0x0436ef7d, 0x02fac398, 0x02fe52cc,
];

test('a private key is found anywhere in a file, in every form that wallets export', () => {
  const wif = base58check.encode(Buffer.concat([Buffer.of(0x80), node.privateKey!, Buffer.of(1)]));
  const keys = [...VERSIONS.map((version) => base58check.respell(node.privateExtendedKey, version)), wif];
  for (const key of keys) {
    assert.ok(containsPrivateKey(key), key);
    assert.ok(containsPrivateKey(`{"key":"${key}"}`), key);
    assert.ok(containsPrivateKey(`0${key}/abc`), key);
  }
  // Characters that follow directly hide no extended key.
  assert.ok(containsPrivateKey(`/${node.privateExtendedKey}abcdefghijkm`));
  assert.ok(!containsPrivateKey(node.publicExtendedKey));
});

test('base64 that looks like the start of a key by chance is not a private key', () => {
  const random = createHash('sha512')
    .update('psbt')
    .digest('base64')
    .replaceAll(/[+/0OIl=]/g, 'a');
  for (const prefix of ['xprv', 'zprv', 'tprv', 'drkv', 'dgpv', 'dgpr', 'Ltpv'])
    for (const before of ['/', '+', '0', 'I'])
      assert.equal(containsPrivateKey(`cHNidP8BAH${before}${prefix}${random}${random}`), false, before + prefix);
});

test('a descriptor with more steps than wallets write is refused before they are derived', () => {
  const read = (steps: string) => parseAccountKey(`wpkh(${node.publicExtendedKey}${steps}/*)`, { coin: 'BTC', network: 'mainnet' });
  assert.equal(read('/0/1/2/3/4').path, '0/1/2/3/4');
  assert.throws(() => read('/0/1/2/3/4/5'), /more than 5 steps/);
});

test('an account of Ethereum is the same with its origin, and pays for gas from the same address', () => {
  const key = HDKey.fromMasterSeed(new Uint8Array(32).fill(9)).derive("m/44'/60'/0'").publicExtendedKey;
  const on = { coin: 'ETH', network: 'mainnet' } as const;
  for (const text of [`[d34db33f/44h/60h/0h]${key}`, `[d34db33f/44h/60h/0h]${key}/0/*`, `${key}/0/*`]) {
    assert.equal(parseAccountKey(text, on).chainKey, parseAccountKey(key, on).chainKey);
    assert.deepEqual(internalKeyOf(text, on), internalKeyOf(key, on));
  }
  for (const text of [`${key}/1/*`, `${key}/*`, `wpkh(${key}/0/*)`])
    assert.throws(() => parseAccountKey(text, on), { code: 'account_key_invalid' });
});
