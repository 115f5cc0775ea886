/** How pasted texts, files and camera codes are recognized before anything is sent. */
import assert from 'node:assert/strict';
import { pbkdf2Sync } from 'node:crypto';
import { test } from 'node:test';
import { crc32 } from 'node:zlib';
import { UR, UREncoder } from '@ngraveio/bc-ur';
import { HDKey } from '@scure/bip32';
import { readCode, readSeries } from '../../dashboard/lib/account-code.ts';
import { type GivenKey, readGiven } from '../../dashboard/lib/account-key.ts';
import { splitUr } from '../../dashboard/lib/animated-ur.ts';
import { splitBbqr } from '../../dashboard/lib/bbqr.ts';
import { createSeriesReader } from '../../dashboard/lib/code-series.ts';
import { PAIRS } from '../../dashboard/lib/uniform-resource.ts';
import { parseAccountKey } from '../../src/addresses/account-key.ts';
import { base58check } from '../kit/base58.ts';

const account = HDKey.fromMasterSeed(new Uint8Array(32).fill(7)).derive("m/84'/0'/0'");
const xpub = account.publicExtendedKey;
const phrase = 'legal winner thank year wave sausage worth useful legal winner thank yellow';

/** What the camera makes of these codes, one after another: of the first one that says something. */
async function scan(codes: readonly string[]): Promise<GivenKey | null> {
  const reader = createSeriesReader();
  for (const code of codes) {
    const series = await reader.add(code);
    const given = series === null ? readCode(code) : readSeries(series);
    if (given !== null) return given;
  }
  return null;
}

test('keys, descriptors and wallet files are accepted as they are', async () => {
  for (const text of [
    xpub,
    ` ${xpub}\n`,
    `wpkh([73c5da0a/84h/0h/0h]${xpub}/0/*)`,
    JSON.stringify({ ExtPubKey: xpub, MasterFingerprint: '73c5da0a' }),
  ])
    for (const read of [readGiven, readCode]) assert.deepEqual(read(text), { kind: 'key', text: text.trim() });
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
    for (const read of [readGiven, readCode]) assert.deepEqual(read(text), { kind: 'private' }, text);
  assert.deepEqual(await scan(['UR:CRYPTO-SEED/OEADGDSTASLTLAKSLUGHLYLSGW']), { kind: 'private' });
});

// From the tests of BlueWallet (Keystone), of bitcoin-safe (Sparrow), and of Blockchain Commons.
const KEYSTONE =
  'UR:CRYPTO-ACCOUNT/OEADCYADWMTNKIAOLYTAADMWTAADDLOSAOWKAXHDCLAXMDRPFXWKHPTPNEWEVAWKYNFPJEDEMNJKAEGHCFQZLKUOTPLRIHMEFRTECWGRVWWDAAHDCXMHIODYPYLEAXZOGRPKEYPTBGBWGWDWHPZEIMVDBAAOIEVEWLZEGRBKRNFTHFAMMOAHTAADEHOEADADAOAEAMTAADDYOTADLNCSGHYKAEYKAEYKAOCYADWMTNKIAXAXATTAADDYOEADLRAEWKLAWKAXAEAYCYBGHFLOPACMIOWZLB';
const SPARROW =
  'UR:CRYPTO-OUTPUT/TAADMWTAADDLOLAOWKAXHDCLAOVDGSDWLDGMAOIEIDECDPKSPABKRSLUSPWPVAPSFZIEPSMUJLBYETIEFZCFVYDYRTAAHDCXGLBKNBPSPETIJNLYATMUSPNTZCHEFXYTFRFGEHVWDIMEOSINLPHTUTKTWPMERPHGAHTAADEHOEADAEAOADAMTAADDYOTADLNCSGHYKADYKAEYKAOCYKIEHHHTAAXAXAYCYFNLRPAGLLGGSMTFR';
const OUTPUT =
  'ur:output-descriptor/oxadisktjojeisdefzdydtaolytantjlonaxhdclaxoshhtirkpdcmihmuwkleonbzmtcfzovotnwteogolngamwrosfotoykbytlojohpaahdcxrkgumtwpoyflctgdadbbfptdehtloeplzmhfwsiminftutndpagyadkosbcthespamtantjooeadlncsghykadykaoykaocygoadjedlattantjooyadlslraewkadwklawkaycybtwtfhhlaxkscffpjziniaihdijkcxjlkpjyjokpjycxieihjkiajpinjojyjljpaakogwkpjyjokpjycxieihjkiajpinjojyjljpcxjtjljyihonprckkg';
