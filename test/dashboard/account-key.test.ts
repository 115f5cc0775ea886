/** How pasted texts, files and camera codes are recognized before anything is sent. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { crc32 } from 'node:zlib';
import { HDKey } from '@scure/bip32';
import { readCode, readGiven } from '../../dashboard/lib/account-key.ts';
import { PAIRS } from '../../dashboard/lib/uniform-resource.ts';
import { parseAccountKey } from '../../src/chains/account-key.ts';

const account = HDKey.fromMasterSeed(new Uint8Array(32).fill(7)).derive("m/84'/0'/0'");
const xpub = account.publicExtendedKey;
const phrase = 'legal winner thank year wave sausage worth useful legal winner thank yellow';

test('keys, descriptors and wallet files are accepted as they are', async () => {
  for (const text of [
    xpub,
    ` ${xpub}\n`,
    `wpkh([73c5da0a/84h/0h/0h]${xpub}/0/*)`,
    JSON.stringify({ ExtPubKey: xpub, MasterFingerprint: '73c5da0a' }),
  ])
    for (const read of [readGiven, readCode]) assert.deepEqual(await read(text), { kind: 'key', text: text.trim() });
  const used = JSON.stringify({ keystore: { xpub }, history: [['ab'.repeat(32), 800_000]] });
  assert.equal(readGiven(used).kind, 'key', 'the file of a wallet that received something');
  assert.equal(readGiven('not finished ye').kind, 'key', 'what is typed stays until it is sent');
});

test('anything that can spend is refused, wherever it appears', async () => {
  for (const text of [
    account.privateExtendedKey,
    phrase,
    '5HueCGU8rMjxEXxiPuD5BDku4MkFqeZyd4dZ1jvhTVqvbTLvyTJ',
    // The example from BIP-38.
    '6PRVWUbkzzsbcVac2qwfssoUJAN1Xhrg6bNk8J7Nzm5H7kxEbn2Nh2ZoGg',
    // SeedQR test vector 1 as text.
    '011513251154012711900771041507421289190620080870026613431420201617920614089619290300152408010643',
    JSON.stringify({ keystore: { xpub, seed: phrase } }),
    JSON.stringify({ keystore: { xpub, xprv: account.privateExtendedKey } }),
  ])
    for (const read of [readGiven, readCode]) assert.deepEqual(await read(text), { kind: 'private' }, text);
  assert.deepEqual(await readCode('UR:CRYPTO-SEED/OEADGDSTASLTLAKSLUGHLYLSGW'), { kind: 'private' });
});

test('a Uniform Resource of one part gives its public key with its path, and a private one is refused', async () => {
  // The examples from BCR-2020-007.
  const body =
    'onaxhdclaojlvoechgferkdpqdiabdrflawshlhdmdcemtfnlrctghchbdolvwsednvdztbgolaahdcxtottgostdkhfdahdlykkecbbweskrymwflvdylgerkloswtbrpfdbsticmwylklpahtaadehoyaoadamtaaddyoyadlecsdwykadykadykaewkadwkaycywlcscewfihbdaehn';
  const text = 'tpubDHW3GtnVrTatx38EcygoSf9UhUd9Dx1rht7FAL8unrMo8r2NWhJuYNqDFS7cZFVbDaxJkV94MLZAr86XFPsAPYcoHWJ7sWYsrmHDw5sKQ2K';
  assert.deepEqual(await readCode(`ur:crypto-hdkey/${body}`), { kind: 'key', text });
  assert.deepEqual(await readCode(`UR:CRYPTO-HDKEY/${body.toUpperCase()}`), { kind: 'key', text });
  const newer = `${body.slice(0, -8).replace('taadehoy', 'tantjsoy').replace('taaddyoy', 'tantjooy')}jnkpvllt`;
  assert.deepEqual(await readCode(`ur:hdkey/${newer}`), { kind: 'key', text });
  assert.equal((await readCode(`ur:crypto-hdkey/${body.replace('axhd', 'axhf')}`)).kind, 'other', 'a letter wrong is noticed');
  const master =
    'otadykaxhdclaevswfdmjpfswpwkahcywspsmndwmusoskprbbehetchsnpfcybbmwrhchspfxjeecaahdcxltfszmlyrtdlgmhfcnzcctvwcmkbpsftgonbgauefsehgrqzdmvodizmweemtlaybakiylat';
  assert.deepEqual(await readCode(`ur:crypto-hdkey/${master}`), { kind: 'private' });
});

test('the browser reads the same accounts from Uniform Resources as the service', async () => {
  const seed = HDKey.fromMasterSeed(new Uint8Array(32).fill(5));
  for (const [purpose, coinType, coin, prefix] of [
    [84, 0, 'BTC', 'zpub'],
    [49, 2, 'LTC', 'ypub'],
    [86, 0, 'BTC', 'xpub'],
    [44, 60, 'ETH', 'xpub'],
    [44, 3, 'DOGE', 'xpub'],
  ] as const) {
    const node = seed.derive(`m/${purpose}'/${coinType}'/0'`);
    const number = (value: number) => (value < 24 ? [value] : [0x18, value]);
    const cbor = Buffer.from([
      ...[0xa4, 0x03, 0x58, 33, ...node.publicKey!, 0x04, 0x58, 32, ...node.chainCode!],
      ...[0x06, 0xd9, 0x01, 0x30, 0xa1, 0x01, 0x86, ...number(purpose), 0xf5, ...number(coinType), 0xf5, 0, 0xf5],
      ...[0x08, 0x1a, ...new Uint8Array(new Uint32Array([node.parentFingerprint]).buffer).reverse()],
    ]);
    const sum = Buffer.alloc(4);
    sum.writeUInt32BE(crc32(cbor));
    const letters = [...cbor, ...sum].map((byte) => PAIRS.slice(byte * 2, byte * 2 + 2)).join('');
    const given = await readCode(`UR:CRYPTO-HDKEY/${letters.toUpperCase()}`);
    assert.ok(given.kind === 'key' && given.text.startsWith(prefix), JSON.stringify(given));
    const read = (text: string) => parseAccountKey(text, { coin, network: 'mainnet' }).chainKey;
    assert.equal(read(given.text), read(node.publicExtendedKey));
    if (prefix === 'xpub') assert.equal(given.text, node.publicExtendedKey);
  }
});

test('codes that do not contain a key are named, and never accepted as one', async () => {
  for (const [code, says] of [
    ['ur:crypto-hdkey/onaxhdclaojlvoechgferkdpqd', /UR crypto-hdkey/],
    ['UR:CRYPTO-ACCOUNT/1-3/LPADAXCFAXIACYVWHDFHNDHKADCLHDCX', /UR crypto-account/],
    ['ur:crypto-psbt/1-2/lpadaxcf', /transaction to sign/],
    ['B$2J0300FMAABBCC', /BBQr/],
    ['p1of3 cHNidP8B', /Animated/],
    ['bitcoin:bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu?amount=1', /single address/],
    ['https://wallet.example/x', /doesn’t contain an account key/],
    // Sixteen bytes of a recovery phrase (CompactSeedQR), as a text scanner returns them.
    ['[\u00bd\u009dq\u00a8\u00eciB\u0011\u00f3l\u008b\u00a6\u0001', /doesn’t contain an account key/],
  ] as const) {
    const given = await readCode(code);
    assert.ok(given.kind === 'other' && says.test(given.why), code);
  }
});
