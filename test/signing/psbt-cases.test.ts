/** Sweeps of Bitcoin-like coins: signatures of every address type, files of a malicious server, and malicious signed files. */
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { bytesToHex, hexToBytes } from '@noble/hashes/utils.js';
import { base64 } from '@scure/base';
import { Transaction } from '@scure/btc-signer';
import { RawPSBTV0 } from '@scure/btc-signer/psbt.js';
import * as bitcoin from 'bitcoinjs-lib';
import * as ecc from 'tiny-secp256k1';
import { findAccount, SignerError } from '../../signer/secret.ts';
import { describeFile, signFile, signInSteps } from '../../signer/sign.ts';
import { outputScript, scriptOfAddress } from '../../src/addresses/address.ts';
import { type BitcoinScript, PARAMS } from '../../src/addresses/params.ts';
import type { JoinedSource } from '../../src/chains/chain-source.ts';
import type { BitcoinFamily, Network } from '../../src/core/coin.ts';
import {
  MAX_SIGNING_BYTES,
  type PsbtRequest,
  readSignedFile,
  readSigningFile,
  type SigningFile,
  signedFileText,
  signingFileText,
} from '../../src/core/signing-file.ts';
import { DEFAULT_WISH, type Holding, type SweepWallet } from '../../src/signing/holdings.ts';
import { makePsbts } from '../../src/signing/make-utxo.ts';
import { readUpload } from '../../src/signing/signed.ts';
import { base58check } from '../kit/base58.ts';
import {
  addressesOf,
  type MadeFile,
  masterKey,
  numbersFrom,
  PHRASE,
  ROOT,
  randomPaymentFile,
  refundFile,
  sweepFile,
} from '../kit/signing.ts';

bitcoin.initEccLib(ecc);
const KINDS: readonly [BitcoinFamily, BitcoinScript][] = [
  ['BTC', 'p2wpkh'],
  ['BTC', 'p2tr'],
  ['BTC', 'p2sh-p2wpkh'],
  ['BTC', 'p2pkh'],
  ['LTC', 'p2wpkh'],
  ['LTC', 'p2sh-p2wpkh'],
  ['DOGE', 'p2pkh'],
  ['DASH', 'p2pkh'],
];
const sign = ({ file, destination }: Pick<MadeFile, 'file' | 'destination'>) =>
  signFile({ content: signingFileText(file), secret: ROOT, destination }).text;
const upload = (file: SigningFile, content: string) => readUpload(content, readSignedFile).check(file);

/**
 * The same transaction, built and signed by another library. Taproot signatures contain random bytes, so it verifies those of `mine` instead
 * (BIP-341) and takes them over.
 */
function signElsewhere(
  { file, outputs }: MadeFile,
  { coin, script, mine }: { coin: BitcoinFamily; script: BitcoinScript; mine: Uint8Array },
): bitcoin.Transaction {
  const chain = addressesOf(coin, script);
  const { lines } = file.requests[0] as PsbtRequest;
  const asked = Transaction.fromPSBT(base64.decode((file.requests[0] as PsbtRequest).psbt));
  const tx = new bitcoin.Transaction();
  tx.version = 2;
  for (const { txid, n } of outputs) tx.addInput(hexToBytes(txid).reverse(), n, 0xfffffffd);
  for (const [i, { units }] of lines.entries()) tx.addOutput(asked.getOutput(i).script!, units);
  const scripts = outputs.map(({ script: paid }) => paid);
  const amounts = outputs.map(({ units }) => units);
  for (const [i, output] of outputs.entries()) {
    const { privateKey, publicKey } = chain.deriveChild(Number(output.index));
    if (script === 'p2tr') {
      const signature = bitcoin.Transaction.fromBuffer(mine).ins[i]!.witness[0]!;
      const hash = tx.hashForWitnessV1(i, scripts, amounts, bitcoin.Transaction.SIGHASH_DEFAULT);
      assert.ok(ecc.verifySchnorr(hash, output.script.subarray(2), signature), `input ${i}`);
      tx.setWitness(i, [signature]);
      continue;
    }
    const { hash } = bitcoin.payments.p2pkh({ pubkey: publicKey! });
    const code = bitcoin.payments.p2pkh({ hash: hash! }).output!;
    if (script === 'p2pkh') {
      const signature = bitcoin.script.signature.encode(ecc.sign(tx.hashForSignature(i, code, 1), privateKey!), 1);
      tx.setInputScript(i, bitcoin.script.compile([signature, publicKey!]));
    } else {
      const signature = bitcoin.script.signature.encode(ecc.sign(tx.hashForWitnessV0(i, code, output.units, 1), privateKey!), 1);
      tx.setWitness(i, [signature, publicKey!]);
      if (script === 'p2sh-p2wpkh') tx.setInputScript(i, bitcoin.script.compile([bitcoin.payments.p2wpkh({ hash: hash! }).output!]));
    }
  }
  return tx;
}

