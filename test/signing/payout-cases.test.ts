/** Payouts in tokens that deposits pay together: which of them, files of a malicious server, and malicious signed files. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SignerError } from '../../signer/secret.ts';
import { describeFile, signFile } from '../../signer/sign.ts';
import { transactionOf } from '../../src/chains/ethereum/account-requests.ts';
import { signaturesIn } from '../../src/chains/ethereum/token-calls.ts';
import { readSigned as readTransaction, signedBytes, signHash, signingHash } from '../../src/chains/ethereum/transaction.ts';
import {
  type Authorization,
  type BatchRequest,
  FileError,
  type GatherLine,
  type Line,
  readSignedFile,
  type SigningFile,
  signedFileText,
  signingFileText,
} from '../../src/core/signing-file.ts';
import type { Holding } from '../../src/money-out/holdings.ts';
import type { Lot } from '../../src/money-out/make-accounts.ts';
import { chooseSources, gatherNonce, payoutNonce } from '../../src/money-out/payout-accounts.ts';
import { type PayoutParts, partsFromJson, partsToJson } from '../../src/money-out/payout-parts.ts';
import { readSigned } from '../../src/money-out/signed.ts';
import { masterKey, PHRASE, sentRefundFile, tokenPayoutFile } from '../kit/signing.ts';

const made = tokenPayoutFile();
const [first, second, payer, alone] = made.request.authorizations as [Authorization, Authorization, Authorization, Authorization];
const STRANGER = '0x00000000000000000000000000000000000b11ce';
const everybody = [...made.recipients, STRANGER, first.from, second.from, payer.from, alone.from].join(' ');
const sign = (file: SigningFile, recipients = made.recipients.join(' ')) =>
  signFile({ content: signingFileText(file), secret: PHRASE, recipients });

/** The file with other authorizations, whose sums are right. */
function withThese(authorizations: readonly Authorization[], more: Partial<BatchRequest> = {}): SigningFile {
  const request = { ...made.request, ...more, authorizations };
  const totalUnits = authorizations.reduce((sum, { line }) => (line.purpose === 'gather' ? sum : sum + line.units), 0n);
  return { ...made.file, requests: [request], totalUnits, feeUnits: request.gas * made.file.gasPrice!.max };
}
const changed = (one: Authorization, line: Partial<Line> | Partial<GatherLine>): Authorization => ({
  ...one,
  line: { ...one.line, ...line } as Authorization['line'],
});

test('the smallest deposit that is enough pays alone; otherwise the largest ones pay together, exactly', () => {
  const lot = (units: bigint): Lot => ({ address: `0x${units}`, index: 0, units, holdings: [] as Holding[] });
  const rows: [units: bigint, lots: bigint[], expected: [bigint, bigint][] | 'short'][] = [
    [10n, [5n, 30n, 12n, 20n], [[12n, 12n - 2n]]],
    [12n, [5n, 30n, 12n, 20n], [[12n, 12n]]],
    [
      55n,
      [5n, 30n, 12n, 20n],
      [
        [30n, 30n],
        [20n, 20n],
        [12n, 5n],
      ],
    ],
    [
      50n,
      [5n, 30n, 12n, 20n],
      [
        [30n, 30n],
        [20n, 20n],
      ],
    ],
    [
      67n,
      [5n, 30n, 12n, 20n],
      [
        [30n, 30n],
        [20n, 20n],
        [12n, 12n],
        [5n, 5n],
      ],
    ],
    [68n, [5n, 30n, 12n, 20n], 'short'],
    [1n, [0n], 'short'],
    [1n, [], 'short'],
  ];
  for (const [units, lots, expected] of rows) {
    const found = chooseSources(units, lots.map(lot));
    assert.deepEqual(found === 'short' ? found : found.map((one) => [one.lot.units, one.units]), expected, `${units} of ${lots}`);
    if (found !== 'short')
      assert.equal(
        found.reduce((sum, one) => sum + one.units, 0n),
        units,
      );
  }
});

test('the deposits of a payout are read as they were stored, and what cannot be read pays nothing', () => {
  const parts: PayoutParts = [
    { address: payer.from, units: 25n, transfers: [{ paymentId: 'pay_1', ref: 'a:log', units: 25n }] },
    { address: first.from, units: 2n ** 70n, transfers: [{ paymentId: 'pay_2', ref: 'b:log', units: 0n }] },
  ];
  assert.deepEqual(partsFromJson(JSON.parse(JSON.stringify(partsToJson(parts)))), parts);
  assert.equal(partsFromJson(null), null);
  for (const value of [{}, { parts: [{}] }, { parts: [{ address: payer.from }] }, 7]) assert.deepEqual(partsFromJson(value), []);
  assert.notEqual(payoutNonce('po_1'), payoutNonce('po_2'));
  assert.notEqual(gatherNonce('po_1', first.from), gatherNonce('po_1', second.from));
  assert.notEqual(gatherNonce('po_1', first.from), payoutNonce('po_1'));
});

test('the recipients are shown, what moves between addresses of the wallet is not, and only payments may not fail', () => {
  const review = describeFile(made.file);
  assert.deepEqual([review.title, review.total, review.inputs, review.together], ['Payouts in USDC on Ethereum', '65.00 USDC', 4n, 3]);
  assert.deepEqual(review.destinations, [
    { what: 'Payout po_0', to: made.recipients[0], amount: '60.00 USDC' },
    { what: 'Payout po_1', to: made.recipients[1], amount: '5.00 USDC' },
  ]);
  assert.equal(describeFile(withThese([alone])).together, 0);
  const { text } = sign(made.file);
  assert.equal(readSigned(text, readSignedFile).check(made.file).length, 1);
  const { data } = readTransaction(Buffer.from(readSignedFile(text).transactions[0]!, 'hex'))!;
  // aggregate3((address,bool,bytes)[]): the second word of each call.
  const word = (at: number) => Number(BigInt(`0x${Buffer.from(data.subarray(at, at + 32)).toString('hex')}`));
  const list = 4 + 2 * 32;
  assert.deepEqual(
    [0, 1, 2, 3].map((i) => word(list + word(list + i * 32) + 32)),
    [1, 1, 0, 0],
  );
});

