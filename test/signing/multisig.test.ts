/** Files that several people sign: with the signer page one after the other or each a copy, and what may change between them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Transaction } from '@scure/btc-signer';
import { signFile } from '../../signer/sign.ts';
import { type PsbtRequest, readSignedFile, type SigningFile, signingFileText } from '../../src/core/signing-file.ts';
import { readUpload } from '../../src/signing/signed.ts';
import { inputSizeOf } from '../../src/signing/utxo.ts';
import { sizeOfRaw } from '../../src/signing/utxo-check.ts';
import { isLongRun } from '../kit/long.ts';
import { multisigFile, type Policy, signer } from '../kit/multisig.ts';

const POLICIES: readonly Policy[] = [
  { required: 2, of: 3 },
  { required: 2, of: 3, wraps: (multi) => `sh(wsh(${multi}))` },
  { required: 2, of: 3, isSorted: false },
  { required: 3, of: 5, network: 'mainnet' },
  { required: 1, of: 2 },
  { required: 2, of: 20 },
  ...(isLongRun ? [{ required: 17, of: 18, isSorted: false }] : []),
];
/** Inputs. */
const COUNT = 2;
const nameOf = ({ required, of, wraps, isSorted = true }: Policy): string =>
  `${required} of ${of}${isSorted ? '' : ' in the given order'}${wraps ? ', nested' : ''}`;
const sign = (file: SigningFile, destination: string, seed: number): string =>
  signFile({ content: signingFileText(file), secret: signer(seed).privateExtendedKey, destination }).text;
const read = (content: string) => readUpload(content, readSignedFile);
const refused = (reason: RegExp) => (error: any) => error.code === 'signed_file_refused' && reason.test(error.message);

for (const policy of POLICIES)
  test(`a sweep of a wallet with ${nameOf(policy)} is signed in turn, and the size that its fee pays for is the real one`, () => {
    const { file, destination } = multisigFile(policy, COUNT);
    let at = file;
    for (let seed = 1; seed < policy.required; seed++) {
      const upload = read(sign(at, destination, seed));
      const partly = upload.sign(at)!;
      assert.equal(partly.signers.length, seed);
      assert.throws(() => upload.check(at), refused(/without all signatures/));
      assert.deepEqual({ ...partly.file, requests: [] }, { ...file, requests: [] });
      at = partly.file;
      assert.throws(() => sign(at, destination, seed), /already signed/);
    }
    const upload = read(sign(at, destination, policy.of));
    assert.equal(upload.sign(at), null);
    const [checked] = upload.check(at);
    const size = BigInt(sizeOfRaw(checked!.raw));
    const estimated = 14n + BigInt(COUNT) * inputSizeOf(file.account) + 9n + 22n;
    assert.ok(size <= estimated && estimated - size <= 12n + BigInt(COUNT * policy.required), `${size} of ${estimated}`);
    // The whole transaction is taken too, and nothing that differs from it in a signature.
    const hex = Buffer.from(checked!.raw).toString('hex');
    assert.equal(read(hex).check(file)[0]!.txid, checked!.txid);
  });

test('copies that two of three sign at the same time are put together, in any order, and a third signature changes nothing', () => {
  const { file, destination } = multisigFile({ required: 2, of: 3 }, 2);
  const copies = [1, 2, 3].map((seed) => sign(file, destination, seed));
  const ids = new Set<string>();
  for (const [first, second] of [
    [0, 1],
    [1, 0],
    [2, 0],
    [1, 2],
  ] as const) {
    const partly = read(copies[first]!).sign(file)!;
    assert.deepEqual(read(copies[first]!).sign(partly.file)!.signers, partly.signers, 'the same again');
    ids.add(read(copies[second]!).check(partly.file)[0]!.txid);
  }
  assert.equal(ids.size, 1);
});

test('a key of another wallet signs nothing', () => {
  const { file, destination } = multisigFile({ required: 2, of: 3 }, 1);
  assert.throws(() => sign(file, destination, 9), /belongs to another wallet/);
});

test('changed bytes of a PSBT between two signers are refused, each in long runs', { timeout: 300_000 }, () => {
  const { file, destination } = multisigFile({ required: 2, of: 3 }, 1);
  const partly = read(sign(file, destination, 1)).sign(file)!.file;
  const { psbt } = partly.requests[0] as PsbtRequest;
  const bytes = Buffer.from(psbt, 'base64');
  assert.equal(read(psbt).sign(file)!.signers.length, 1, 'unchanged it is taken');
  for (let at = 0; at < bytes.length; at += isLongRun ? 1 : 17)
    for (const change of [1 << (at % 8), 0xff]) {
      const changed = Buffer.from(bytes);
      changed[at]! ^= change;
      assert.throws(() => read(changed.toString('base64')).sign(file), { code: 'signed_file_refused' }, `byte ${at}, ${change}`);
    }
});

test('a change that is not a signature is refused: another amount, a field more, a signature of another key or by another hash type', () => {
  const { file, destination } = multisigFile({ required: 2, of: 3 }, 2);
  const { psbt } = read(sign(file, destination, 1)).sign(file)!.file.requests[0] as PsbtRequest;
  const options = { allowUnknownInputs: true, allowUnknownOutputs: true } as const;
  const edited = (edit: (tx: Transaction) => void): string => {
    const tx = Transaction.fromPSBT(Buffer.from(psbt, 'base64'), options);
    edit(tx);
    return Buffer.from(tx.toPSBT(0)).toString('base64');
  };
  const [[key, signature]] = Transaction.fromPSBT(Buffer.from(psbt, 'base64'), options).getInput(0).partialSig as [
    [Uint8Array, Uint8Array],
  ];
  const set = (tx: Transaction, value: object) => tx.updateInput(0, value, true);
  const spoil = (tx: Transaction, partialSig: unknown = undefined) => {
    set(tx, { partialSig: undefined });
    if (partialSig) set(tx, { partialSig });
  };
  const rows: [what: string, edit: (tx: Transaction) => void, reason: RegExp][] = [
    ['another amount', (tx) => tx.updateOutput(0, { amount: 1n }, true), /another amount/],
    ['a field that spends otherwise', (tx) => set(tx, { ripemd160: [[new Uint8Array(20), new Uint8Array([1])]] }), /not a signature/],
    ['another sighash', (tx) => set(tx, { sighashType: 0x81 }), /not a signature/],
    ['a signature for a part', (tx) => spoil(tx, [[key, Uint8Array.from([...signature.slice(0, -1), 0x83])]]), /covers only a part/],
    ['no signature on one input', (tx) => spoil(tx), /without all signatures/],
  ];
  for (const [what, edit, reason] of rows) assert.throws(() => read(edited(edit)).sign(file), refused(reason), what);
  assert.throws(() => read((file.requests[0] as PsbtRequest).psbt).sign(file), refused(/without all signatures/));
});