/** Files of random sizes, one after the other over all kinds. */
export function checkAgreement(files: number): void {
  const number = numbersFrom(7);
  const counts = new Set<number>();
  for (let i = 0; i < files; i++) {
    const [coin, script] = KINDS[i % KINDS.length]!;
    // Sweeps, and refunds and payouts, of every kind in turn.
    const isSweep = Math.floor(i / KINDS.length) % 2 === 0;
    const made = isSweep ? { ...sweepFile(coin, script, 1 + number(6), i), recipients: '' } : randomPaymentFile(coin, script, number, i);
    const { destination, recipients } = made;
    const { text } = signFile({ content: signingFileText(made.file), secret: ROOT, destination, recipients });
    const [checked] = upload(made.file, text);
    const { raw } = checked!;
    counts.add((made.file.requests[0] as PsbtRequest).lines.length);
    assert.equal(bytesToHex(raw), signElsewhere(made, { coin, script, mine: raw }).toHex(), `${coin} ${script} ${i}`);
  }
  assert.ok(counts.size > 5, `${[...counts]}`);
}

test('another library signs the same bytes, for 32 random sweeps, refunds and payouts of every coin and address type', () =>
  checkAgreement(32));

const changed = (made: MadeFile, change: Partial<SigningFile>): MadeFile => ({ ...made, file: { ...made.file, ...change } });
/** The request with another transaction, as a server would make it that tells the truth about the rest. */
function withPsbt(made: MadeFile, edit: (tx: Transaction) => void, request: Partial<PsbtRequest> = {}): MadeFile {
  const [first] = made.file.requests as [PsbtRequest];
  const tx = Transaction.fromPSBT(base64.decode(first.psbt), { allowUnknownOutputs: true });
  edit(tx);
  return changed(made, { requests: [{ ...first, psbt: base64.encode(tx.toPSBT(0)), ...request }] });
}
/** An address that looks the same at its ends. */
const alike = (address: string): string => address.slice(0, 8) + [...address.slice(8, -8)].reverse().join('') + address.slice(-8);
const otherScript = hexToBytes(`0014${'cd'.repeat(20)}`);

test('the signer refuses what a malicious server may ask', () => {
  const made = sweepFile('BTC', 'p2wpkh', 3);
  const request = made.file.requests[0] as PsbtRequest;
  const [line] = request.lines;
  const stranger = 'bc1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qccfmv3';
  const ltc = sweepFile('LTC', 'p2wpkh', 1);
  const legacy = sweepFile('BTC', 'p2pkh', 1);
  const rows: [what: string, file: MadeFile, reason: RegExp][] = [
    ['another destination in file and transaction', { ...made, destination: stranger }, /not the address that you entered/],
    [
      'a destination with the same first and last characters',
      { ...made, destination: alike(made.destination) },
      /not the address that you/,
    ],
    ['only the last characters', { ...made, destination: made.destination.slice(-6) }, /not the address that you entered/],
    [
      'the destination in capital letters',
      { ...legacy, destination: legacy.destination.toUpperCase() },
      /not the address that you entered/,
    ],
    ['another destination in the transaction', withPsbt(made, (tx) => tx.updateOutput(0, { script: otherScript })), /pays another address/],
    ['a smaller amount', withPsbt(made, (tx) => tx.updateOutput(0, { amount: 1_000n })), /pays another amount/],
    [
      'an output that looks like change',
      withPsbt(made, (tx) => tx.addOutput({ script: otherScript, amount: 600n })),
      /an output that the file does not name/,
    ],
    [
      'a second recipient in a sweep',
      changed(made, { requests: [{ ...request, lines: [line!, { ...line!, to: stranger, units: 5n }] }], totalUnits: line!.units + 5n }),
      /names several/,
    ],
    [
      'a fee that is not the one shown',
      changed(made, { requests: [{ ...request, feeUnits: request.feeUnits - 1n }] }),
      /fee of the transaction/,
    ],
    ['a total fee that is too low', changed(made, { feeUnits: 1n }), /not the sum of its fees/],
    ['a total that is too high', changed(made, { totalUnits: made.file.totalUnits + 1n }), /not the sum of its payments/],
    [
      'nearly everything as the fee',
      (() => {
        const fee = made.outputs.reduce((sum, { units }) => sum + units, 0n) - 1_000n;
        const cheap = withPsbt(made, (tx) => tx.updateOutput(0, { amount: 1_000n }), {
          feeUnits: fee,
          lines: [{ ...line!, units: 1_000n }],
        });
        return changed(cheap, { totalUnits: 1_000n, feeUnits: fee });
      })(),
      /more than 25 percent/,
    ],
    [
      'keys of another chain',
      changed(ltc, { coin: 'BTC', account: { ...ltc.file.account, origins: ["m/84'/2'/0'"] } }),
      /keys of another coin/,
    ],
    ['the account of another chain', changed(ltc, { coin: 'DOGE', account: { ...ltc.file.account, script: 'p2pkh' } }), /another wallet/],
    [
      'an input of somebody else',
      withPsbt(made, (tx) => {
        const [[publicKey]] = tx.getInput(1).bip32Derivation as [[Uint8Array, unknown]];
        tx.updateInput(1, { bip32Derivation: undefined as never });
        tx.updateInput(1, { bip32Derivation: [[publicKey, { fingerprint: 1, path: [5] }]] });
      }),
      /does not belong to address/,
    ],
    [
      'an input without its transaction',
      withPsbt(made, (tx) => tx.updateInput(0, { nonWitnessUtxo: undefined as never })),
      /prove the amount|another/,
    ],
    [
      'a signature for one output only',
      withPsbt(made, (tx) => tx.updateInput(0, { sighashType: 3 })),
      /does not cover the whole transaction/,
    ],
    [
      'one transaction twice',
      changed(made, { requests: [request, request], totalUnits: 2n * made.file.totalUnits, feeUnits: 2n * made.file.feeUnits }),
      /spends an input twice/,
    ],
    ['fewer inputs than there are', changed(made, { requests: [{ ...request, inputs: 2 }] }), /another number of inputs/],
  ];
  for (const [what, file, reason] of rows)
    assert.throws(
      () => sign(file),
      (error: unknown) => error instanceof SignerError && reason.test(error.message),
      what,
    );
});

