/** What the real Electrum exports: its keys and its wallet files give the addresses that it shows itself, and its secrets are refused. */
import assert from 'node:assert/strict';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { parseAccountKey } from '../../src/addresses/account-key.ts';
import { deriveAddress } from '../../src/addresses/address.ts';
import { electrumCosigner, electrumWallet } from '../kit/electrum-program.ts';

const on = { coin: 'BTC', network: 'regtest' } as const;
const addressesOf = (text: string, count: number): string[] => {
  const { chainKey, script } = parseAccountKey(text, on);
  return Array.from({ length: count }, (_, i) => deriveAddress({ ...on, chainKey, script: script!, index: BigInt(i) }).address);
};
type Wallet = ReturnType<typeof electrumWallet>;
const shown = async (wallet: Wallet): Promise<string[]> => JSON.parse(await wallet.call('listaddresses', '--receiving'));
const opened = (wallet: Wallet): Wallet => {
  after(() => rmSync(wallet.folder, { recursive: true }));
  return wallet;
};

for (const [type, wrapper] of [
  ['segwit', 'wpkh('],
  ['standard', 'pkh('],
] as const)
  test(`the master public key of a seed of Electrum (${type}) is refused with what to enter instead, which gives its addresses`, async () => {
    const wallet = opened(electrumWallet());
    await wallet.call('create', '--seed_type', type);
    const key = await wallet.call('getmpk');
    const addresses = await shown(wallet);
    assert.equal(addresses.length, 20);
    const refusal = (error: Error): boolean => {
      const [, instead] = /If Electrum shows this key, enter (\S+) /.exec(error.message)!;
      assert.ok(instead!.startsWith(wrapper) && instead!.includes(key));
      assert.deepEqual(addressesOf(instead!, 20), addresses);
      return true;
    };
    assert.throws(() => parseAccountKey(key, on), refusal);
    assert.throws(() => parseAccountKey(readFileSync(wallet.file, 'utf8'), on), { code: 'private_key_refused' });
    // The file of a wallet that only watches.
    const watching = opened(electrumWallet());
    await watching.call('restore', key);
    assert.deepEqual(addressesOf(readFileSync(watching.file, 'utf8'), 20), addresses);
  });

for (const [name, policy] of [
  ['2 of 3', { required: 2, of: 3 }],
  ['nested 2 of 3', { required: 2, of: 3, wraps: (multi: string) => `sh(wsh(${multi}))` }],
  ['3 of 5', { required: 3, of: 5 }],
] as const)
  test(`the file of a multisig wallet of Electrum (${name}) gives its addresses, unless it has a key that can sign`, async () => {
    const wallet = opened(electrumCosigner(policy));
    const addresses = await shown(wallet);
    const content = readFileSync(wallet.file, 'utf8');
    assert.throws(() => parseAccountKey(content, on), { code: 'private_key_refused' });
    // As Electrum writes it for somebody who only watches.
    const { xprv: _, ...publicKeystore } = JSON.parse(content)['x1/'];
    writeFileSync(wallet.file, JSON.stringify({ ...JSON.parse(content), 'x1/': { ...publicKeystore, xprv: null } }));
    assert.deepEqual(await shown(wallet), addresses);
    assert.deepEqual(addressesOf(readFileSync(wallet.file, 'utf8'), 20), addresses);
  });
