/** Exports of wallets, as the programs write them: each gives the account whose addresses the program shows. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Coin, Network } from '../core/coin.ts';
import { parseAccountKey } from './account-key.ts';
import { deriveAddress } from './address.ts';

const FOLDER = join(import.meta.dirname, '../../test/fixtures/account-exports');
type Expected = { file: string; coin: Coin; network: Network; address?: string; script?: string; refused?: string };
const EXPECTED: readonly Expected[] = JSON.parse(readFileSync(join(FOLDER, 'expected.json'), 'utf8'));

const importedFrom = (text: string, { coin, network, script }: Expected): string => {
  const key = parseAccountKey(text, { coin, network });
  const type = key.script ?? script;
  return deriveAddress({ ...key, script: type as 'p2wpkh', coin, network, index: 0n }).address;
};

for (const one of EXPECTED)
  test(`${one.file} in ${one.coin}: ${one.refused ?? 'the first address is that of the wallet'}`, () => {
    const text = readFileSync(join(FOLDER, one.file), 'utf8');
    for (const form of [text, text.replaceAll('\n', '\r\n'), `\n ${text}\n\n`])
      if (one.refused === undefined) assert.equal(importedFrom(form, one), one.address);
      else assert.throws(() => importedFrom(form, one), { message: new RegExp(one.refused.replaceAll(/[().*]/g, '\\$&')) });
  });

test('every file of the folder is read', () => {
  const files = readdirSync(FOLDER).filter((name) => name !== 'expected.json' && name !== 'README.md');
  assert.deepEqual(files.sort(), [...new Set(EXPECTED.map(({ file }) => file))].sort());
});

test('the text of a file is stored as the key or the descriptor in it', () => {
  const text = readFileSync(join(FOLDER, 'policy.json'), 'utf8');
  assert.match(parseAccountKey(text, { coin: 'BTC', network: 'mainnet' }).accountKey, /^wsh\(sortedmulti\(2,\[.*\)\)#[a-z0-9]{8}$/);
});

test('a key between words is found, and a text with several keys says so', () => {
  const [one, other] = ['sparrow-descriptors.txt', 'policy.json'].map(
    (name) => /xpub[1-9A-HJ-NP-Za-km-z]+/.exec(readFileSync(join(FOLDER, name), 'utf8'))![0],
  );
  const read = (text: string) => parseAccountKey(text, { coin: 'BTC', network: 'mainnet' }).accountKey;
  assert.equal(read(`Bitcoin account\nPublic key: ${one}\n\nAgain, ${one}.`), one);
  assert.throws(() => read(`Legacy: ${one}\nSegWit: ${other}`), /several keys/);
  assert.throws(() => read('Bitcoin account\nno key'), /not an extended public key/);
});

test('an export with a secret in it is refused as a private key', () => {
  const seed = `${'abandon '.repeat(11)}about`;
  for (const keystore of [
    { seed },
    { xprv: 'xprv9s21ZrQH143K3QTDL4LXw2F7HEK3wJUD2nW2nRk4stbPy6cq3jPPqjiChkVvvNKmPGJxWUtg6LnF5kejMRNNU3TGtRBeJgk33yuGBxrMPHi' },
  ])
    assert.throws(() => parseAccountKey(JSON.stringify({ wallet_type: 'standard', keystore }), { coin: 'BTC', network: 'mainnet' }), {
      code: 'private_key_refused',
    });
});

test('hostile exports are refused, and quickly', { timeout: 10_000 }, () => {
  const read = (text: string) => () => parseAccountKey(text, { coin: 'BTC', network: 'mainnet' });
  const deep = `${'{"a":'.repeat(5_000)}1${'}'.repeat(5_000)}`;
  for (const text of [
    deep,
    `{"descriptor":"${'('.repeat(90_000)}"}`,
    `BSMS 1.0\n${'wsh('.repeat(20_000)}`,
    'Policy: 2\n'.repeat(9_000),
    '{',
    '[]',
    '{"quorum":{"requiredSigners":2}}',
    `{"wallet_type":"99of99"}`,
    '{"p":"wsh(sortedmulti(2,@0/**,@1/**))","keys":[1]}',
    'x'.repeat(100_001),
  ])
    assert.throws(read(text), { code: 'account_key_invalid' }, text.slice(0, 40));
});