type Utxo = { amount: bigint; script: Uint8Array };
type RawInput = {
  nonWitnessUtxo?: { outputs: Utxo[] };
  witnessUtxo?: Utxo;
  bip32Derivation?: unknown;
  tapBip32Derivation?: unknown;
  tapInternalKey?: Uint8Array;
  redeemScript?: Uint8Array;
};
/** The file with changed bytes of its first inputs, which a library that checks them would not write. */
function withInputs(made: MadeFile, edit: (inputs: RawInput[]) => void, more: Partial<SigningFile> = {}): MadeFile {
  const [request] = made.file.requests as [PsbtRequest];
  const raw = RawPSBTV0.decode(base64.decode(request.psbt));
  edit(raw.inputs as RawInput[]);
  return changed(made, { requests: [{ ...request, psbt: base64.encode(RawPSBTV0.encode(raw)) }], ...more });
}

test('the signer signs no transaction that would wait: another version, lock time or sequence number', () => {
  const made = sweepFile('BTC', 'p2wpkh', 2);
  const request = made.file.requests[0] as PsbtRequest;
  const asked = Transaction.fromPSBT(Buffer.from(request.psbt, 'base64'));
  const again = (options: { version?: number; lockTime?: number }, sequence = 0xfffffffd): SigningFile => {
    const tx = new Transaction({ version: 2, ...options, allowUnknownVersion: true });
    for (let i = 0; i < asked.inputsLength; i++) tx.addInput({ ...asked.getInput(i), sequence });
    for (let i = 0; i < asked.outputsLength; i++) tx.addOutput(asked.getOutput(i));
    return { ...made.file, requests: [{ ...request, psbt: Buffer.from(tx.toPSBT(0)).toString('base64') }] };
  };
  const sign = (file: SigningFile) => signFile({ content: signingFileText(file), secret: ROOT, destination: made.destination });
  assert.ok(sign(again({})).text);
  for (const [options, sequence] of [[{ version: 1 }], [{ lockTime: 900_000 }], [{}, 0xffffffff], [{}, 0], [{}, 10]] as const)
    assert.throws(() => sign(again(options, sequence)), /than Florin uses/, JSON.stringify([options, sequence]));
});

test('an address in another spelling is the same address, in the file and in what is entered', () => {
  const bech32 = refundFile('BTC', 'p2wpkh', 2);
  const text = signingFileText(bech32.file);
  const entered = { secret: ROOT, destination: bech32.destination, recipients: bech32.customer };
  const capital = text.replaceAll(`"${bech32.customer}"`, `"${bech32.customer.toUpperCase()}"`);
  assert.notEqual(capital, text);
  assert.equal(signFile({ ...entered, content: capital }).text, signFile({ ...entered, content: text }).text);
  // LTC has two forms of one script.
  const made = sweepFile('LTC', 'p2sh-p2wpkh', 2);
  const script = scriptOfAddress(made.destination, PARAMS.LTC.forms.mainnet)!;
  const old = base58check.encode(Uint8Array.of(5, ...hexToBytes(script).slice(2, 22)));
  assert.match(`${made.destination} ${old}`, /^M\S+ 3/);
  const content = signingFileText(made.file);
  const sign = (given: string, destination: string) => signFile({ content: given, secret: ROOT, destination }).text;
  assert.equal(sign(content, old), sign(content, made.destination));
  assert.equal(sign(content.replaceAll(made.destination, old), made.destination), sign(content, made.destination));
});

