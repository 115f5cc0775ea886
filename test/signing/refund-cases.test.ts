/** Refunds in signing files: which outputs pay, files of a malicious server, malicious signed files, and higher fees. */
// Invariant: A refund in ETH or a token is paid once, also when its files are made again, uploaded twice, or its block is replaced.
// Invariant: A refund that is signed offline is paid once and in full, also when its file is made again or its fee is raised.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bytesToHex, hexToBytes } from '@noble/hashes/utils.js';
import { base64 } from '@scure/base';
import { Transaction } from '@scure/btc-signer';
import { SignerError } from '../../signer/secret.ts';
import { describeFile, signFile } from '../../signer/sign.ts';
import {
  type BatchRequest,
  type FundRequest,
  type Line,
  type PsbtRequest,
  readSignedFile,
  type SigningFile,
  signedFileText,
  signingFileText,
} from '../../src/core/signing-file.ts';
import type { Holding } from '../../src/signing/holdings.ts';
import { chooseLots, type OutputLot } from '../../src/signing/out-payments.ts';
import { refundNonce, sharesOf } from '../../src/signing/refund-accounts.ts';
import { replacePsbts } from '../../src/signing/replace.ts';
import { readUpload } from '../../src/signing/signed.ts';
import { addressesOf, ROOT, refundFile, sentRefundFile, tokenRefundFile } from '../kit/signing.ts';

const STRANGER = 'bc1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qccfmv3';
const otherScript = hexToBytes(`0014${'cd'.repeat(20)}`);
const made = refundFile('BTC', 'p2wpkh', 2);
const entered = { destination: made.destination, recipients: made.customer };
const request = made.file.requests[0] as PsbtRequest;
const [refund, rest] = request.lines as [PsbtRequest['lines'][number], PsbtRequest['lines'][number]];
type Entered = { destination?: string; recipients?: string };
const sign = (file: SigningFile, given: Entered = entered) => signFile({ content: signingFileText(file), secret: ROOT, ...given });

/** The file with another transaction; `lines` tell the truth about it unless they are given. */
function changed(edit: (tx: Transaction) => void, more: Partial<PsbtRequest> = {}, file: Partial<SigningFile> = {}): SigningFile {
  const tx = Transaction.fromPSBT(base64.decode(request.psbt), { allowUnknownOutputs: true });
  edit(tx);
  const psbt = base64.encode(tx.toPSBT(0));
  const lines = more.lines ?? request.lines;
  const totalUnits = lines.reduce((sum, { units }) => sum + units, 0n);
  const feeUnits = more.feeUnits ?? request.feeUnits;
  return { ...made.file, requests: [{ ...request, psbt, ...more }], totalUnits, feeUnits, ...file };
}

test('a refund is shown with its payment, its address and its amount, and signed for exactly that', () => {
  const review = describeFile(made.file);
  assert.equal(review.title, 'Refunds in BTC');
  assert.deepEqual(review.destinations, [
    { what: 'Refund for payment pay_4fTq0ZcJb8sWn2LxR7vKd1Ye', to: made.customer, amount: '0.50000000 BTC' },
    { what: 'The rest, to your own wallet', to: made.destination, amount: review.destinations[1]!.amount },
  ]);
  const [checked] = readUpload(sign(made.file).text, readSignedFile).check(made.file);
  const tx = Transaction.fromRaw(checked!.raw, { allowUnknownOutputs: true });
  assert.deepEqual([tx.outputsLength, tx.getOutput(0).amount, tx.getOutput(1).amount], [2, made.units, rest.units]);
  assert.equal(made.outputs.reduce((sum, { units }) => sum + units, 0n) - made.units - rest.units, request.feeUnits);
});