const ACCOUNT =
  'ur:crypto-account/oeadcyemrewytyaolntaadmutaaddloxaxhdclaxwmfmdeiamecsdsemgtvsjzcncygrkowtrontzschgezokstswkkscfmklrtauteyaahdcxiehfonurdppfyntapejpproypegrdawkgmaewejlsfdtsrfybdehcaflmtrlbdhpamtaaddyoyadlncsdwykaeykaeykaycynlytsnyltaadmhtaadmwtaaddloxaxhdclaostvelfemdyynwydwyaievosrgmambklovabdgypdglldvespsthysadamhpmjeinaahdcxntdllnaaeykoytdacygegwhgjsiyonpywmcmrpwphsvodsrerozsbyaxluzcoxdpamtaaddyoyadlncsehykaeykaeykaycypdbskeuytaadmwtaaddloxaxhdclaxzcfxeegdrpmogrgwkbzctlttweadkiengrwlhtprremouoluutqdpfbncedkynfhaahdcxjpwevdeogthttkmeswzcolcpsaahcfnshkhtehytclmnteatmoteadtlwynnftloamtaaddyoyadlncsghykaeykaeykaycybthlvytstaadmhtaaddloxaxhdclaxhhsnhdrpftdwuocntilydibehnecmovdfekpjkclcslasbhkpawsaddmcmmnahnyaahdcxlotedtndfymyltclhlmtpfsadscnhtztaolbnnkistaedegwfmmedreetnwmcycnamtaaddyoyadlfcsdpykaycyemrewytytaadmhtaadmetaaddloxaxhdclaxdwkswmztpytnswtsecnblfbayajkdldeclqzzolrsnhljedsgminetytbnahatbyaahdcxkkguwsvyimjkvwteytwztyswvendtpmncpasfrrylprnhtkblndrgrmkoyjtbkrpamtaaddyoyadlocsdyykaeykaeykadykaycyhkrpnddrtaadmetaaddloxaxhdclaohnhffmvsbndslrfgclpfjejyatbdpebacnzokotofxntaoemvskpaowmryfnotfgaahdcxdlnbvecentssfsssgylnhkrstoytecrdlyadrekirfaybglahltalsrfcaeerobwamtaaddyoyadlocsdyykaeykaeykaoykaycyhkrpnddrgdaogykb';
const MULTISIG =
  'ur:crypto-output/taadmetaadmtoeadadaolftaaddloxaxhdclaxsbsgptsolkltkndsmskiaelfhhmdimcnmnlgutzotecpsfveylgrbdhptbpsveosaahdcxhnganelacwldjnlschnyfxjyplrllfdrplpswdnbuyctlpwyfmmhgsgtwsrymtldamtaaddyoyaxaeattaaddyoyadlnadwkaewklawktaaddloxaxhdclaoztnnhtwtpslgndfnwpzedrlomnclchrdfsayntlplplojznslfjejecpptlgbgwdaahdcxwtmhnyzmpkkbvdpyvwutglbeahmktyuogusnjonththhdwpsfzvdfpdlcndlkensamtaaddyoeadlfaewkaocyrycmrnvwattaaddyoyadlnaewkaewklawkkkztdlon';

test('accounts and descriptors as Uniform Resources give the key with its origin', async () => {
  const keystone = 'zpub6qT7amLcp2exr4mU4AhXZMjD9CFkopECVhUxc9LHW8pNsJG2B9ogs5sFbGZpxEeT5TBjLmc7EFYgZA9EeWEM1xkJMFLefzZc8eigRFhKB8Q';
  const seed = pbkdf2Sync('shield group erode awake lock sausage cash glare wave crew flame glove', 'mnemonic', 2048, 64, 'sha512');
  const account = HDKey.fromMasterSeed(seed).derive("m/84'/0'/0'").publicExtendedKey;
  for (const [code, text] of [
    [KEYSTONE, `wpkh([01ebda7d/84'/0'/0']${base58check.respell(keystone, 0x0488b21e)}/0/*)`],
    [
      SPARROW,
      "wpkh([7d315cd9/84'/1'/0']tpubDCUCSorYswSAurXv7ZcwfkPR8ms2fmxkEW7LFHuLs85wsCngaNAEVFkAvZSabsnz2VH6NvH4uFd4tZ8J3PSaVaxchE8QCd9wxak5Sugnd9p/<0;1>/*)",
    ],
    [
      OUTPUT,
      "wpkh([55016b2f/84'/1'/2']xpub6BkiBzPzLUEo9F5n6N4CSKWzFeXdWaKGhYsVNXH8bqfbeAhdpvNeGhu2mP35cABAwDHNpHD5hmXfZcMSdpTUmAyCYnQggXkk9hwbTP9KRRB/<0;1>/*)",
    ],
    [
      MULTISIG,
      'wsh(multi(1,xpub661MyMwAqRbcFW31YEwpkMuc5THy2PSt5bDMsktWQcFF8syAmRUapSCGu8ED9W6oDMSgv6Zz8idoc4a6mr8BDzTJY47LJhkJ8UB7WEGuduB/1/0/*,[bd16bee5/0]xpub69H7F5d8KSRgmmdJg2KhpAK8SR3DjMwAdkxj3ZuxV27CprR9LgpeyGmXUbC6wb7ERfvrnKZjXoUmmDznezpbZb7ap6r1D3tgFxHmwMkQTPH/0/0/*))',
    ],
    [ACCOUNT, `wpkh([37b5eed4/84'/0'/0']${account}/<0;1>/*)`],
  ] as const) {
    const given = await scan([code]);
    assert.deepEqual(given, { kind: 'key', text });
  }
});