test('the signer believes no amount or address of an input that the transaction which made it does not show', () => {
  for (const script of ['p2wpkh', 'p2sh-p2wpkh', 'p2pkh'] as const) {
    const made = sweepFile('BTC', script, 2);
    const [output] = made.outputs as [MadeFile['outputs'][number]];
    const shown = { amount: output.units, script: output.script };
    const [contradicts, unproven] = [/contradicts itself/, /prove the amount/];
    const rows: [what: string, edit: (first: RawInput, second: RawInput) => void, reason: RegExp][] = [
      ['the transaction of another input', (first, second) => Object.assign(first, { nonWitnessUtxo: second.nonWitnessUtxo }), contradicts],
      [
        'the transaction with another amount',
        (first) => {
          first.nonWitnessUtxo!.outputs[output.n]!.amount -= 50_000_000n;
        },
        contradicts,
      ],
      [
        'a smaller amount beside the transaction',
        (first) => {
          first.witnessUtxo = { ...shown, amount: output.units - 50_000_000n };
        },
        contradicts,
      ],
      [
        'a larger amount beside the transaction',
        (first) => {
          first.witnessUtxo = { ...shown, amount: output.units + 1n };
        },
        contradicts,
      ],
      [
        'another script beside the transaction',
        (first) => {
          first.witnessUtxo = { ...shown, script: otherScript };
        },
        contradicts,
      ],
      [
        'an amount without the transaction',
        (first) => {
          first.witnessUtxo = shown;
          delete first.nonWitnessUtxo;
        },
        unproven,
      ],
      [
        'a smaller amount without the transaction, as a hidden fee',
        (first) => {
          first.witnessUtxo = { ...shown, amount: output.units - 50_000_000n };
          delete first.nonWitnessUtxo;
        },
        unproven,
      ],
      ['nothing about the output', (first) => delete first.nonWitnessUtxo, /prove the amount|contradicts/],
    ];
    for (const [what, edit, reason] of rows)
      assert.throws(
        () => sign(withInputs(made, ([first, second]) => edit(first!, second!))),
        (error: unknown) => error instanceof SignerError && reason.test(error.message),
        `${script}: ${what}`,
      );
    assert.ok(
      sign(
        withInputs(made, ([first]) => {
          if (script !== 'p2pkh') first!.witnessUtxo = shown;
        }),
      ),
      script,
    );
  }
});

test('the transaction that made an input is compared a few times, however many inputs there are, and progress counts each input', () => {
  const made = sweepFile('BTC', 'p2wpkh', 30);
  const asked = { content: signingFileText(made.file), secret: ROOT, destination: made.destination };
  const compared = mock.method(Transaction, 'fromRaw');
  try {
    const steps = signInSteps(asked);
    const seen: string[] = [];
    let step = steps.next();
    for (; !step.done; step = steps.next()) seen.push(`${step.value.what} ${step.value.done} of ${step.value.of}`);
    assert.deepEqual(
      seen,
      ['Checking', 'Signing'].flatMap((what) => made.outputs.map((_, i) => `${what} ${i + 1} of 30`)),
    );
    assert.ok(compared.mock.callCount() <= 5 * 30, `${compared.mock.callCount()} times`);
    assert.equal(step.value.text, signFile(asked).text);
  } finally {
    compared.mock.restore();
  }
});

