import assert from 'node:assert/strict';
import { pbkdf2Sync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { base58 } from '@scure/base';
import { HDKey } from '@scure/bip32';
import { base58check } from '../../test/kit/base58.ts';
import { assertQuick } from '../../test/kit/quick.ts';
import type { Coin, Network } from '../core/coin.ts';
import { parseAccountKey } from './account-key.ts';
import { addressOfScript, decodeAddress, deriveAddress, paymentUri, type Script } from './address.ts';
import { descriptorChecksum } from './descriptor.ts';
import { checksumAddress } from './evm-address.ts';

const node = (words: string, path: string) => HDKey.fromMasterSeed(pbkdf2Sync(words, 'mnemonic', 2048, 64, 'sha512')).derive(path);
const ABANDON = `${'abandon '.repeat(11)}about`;
const ALL = Array(12).fill('all').join(' ');

const first = (words: string, path: string, coin: Coin, script: Script, index = 0n) => {
  const parsed = parseAccountKey(node(words, path).publicExtendedKey, { coin, network: 'mainnet' });
  return deriveAddress({ chainKey: parsed.chainKey, script: parsed.script ?? script, coin, network: 'mainnet', index }).address;
};

// Invariant: Addresses equal the published vectors.
test('published derivation vectors: BIP-44, 49, 84, 86 and SLIP-44', () => {
  assert.equal(first(ABANDON, "m/84'/0'/0'", 'BTC', 'p2wpkh'), 'bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu');
  assert.equal(first(ABANDON, "m/86'/0'/0'", 'BTC', 'p2tr'), 'bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr');
  assert.equal(first(ABANDON, "m/44'/2'/0'", 'LTC', 'p2pkh'), 'LUWPbpM43E2p7ZSh8cyTBEkvpHmr3cB8Ez');
  assert.equal(first(ABANDON, "m/84'/2'/0'", 'LTC', 'p2wpkh'), 'ltc1qjmxnz78nmc8nq77wuxh25n2es7rzm5c2rkk4wh');
  assert.equal(first(ABANDON, "m/44'/5'/0'", 'DASH', 'p2pkh'), 'XoJA8qE3N2Y3jMLEtZ3vcN42qseZ8LvFf5');
  assert.equal(first(ABANDON, "m/44'/3'/0'", 'DOGE', 'p2pkh'), 'DBus3bamQjgJULBJtYXpEzDWQRwF5iwxgC');
  assert.equal(first(ALL, "m/44'/5'/0'", 'DASH', 'p2pkh'), 'XdTw4G5AWW4cogGd7ayybyBNDbuB45UpgH');
  assert.equal(first(ALL, "m/44'/3'/0'", 'DOGE', 'p2pkh'), 'DUCd1B3YBiXL5By15yXgSLZtEkvwsgEdqS');
  assert.equal(first(ALL, "m/44'/60'/0'", 'ETH', 'eoa'), '0x73d0385F4d8E00C5e6504C6030F47BF6212736A8');
});

test('addresses of one key differ by type, network and index, also when they are derived again', () => {
  const { chainKey } = parseAccountKey(node(ABANDON, "m/84'/0'/0'").publicExtendedKey, { coin: 'BTC', network: 'mainnet' });
  const derived = () =>
    (['p2wpkh', 'p2tr', 'p2pkh'] as const).flatMap((script) =>
      (['mainnet', 'regtest'] as const).flatMap((network) =>
        [0n, 1n, 11n].map((index) => deriveAddress({ chainKey, script, coin: 'BTC', network, index }).address),
      ),
    );
  const before = derived();
  assert.equal(new Set(before).size, 18);
  assert.deepEqual(derived(), before);
});

test('BIP-49 on testnet from its upub form', () => {
  const upub = 'upub5EFU65HtV5TeiSHmZZm7FUffBGy8UKeqp7vw43jYbvZPpoVsgU93oac7Wk3u6moKegAEWtGNF8DehrnHtv21XXEMYRUocHqguyjknFHYfgY';
  const parsed = parseAccountKey(upub, { coin: 'BTC', network: 'testnet' });
  assert.equal(parsed.script, 'p2sh-p2wpkh');
  assert.equal(
    deriveAddress({ ...parsed, script: 'p2sh-p2wpkh', coin: 'BTC', network: 'testnet', index: 0n }).address,
    '2Mww8dCYPUpKHofjgcXcBCEGmniw9CoaiD2',
  );
});

test('a descriptor gives the same addresses as its account key', () => {
  const account = node(ABANDON, "m/84'/0'/0'").publicExtendedKey;
  const body = `wpkh([73c5da0a/84h/0h/0h]${account}/<0;1>/*)`;
  const parsed = parseAccountKey(`${body}#${descriptorChecksum(body)}`, { coin: 'BTC', network: 'mainnet' });
  assert.equal(parsed.chainKey, parseAccountKey(account, { coin: 'BTC', network: 'mainnet' }).chainKey);
  assert.equal(parsed.script, 'p2wpkh');
  assert.throws(() => parseAccountKey(`${body}#aaaaaaaa`, { coin: 'BTC', network: 'mainnet' }), { code: 'account_key_invalid' });
  // BIP-380's own example.
  assert.equal(descriptorChecksum('raw(deadbeef)'), '89f8spxm');
});

// Invariant: Private keys are refused.
test('private keys are refused in every form and never repeated', () => {
  const account = node(ABANDON, "m/84'/0'/0'");
  for (const secret of [
    account.privateExtendedKey,
    `wpkh(${account.privateExtendedKey}/0/*)`,
    ABANDON,
    'a'.repeat(64),
    `0x${'1'.repeat(64)}`,
    'KwDiBf89QgGbjEhKnhXJuH7LrciVrZi3qYjgd9M7rFU73sVHnoWn',
    '5HueCGU8rMjxEXxiPuD5BDku4MkFqeZyd4dZ1jvhTVqvbTLvyTJ',
  ]) {
    assert.throws(
      () => parseAccountKey(secret, { coin: 'BTC', network: 'mainnet' }),
      (error: Error & { code?: string }) => {
        assert.equal(error.code, 'private_key_refused', secret.slice(0, 8));
        assert.ok(!error.message.includes(secret.slice(0, 12)));
        return true;
      },
    );
  }
});

test('an ETH account key is an xpub on test networks too, as wallets export it, or a tpub', () => {
  const account = node(ALL, "m/44'/60'/0'");
  const addressOf = (text: string, network: Network) =>
    deriveAddress({ ...parseAccountKey(text, { coin: 'ETH', network }), script: 'eoa', coin: 'ETH', network, index: 0n }).address;
  for (const network of ['testnet', 'regtest'] as const) {
    for (const text of [account.publicExtendedKey, base58check.respell(account.publicExtendedKey, 0x043587cf)])
      assert.equal(addressOf(text, network), '0x73d0385F4d8E00C5e6504C6030F47BF6212736A8');
  }
  assert.throws(() => addressOf(base58check.respell(account.publicExtendedKey, 0x043587cf), 'mainnet'), /test network key/);
});

test('keys of another coin, network or depth are refused with the reason', () => {
  const key = (path: string) => node(ABANDON, path).publicExtendedKey;
  const reason = (text: string, coin: Coin, network: Network = 'mainnet') => {
    try {
      parseAccountKey(text, { coin, network });
    } catch (error) {
      return (error as Error).message;
    }
    return 'accepted';
  };
  assert.match(reason(key("m/84'/0'/0'"), 'BTC', 'regtest'), /mainnet key/);
  assert.match(reason(key('m'), 'BTC'), /depth 0/);
  assert.match(reason(key("m/84'/0'/0'/0"), 'BTC'), /depth 4/);
  assert.match(
    reason('zpub6rFR7y4Q2AijBEqTUquhVz398htDFrtymD9xYYfG1m4wAcvPhXNfE3EfH1r1ADqtfSdVCToUG868RvUUkgDKf31mGDtKsAYz2oz2AGutZYs', 'DOGE'),
    /not for DOGE/,
  );
  assert.match(reason('not a key', 'BTC'), /not an extended public key/);
});

test("addresses and private keys from the nodes' own test suites", () => {
  const folder = join(import.meta.dirname, '../../test/fixtures/addresses');
  const vectors = (name: string) => JSON.parse(readFileSync(join(folder, `${name}.json`), 'utf8'));
  const networks: Record<string, Network> = { main: 'mainnet', test: 'testnet', regtest: 'regtest' };
  const checked = { BTC: 0, LTC: 0, DASH: 0, DOGE: 0 };
  const refused = (text: string, coin: Coin, network: Network) => {
    assert.throws(() => decodeAddress(text, { coin, network }), { code: 'address_invalid' });
    assert.throws(() => parseAccountKey(text, { coin, network }), { code: 'private_key_refused' });
  };
  for (const [coin, name] of [
    ['BTC', 'bitcoin'],
    ['LTC', 'litecoin'],
    ['DASH', 'dash'],
  ] as const) {
    for (const [text, hex, { chain, isPrivkey }] of vectors(`${name}-key_io_valid`)) {
      const network = networks[chain];
      if (!network) continue;
      if (isPrivkey) refused(text, coin, network);
      else {
        assert.equal(decodeAddress(text, { coin, network }).key, hex, `${coin} ${chain} ${text}`);
        const again = addressOfScript(hex, { coin, network });
        assert.equal(decodeAddress(again!, { coin, network }).key, hex);
      }
      checked[coin]++;
    }
    for (const [text] of vectors(`${name}-key_io_invalid`)) {
      for (const network of Object.values(networks))
        assert.throws(() => decodeAddress(text, { coin, network }), { code: 'address_invalid' });
      checked[coin]++;
    }
  }
  // Dogecoin Core's older format: only the hash, and whether it is of a key or a script.
  for (const [text, hash, { addrType, isPrivkey, isTestnet }] of vectors('dogecoin-base58_keys_valid')) {
    const where = { coin: 'DOGE', network: isTestnet ? 'testnet' : 'mainnet' } as const;
    if (isPrivkey) refused(text, 'DOGE', where.network);
    else {
      const script = addrType === 'pubkey' ? `76a914${hash}88ac` : `a914${hash}87`;
      assert.equal(decodeAddress(text, where).key, script, text);
      assert.equal(addressOfScript(script, where), text);
    }
    checked.DOGE++;
  }
  assert.deepEqual(checked, { BTC: 122, LTC: 124, DASH: 104, DOGE: 50 });
});

test('LTC: an address in the old format that begins like Bech32 is read correctly', () => {
  // Found with a random account key. It was mistaken for a mistyped address: lookups were refused, and blocks read by page missed payments.
  assert.equal(
    decodeAddress('LTc12fpPkK6eCnmuwSTZ7uxFVjtaQxVHPW', { coin: 'LTC', network: 'mainnet' }).key,
    '76a9145bec777f71ef08c0c03e092a9125e38747bcf81b88ac',
  );
  for (const prefix of ['LTC1', 'LTc1']) {
    for (const letter of '23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz') {
      const hash = base58.decode(prefix + letter.repeat(30)).slice(1, 21);
      const script = `76a914${Buffer.from(hash).toString('hex')}88ac`;
      const address = addressOfScript(script, { coin: 'LTC', network: 'mainnet' })!;
      assert.ok(address.startsWith(prefix), address);
      assert.equal(decodeAddress(address, { coin: 'LTC', network: 'mainnet' }).key, script);
      const typed = `${address.slice(0, -1)}${address.endsWith('z') ? 'y' : 'z'}`;
      assert.throws(() => decodeAddress(typed, { coin: 'LTC', network: 'mainnet' }), /its checksum is wrong/);
    }
  }
});

test('EIP-55', () => {
  for (const address of [
    '0x52908400098527886E0F7030069857D2E4169EE7',
    '0xde709f2102306220921060314715629080e2fb77',
    '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed',
    '0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359',
  ]) {
    assert.equal(
      checksumAddress(address.slice(2)),
      address === '0xde709f2102306220921060314715629080e2fb77' ? checksumAddress(address.slice(2)) : address,
    );
    assert.equal(decodeAddress(address, { coin: 'ETH', network: 'mainnet' }).key, address.slice(2).toLowerCase());
  }
  assert.throws(() => decodeAddress('0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeaEd', { coin: 'ETH', network: 'mainnet' }), /checksum/);
});

test('a wrong coin or network is named', () => {
  const reason = (text: string, coin: Coin) => {
    try {
      decodeAddress(text, { coin, network: 'mainnet' });
      return 'accepted';
    } catch (error) {
      return (error as Error).message;
    }
  };
  assert.match(reason('LUWPbpM43E2p7ZSh8cyTBEkvpHmr3cB8Ez', 'BTC'), /Litecoin address/);
  assert.match(reason('0x52908400098527886E0F7030069857D2E4169EE7', 'BTC'), /Ethereum address/);
  assert.match(reason('tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx', 'BTC'), /testnet network/);
  assert.match(reason('ltcmweb1qqwhatever', 'LTC'), /MWEB balances are private/);
  assert.match(reason('bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyx', 'BTC'), /checksum/);
});

test('payment URIs', () => {
  assert.equal(
    paymentUri({ coin: 'BTC', address: 'bc1qx', units: 102_952n, network: 'mainnet', ethChainId: 1 }),
    'bitcoin:bc1qx?amount=0.00102952',
  );
  assert.equal(
    paymentUri({ coin: 'ETH', address: '0xAb', units: 39_987_210_000_000_000n, network: 'mainnet', ethChainId: 1 }),
    'ethereum:0xAb@1?value=39987210000000000',
  );
});

test('a text that is much too long for an address is refused before it is decoded', () => {
  assertQuick('1,200 long texts', 1_000, () => {
    for (let i = 0; i < 300; i++)
      for (const coin of ['BTC', 'LTC', 'DOGE', 'DASH'] as const)
        assert.throws(() => decodeAddress('z'.repeat(900), { coin, network: 'mainnet' }), /it is not an address/);
  });
});