test('the signer refuses what a malicious server may ask in a refund', () => {
  const swapped = (at: number) => request.lines.with(at, { ...request.lines[at]!, to: STRANGER });
  const strangers = hexToBytes(`0020${bytesToHex(new Uint8Array(32))}`);
  const asked = Transaction.fromPSBT(base64.decode(request.psbt));
  const [theirs, ours] = [asked.getOutput(0).script!, asked.getOutput(1).script!];
  const both = `${made.customer}\n${made.destination}`;
  const [notOwn, notRecipient] = [/not the address that you entered/, /not among the recipients/];
  const rows: [what: string, file: SigningFile, reason: RegExp, given?: Entered][] = [
    [
      'another customer in file and transaction',
      changed((tx) => tx.updateOutput(0, { script: strangers }), { lines: swapped(0) }),
      notRecipient,
    ],
    ['another address for the rest', changed((tx) => tx.updateOutput(1, { script: strangers }), { lines: swapped(1) }), notOwn],
    [
      'the rest to a customer who colludes',
      changed((tx) => tx.updateOutput(1, { script: theirs }), { lines: [refund, { ...rest, to: made.customer }] }),
      notOwn,
    ],
    [
      'the refund to the address of the merchant, so that the customer gets nothing',
      changed((tx) => tx.updateOutput(0, { script: ours }), { lines: [{ ...refund, to: made.destination }, rest] }),
      notRecipient,
    ],
    [
      'customer and merchant exchanged',
      changed(
        (tx) => {
          tx.updateOutput(0, { script: ours });
          tx.updateOutput(1, { script: theirs });
        },
        {
          lines: [
            { ...refund, to: made.destination },
            { ...rest, to: made.customer },
          ],
        },
      ),
      notOwn,
    ],
    [
      'the rest of a payout to its recipient',
      changed((tx) => tx.updateOutput(1, { script: theirs }), {
        lines: [
          { ...refund, purpose: 'payout' },
          { ...rest, to: made.customer },
        ],
      }),
      notOwn,
    ],
    ['a payout to the address of the merchant', changed(() => {}, { lines: [refund, { ...rest, purpose: 'payout' }] }), notRecipient],
    ['an address for the rest that nobody entered', made.file, /Enter your own/, { recipients: made.customer }],
    ['an address of the merchant that is only among the recipients', made.file, /Enter your own/, { recipients: both }],
    ['a customer that nobody entered', made.file, /Enter the recipients/, { destination: made.destination }],
    ['the address of the merchant as the only recipient', made.file, notRecipient, { ...entered, recipients: made.destination }],
    ['a customer that is entered as that of the merchant', made.file, notOwn, { ...entered, destination: made.customer }],
    ['two addresses as that of the merchant', made.file, /Enter one address/, { ...entered, destination: both }],
    ['another customer in the transaction', changed((tx) => tx.updateOutput(0, { script: otherScript })), /pays another address/],
    [
      'another address for the rest in the transaction',
      changed((tx) => tx.updateOutput(1, { script: otherScript })),
      /pays another address/,
    ],
    ['a larger refund in the transaction', changed((tx) => tx.updateOutput(0, { amount: refund.units + 1n })), /pays another amount/],
    ['a smaller rest, as a hidden fee', changed((tx) => tx.updateOutput(1, { amount: rest.units - 1_000n })), /pays another amount/],
    [
      'a smaller rest that the file admits, with the old fee',
      changed((tx) => tx.updateOutput(1, { amount: rest.units - 1_000n }), { lines: [refund, { ...rest, units: rest.units - 1_000n }] }),
      /fee of the transaction/,
    ],
    [
      'nearly all of the rest as the fee',
      changed((tx) => tx.updateOutput(1, { amount: 1_000n }), {
        lines: [refund, { ...rest, units: 1_000n }],
        feeUnits: request.feeUnits + rest.units - 1_000n,
      }),
      /more than 25 percent/,
    ],
    ['an output that the file does not name', changed((tx) => tx.addOutput({ script: otherScript, amount: 600n })), /does not name/],
    ['the rest disguised as a sweep of its own', changed(() => {}, { lines: [{ ...refund, purpose: 'sweep' }, rest] }), /names several/],
    ['the outputs in another order', changed(() => {}, { lines: [rest, refund] }), /pays another address/],
    ['another chain', { ...made.file, coin: 'LTC' }, /another wallet|pays another address|belong/],
    ['a total that is too low', { ...made.file, totalUnits: made.file.totalUnits - 1n }, /not the sum of its payments/],
  ];
  for (const [what, file, reason, given] of rows)
    assert.throws(
      () => sign(file, given),
      (error: unknown) => error instanceof SignerError && reason.test(error.message),
      what,
    );
});

