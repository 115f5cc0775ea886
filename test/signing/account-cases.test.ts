/** Transactions and authorizations of accounts: another library encodes and signs the same bytes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bytesToHex, hexToBytes } from '@noble/hashes/utils.js';
import { addr, Transaction as Elsewhere, signTyped } from 'micro-eth-signer';
import { SignerError } from '../../signer/secret.ts';
import { describeFile, signFile } from '../../signer/sign.ts';
import { accountOf, checksumAddress } from '../../src/chains/ethereum/address.ts';
import { authorizationHash, domainSeparator, selector, word } from '../../src/chains/ethereum/token-calls.ts';
import { readSigned, signedBytes, signerOf, signHash, signingHash, transactionId } from '../../src/chains/ethereum/transaction.ts';
import type { Coin, Network } from '../../src/core/coin.ts';
import { FileError, signingFileText } from '../../src/core/signing-file.ts';
import { accountFile, masterKey, numbersFrom, PHRASE } from '../kit/signing.ts';

const CHAIN_IDS = [1, 10, 137, 8453, 42161, 31337];
const TYPES = {
  TransferWithAuthorization: [
    { name: 'from', type: 'address' },
    { name: 'to', type: 'address' },
    { name: 'value', type: 'uint256' },
    { name: 'validAfter', type: 'uint256' },
    { name: 'validBefore', type: 'uint256' },
    { name: 'nonce', type: 'bytes32' },
  ],
} as const;

export function checkAccountAgreement(files: number): void {
  const number = numbersFrom(11);
  const root = masterKey().derive("m/44'/60'/0'/0");
  const hex = (bytes: number) => Array.from({ length: bytes }, () => number(256).toString(16).padStart(2, '0')).join('');
  for (let i = 0; i < files; i++) {
    const { privateKey, publicKey } = root.deriveChild(i);
    const tx = {
      ...{ chainId: CHAIN_IDS[i % CHAIN_IDS.length]!, nonce: number(300), gas: BigInt(21_000 + number(1_000_000)), to: hex(20) },
      ...{
        units: i % 3 === 0 ? 0n : BigInt(`0x${hex(1 + number(9))}`),
        data: i % 2 === 0 ? '' : hex(number(500)),
        max: BigInt(number(1e9)) * 7n + 1n,
      },
      tip: BigInt(number(1_000)),
    };
    const max = tx.max > tx.tip ? tx.max : tx.tip;
    const mine = { ...tx, max };
    const signature = signHash(signingHash(mine), privateKey!);
    const raw = signedBytes(mine, signature);
    const theirs = Elsewhere.prepare(
      {
        ...{ type: 'eip1559', chainId: BigInt(tx.chainId), nonce: BigInt(tx.nonce), gasLimit: tx.gas, maxFeePerGas: max },
        ...{ maxPriorityFeePerGas: tx.tip, to: addr.addChecksum(`0x${tx.to}`), value: tx.units, data: `0x${tx.data}` },
      },
      false,
    ).signBy(privateKey!, false);
    assert.equal(`0x${bytesToHex(raw)}`, theirs.toHex(), `transaction ${i}`);
    assert.equal(transactionId(raw), theirs.hash);
    assert.equal(signerOf(signingHash(mine), readSigned(raw)!.signature), accountOf(publicKey!));
    const from = checksumAddress(accountOf(publicKey!));
    const domain = {
      name: i % 2 === 0 ? 'USD Coin' : 'PayPal USD',
      version: String(1 + (i % 2)),
      chainId: tx.chainId,
      contract: `0x${hex(20)}`,
    };
    const transfer = {
      from,
      to: checksumAddress(hex(20)),
      units: BigInt(number(1e9)),
      validBefore: 1_800_000_000 + i,
      nonce: `0x${hex(32)}`,
    };
    const typed = signTyped(
      {
        types: TYPES,
        primaryType: 'TransferWithAuthorization',
        domain: {
          name: domain.name,
          version: domain.version,
          chainId: BigInt(domain.chainId),
          verifyingContract: checksumAddress(domain.contract.slice(2)),
        },
        message: {
          from,
          to: transfer.to,
          value: transfer.units,
          validAfter: 0n,
          validBefore: BigInt(transfer.validBefore),
          nonce: hexToBytes(transfer.nonce.slice(2)),
        },
      },
      privateKey!,
      false,
    );
    const own = signHash(authorizationHash(transfer, domain), privateKey!);
    const text = [own.r, own.s].map((value) => value.toString(16).padStart(64, '0')).join('') + (27 + own.parity).toString(16);
    assert.equal(`0x${text}`, typed, `authorization ${i}`);
  }
}

test('another library signs the same transactions and authorizations, for 50 random ones', () => checkAccountAgreement(50));

test('selectors and the domain of USDC are those on mainnet', () => {
  assert.equal(selector('transfer(address,uint256)'), 'a9059cbb');
  assert.equal(selector('transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)'), 'e3ee160e');
  assert.equal(selector('aggregate3((address,bool,bytes)[])'), '82ad56cb');
  const usdc = { name: 'USD Coin', version: '2', chainId: 1, contract: '0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48' };
  assert.equal(domainSeparator(usdc), '06c37168a7db5138defc7866392bb87a741f9b3d104deb5094588ce041cae335');
});

test('bytes that are not a transaction are none, and a changed one has another signer', () => {
  const { privateKey, publicKey } = masterKey().deriveChild(1);
  const tx = { chainId: 1, nonce: 0, tip: 1n, max: 2n, gas: 21_000n, to: '11'.repeat(20), units: 5n, data: '' };
  const raw = signedBytes(tx, signHash(signingHash(tx), privateKey!));
  for (const bytes of [
    new Uint8Array(),
    Uint8Array.of(2),
    raw.slice(0, -1),
    Uint8Array.of(...raw, 0),
    hexToBytes('01c0'),
    hexToBytes('02c0'),
  ])
    assert.equal(readSigned(bytes), null);
  const { signature } = readSigned(raw)!;
  assert.notEqual(signerOf(signingHash({ ...tx, units: 6n }), signature), accountOf(publicKey!));
  const N = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
  assert.equal(signerOf(signingHash(tx), { ...signature, s: N - signature.s, parity: signature.parity === 0 ? 1 : 0 }), null);
});

test('the signer pays only the whole address that was entered', () => {
  const { file, destination } = accountFile('ETH', 'mainnet');
  const content = signingFileText(file);
  const lower = destination.toLowerCase();
  const sign = (entered: string, text = content) => signFile({ content: text, secret: PHRASE, destination: entered }).text;
  const expected = sign(destination);
  assert.equal(sign(` ${lower}\n`), expected);
  const wrongCase = destination.replace(/[a-f]/, (char) => char.toUpperCase());
  assert.notEqual(wrongCase, destination);
  const alike = lower.slice(0, 8) + [...lower.slice(8, -8)].reverse().join('') + lower.slice(-8);
  const entered: [what: string, entered: string, reason: RegExp][] = [
    ['a look-alike', alike, /not the address that you entered/],
    ['the last six characters', destination.slice(-6), /not a complete address/],
    ['nothing', '', /not a complete address/],
    ['a wrong checksum', wrongCase, /typing error/],
    ['one character more', `${destination}0`, /not a complete address/],
  ];
  for (const [what, given, reason] of entered)
    assert.throws(
      () => sign(given),
      (error: unknown) => error instanceof SignerError && reason.test(error.message),
      what,
    );
  for (const to of [`${destination}0`, destination.slice(0, -1), destination.slice(2), `0X${destination.slice(2)}`, `0x${'0'.repeat(64)}`])
    assert.throws(() => sign(destination, content.replaceAll(destination, to)), FileError, to);
});

test('a word of a call is an address, 32 bytes or a number of 256 bits', () => {
  assert.equal(word(`0x${'Ab'.repeat(20)}`), '0'.repeat(24) + 'ab'.repeat(20));
  assert.equal(word((1n << 256n) - 1n), 'f'.repeat(64));
  for (const value of ['', '0x', 'ab'.repeat(19), 'ab'.repeat(21), 'ab'.repeat(33), 'zz'.repeat(20), -1n, 1n << 256n])
    assert.throws(() => word(value), /must never happen/, String(value));
});

test('a file that may move real money is never shown as a test', () => {
  const rows: [coin: Coin, network: Network, chainId: number, isReal: boolean | 'refused'][] = [
    ['ETH', 'mainnet', 1, true],
    ['ETH', 'mainnet', 11_155_111, 'refused'],
    ['ETH', 'testnet', 11_155_111, false],
    ['ETH', 'regtest', 31_337, false],
    ...[1, 10, 137, 8_453, 42_161].flatMap((id) => [
      ['ETH', 'testnet', id, 'refused'] as [Coin, Network, number, 'refused'],
      ['ETH', 'regtest', id, 'refused'] as [Coin, Network, number, 'refused'],
    ]),
    ['ETH', 'regtest', 11_155_111, 'refused'],
    // A chain that is not in the table may be any.
    ['ETH', 'testnet', 56, true],
    ['ETH', 'regtest', 424_242, true],
    ['USDC@base', 'testnet', 84_532, false],
    ['USDC@base', 'testnet', 8_453, 'refused'],
    ['USDC@base', 'regtest', 10, 'refused'],
    // Private copies of these chains have the number of the original.
    ['USDC@base', 'regtest', 8_453, true],
    ['USDC@arbitrum', 'regtest', 42_161, true],
    ['USDC@optimism', 'regtest', 10, true],
    ['USDC@polygon', 'regtest', 137, true],
  ];
  for (const [coin, network, chainId, expected] of rows) {
    const { file, destination } = accountFile(coin, network);
    const changed = { ...file, chainId };
    const sign = () => signFile({ content: signingFileText(changed), secret: PHRASE, destination });
    const what = `${coin} ${network} ${chainId}`;
    if (expected === 'refused') {
      for (const run of [sign, () => describeFile(changed)]) assert.throws(run, /another network than it says/, what);
    } else assert.equal(sign().review.isReal, expected, what);
  }
});
