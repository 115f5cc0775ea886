/** Signed transactions of every address type that are not exactly what was asked, by a wallet that has the keys. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as bitcoin from 'bitcoinjs-lib';
import * as ecc from 'tiny-secp256k1';
import { signFile } from '../../signer/sign.ts';
import type { BitcoinScript } from '../../src/addresses/params.ts';
import type { BitcoinFamily } from '../../src/core/coin.ts';
import { readSignedFile, signedFileText, signingFileText } from '../../src/core/signing-file.ts';
import { readUpload } from '../../src/signing/signed.ts';
import { addressesOf, ROOT, sweepFile } from '../kit/signing.ts';

bitcoin.initEccLib(ecc);
type Kind = readonly [coin: BitcoinFamily, script: BitcoinScript];
const SINGLE_ANYONE = 0x83;

/** A file of two inputs, signed, and the means to sign it otherwise. */
function open([coin, script]: Kind) {
  const made = sweepFile(coin, script, 2);
  const text = signFile({ content: signingFileText(made.file), secret: ROOT, destination: made.destination }).text;
  const [raw] = readSignedFile(text).transactions as [string];
  const keyOf = (i: number) => addressesOf(coin, script).deriveChild(Number(made.outputs[i]!.index));
  const codeOf = (i: number) => bitcoin.payments.p2pkh({ pubkey: keyOf(i).publicKey! }).output!;
  /** A valid signature of input `i` with a hash type, in the place where its address wants it. */
  const resign = (tx: bitcoin.Transaction, i: number, type: number) => {
    const { privateKey, publicKey } = keyOf(i);
    if (script === 'p2tr') {
      const [scripts, amounts] = [made.outputs.map((one) => one.script), made.outputs.map(({ units }) => units)];
      const hash = tx.hashForWitnessV1(i, scripts, amounts, type);
      const [even, tweaked] = [publicKey![0] === 2, bitcoin.crypto.taggedHash('TapTweak', publicKey!.subarray(1))];
      const secret = ecc.privateAdd(even ? privateKey! : ecc.privateNegate(privateKey!), tweaked)!;
      tx.setWitness(i, [Buffer.concat([ecc.signSchnorr(hash, secret), Buffer.of(type)])]);
      return;
    }
    const hash =
      script === 'p2pkh' ? tx.hashForSignature(i, codeOf(i), type) : tx.hashForWitnessV0(i, codeOf(i), made.outputs[i]!.units, type);
    const signature = bitcoin.script.signature.encode(ecc.sign(hash, privateKey!), type);
    if (script === 'p2pkh') tx.setInputScript(i, bitcoin.script.compile([signature, publicKey!]));
    else tx.setWitness(i, [signature, publicKey!]);
  };
  const edited = (edit: (tx: bitcoin.Transaction) => void): string => {
    const tx = bitcoin.Transaction.fromHex(raw);
    edit(tx);
    return tx.toHex();
  };
  const check = (hex: string) =>
    readUpload(signedFileText({ id: made.file.id, round: 0, transactions: [hex] }), readSignedFile).check(made.file);
  return { raw, resign, edited, check };
}
type Opened = ReturnType<typeof open>;
type Row = [what: string, hex: (kind: Opened) => string, reason: RegExp];