test('the service refuses every signed refund that is not exactly what was asked', () => {
  const chain = addressesOf('BTC', 'p2wpkh');
  /** Signed by the holder of the keys, so that all signatures are valid. */
  const signedWith = (edit: (tx: Transaction) => void): string => {
    const tx = Transaction.fromPSBT(base64.decode(request.psbt), { allowUnknownOutputs: true });
    edit(tx);
    for (const [i, { index }] of made.outputs.entries()) tx.signIdx(chain.deriveChild(Number(index)).privateKey!, i);
    tx.finalize();
    return bytesToHex(tx.extract());
  };
  const check = (transactions: string[], file = made.file) =>
    readUpload(signedFileText({ id: file.id, round: 0, transactions }), readSignedFile).check(file);
  assert.equal(check([signedWith(() => {})]).length, 1);
  const rows: [what: string, transactions: string[], reason: RegExp][] = [
    ['another customer', [signedWith((tx) => tx.updateOutput(0, { script: otherScript }))], /another address/],
    ['another address for the rest', [signedWith((tx) => tx.updateOutput(1, { script: otherScript }))], /another address/],
    ['a larger refund', [signedWith((tx) => tx.updateOutput(0, { amount: refund.units + 1n }))], /another amount/],
    ['a higher fee', [signedWith((tx) => tx.updateOutput(1, { amount: rest.units - 1n }))], /another amount/],
    ['a third output', [signedWith((tx) => tx.addOutput({ script: otherScript, amount: 1_000n }))], /number of outputs/],
    ['the transaction twice', [signedWith(() => {}), signedWith(() => {})], /number of transactions/],
    ['a refund of another file', [readSignedFile(sign(refundFile('BTC', 'p2wpkh', 1).file).text).transactions[0]!], /number of inputs/],
  ];
  for (const [what, transactions, reason] of rows)
    assert.throws(
      () => check(transactions),
      (error: any) => error.code === 'signed_file_refused' && reason.test(error.message),
      what,
    );
});

test('a higher fee is paid by what goes to the merchant; the refund and its inputs stay, and without such a rest it is refused', () => {
  const raise = {
    rateE8: 2_000_000_000n,
    relayE8: 100_000_000n,
    leastUnits: 546n,
    signed: [{ feeUnits: request.feeUnits, size: 200n, isMined: false }],
  };
  const [replaced] = replacePsbts([request], raise) as [PsbtRequest];
  assert.deepEqual(replaced.lines[0], refund);
  assert.equal(replaced.lines[1]!.units, rest.units + request.feeUnits - replaced.feeUnits);
  assert.ok(replaced.feeUnits > request.feeUnits);
  const [before, after] = [request, replaced].map(({ psbt }) => Transaction.fromPSBT(base64.decode(psbt), { allowUnknownOutputs: true }));
  assert.equal(after!.getOutput(0).amount, before!.getOutput(0).amount);
  for (let i = 0; i < 2; i++) assert.deepEqual(after!.getInput(i).txid, before!.getInput(i).txid);
  assert.equal(replacePsbts([{ ...request, lines: [refund] }], raise), 'money');
});

test('the output of the customer always pays, others only if they must, and an earlier output is never exchanged', () => {
  let next = 0;
  const lot = (units: bigint): OutputLot => {
    const txid = (++next).toString(16).padStart(64, '0');
    const holding = { units } as Holding;
    return { holding, units, parts: [{ txid, n: 0, units, blockHash: '', index: 0n, holding }] };
  };
  const anchor = ({ parts }: OutputLot) => `${parts[0]!.txid}:0`;
  const script = hexToBytes(`0014${'ab'.repeat(20)}`);
  const choose = (units: bigint, own: OutputLot[], others: OutputLot[], anchored: string | null = null) =>
    chooseLots({
      units,
      scripts: [script],
      anchors: anchored === null ? [] : [anchored],
      own,
      others,
      wallet: { chainKey: '02'.repeat(65), script: 'p2wpkh' },
      rateE8: 100_000_000n,
      mostBlocks: 1,
    });
  const [a, b, small, large] = [lot(100_000n), lot(40_000n), lot(5_000n), lot(900_000n)];
  const rows: [what: string, found: ReturnType<typeof choose>, lots: OutputLot[] | string][] = [
    ['a part of it', choose(50_000n, [a], [small, large]), [a]],
    ['all of it needs the smallest other one for the fee', choose(100_000n, [a], [large, small]), [a, small]],
    ['two transfers of the customer before any other', choose(120_000n, [b, a], [large]), [a, b]],
    ['nothing of the payment is left', choose(50_000n, [], [small, large]), [large]],
    ['an earlier file spent the smaller one', choose(10_000n, [a, b], [], anchor(b)), [b]],
    ['an earlier file spent another one', choose(10_000n, [a], [large], anchor(large)), [large]],
    ['what an earlier file spent is gone', choose(10_000n, [a], [large], anchor(b)), 'moved'],
    ['too little', choose(100_000n, [a], []), 'short'],
    ['nothing', choose(1n, [], []), 'short'],
  ];
  for (const [what, found, lots] of rows) {
    assert.deepEqual(typeof found === 'string' ? found : found.lots, lots, what);
    if (typeof found !== 'string') assert.equal(found.anchor, anchor(found.lots[0]!), what);
  }
});