test('the signer refuses what a malicious server may ask of Taproot, nested and legacy addresses', () => {
  const cases = [
    ['BTC', 'p2tr'],
    ['BTC', 'p2sh-p2wpkh'],
    ['BTC', 'p2pkh'],
    ['LTC', 'p2sh-p2wpkh'],
    ['DOGE', 'p2pkh'],
  ] as const;
  for (const [coin, script] of cases) {
    const made = sweepFile(coin, script, 2);
    const request = made.file.requests[0] as PsbtRequest;
    const [first, second] = made.outputs as [MadeFile['outputs'][number], MadeFile['outputs'][number]];
    const chain = addressesOf(coin, script);
    const exchanged = (key: 'bip32Derivation' | 'tapBip32Derivation') =>
      withInputs(made, ([one, other]) => {
        [one![key], other![key]] = [other![key], one![key]];
      });
    const rows: [what: string, file: MadeFile, reason: RegExp][] = [
      ['another destination in the transaction', withPsbt(made, (tx) => tx.updateOutput(0, { script: otherScript })), /pays another/],
      ['a smaller amount', withPsbt(made, (tx) => tx.updateOutput(0, { amount: 1_000n })), /pays another amount/],
      ['a second output', withPsbt(made, (tx) => tx.addOutput({ script: otherScript, amount: 600n })), /does not name/],
      ['a total fee that is too low', changed(made, { feeUnits: 1n }), /not the sum of its fees/],
      ['a signature for one output only', withPsbt(made, (tx) => tx.updateInput(0, { sighashType: 3 })), /whole transaction/],
      ['a signature for one input', withPsbt(made, (tx) => tx.updateInput(0, { sighashType: 0x81 })), /whole transaction/],
      [
        'one transaction twice',
        changed(made, { requests: [request, request], totalUnits: 2n * made.file.totalUnits, feeUnits: 2n * made.file.feeUnits }),
        /spends an input twice/,
      ],
      ['the paths of two inputs exchanged', exchanged(script === 'p2tr' ? 'tapBip32Derivation' : 'bip32Derivation'), /does not belong to/],
      ['the account of another type', changed(made, { account: { ...made.file.account, script: 'p2wpkh' } }), /wallet/],
    ];
    if (script === 'p2tr') {
      const lie = (input: RawInput, edit: Partial<Utxo>) => {
        input.witnessUtxo = { ...input.witnessUtxo!, ...edit };
      };
      rows.push(
        ['an amount that changes the fee', withInputs(made, ([one]) => lie(one!, { amount: first.units + 1n })), /fee of the transaction/],
        ['the script of another input', withInputs(made, ([one]) => lie(one!, { script: second.script })), /does not belong|contradicts/],
        [
          'an internal key of somebody else',
          withInputs(made, ([one]) => {
            one!.tapInternalKey = chain.deriveChild(77).publicKey!.slice(1);
          }),
          /contradicts/,
        ],
        ['nothing about the output', withInputs(made, ([one]) => delete one!.witnessUtxo), /contradicts|prove/],
      );
    }
    if (script === 'p2sh-p2wpkh')
      rows.push([
        'a redeem script of somebody else',
        withInputs(made, ([one]) => {
          one!.redeemScript = otherScript;
        }),
        /contradicts/,
      ]);
    for (const [what, file, reason] of rows)
      assert.throws(
        () => sign(file),
        (error: unknown) => error instanceof SignerError && reason.test(error.message),
        `${coin} ${script}: ${what}`,
      );
  }
});

test('Taproot: a wrong amount that the file admits gives signatures that are not valid, so the service refuses them', () => {
  const made = sweepFile('BTC', 'p2tr', 2);
  const [request] = made.file.requests as [PsbtRequest];
  const lie = 50_000_000n;
  // The money would go to miners, but each signature covers the amounts of all inputs (BIP-341).
  const lower = withInputs(made, ([one]) => {
    one!.witnessUtxo = { ...one!.witnessUtxo!, amount: one!.witnessUtxo!.amount + lie };
  });
  const [changedRequest] = lower.file.requests as [PsbtRequest];
  const feeUnits = request.feeUnits + lie;
  const admitted = changed(lower, { feeUnits, requests: [{ ...changedRequest, feeUnits }] });
  const signed = sign(admitted);
  assert.throws(
    () => upload(made.file, signed),
    (error: any) => error.code === 'signed_file_refused' && /not valid/.test(error.message),
  );
  const tx = bitcoin.Transaction.fromHex(readSignedFile(signed).transactions[0]!);
  const { witness } = tx.ins[0]!;
  const scripts = made.outputs.map(({ script }) => script);
  const hashOf = (amounts: bigint[]) => tx.hashForWitnessV1(0, scripts, amounts, bitcoin.Transaction.SIGHASH_DEFAULT);
  const amounts = made.outputs.map(({ units }) => units);
  const key = scripts[0]!.subarray(2);
  assert.equal(ecc.verifySchnorr(hashOf(amounts), key, witness[0]!), false, 'no node accepts it');
  assert.equal(ecc.verifySchnorr(hashOf([amounts[0]! + lie, amounts[1]!]), key, witness[0]!), true);
});