/** For every address type. */
const COMMON: readonly Row[] = [
  [
    'another amount',
    ({ edited }) =>
      edited((tx) => {
        tx.outs[0]!.value -= 1n;
      }),
    /pays another amount/,
  ],
  ['one input less', ({ edited }) => edited((tx) => void tx.ins.pop()), /number of inputs/],
  ['the inputs in another order', ({ edited }) => edited((tx) => void tx.ins.reverse()), /input that was not asked for/],
  [
    'another lock time',
    ({ edited }) =>
      edited((tx) => {
        tx.locktime = 1;
      }),
    /lock time/,
  ],
  [
    'another version',
    ({ edited }) =>
      edited((tx) => {
        tx.version = 1;
      }),
    /version/,
  ],
  [
    'another sequence',
    ({ edited }) =>
      edited((tx) => {
        tx.ins[0]!.sequence = 0xffffffff;
      }),
    /sequence/,
  ],
];
const swapScripts = (tx: bitcoin.Transaction) => {
  const [one, two] = tx.ins as [bitcoin.Transaction['ins'][number], bitcoin.Transaction['ins'][number]];
  [one.script, two.script, one.witness, two.witness] = [two.script, one.script, two.witness, one.witness];
};
const TYPES: readonly [Kind, readonly Row[]][] = [
  [
    ['DOGE', 'p2pkh'],
    [
      [
        'a byte of the signature',
        ({ edited }) =>
          edited((tx) => {
            tx.ins[0]!.script[20]! ^= 1;
          }),
        /not valid/,
      ],
      ['a signature of one output', ({ edited, resign }) => edited((tx) => resign(tx, 0, SINGLE_ANYONE)), /only a part/],
      ['the signature of another input', ({ edited }) => edited(swapScripts), /key of another address/],
      [
        'a third push',
        ({ edited }) =>
          edited((tx) => {
            tx.ins[0]!.script = Buffer.concat([Buffer.of(1, 1), tx.ins[0]!.script]);
          }),
        /not signed as/,
      ],
      [
        'an opcode',
        ({ edited }) =>
          edited((tx) => {
            tx.ins[0]!.script = Buffer.concat([Buffer.of(0x61), tx.ins[0]!.script]);
          }),
        /not signed as/,
      ],
      ['no signature', ({ edited }) => edited((tx) => tx.setInputScript(0, new Uint8Array())), /not signed as/],
    ],
  ],
  [
    ['BTC', 'p2sh-p2wpkh'],
    [
      [
        'a byte of the signature',
        ({ edited }) =>
          edited((tx) => {
            tx.ins[0]!.witness[0]![20]! ^= 1;
          }),
        /not valid/,
      ],
      ['a signature of one output', ({ edited, resign }) => edited((tx) => resign(tx, 0, SINGLE_ANYONE)), /only a part/],
      ['the signature of another input', ({ edited }) => edited(swapScripts), /key of another address/],
      ['no program', ({ edited }) => edited((tx) => tx.setInputScript(0, new Uint8Array())), /not signed as/],
      ['the program of another input', ({ edited }) => edited((tx) => tx.setInputScript(0, tx.ins[1]!.script)), /not signed as/],
      ['one item more', ({ edited }) => edited((tx) => void tx.ins[0]!.witness.push(Buffer.of(1))), /not signed as/],
    ],
  ],
  [
    ['BTC', 'p2tr'],
    [
      [
        'a byte of the signature',
        ({ edited }) =>
          edited((tx) => {
            tx.ins[0]!.witness[0]![20]! ^= 1;
          }),
        /not valid/,
      ],
      ['a signature of one output', ({ edited, resign }) => edited((tx) => resign(tx, 0, SINGLE_ANYONE)), /plain key signature/],
      ['a hash type that says the default', ({ edited, resign }) => edited((tx) => resign(tx, 0, 1)), /plain key signature/],
      ['the signature of another input', ({ edited }) => edited(swapScripts), /not valid/],
      ['an annex', ({ edited }) => edited((tx) => void tx.ins[0]!.witness.push(Buffer.of(0x50))), /plain key signature/],
      ['a script', ({ edited }) => edited((tx) => tx.setInputScript(0, Buffer.of(0x51))), /plain key signature/],
      ['no signature', ({ edited }) => edited((tx) => tx.setWitness(0, [])), /plain key signature/],
    ],
  ],
];

for (const [kind, rows] of TYPES)
  test(`the service refuses every signed transaction in ${kind.join(' ')} that is not exactly what was asked`, () => {
    const opened = open(kind);
    assert.equal(opened.check(opened.raw).length, 1);
    // The same signature again is valid, so the others are refused for what they are.
    if (kind[1] !== 'p2tr') assert.equal(opened.check(opened.edited((tx) => opened.resign(tx, 0, 1))).length, 1);
    for (const [what, hex, reason] of [...COMMON, ...rows])
      assert.throws(
        () => opened.check(hex(opened)),
        (error: any) => error.code === 'signed_file_refused' && reason.test(error.message),
        what,
      );
  });