// Invariant: An account key in a series of codes is the one that the wallet shows, and a secret in them is refused.
test('files in a series of codes are read whole, and a secret in them is refused', async () => {
  const setup = `Policy: 2 of 3\nDerivation: m/48'/0'/0'/2'\n\n73C5DA0A: ${xpub}\n`.repeat(9);
  const bytes = new TextEncoder().encode(setup);
  const ur = new UREncoder(UR.fromBuffer(Buffer.from(setup)), 120);
  const urCodes = Array.from({ length: ur.fragmentsLength + 5 }, () => ur.nextPart()).slice(3);
  for (const codes of [splitBbqr({ type: 'U', bytes })!.toReversed(), splitBbqr({ type: 'J', bytes })!, urCodes]) {
    assert.ok(codes.length > 1);
    assert.equal(await scan(codes.slice(1, -5)), null, 'not whole');
    assert.deepEqual(await scan(codes), { kind: 'key', text: setup.trim() });
  }
  const secret = new TextEncoder().encode(JSON.stringify({ xpub, xprv: account.privateExtendedKey }));
  assert.deepEqual(await scan(splitBbqr({ type: 'J', bytes: secret })!), { kind: 'private' });
});

test('a Uniform Resource of one part gives its public key with its path, and a private one is refused', async () => {
  // The examples from BCR-2020-007.
  const body =
    'onaxhdclaojlvoechgferkdpqdiabdrflawshlhdmdcemtfnlrctghchbdolvwsednvdztbgolaahdcxtottgostdkhfdahdlykkecbbweskrymwflvdylgerkloswtbrpfdbsticmwylklpahtaadehoyaoadamtaaddyoyadlecsdwykadykadykaewkadwkaycywlcscewfihbdaehn';
  const text = 'tpubDHW3GtnVrTatx38EcygoSf9UhUd9Dx1rht7FAL8unrMo8r2NWhJuYNqDFS7cZFVbDaxJkV94MLZAr86XFPsAPYcoHWJ7sWYsrmHDw5sKQ2K';
  assert.deepEqual(await scan([`ur:crypto-hdkey/${body}`]), { kind: 'key', text });
  assert.deepEqual(await scan([`UR:CRYPTO-HDKEY/${body.toUpperCase()}`]), { kind: 'key', text });
  const newer = `${body.slice(0, -8).replace('taadehoy', 'tantjsoy').replace('taaddyoy', 'tantjooy')}jnkpvllt`;
  assert.deepEqual(await scan([`ur:hdkey/${newer}`]), { kind: 'key', text });
  assert.equal((await scan([`ur:crypto-hdkey/${body.replace('axhd', 'axhf')}`]))?.kind, 'other', 'a letter wrong is noticed');
  const master =
    'otadykaxhdclaevswfdmjpfswpwkahcywspsmndwmusoskprbbehetchsnpfcybbmwrhchspfxjeecaahdcxltfszmlyrtdlgmhfcnzcctvwcmkbpsftgonbgauefsehgrqzdmvodizmweemtlaybakiylat';
  assert.deepEqual(await scan([`ur:crypto-hdkey/${master}`]), { kind: 'private' });
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
    const given = await scan([`UR:CRYPTO-HDKEY/${letters.toUpperCase()}`]);
    assert.ok(given?.kind === 'key' && given.text.startsWith(prefix), JSON.stringify(given));
    const read = (text: string) => parseAccountKey(text, { coin, network: 'mainnet' }).chainKey;
    assert.equal(read(given.text), read(node.publicExtendedKey));
    if (prefix === 'xpub') assert.equal(given.text, node.publicExtendedKey);
  }
});

test('codes that do not contain a key are named, and never accepted as one', async () => {
  for (const [code, says] of [
    ['ur:crypto-hdkey/onaxhdclaojlvoechgferkdpqd', /doesn’t contain/],
    [MULTISIG.replace('crypto-output', 'crypto-account'), /UR crypto-account/],
    [ACCOUNT.replace('crypto-account', 'crypto-coin-info'), /UR crypto-coin-info/],
    [splitUr(new Uint8Array(500))![0]!, /transaction to sign/],
    ['B$2P0300FMAABBCC', /transaction to sign/],
    ['p1of3 cHNidP8B', /Animated/],
    ['bitcoin:bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu?amount=1', /single address/],
    ['https://wallet.example/x', /doesn’t contain an account key/],
    // Sixteen bytes of a recovery phrase (CompactSeedQR), as a text scanner returns them.
    ['[\u00bd\u009dq\u00a8\u00eciB\u0011\u00f3l\u008b\u00a6\u0001', /doesn’t contain an account key/],
  ] as const) {
    const given = await scan([code]);
    assert.ok(given?.kind === 'other' && says.test(given.why), code);
  }
});
