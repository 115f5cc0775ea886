/**
 * Our derivation against a second implementation: bitcoinjs-lib with bip32, on Bitcoin Core's own curve library. In a long run with 10,000
 * random wallets; FLORIN_SEED repeats one.
 */
// Invariant: Addresses equal those of a second implementation.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BIP32Factory } from 'bip32';
import { address as addresses, networks, type Network as Params, payments } from 'bitcoinjs-lib';
import fc from 'fast-check';
import * as ecc from 'tiny-secp256k1';
import { parseAccountKey } from './account-key.ts';
import { decodeAddress, deriveAddress, type Script } from './address.ts';

const SEED = Number(process.env.FLORIN_SEED ?? Date.now() % 1_000_000);
const RUNS = process.env.FLORIN_LONG ? 3_500 : 300;
/** Each derives up to 15 keys. */
const MULTISIG_RUNS = process.env.FLORIN_LONG ? 3_000 : 60;
const bip32 = BIP32Factory(ecc);
const LITECOIN: Params = {
  ...networks.bitcoin,
  messagePrefix: '\x19Litecoin Signed Message:\n',
  bech32: 'ltc',
  pubKeyHash: 0x30,
  scriptHash: 0x32,
};
const PARAMS = { BTC: networks.bitcoin, LTC: LITECOIN } as const;
/** Purpose and extended key version of each script (SLIP-132). */
const SCRIPTS = {
  p2pkh: { purpose: 44, version: 0x0488b21e },
  'p2sh-p2wpkh': { purpose: 49, version: 0x049d7cb2 },
  p2wpkh: { purpose: 84, version: 0x04b24746 },
} as const satisfies Partial<Record<Script, { purpose: number; version: number }>>;
const NAMES = Object.keys(SCRIPTS) as (keyof typeof SCRIPTS)[];

/** The second implementation's output for a public key. */
function other(script: keyof typeof SCRIPTS, pubkey: Uint8Array, network: Params): { address: string; output: string } {
  const segwit = payments.p2wpkh({ pubkey, network });
  const made =
    script === 'p2pkh' ? payments.p2pkh({ pubkey, network }) : script === 'p2wpkh' ? segwit : payments.p2sh({ redeem: segwit, network });
  return { address: made.address!, output: Buffer.from(made.output!).toString('hex') };
}

const seed = fc.uint8Array({ minLength: 32, maxLength: 32 });
const account = fc.nat(0x7fffffff);
const index = fc.oneof(fc.nat(100), fc.nat(0x7fffffff));

for (const [coin, params] of Object.entries(PARAMS) as [keyof typeof PARAMS, Params][]) {
  test(`${coin}: addresses and output scripts equal those of bitcoinjs-lib for ${RUNS} random account keys, in every script and spelling (seed ${SEED})`, () => {
    fc.assert(
      fc.property(seed, account, index, fc.constantFrom(...NAMES), fc.boolean(), (bytes, number, at, named, spelled) => {
        const { purpose, version } = SCRIPTS[named];
        const { bip32: versions } = networks.bitcoin;
        const network: Params = { ...params, bip32: spelled ? { ...versions, public: version } : versions };
        const path = `${coin === 'BTC' ? 0 : 2}'/${number}'`;
        const key = bip32.fromSeed(bytes, network).derivePath(`m/${purpose}'/${path}`).neutered();
        const parsed = parseAccountKey(key.toBase58(), { coin, network: 'mainnet' });
        // An xpub does not determine the script; ypub and zpub do.
        const spelling = spelled && named !== 'p2pkh' ? named : null;
        assert.equal(parsed.script, spelling);
        assert.equal(parsed.path, '0');
        const { publicKey } = key.derive(0).derive(at);
        for (const script of NAMES) {
          const ours = deriveAddress({ chainKey: parsed.chainKey, script, coin, network: 'mainnet', index: BigInt(at) });
          const theirs = other(script, publicKey, params);
          assert.deepEqual(ours, { address: theirs.address, key: theirs.output });
          // And back: both derive the same output script from the address.
          assert.equal(decodeAddress(theirs.address, { coin, network: 'mainnet' }).key, theirs.output);
          assert.equal(Buffer.from(addresses.toOutputScript(ours.address, params)).toString('hex'), ours.key);
        }
      }),
      { numRuns: RUNS, seed: SEED },
    );
  });
}

// Invariant: Addresses of wallets with several keys equal those of a second implementation.
test(`addresses of ${MULTISIG_RUNS} random wallets of several keys equal those of bitcoinjs-lib (seed ${SEED})`, () => {
  const policy = fc
    .array(seed, { minLength: 1, maxLength: 15 })
    .chain((seeds) => fc.record({ seeds: fc.constant(seeds), required: fc.integer({ min: 1, max: seeds.length }) }));
  fc.assert(
    fc.property(policy, index, fc.boolean(), fc.boolean(), ({ seeds, required }, at, isSorted, isNested) => {
      const accounts = seeds.map((bytes, i) => bip32.fromSeed(bytes).derivePath(`m/48'/0'/${i}'/2'`).neutered());
      const body = `${isSorted ? 'sorted' : ''}multi(${[required, ...accounts.map((key) => `${key.toBase58()}/<0;1>/*`)].join()})`;
      const { chainKey, script } = parseAccountKey(isNested ? `sh(wsh(${body}))` : `wsh(${body})`, { coin: 'BTC', network: 'mainnet' });
      const keys = accounts.map((key) => key.derive(0).derive(at).publicKey);
      const redeem = payments.p2wsh({ redeem: payments.p2ms({ m: required, pubkeys: isSorted ? keys.sort(Buffer.compare) : keys }) });
      const { address } = isNested ? payments.p2sh({ redeem }) : redeem;
      assert.equal(deriveAddress({ chainKey, script: script!, coin: 'BTC', network: 'mainnet', index: BigInt(at) }).address, address);
    }),
    { numRuns: MULTISIG_RUNS, seed: SEED },
  );
});

test('one mistyped character is never a valid address', () => {
  const anyCoin = fc.constantFrom(...(Object.keys(PARAMS) as (keyof typeof PARAMS)[]));
  const letter = fc.constantFrom(...'123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz0');
  fc.assert(
    fc.property(seed, anyCoin, fc.constantFrom(...NAMES), fc.nat(), letter, (bytes, coin, script, place, typed) => {
      const { address } = other(script, bip32.fromSeed(bytes).publicKey, PARAMS[coin]);
      const at = place % address.length;
      fc.pre(address[at] !== typed);
      assert.throws(() => decodeAddress(address.slice(0, at) + typed + address.slice(at + 1), { coin, network: 'mainnet' }), {
        code: 'address_invalid',
      });
    }),
    { numRuns: RUNS, seed: SEED },
  );
});
