import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Problem } from '../core/problem.ts';
import { readSignedFile, type SigningFile } from '../core/signing-file.ts';
import { readUpload } from './signed.ts';

const refusedWith = (reason: RegExp) => (error: unknown) =>
  error instanceof Problem && error.code === 'signed_file_refused' && reason.test(error.message);
const read = (content: string) => readUpload(content, readSignedFile);
/** One input without a signature, and one output. */
const transaction = `0200000001${'ab'.repeat(32)}0000000000ffffffff01e803000000000000016a00000000`;
const file: SigningFile = {
  id: `swp_${'a'.repeat(24)}`,
  round: 0,
  coin: 'BTC',
  network: 'mainnet',
  chainId: null,
  account: { chainKey: '02'.repeat(65), script: 'p2wpkh', origins: [null] },
  totalUnits: 1_000n,
  feeUnits: 100n,
  gasPrice: null,
  requests: [{ kind: 'psbt', psbt: 'cHNidP8=', inputs: 1, feeUnits: 100n, lines: [] }],
};

test('an upload of blanks is refused at once, however many they are', { timeout: 60_000 }, () => {
  for (const blank of [' ', '\n', '\t \r\n'])
    assert.throws(() => read(`Z${blank.repeat(1_000_000)}Z`), refusedWith(/neither a signed file/));
});

test('an upload with more transactions than any file asks for is refused before one of them is read', () => {
  assert.throws(() => read(Array(21).fill('00').join('\n')), refusedWith(/more than 20 transactions/));
  assert.throws(() => read(Array(20).fill('00').join('\n')), refusedWith(/cannot be read/));
});

test('an upload of millions of short lines is refused before they are looked at', () => {
  assert.throws(() => read('a '.repeat(1_900_000)), refusedWith(/more than 196608 lines/));
});

test('an upload with more transactions, or much more text, than its file asked for is refused before they are read', () => {
  const { input, check } = read(`${transaction}\n00`);
  assert.equal(input, `${'ab'.repeat(32)}:0`);
  assert.throws(() => check(file), refusedWith(/different number of transactions/));
  assert.throws(() => read(`${transaction}\n${'00'.repeat(100_000)}`).check(file), refusedWith(/much larger than what was asked for/));
});

test('a seed phrase in an upload is found before anything else, and after its size was accepted in a large one', () => {
  const phrase = `${'abandon '.repeat(11)}about`;
  const isPrivate = (error: unknown) => error instanceof Problem && error.code === 'signed_file_private';
  assert.throws(() => read(phrase), isPrivate);
  const large = JSON.stringify({
    format: 'florin-signed-file',
    version: 1,
    id: file.id,
    round: 0,
    transactions: ['00'.repeat(60_000)],
    phrase,
  });
  const asked = { ...file, requests: Array(2).fill({ ...file.requests[0]!, psbt: 'A'.repeat(100_000) }) };
  assert.throws(() => read(large).check(asked), isPrivate);
});