test('Bech32 addresses may be entered in capital letters, as QR codes have them, but not in both; Base58 addresses are exact', () => {
  const flip = (text: string, at: number) => text.slice(0, at) + text[at]!.toUpperCase() + text.slice(at + 1);
  for (const [coin, script] of KINDS) {
    const made = sweepFile(coin, script, 1);
    const { destination } = made;
    const isBech32 = script === 'p2wpkh' || script === 'p2tr';
    const capital = destination.toUpperCase();
    const at = destination.search(/[a-z][^a-z]*$/);
    const wrong = [
      flip(destination, at),
      ...(isBech32 ? [destination[0]!.toUpperCase() + destination.slice(1), flip(destination, 0)] : [capital, destination.toLowerCase()]),
      ...(isBech32 ? [`${capital.slice(0, -1)}${destination.slice(-1).toLowerCase()}`].filter((one) => one !== capital) : []),
    ];
    if (isBech32) assert.equal(sign({ ...made, destination: capital }).length, sign(made).length, `${coin} ${script}`);
    for (const entered of wrong)
      assert.throws(() => sign({ ...made, destination: entered }), /not the address that you entered/, `${coin} ${script}: ${entered}`);
  }
  const refund = refundFile('BTC', 'p2wpkh', 1);
  const content = signingFileText(refund.file);
  const given = { content, secret: ROOT, destination: refund.destination.toUpperCase(), recipients: refund.customer.toUpperCase() };
  assert.equal(signFile(given).text, signFile({ ...given, destination: refund.destination, recipients: refund.customer }).text);
});

test('the signer accepts a seed phrase or an extended private key of root or account, and no other wallet', () => {
  const made = sweepFile('BTC', 'p2wpkh', 2);
  const content = signingFileText(made.file);
  const by = (secret: string, passphrase = '') => signFile({ content, secret, passphrase, destination: made.destination }).text;
  const expected = by(PHRASE);
  assert.equal(by(`  ${PHRASE.toUpperCase()}\n`), expected);
  assert.equal(by(masterKey().privateExtendedKey), expected);
  assert.equal(by(masterKey().derive("m/84'/0'/0'").privateExtendedKey), expected);
  for (const [secret, reason] of [
    [PHRASE.replace('about', 'abandon'), /not a valid seed phrase/],
    [masterKey().derive("m/84'/0'/1'").privateExtendedKey, /another wallet/],
    [masterKey().publicExtendedKey, /public key/],
    [masterKey().derive("m/84'").privateExtendedKey, /neither the root nor an account/],
    ['hello', /neither a seed phrase/],
  ] as const)
    assert.throws(
      () => by(secret),
      (error: unknown) => error instanceof SignerError && reason.test(error.message) && !error.message.includes(secret),
    );
  assert.throws(() => by(PHRASE, 'other'), /another wallet/);
});

test('a file for a test network is shown as a test only if its keys have coin type 1, which an account key does not prove', () => {
  const { file } = sweepFile('BTC', 'p2wpkh', 1);
  const of = (origin: string | null, network: Network = 'regtest'): SigningFile => ({
    ...file,
    ...{ network, account: { ...file.account, origins: [origin] } },
  });
  const test = of("m/84'/1'/0'");
  assert.equal(describeFile(test).isReal, false);
  for (const real of [of(null), of("m/84'/0'/0'"), of("m/84'/1/0'"), of("m/0'/84'/1'/0'"), of("m/84'/1'/0'", 'mainnet')])
    assert.equal(describeFile(real).isReal, true, `${real.network} ${real.account.origins}`);
  const chain = masterKey().derive("m/84'/1'/0'/0");
  const chainKey = bytesToHex(chain.publicKey!) + bytesToHex(chain.chainCode!);
  assert.ok(findAccount(masterKey(), { ...test, account: { ...test.account, chainKey } }));
  assert.throws(() => findAccount(masterKey(), test), /another wallet/);
  assert.throws(() => findAccount(masterKey().derive("m/84'/0'/0'"), test), /an account key does not show/);
});

test('a file stays below what the signer reads, and the rest is left for later', async () => {
  const chain = addressesOf('BTC', 'p2wpkh');
  const chainKey = bytesToHex(chain.publicKey!) + bytesToHex(chain.chainCode!);
  const filler = hexToBytes(`6a4e40420f00${'00'.repeat(1_000_000)}`);
  const raws = new Map<string, Uint8Array>();
  const holdings = Array.from({ length: 40 }, (_, i) => {
    const tx = new Transaction({ allowUnknownOutputs: true });
    tx.addInput({ txid: new Uint8Array(32).fill(1), index: i });
    for (let n = 0; n < 2; n++) tx.addOutput({ script: outputScript('p2wpkh', chain.deriveChild(i).publicKey!), amount: 100_000_000n });
    tx.addOutput({ script: filler, amount: 0n });
    raws.set(tx.id, tx.toBytes(true, false));
    const outputs = [0, 1].map((n) => ({ n, units: 100_000_000n }));
    return { txid: tx.id, ref: `${tx.id}:0`, units: 200_000_000n, outputs, blockHash: '00', index: BigInt(i) } as unknown as Holding;
  });
  const outlet = {
    areUnspent: async (outpoints: readonly string[]) => outpoints.map(() => true),
    readTransactions: async (wanted: readonly { txid: string }[]) => wanted.map(({ txid }) => raws.get(txid)!),
  };
  const { file, destination } = sweepFile('BTC', 'p2wpkh', 1);
  const { requests, inputs, stay } = await makePsbts({ coin: 'BTC', network: 'mainnet', outlet } as unknown as JoinedSource, {
    wallet: {
      chainKey,
      accountKey: chain.publicExtendedKey,
      script: 'p2wpkh',
      path: '0',
      signers: [{ path: '0', fingerprint: null }],
    } as unknown as SweepWallet,
    ...{ holdings, destination, wish: DEFAULT_WISH, rateE8: 100_000_000n, reference: file.id },
  });
  const text = signingFileText({ ...file, requests });
  assert.ok(text.length > MAX_SIGNING_BYTES * 0.9 && text.length <= MAX_SIGNING_BYTES, `${text.length}`);
  assert.equal(readSigningFile(text).requests.length, requests.length);
  // Both outputs of a transfer go, or both stay.
  const gone = new Set(inputs.map(({ holding }) => holding));
  assert.equal(inputs.length, 2 * gone.size);
  assert.equal(gone.size + stay.size, holdings.length);
  for (const holding of holdings) assert.equal(stay.get(holding), gone.has(holding) ? undefined : 'later');
});

