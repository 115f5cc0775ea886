/** PSBTs that come back from wallets: whole or only with signatures, of both versions, finished or not. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bytesToHex, hexToBytes } from '@noble/hashes/utils.js';
import { Transaction } from '@scure/btc-signer';
import type { BitcoinScript } from '../../src/addresses/params.ts';
import type { BitcoinFamily } from '../../src/core/coin.ts';
import { type PsbtRequest, readSignedFile } from '../../src/core/signing-file.ts';
import { readUpload } from '../../src/signing/signed.ts';
import { addressesOf, type MadeFile, sweepFile } from '../kit/signing.ts';

const KINDS: readonly [BitcoinFamily, BitcoinScript][] = [
  ['BTC', 'p2wpkh'],
  ['BTC', 'p2tr'],
  ['BTC', 'p2sh-p2wpkh'],
  ['DOGE', 'p2pkh'],
];
const OPTIONS = { allowUnknownInputs: true, allowUnknownOutputs: true } as const;
type Version = 0 | 2;

/** The PSBT that was asked for, signed by a wallet that first changes it. */
function signedBy(coin: BitcoinFamily, script: BitcoinScript, made: MadeFile, edit: (tx: Transaction) => void = () => {}): Transaction {
  const tx = Transaction.fromPSBT(Buffer.from((made.file.requests[0] as PsbtRequest).psbt, 'base64'), OPTIONS);
  edit(tx);
  for (const [i, { index }] of made.outputs.entries()) tx.signIdx(addressesOf(coin, script).deriveChild(Number(index)).privateKey!, i);
  return tx;
}
/** Only the unsigned transaction and the signatures, as SeedSigner returns it. */
function trimmed(tx: Transaction): Transaction {
  const bare = new Transaction({ ...OPTIONS, version: tx.version, lockTime: tx.lockTime });
  for (let i = 0; i < tx.inputsLength; i++) {
    const { txid, index, sequence, partialSig, tapKeySig, finalScriptSig, finalScriptWitness } = tx.getInput(i);
    const parts = { txid, index, sequence, partialSig, tapKeySig, finalScriptSig, finalScriptWitness };
    bare.addInput(Object.fromEntries(Object.entries(parts).filter(([, part]) => part !== undefined)), true);
  }
  for (let i = 0; i < tx.outputsLength; i++) bare.addOutput(tx.getOutput(i), true);
  return bare;
}
const textOf = (tx: Transaction, version: Version): string => Buffer.from(tx.toPSBT(version)).toString('base64');
const check = ({ file }: MadeFile, content: string) => readUpload(content, readSignedFile).check(file);

for (const [coin, script] of KINDS)
  test(`a PSBT in ${coin} ${script} is accepted in versions 0 and 2, whole or only with its signatures, finished or not`, () => {
    const made = sweepFile(coin, script, 3);
    const signed = signedBy(coin, script, made);
    const finished = signedBy(coin, script, made);
    finished.finalize();
    // Each signature of Taproot is another one.
    const expected = script === 'p2tr' ? null : bytesToHex(finished.extract());
    const [first] = made.outputs;
    for (const version of [0, 2] as const)
      for (const [what, tx] of Object.entries({ whole: signed, trimmed: trimmed(signed), finished, bare: trimmed(finished) })) {
        const content = textOf(tx, version);
        assert.equal(readUpload(content, readSignedFile).input, `${first!.txid}:${first!.n}`, `${what} ${version}`);
        const [checked] = check(made, content);
        assert.equal(checked!.txid, finished.id, `${what} ${version}`);
        if (expected !== null) assert.equal(bytesToHex(checked!.raw), expected, `${what} ${version}`);
      }
  });

test('a PSBT that is not exactly what was asked is refused, whatever its form', () => {
  const made = sweepFile('BTC', 'p2wpkh', 2);
  const other = hexToBytes(`0014${'cd'.repeat(20)}`);
  const of = (edit: (tx: Transaction) => void) => signedBy('BTC', 'p2wpkh', made, edit);
  const half = Transaction.fromPSBT(Buffer.from((made.file.requests[0] as PsbtRequest).psbt, 'base64'), OPTIONS);
  half.signIdx(addressesOf('BTC', 'p2wpkh').deriveChild(Number(made.outputs[0]!.index)).privateKey!, 0);
  const swapped = trimmed(of(() => {}));
  const [[key]] = swapped.getInput(0).partialSig as [[Uint8Array, Uint8Array]];
  const [[, signature]] = swapped.getInput(1).partialSig as [[Uint8Array, Uint8Array]];
  swapped.updateInput(0, { partialSig: undefined as never }, true);
  swapped.updateInput(0, { partialSig: [[key, signature]] }, true);
  const rows: [what: string, tx: Transaction, reason: RegExp][] = [
    ['another address', of((tx) => tx.updateOutput(0, { script: other })), /pays to another address/],
    ['another amount', of((tx) => tx.updateOutput(0, { amount: 1_000n })), /pays another amount/],
    ['one more output', of((tx) => tx.addOutput({ script: other, amount: 600n })), /number of outputs/],
    ['another sequence', of((tx) => tx.updateInput(0, { sequence: 0xffffffff })), /changes the sequence/],
    ['one signature of two', half, /without all signatures/],
    ['the signature of another input', swapped, /not valid|without all signatures/],
  ];
  for (const [what, tx, reason] of rows)
    for (const version of [0, 2] as const)
      for (const form of [tx, trimmed(tx)])
        assert.throws(
          () => check(made, textOf(form, version)),
          (error: any) => error.code === 'signed_file_refused' && reason.test(error.message),
          `${what} ${version}`,
        );
});

test('one transaction of a file of several is refused with the advice to upload all of them', () => {
  const made = sweepFile('BTC', 'p2wpkh', 2);
  const [request] = made.file.requests;
  const several = { ...made, file: { ...made.file, requests: [request!, ...sweepFile('BTC', 'p2wpkh', 1, 2).file.requests] } };
  const tx = signedBy('BTC', 'p2wpkh', made);
  const psbt = textOf(tx, 0);
  tx.finalize();
  for (const content of [psbt, bytesToHex(tx.extract())])
    assert.throws(() => check(several, content), {
      code: 'signed_file_refused',
      message: /1 of 2 transactions; upload all signed PSBTs together/,
    });
});
