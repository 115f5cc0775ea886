/** Payouts in tokens that deposits pay together: which of them, files of a malicious server, and malicious signed files. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SignerError } from '../../signer/secret.ts';
import { describeFile, signFile } from '../../signer/sign.ts';
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
import {
  readSignedTransaction as readTransaction,
  signaturesIn,
  signedBytes,
  signHash,
  signingHash,
  transactionOf,
} from '../../src/evm/transaction.ts';
import { DEFAULT_WISH, type Holding, type PayoutParts, partsFromJson, partsToJson, selectHoldings } from '../../src/signing/holdings.ts';
import type { AccountLot } from '../../src/signing/make-accounts.ts';
import { chooseSources, gatherNonce, payoutNonce } from '../../src/signing/payout-accounts.ts';
import { readUpload } from '../../src/signing/signed.ts';
import { masterKey, ROOT, recordsFor, sentRefundFile, tokenPayoutFile } from '../kit/signing.ts';

const made = tokenPayoutFile();
const [first, second, payer, alone] = made.request.authorizations as [Authorization, Authorization, Authorization, Authorization];
const STRANGER = '0x00000000000000000000000000000000000b11ce';
/** Every address with what the file pays it. */
const everybody = (file: SigningFile): string =>
  recordsFor(signingFileText(file), [...made.recipients, STRANGER, first.from, second.from, payer.from, alone.from]);
const records = `${made.recipients[0]} 60\n${made.recipients[1]} 5.00`;
const sign = (file: SigningFile, recipients = records) => signFile({ content: signingFileText(file), secret: ROOT, recipients });

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
  const lot = (units: bigint): AccountLot => ({ address: `0x${units}`, index: 0, units, holdings: [] as Holding[] });
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

test('what strangers send to an account keeps none of its other money there, also if they send it all the time', () => {
  const holding = (address: string, stays: Holding['stays']) =>
    ({ address, units: 5n, leftUnits: 5n, stays, firstSeenAt: new Date(0) }) as Holding;
  const all = [
    holding('a', null),
    holding('a', 'unconfirmed'),
    holding('b', null),
    holding('b', 'disputed'),
    holding('c', 'refund_requested'),
  ];
  const chosen = selectHoldings(all, { wish: DEFAULT_WISH, now: new Date(1), wholeAddress: true });
  assert.deepEqual(
    chosen.map(({ stays }) => stays),
    [null, 'unconfirmed', 'disputed', 'disputed', 'refund_requested'],
  );
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
  assert.equal(readUpload(text, readSignedFile).check(made.file).length, 1);
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
      () => sign(file, everybody(file)),
      (error: unknown) => error instanceof SignerError && reason.test(error.message),
      what,
    );
  assert.throws(() => sign(made.file, made.recipients[0]), /not among the recipients/);
});

test('the signer pays each payout the amount that was entered for it, in the forms in which people have it', () => {
  const [one, other] = made.recipients as [string, string];
  const csv = `reference,currency,amount,address\npo_0,USDC,60,${one}\n"po_1",USDC,5.00,"${other}"`;
  for (const recipients of [records, `${one.toLowerCase()}\t60.000000\r\n${other};5`, `${one} 60 ${other} 5`, csv])
    assert.equal(sign(made.file, recipients).text, sign(made.file).text, recipients);
  const exchanged = withThese([first, second, changed(payer, { to: other }), changed(alone, { to: one })]);
  const rows: [what: string, file: SigningFile, recipients: string, reason: RegExp][] = [
    ['amounts of two recipients are exchanged', exchanged, records, /which is not the amount that you entered/],
    ['another amount', made.file, `${one} 61\n${other} 5`, /pays 60.00 USDC to .* which is not the amount/],
    ['no amounts', made.file, `${one}\n${other}`, /Enter the amount of each payout after its address/],
    ['no amount for one of them', made.file, `${one} 60\n${other}`, /None is entered for/],
    ['one amount for two payouts', withThese([first, second, payer, changed(alone, { to: one })]), `${one} 60`, /not the amount/],
  ];
  for (const [what, file, recipients, reason] of rows) assert.throws(() => sign(file, recipients), reason, what);
});

test('the signer authorizes nothing for longer than 8 days after the clock of its device', () => {
  const { validBefore } = made.request;
  const at = (nowSeconds: number) => signFile({ content: signingFileText(made.file), secret: ROOT, recipients: records, nowSeconds });
  assert.ok(at(validBefore - 8 * 86_400).text);
  assert.throws(() => at(validBefore - 8 * 86_400 - 1), /for longer than 8 days/);
});

test('a fee above 0.05 ETH for an address needs a typed word', () => {
  const { file, request } = made;
  const dear = (max: bigint): SigningFile => ({ ...file, gasPrice: { max, tip: 1n }, feeUnits: request.gas * max });
  const sign = (of: SigningFile, fee?: string) =>
    signFile({ content: signingFileText(of), secret: ROOT, recipients: records, ...(fee !== undefined && { fee }) });
  // Four addresses.
  const most = (4n * 5n * 10n ** 16n) / request.gas;
  assert.ok(sign(dear(most)).text);
  assert.equal(describeFile(dear(most)).hasHighFee, false);
  assert.equal(describeFile(dear(most + 1n)).hasHighFee, true);
  for (const typed of [undefined, '', 'HIGH', 'yes']) assert.throws(() => sign(dear(most + 1n), typed), /Type HIGH FEE if that is right/);
  assert.ok(sign(dear(most + 1n), ' high fee ').text);
});

test('nothing but an authorization can be said to move money between addresses of the wallet', () => {
  for (const coin of ['ETH', 'USDT@ethereum'] as const) {
    const { file, customer } = sentRefundFile(coin);
    const content = signingFileText(file).replace('"purpose":"refund"', '"purpose":"gather"');
    assert.throws(() => signFile({ content, secret: ROOT, recipients: customer }), FileError, coin);
  }
});

test('the service refuses every signed file that is not exactly what was asked', () => {
  const { file } = made;
  // Each is signed by the holder of the keys, so that all signatures are valid.
  const signedAs = (given: SigningFile) => readSignedFile(sign(given, everybody(given)).text).transactions;
  const check = (transactions: readonly string[]) =>
    readUpload(signedFileText({ id: file.id, round: 0, transactions }), readSignedFile).check(file);
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
