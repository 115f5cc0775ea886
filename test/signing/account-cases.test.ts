/** Files of accounts: another library encodes and signs the same bytes; what the signer refuses. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bytesToHex, hexToBytes } from '@noble/hashes/utils.js';
import { encodeFunctionData, type Hex, keccak256, parseAbi, parseSignature } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import { SignerError } from '../../signer/secret.ts';
import { describeFile, HIGH_FEE, signFile } from '../../signer/sign.ts';
import { accountOf } from '../../src/addresses/evm-address.ts';
import type { Coin, Network } from '../../src/core/coin.ts';
import {
  type AccountPath,
  type AccountRequest,
  type BatchRequest,
  FileError,
  linesOf,
  readSignedFile,
  type SigningFile,
  signingFileText,
} from '../../src/core/signing-file.ts';
import {
  domainSeparator,
  MULTICALL3,
  readSignedTransaction,
  selector,
  signedBytes,
  signerOf,
  signHash,
  signingHash,
  transactionId,
  word,
} from '../../src/evm/transaction.ts';
import { accountFile, masterKey, numbersFrom, PHRASE, ROOT, randomAccountFile, recordsOf } from '../kit/signing.ts';

const ABI = parseAbi([
  'function transfer(address to, uint256 value)',
  'function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s)',
  'function aggregate3((address target, bool allowFailure, bytes callData)[] calls)',
]);
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
const ACCOUNT = masterKey().derive("m/44'/60'/0'");
const keyAt = ({ chain, index }: AccountPath): Hex => `0x${bytesToHex(ACCOUNT.deriveChild(chain).deriveChild(index).privateKey!)}`;

/** The calls of a batch, encoded and signed by another library. */
async function batchElsewhere(request: BatchRequest, chainId: number): Promise<Hex> {
  const verifyingContract = request.contract as Hex;
  const calls = request.authorizations.map(async ({ from, path, nonce, line }) => {
    const message = {
      ...{ from: from as Hex, to: line.to as Hex, value: line.units, validAfter: 0n },
      ...{ validBefore: BigInt(request.validBefore), nonce: nonce as Hex },
    };
    const domain = { ...request.domain, chainId, verifyingContract };
    const signature = await privateKeyToAccount(keyAt(path)).signTypedData({
      ...{ domain, types: TYPES, primaryType: 'TransferWithAuthorization', message },
    });
    const { r, s, v } = parseSignature(signature);
    const args = [message.from, message.to, message.value, 0n, message.validBefore, message.nonce, Number(v), r, s] as const;
    const callData = encodeFunctionData({ abi: ABI, functionName: 'transferWithAuthorization', args });
    // A payout that fails undoes the whole transaction. Nothing else does.
    return { target: verifyingContract, allowFailure: line.purpose !== 'payout', callData };
  });
  return encodeFunctionData({ abi: ABI, functionName: 'aggregate3', args: [await Promise.all(calls)] });
}

/** The transaction that a request asks for, encoded and signed by another library. */
async function signElsewhere(request: AccountRequest, { chainId, gasPrice }: SigningFile): Promise<Hex> {
  const own = {
    ...({ type: 'eip1559', chainId: chainId!, nonce: request.nonce, gas: request.gas } as const),
    ...{ maxFeePerGas: gasPrice!.max, maxPriorityFeePerGas: gasPrice!.tip },
  };
  const { signTransaction } = privateKeyToAccount(keyAt(request.path));
  switch (request.kind) {
    case 'native':
      return signTransaction({ ...own, to: request.line.to as Hex, value: request.line.units });
    case 'fund':
      return signTransaction({ ...own, to: request.to as Hex, value: request.units });
    case 'token': {
      const data = encodeFunctionData({ abi: ABI, functionName: 'transfer', args: [request.line.to as Hex, request.line.units] });
      return signTransaction({ ...own, to: request.contract as Hex, data });
    }
    case 'batch':
      return signTransaction({ ...own, to: MULTICALL3, data: await batchElsewhere(request, chainId!) });
  }
}

/** Random files of all kinds, on all networks: sweeps, refunds and payouts of native coin, by authorization, and with gas paid before. */
export async function checkAccountAgreement(files: number): Promise<void> {
  const number = numbersFrom(11);
  const secret = masterKey().privateExtendedKey;
  let gathered = 0;
  for (let i = 0; i < files; i++) {
    const file = randomAccountFile(number, i);
    const [destination, recipients] = [true, false].map((isOwn) => linesOf(file).filter(({ purpose }) => (purpose === 'sweep') === isOwn));
    const { text, review } = signFile({
      ...{ content: signingFileText(file), secret, nowSeconds: 1_900_000_000 },
      ...{ destination: destination![0]?.to ?? '', recipients: recordsOf(file.coin, recipients!), fee: HIGH_FEE },
    });
    if (review.together > 0) gathered++;
    const { transactions } = readSignedFile(text);
    const theirs = await Promise.all((file.requests as AccountRequest[]).map((request) => signElsewhere(request, file)));
    assert.deepEqual(
      transactions.map((raw) => `0x${raw}`),
      theirs,
      `file ${i}: ${file.coin}`,
    );
    for (const raw of theirs) assert.equal(transactionId(hexToBytes(raw.slice(2))), keccak256(raw));
  }
  assert.ok(gathered > 0, 'in some of them, addresses pay together');
}

test('another library encodes and signs the same transactions and authorizations, for 20 random files', () => checkAccountAgreement(20));

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
    assert.equal(readSignedTransaction(bytes), null);
  const { signature } = readSignedTransaction(raw)!;
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
    ['nothing', '', /Enter your own address/],
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
    const sign = () => signFile({ content: signingFileText(changed), secret: ROOT, destination });
    const what = `${coin} ${network} ${chainId}`;
    if (expected === 'refused') {
      for (const run of [sign, () => describeFile(changed)]) assert.throws(run, /another network than it says/, what);
    } else assert.equal(sign().review.isReal, expected, what);
  }
});