test('a refund never pays a fee above its share, spends dust, or has more inputs than a transaction holds', () => {
  let next = 0;
  const lot = (count: number, each: bigint): OutputLot => {
    const txid = (++next).toString(16).padStart(64, '0');
    const units = each * BigInt(count);
    const holding = { units } as Holding;
    const parts = Array.from({ length: count }, (_, n) => ({ txid, n, units: each, blockHash: '', index: 0n, holding }));
    return { holding, units, parts };
  };
  const anchor = ({ parts }: OutputLot) => `${parts[0]!.txid}:0`;
  const script = hexToBytes(`0014${'ab'.repeat(20)}`);
  const choose = (units: bigint, own: OutputLot[], others: OutputLot[], anchored: string | null = null) =>
    chooseLots({
      units,
      scripts: [script],
      anchors: anchored === null ? [] : [anchored],
      own,
      others,
      wallet: { chainKey: '02'.repeat(65), script: 'p2wpkh' },
      rateE8: 2_000_000_000n,
      mostBlocks: 1,
    });
  const [dust, main, large] = [lot(490, 546n), lot(1, 300_000n), lot(1, 9_000_000n)];
  const [crumb, many] = [lot(1, 1_000n), lot(501, 100_000n)];
  const rows: [what: string, found: ReturnType<typeof choose>, lots: OutputLot[] | string][] = [
    ['a payment of dust is not exchanged for the money of others', choose(267_540n, [dust], [large]), 'fee'],
    ['not even if an earlier file spent it', choose(267_540n, [dust], [large], anchor(dust)), 'fee'],
    ['dust beside a transfer that is enough', choose(290_000n, [dust, main], [large]), [main]],
    ['dust beside a transfer that is not enough', choose(500_000n, [dust, main], [large]), 'fee'],
    ['dust that is left of a payment', choose(290_000n, [crumb], [large]), [large]],
    ['dust of others', choose(299_000n, [main], [dust, crumb, large]), [main, large]],
    ['too small for the fee', choose(5_000n, [main], []), 'fee'],
    ['too many inputs', choose(50_000_000n, [many], [large]), 'many'],
  ];
  for (const [what, found, lots] of rows) assert.deepEqual(typeof found === 'string' ? found : found.lots, lots, what);
});

const tokens = tokenRefundFile(2);
const [someone, another] = [tokens.customers[0]!, tokens.customers[1]!];
const stranger = '0x00000000000000000000000000000000000b11ce';
const own = '0x0000000000000000000000000000000000000a0e';
const signTokens = (file: SigningFile, recipients = tokens.customers.join(' ')) =>
  signFile({ content: signingFileText(file), secret: ROOT, destination: own, recipients });
/** The file with another request, whose sums are right. */
function withRequest(more: Partial<BatchRequest>, file: Partial<SigningFile> = {}): SigningFile {
  const request = { ...tokens.request, ...more };
  const totalUnits = request.authorizations.reduce((sum, { line }) => sum + line.units, 0n);
  return { ...tokens.file, requests: [request], totalUnits, feeUnits: request.gas * tokens.file.gasPrice!.max, ...file };
}
type Change = { nonce?: string; to?: string; units?: bigint; from?: string };
/** The file with another first authorization. */
function withFirst({ nonce, to, units, from }: Change, file: Partial<SigningFile> = {}): SigningFile {
  const [first, ...others] = tokens.request.authorizations;
  const line = { ...first!.line, to: to ?? first!.line.to, units: units ?? first!.line.units };
  return withRequest({ authorizations: [{ ...first!, from: from ?? first!.from, nonce: nonce ?? first!.nonce, line }, ...others] }, file);
}