/** The signed transaction with a change. */
function tampered(raw: string, edit: (tx: bitcoin.Transaction) => void): string {
  const tx = bitcoin.Transaction.fromHex(raw);
  edit(tx);
  return tx.toHex();
}

test('the service refuses every signed file that is not exactly what was asked', () => {
  const made = sweepFile('BTC', 'p2wpkh', 3);
  const text = sign(made);
  const { transactions, id } = readSignedFile(text);
  const raw = transactions[0]!;
  const other = readSignedFile(sign(sweepFile('BTC', 'p2wpkh', 3, 99))).transactions[0]!;
  const shorter = readSignedFile(sign(sweepFile('BTC', 'p2wpkh', 2))).transactions[0]!;
  const chain = addressesOf('BTC', 'p2wpkh');
  /** Signed again after the change by the holder of the keys, so that all signatures are valid. */
  const signedAgain = (edit: (tx: bitcoin.Transaction) => void, type = 1) =>
    tampered(raw, (tx) => {
      edit(tx);
      for (const [i, output] of made.outputs.entries()) {
        const { privateKey, publicKey } = chain.deriveChild(Number(output.index));
        const code = bitcoin.payments.p2pkh({ pubkey: publicKey! }).output!;
        const hash = tx.hashForWitnessV0(i, code, output.units, type);
        tx.setWitness(i, [bitcoin.script.signature.encode(ecc.sign(hash, privateKey!), type), publicKey!]);
      }
    });
  const rows: [what: string, transactions: string[], reason: RegExp][] = [
    [
      'another destination',
      [
        signedAgain((tx) => {
          tx.outs[0]!.script = otherScript;
        }),
      ],
      /another address/,
    ],
    [
      'a higher fee',
      [
        signedAgain((tx) => {
          tx.outs[0]!.value -= 1n;
        }),
      ],
      /another amount/,
    ],
    [
      'another output',
      [
        signedAgain((tx) => {
          tx.addOutput(otherScript, 1_000n);
        }),
      ],
      /number of outputs/,
    ],
    [
      'no output',
      [
        signedAgain((tx) => {
          tx.outs.pop();
        }),
      ],
      /number of outputs|cannot be read/,
    ],
    [
      'another sequence',
      [
        signedAgain((tx) => {
          tx.ins[0]!.sequence = 0xffffffff;
        }),
      ],
      /sequence/,
    ],
    [
      'a lock time',
      [
        signedAgain((tx) => {
          tx.locktime = 900_000;
        }),
      ],
      /lock time/,
    ],
    [
      'another version',
      [
        signedAgain((tx) => {
          tx.version = 1;
        }),
      ],
      /version/,
    ],
    ['signatures for no output', [signedAgain(() => {}, 2)], /only a part/],
    ['signatures for one input', [signedAgain(() => {}, 0x81)], /only a part/],
    ['a missing input', [shorter], /number of inputs/],
    ['other inputs', [other], /input that was not asked for/],
    [
      'inputs in another order',
      [
        tampered(raw, (tx) => {
          tx.ins.reverse();
        }),
      ],
      /input that was not asked for/,
    ],
    ['a missing signature', [tampered(raw, (tx) => tx.setWitness(1, []))], /not signed as its address requires/],
    ['the signature of another input', [tampered(raw, (tx) => tx.setWitness(1, tx.ins[0]!.witness))], /key of another address/],
    [
      'a broken signature',
      [
        tampered(raw, (tx) => {
          tx.ins[0]!.witness[0]![20]! ^= 1;
        }),
      ],
      /not valid/,
    ],
    [
      'a transaction of another chain',
      readSignedFile(sign(sweepFile('LTC', 'p2wpkh', 3))).transactions.slice(),
      /input that was not asked for/,
    ],
    ['nothing', [], /number of transactions/],
    ['one more transaction', [raw, raw], /number of transactions/],
    ['random bytes', ['00'.repeat(100)], /cannot be read/],
  ];
  for (const [what, given, reason] of rows) {
    const content = signedFileText({ id, round: 0, transactions: given });
    assert.throws(
      () => upload(made.file, content),
      (error: any) => error.code === 'signed_file_refused' && reason.test(error.message),
      what,
    );
  }
  assert.throws(() => upload(made.file, signedFileText({ id, round: 1, transactions })), /replaced/);
  for (const content of ['', '{', '{}', 'hello', text.replace('"version":1', '"version":2'), text.replace(raw, 'zz')])
    assert.throws(() => upload(made.file, content), { code: 'signed_file_refused' }, content.slice(0, 40));
  assert.equal(upload(made.file, raw)[0]!.txid, bitcoin.Transaction.fromHex(raw).getId());
});