test('the signer moves money between addresses only for a payout that the other one makes afterwards', () => {
  const rows: [what: string, file: SigningFile, reason: RegExp][] = [
    ['to a stranger', withThese([changed(first, { to: STRANGER }), second, payer, alone]), /does not pay it to a recipient afterwards/],
    [
      'to an address of the wallet that pays nobody',
      withThese([changed(first, { to: made.recipients[0]! }), second, payer, alone]),
      /does not pay it to a recipient afterwards/,
    ],
    ['after the payment', withThese([second, payer, first, alone]), /does not pay it to a recipient afterwards/],
    ['to an address that only gathers', withThese([changed(first, { to: second.from }), second, payer, alone]), /afterwards/],
    ['to an address that pays twice', withThese([first, second, payer, { ...alone, from: payer.from, path: payer.path }]), /afterwards/],
    ['for a refund', withThese([first, second, changed(payer, { purpose: 'refund' }), alone]), /afterwards/],
    ['more than is paid', withThese([changed(first, { units: 60_000_000n }), second, payer, alone]), /more money to an address/],
    ['all that is paid', withThese([changed(first, { units: 50_000_000n }), second, payer, alone]), /more money to an address/],
    ['to itself', withThese([{ ...first, from: payer.from, path: payer.path }, second, payer, alone]), /to the same address/],
    ['from a stranger', withThese([{ ...first, from: STRANGER }, second, payer, alone]), /does not belong to path/],
    ['through another path', withThese([{ ...first, path: { chain: 1, index: 0 } }, second, payer, alone]), /does not belong to path/],
    ['in another contract', withThese([first, second, payer, alone], { contract: STRANGER }), /another contract/],
  ];
  for (const [what, file, reason] of rows)
    assert.throws(
      () => sign(file, everybody),
      (error: unknown) => error instanceof SignerError && reason.test(error.message),
      what,
    );
  assert.throws(() => sign(made.file, made.recipients[0]), /not among the recipients/);
});

test('nothing but an authorization can be said to move money between addresses of the wallet', () => {
  for (const coin of ['ETH', 'USDT@ethereum'] as const) {
    const { file, customer } = sentRefundFile(coin);
    const content = signingFileText(file).replace('"purpose":"refund"', '"purpose":"gather"');
    assert.throws(() => signFile({ content, secret: PHRASE, recipients: customer }), FileError, coin);
  }
});

test('the service refuses every signed file that is not exactly what was asked', () => {
  const { file } = made;
  // Each is signed by the holder of the keys, so that all signatures are valid.
  const signedAs = (given: SigningFile) => readSignedFile(sign(given, everybody).text).transactions;
  const check = (transactions: readonly string[]) =>
    readSigned(signedFileText({ id: file.id, round: 0, transactions }), readSignedFile).check(file);
  const [right] = signedAs(file);
  assert.equal(check([right!]).length, 1);
  const { data } = readTransaction(Buffer.from(right!, 'hex'))!;
  const signatures = signaturesIn(data, 4)!;
  const gasKey = masterKey().derive("m/44'/60'/0'/1/0").privateKey!;
  /** The same authorizations, with other calls that may fail. */
  const withFlags = (mayFail: (one: Authorization) => boolean): string[] => {
    const tx = transactionOf(made.request, file, { signatures, mayFail });
    return [Buffer.from(signedBytes(tx, signHash(signingHash(tx), gasKey))).toString('hex')];
  };
  assert.deepEqual(
    withFlags(({ line }) => line.purpose === 'gather'),
    [right],
  );
  const rows: [what: string, transactions: readonly string[]][] = [
    ['payments that may fail', withFlags(() => true)],
    ['a payment that may fail', withFlags((one) => one !== alone)],
    ['gathering that may not fail', withFlags(() => false)],
    ['another recipient', signedAs(withThese([first, second, changed(payer, { to: STRANGER }), alone]))],
    ['gathered on the other payer', signedAs(withThese([changed(first, { to: alone.from, units: 1n }), second, payer, alone]))],
    ['less gathered', signedAs(withThese([changed(first, { units: 24_999_999n }), second, payer, alone]))],
    ['more gathered', signedAs(withThese([changed(first, { units: 25_000_001n }), second, payer, alone]))],
    ['another order of gathering', signedAs(withThese([second, first, payer, alone]))],
    ['another order of payments', signedAs(withThese([first, second, alone, payer]))],
    ['one less gathered', signedAs(withThese([first, payer, alone]))],
    ['the nonce of another payout', signedAs(withThese([first, second, { ...payer, nonce: payoutNonce('po_9') }, alone]))],
    [
      'another nonce of what is gathered',
      signedAs(withThese([{ ...first, nonce: gatherNonce('po_9', first.from) }, second, payer, alone])),
    ],
    ['a refund instead of a payout', signedAs(withThese([first, second, payer, changed(alone, { purpose: 'refund' })]))],
    ['none', []],
  ];
  for (const [what, transactions] of rows) assert.throws(() => check(transactions), { code: 'signed_file_refused' }, what);
});