test('refunds of tokens are shown one by one, and authorized for exactly that', () => {
  const review = describeFile(tokens.file);
  assert.equal(review.title, 'Refunds in USDC on Ethereum');
  assert.deepEqual(review.destinations, [
    { what: 'Refund for payment pay_0', to: someone, amount: '5.00 USDC' },
    { what: 'Refund for payment pay_1', to: another, amount: '5.00 USDC' },
  ]);
  assert.equal(readUpload(signTokens(tokens.file).text, readSignedFile).check(tokens.file).length, 1);
  assert.notEqual(refundNonce('ref_1'), refundNonce('ref_2'));
});

test('the signer refuses what a malicious server may ask in refunds of tokens', () => {
  const { request, file } = tokens;
  const [first] = request.authorizations;
  const sender = { from: request.from, path: request.path, gas: 21_000n } as const;
  const native = { kind: 'native', ...sender, nonce: 8, line: { ...first!.line, purpose: 'sweep', to: own } } as const;
  const fund = { kind: 'fund', ...sender, nonce: 8, to: stranger, units: 1n } as const;
  const feeUnits = file.feeUnits + 21_000n * file.gasPrice!.max;
  const rows: [what: string, file: SigningFile, reason: RegExp, entered?: string][] = [
    ['another customer', withFirst({ to: stranger }), /not among the recipients/],
    ['a customer that nobody entered', file, /not among the recipients/, someone],
    ['no recipients', file, /Enter the recipients/, ''],
    ['a part that goes to a customer as if to the merchant', sweepLines(1), /not the address that you entered/],
    ['a larger refund than the total', withFirst({ units: 6_000_000n }, { totalUnits: file.totalUnits }), /not the sum of its payments/],
    ['an address of somebody else', withFirst({ from: stranger }), /does not belong to path/],
    ['a gas address of somebody else', withRequest({ from: stranger }), /does not belong to path/],
    ['another contract', withRequest({ contract: stranger }), /another contract/],
    ['much gas', withRequest({ gas: 9_999_999n }), /more gas/],
    ['another network', { ...file, chainId: 10 }, /another network/],
    ['a hidden fee', { ...file, feeUnits: 1n }, /not the sum of its fees/],
    [
      'ETH in addition',
      { ...file, requests: [request, native], totalUnits: file.totalUnits + native.line.units, feeUnits },
      /another coin/,
    ],
    ['ETH to a stranger as gas', { ...file, requests: [request, fund], feeUnits }, /does not need it/],
    ['refunds disguised as a sweep', sweepLines(2), /names several/],
  ];
  for (const [what, given, reason, entered] of rows)
    assert.throws(
      () => signTokens(given, entered),
      (error: unknown) => error instanceof SignerError && reason.test(error.message),
      what,
    );
});
/** The file with the first lines as if they went to the merchant. */
const sweepLines = (count: number): SigningFile =>
  withRequest({
    authorizations: tokens.request.authorizations.map((one, i) =>
      i < count ? { ...one, line: { ...one.line, purpose: 'sweep' as const } } : one,
    ),
  });

