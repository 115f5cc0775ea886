/** Wallet policies (BIP-388): the published vectors, as they are exported and as they are imported. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { multisigDescriptor } from '../../test/kit/multisig.ts';
import { parseAccountKey, policyOf } from './account-key.ts';

type Vectors = {
  valid: { name: string; template: string; keys: string[] }[];
  unsupported: { keys: string[]; templates: string[] };
  invalid: string[];
};
const VECTORS: Vectors = JSON.parse(readFileSync(join(import.meta.dirname, '../../test/fixtures/bip388.json'), 'utf8'));
const on = { coin: 'BTC', network: 'mainnet' } as const;
const read = (text: string) => {
  const { script, ...key } = parseAccountKey(text, on);
  return { ...key, script: script!, network: on.network };
};
const descriptorOf = (template: string, keys: readonly string[]): string =>
  template.replaceAll(/@(\d+)\/\*\*/g, (_, place) => `${keys[Number(place)]}/<0;1>/*`);
const fileOf = (template: string, keys: readonly string[]): string =>
  JSON.stringify({ name: 'x', descriptor_template: template, keys_info: keys });

for (const { name, template, keys } of VECTORS.valid)
  test(`${name}: the policy of its descriptor is that of BIP-388, and importing either gives the same wallet`, () => {
    const descriptor = descriptorOf(template, keys);
    const wallet = read(descriptor);
    const policy = policyOf(wallet)!;
    // Sorted keys are stored in the order of their identity.
    assert.deepEqual([policy.template, [...policy.keys].sort()], [template, [...keys].sort()]);
    assert.equal(read(policy.descriptor).chainKey, wallet.chainKey);
    assert.equal(read(fileOf(template, keys)).chainKey, wallet.chainKey);
    assert.equal(read(fileOf(policy.template, policy.keys)).chainKey, wallet.chainKey);
  });

test('policies that need `miniscript` or a script tree, and invalid ones, are refused', () => {
  const { keys, templates } = VECTORS.unsupported;
  const invalid = VECTORS.invalid.flatMap((template) => [template, template.replace(/^sh\((multi.*)\)$/, 'wsh($1)')]);
  for (const template of [...templates, ...invalid])
    assert.throws(() => read(fileOf(template, keys)), { code: 'account_key_invalid' }, template);
});

test('keys in the given order keep it, and a chain of addresses that a policy cannot say has none', () => {
  for (const policy of [
    { required: 2, of: 3, isSorted: false },
    { required: 2, of: 3, wraps: (multi: string) => `sh(wsh(${multi}))` },
  ]) {
    const descriptor = multisigDescriptor({ ...policy, network: 'mainnet' });
    const wallet = read(descriptor);
    assert.equal(read(policyOf(wallet)!.descriptor).chainKey, wallet.chainKey);
    if (policy.isSorted === false) assert.equal(policyOf(wallet)!.descriptor, descriptor);
    const [body = ''] = descriptor.split('#');
    assert.equal(policyOf(read(body.replaceAll('<0;1>', '7'))), null);
  }
});