/** A file of several transactions, and each of them signed by another wallet as a PSBT. */
function severalPsbts(): { file: SigningFile; psbts: string[] } {
  const sweeps = [11, 12, 13].map((seed) => sweepFile('BTC', 'p2wpkh', 2, seed));
  const chain = addressesOf('BTC', 'p2wpkh');
  const requests = sweeps.map(({ file }) => file.requests[0] as PsbtRequest);
  const psbts = requests.map(({ psbt: asked }, at) => {
    const psbt = bitcoin.Psbt.fromBase64(asked);
    for (const [i, { index }] of sweeps[at]!.outputs.entries()) {
      const { privateKey, publicKey } = chain.deriveChild(Number(index));
      psbt.signInput(i, { publicKey: publicKey!, sign: (hash) => ecc.sign(hash, privateKey!) });
    }
    return psbt.toBase64();
  });
  return { file: { ...sweeps[0]!.file, requests }, psbts };
}

test('the signed PSBTs of a file with several transactions are accepted together, in any order, and only all of them', () => {
  const { file, psbts } = severalPsbts();
  const [one, two, three] = psbts as [string, string, string];
  const txids = upload(file, psbts.join('\n')).map(({ txid }) => txid);
  assert.equal(new Set(txids).size, 3);
  const raws = upload(file, psbts.join('\n')).map(({ raw }) => bytesToHex(raw));
  const broken = psbts.map((psbt) => psbt.replace(/.{76}/g, '$&\n')).join('\n\n');
  for (const content of [`${three}\n${one}\n${two}\n`, `${two} ${three}\r\n${one}`, broken, raws.toReversed().join('\n')])
    assert.deepEqual(
      upload(file, content).map(({ txid }) => txid),
      txids,
    );
  const rows: [what: string, content: string, reason: RegExp][] = [
    ['one of three', one, /1 of 3 transactions; upload all signed PSBTs together/],
    ['two of three', `${one}\n${three}`, /2 of 3 transactions/],
    ['one twice', `${one}\n${two}\n${two}`, /not asked for/],
    ['one more', `${one}\n${two}\n${three}\n${three}`, /different number of transactions/],
    ['one that nobody signed', `${one}\n${two}\n${(file.requests[2] as PsbtRequest).psbt}`, /without all signatures/],
    ['something else', `${one}\n${two}\nhello`, /PSBT/],
  ];
  for (const [what, content, reason] of rows)
    assert.throws(
      () => upload(file, content),
      (error: any) => error.code === 'signed_file_refused' && reason.test(error.message),
      what,
    );
});

test('a PSBT that another wallet signed is accepted, finished or not', () => {
  const made = sweepFile('BTC', 'p2wpkh', 2);
  const psbt = bitcoin.Psbt.fromBase64((made.file.requests[0] as PsbtRequest).psbt);
  const chain = addressesOf('BTC', 'p2wpkh');
  for (const [i, { index }] of made.outputs.entries()) {
    const { privateKey, publicKey } = chain.deriveChild(Number(index));
    psbt.signInput(i, { publicKey: publicKey!, sign: (hash) => ecc.sign(hash, privateKey!) });
  }
  const [expected] = upload(made.file, sign(made));
  assert.equal(upload(made.file, psbt.toBase64())[0]!.txid, expected!.txid);
  psbt.finalizeAllInputs();
  assert.equal(bytesToHex(upload(made.file, psbt.toBase64())[0]!.raw), bytesToHex(expected!.raw));
  assert.throws(() => upload(made.file, (made.file.requests[0] as PsbtRequest).psbt), /without all signatures/);
});