test('the service refuses every signed refund of a token that is not exactly what was asked', () => {
  const { request, file } = tokens;
  const [first, second] = request.authorizations;
  // Each is signed by the holder of the keys, so that all signatures are valid.
  const signedAs = (given: SigningFile) => readSignedFile(signTokens(given, [...tokens.customers, stranger].join(' ')).text).transactions;
  const check = (transactions: readonly string[]) =>
    readUpload(signedFileText({ id: file.id, round: 0, transactions }), readSignedFile).check(file);
  const [right] = signedAs(file);
  assert.equal(check([right!]).length, 1);
  const rows: [what: string, transactions: readonly string[]][] = [
    ['another customer', signedAs(withFirst({ to: stranger }))],
    ['a larger refund', signedAs(withFirst({ units: 5_000_001n }))],
    ['a smaller refund', signedAs(withFirst({ units: 4_999_999n }))],
    ['the nonce of another refund, so that this one could be paid again', signedAs(withFirst({ nonce: refundNonce('ref_9') }))],
    ['a longer validity', signedAs(withRequest({ validBefore: request.validBefore + 1 }))],
    ['another domain', signedAs(withRequest({ domain: { name: 'USD Coin', version: '1' } }))],
    ['one refund fewer', signedAs(withRequest({ authorizations: [first!] }))],
    ['one refund more', signedAs(withRequest({ authorizations: [first!, second!, { ...first!, nonce: refundNonce('ref_9') }] }))],
    ['the refunds in another order', signedAs(withRequest({ authorizations: [second!, first!] }))],
    ['another nonce of the gas address', signedAs(withRequest({ nonce: 8 }))],
    ['a higher fee', signedAs(withRequest({ gas: request.gas + 1n }))],
    ['the transaction twice', [right!, right!]],
    ['none', []],
  ];
  for (const [what, transactions] of rows) assert.throws(() => check(transactions), { code: 'signed_file_refused' }, what);
});

test('a refund takes the oldest transfers of its address, and all of them when nothing is left', () => {
  const holdings = [25n, 25n, 25n].map((units) => ({ units, leftUnits: units }) as Holding);
  const shares = (held: bigint, units: bigint) =>
    sharesOf({ address: '', index: 0, units: 75n, holdings }, { held, units }).map((one) => one.units);
  assert.deepEqual(shares(75n, 10n), [10n, 0n, 0n]);
  assert.deepEqual(shares(75n, 40n), [25n, 15n, 0n]);
  assert.deepEqual(shares(75n, 75n), [25n, 25n, 25n]);
  assert.deepEqual(shares(30n, 30n), [25n, 25n, 25n], 'an earlier refund took the rest');
  const left = [10n, 25n, 25n].map((leftUnits) => ({ units: 25n, leftUnits }) as Holding);
  const rest = (units: bigint) =>
    sharesOf({ address: '', index: 0, units: 60n, holdings: left }, { held: 60n, units }).map((one) => one.units);
  assert.deepEqual(rest(4n), [4n, 0n, 0n]);
  assert.deepEqual(rest(10n), [25n, 0n, 0n], 'nothing remains of the first');
  assert.deepEqual(rest(50n), [25n, 25n, 15n]);
});

/** A refund that its deposit address sends: in native coin, and in a token without authorizations. */
for (const coin of ['ETH', 'USDT@ethereum'] as const) {
  const sent = sentRefundFile(coin);
  const { line } = sent.request;
  type Sender = Pick<FundRequest, 'from' | 'path' | 'nonce' | 'gas'>;
  type Edit = { fund?: Partial<FundRequest>; request?: Partial<Sender> & { contract?: string }; line?: Partial<Line> };
  /** The file with other requests, whose sums are right. */
  const edited = ({ fund = {}, request = {}, line: more = {} }: Edit, file: Partial<SigningFile> = {}): SigningFile => {
    const requests = [
      { ...sent.fund, ...fund },
      { ...sent.request, ...request, line: { ...line, ...more } },
    ] as const satisfies SigningFile['requests'];
    const price = (file.gasPrice ?? sent.file.gasPrice)!.max;
    const feeUnits = requests.reduce((sum, { gas }) => sum + gas * price, 0n);
    return { ...sent.file, requests, totalUnits: requests[1].line.units, feeUnits, ...file };
  };
  const signSent = (file: SigningFile, recipients = `${sent.customer} ${stranger}`) =>
    signFile({ content: signingFileText(file), secret: ROOT, destination: own, recipients });

  test(`a refund in ${coin} is shown with its address, amount, network and fee, and the signer refuses what a malicious server may ask`, () => {
    const review = describeFile(sent.file);
    assert.deepEqual(
      [review.title, review.network, review.isReal, review.destinations.map(({ what, to }) => [what, to])],
      [coin === 'ETH' ? 'Refunds in ETH' : 'Refunds in USDT on Ethereum', 'mainnet', true, [['Refund for payment pay_0', sent.customer]]],
    );
    assert.deepEqual(
      [review.destinations[0]!.amount, review.fee],
      coin === 'ETH' ? ['0.00500000 ETH', '0.00004200 ETH'] : ['5.00 USDT', '0.00008100 ETH'],
    );
    assert.equal(readUpload(signSent(sent.file, sent.customer).text, readSignedFile).check(sent.file).length, 2);
    const rows: [what: string, file: SigningFile, reason: RegExp][] = [
      ['another customer', edited({ line: { to: '0x00000000000000000000000000000000000fa15e' } }), /not among the recipients/],
      ['a refund that goes to the address of the merchant', edited({ line: { to: own } }), /not among the recipients/],
      ['a sweep to the customer', edited({ line: { purpose: 'sweep' } }), /not the address that you entered/],
      ['a larger refund than the total', edited({ line: { units: line.units + 1n } }, { totalUnits: line.units }), /not the sum/],
      ['an address of somebody else', edited({ request: { from: stranger }, fund: { to: stranger } }), /does not belong to path/],
      ['a gas address of somebody else', edited({ fund: { from: stranger } }), /does not belong to path/],
      ['gas for somebody else', edited({ fund: { to: stranger } }), /does not need it/],
      ['more for gas than it costs', edited({ fund: { units: sent.fund.units + 1n } }), /does not need it/],
      ['much gas', edited({ request: { gas: 300_001n } }), /more gas/],
      ['a high price of gas', edited({}, { gasPrice: { max: 6n * 10n ** 12n, tip: 1n } }), /price of gas/],
      ['a hidden fee', edited({}, { feeUnits: 1n }), /not the sum of its fees/],
      ['another network', edited({}, { chainId: 10 }), /another network/],
      ['the same nonce twice', edited({ fund: { from: sent.request.from, path: sent.request.path, nonce: 5 } }), /same nonce/],
      ...(coin === 'ETH'
        ? ([
            ['a fee above 25 percent', edited({ line: { units: 10n ** 14n } }), /more than 25 percent/],
            ['gas for a sweep, which pays for its own', edited({ line: { purpose: 'sweep', to: own } }), /does not need it/],
          ] as [string, SigningFile, RegExp][])
        : ([['another contract', edited({ request: { contract: stranger } }), /another contract/]] as [string, SigningFile, RegExp][])),
    ];
    for (const [what, file, reason] of rows)
      assert.throws(
        () => signSent(file),
        (error: unknown) => error instanceof SignerError && reason.test(error.message),
        what,
      );
  });

  test(`the service refuses every signed refund in ${coin} that is not exactly what was asked`, () => {
    // Each is signed by the holder of the keys, so that all signatures are valid.
    const signed = (file: SigningFile) => readSignedFile(signSent(file).text).transactions;
    const check = (transactions: readonly string[]) =>
      readUpload(signedFileText({ id: sent.file.id, round: 0, transactions }), readSignedFile).check(sent.file);
    const [fund, own] = signed(sent.file);
    assert.equal(check([fund!, own!]).length, 2);
    const rows: [what: string, transactions: readonly string[]][] = [
      ['another customer', signed(edited({ line: { to: stranger } }))],
      ['a larger refund', signed(edited({ line: { units: line.units + 1n } }))],
      ['a smaller refund', signed(edited({ line: { units: line.units - 1n } }))],
      ['another nonce, so that it could be paid again', signed(edited({ request: { nonce: 6 } }))],
      ['more gas', signed(edited({ request: { gas: sent.request.gas + 1n } }))],
      ['a higher fee', signed(edited({}, { gasPrice: { max: 10n ** 9n + 1n, tip: 1n } }))],
      ['less for gas', signed(edited({ fund: { units: 1n } }))],
      [
        'another address that sends it',
        signed(edited({ request: { from: sent.fund.from, path: sent.fund.path }, fund: { to: sent.fund.from } })),
      ],
      ['the requests in another order', [own!, fund!]],
      ['the refund twice', [own!, own!]],
      ['only the refund', [own!]],
      ['none', []],
      ...(coin === 'ETH'
        ? [['another network', signed(edited({}, { network: 'testnet', chainId: 11_155_111 }))] as [string, readonly string[]]]
        : []),
    ];
    for (const [what, transactions] of rows) assert.throws(() => check(transactions), { code: 'signed_file_refused' }, what);
  });
}
