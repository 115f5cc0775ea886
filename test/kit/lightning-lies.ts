/** Generated answers of Lightning back ends, most of them lies, and what must never follow from them. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import type { Context } from '../../src/context.ts';
import { asObject } from '../../src/core/stored-json.ts';
import { BACK_ENDS } from '../../src/lightning/access.ts';
import { BackEndError, type InvoiceLook } from '../../src/lightning/back-end.ts';
import { judgeLook } from '../../src/lightning/invoices.ts';
import { readWalletLook } from '../../src/lightning/nwc.ts';

const PREIMAGE = 'a7'.repeat(32);
const HASH = createHash('sha256').update(Buffer.from(PREIMAGE, 'hex')).digest('hex');
const MSAT = 10_000_000n;
const INVOICE = 'lnbc100u1invoice';
const base64 = (hex: string): string => Buffer.from(hex, 'hex').toString('base64');

/** A value of the right kind, or of any other. */
const nearly = (...right: readonly unknown[]): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...right) }, { weight: 1, arbitrary: fc.anything({ maxDepth: 1 }) });
const preimages = nearly(PREIMAGE, PREIMAGE.toUpperCase(), HASH, '0'.repeat(64), PREIMAGE.slice(2), `${PREIMAGE} `, null, '');
const ofAddress = fc.record(
  {
    status: nearly('OK', 'ERROR'),
    settled: nearly(true, false, 'true', 1),
    preimage: preimages,
    pr: nearly(INVOICE, INVOICE.toUpperCase(), `${INVOICE}x`),
  },
  { requiredKeys: [] },
);
const ofLnd = fc.record(
  {
    state: nearly('OPEN', 'SETTLED', 'CANCELED', 'ACCEPTED', 'settled'),
    settled: nearly(true, false),
    r_hash: nearly(base64(HASH), base64(PREIMAGE), HASH),
    r_preimage: nearly(base64(PREIMAGE), base64(HASH), PREIMAGE, ''),
    amt_paid_msat: nearly(String(MSAT), String(MSAT - 1n), String(2n * MSAT), '0', '-1', Number(MSAT), '9'.repeat(40)),
    settle_date: nearly('0', '1790000000', '-1'),
  },
  { requiredKeys: [] },
);
const ofCln = fc.record(
  {
    status: nearly('unpaid', 'paid', 'expired', 'PAID'),
    payment_hash: nearly(HASH, HASH.toUpperCase(), PREIMAGE),
    payment_preimage: preimages,
    amount_received_msat: nearly(Number(MSAT), Number(MSAT) - 1, `${MSAT}msat`, `${MSAT - 1n}msat`, -1, 1e30),
    paid_at: nearly(1_790_000_000, -1),
  },
  { requiredKeys: [] },
);
const listed = fc.record({ invoices: fc.oneof({ weight: 5, arbitrary: fc.tuple(ofCln) }, { weight: 1, arbitrary: fc.constant([]) }) });
const ofPhoenixd = fc.record(
  {
    isPaid: nearly(true, false, 'true'),
    paymentHash: nearly(HASH, PREIMAGE),
    preimage: preimages,
    requestedSat: nearly(10_000, 20_000),
    receivedSat: nearly(10_000, 0, 20_000, -1),
    fees: nearly(0, 1_000_000, -1),
    completedAt: nearly(1_790_000_000_000),
  },
  { requiredKeys: [] },
);
const ofLnbits = fc.record(
  {
    paid: nearly(true, false, 'true', 1),
    preimage: preimages,
    details: nearly({ payment_hash: HASH, amount: Number(MSAT) }, { payment_hash: PREIMAGE }, { amount: 1 }, {}),
  },
  { requiredKeys: [] },
);
const ofWallet = fc.record(
  {
    type: nearly('incoming', 'outgoing'),
    payment_hash: nearly(HASH, HASH.toUpperCase(), PREIMAGE),
    state: nearly('pending', 'settled', 'accepted', 'expired', 'failed', 'SETTLED', null, undefined),
    settled_at: nearly(1_790_000_000, 0, -1, null),
    preimage: preimages,
    amount: nearly(Number(MSAT), Number(MSAT) - 1, String(MSAT), 0, null),
  },
  { requiredKeys: [] },
);
const answers = fc.oneof(
  fc.tuple(fc.constant('address' as const), ofAddress),
  fc.tuple(fc.constant('lnd' as const), ofLnd),
  fc.tuple(fc.constant('cln' as const), listed),
  fc.tuple(fc.constant('phoenixd' as const), ofPhoenixd),
  fc.tuple(fc.constant('lnbits' as const), ofLnbits),
  fc.tuple(fc.constant('nwc' as const), ofWallet),
);
type Kind = 'address' | 'lnd' | 'cln' | 'phoenixd' | 'lnbits' | 'nwc';

/** A context whose requests all get one answer. */
const answering = (status: number, json: unknown): Context =>
  ({
    outgoing: { requestMerchantUrl: async () => ({ status, headers: {}, body: Buffer.from(JSON.stringify(json) ?? '') }) },
  }) as unknown as Context;

const isPreimage = (value: unknown): boolean => typeof value === 'string' && value.toLowerCase() === PREIMAGE;

/** No payment is larger than all bitcoin. */
const ALL_MSAT = 21_000_000n * 10n ** 11n;
/** Whether so much, in millisatoshis, can have paid the invoice. What is not a whole number says nothing. */
const mayBe = (given: unknown): boolean =>
  !Number.isSafeInteger(given) || (BigInt(given as number) >= MSAT && BigInt(given as number) <= ALL_MSAT);

/** Whether an answer is the truth about an invoice that was paid: everything that proves it is there, in the right form. */
function isProof(kind: Kind, status: number, json: any): boolean {
  if (kind === 'nwc') return isWalletProof(json);
  if (status !== 200 && !(status === 201 && (kind === 'cln' || kind === 'lnbits'))) return false;
  switch (kind) {
    case 'address':
      return (
        json.settled === true &&
        String(json.status).toUpperCase() !== 'ERROR' &&
        isPreimage(json.preimage) &&
        typeof json.pr === 'string' &&
        json.pr.toLowerCase() === INVOICE
      );
    case 'lnd': {
      const paid = typeof json.amt_paid_msat === 'string' && /^\d+$/.test(json.amt_paid_msat) ? BigInt(json.amt_paid_msat) : -1n;
      const isRight = json.r_hash === base64(HASH) && json.r_preimage === base64(PREIMAGE);
      return json.state === 'SETTLED' && isRight && paid >= MSAT && paid <= ALL_MSAT;
    }
    case 'cln': {
      const one = json.invoices[0];
      const given = one?.amount_received_msat;
      const received = typeof given === 'string' && /^\d{1,15}(msat)?$/.test(given) ? Number.parseInt(given, 10) : given;
      const isEnough = Number.isSafeInteger(received) && mayBe(received);
      return one?.status === 'paid' && one.payment_hash === HASH && isPreimage(one.payment_preimage) && isEnough;
    }
    case 'phoenixd':
      return json.isPaid === true && json.paymentHash === HASH && isPreimage(json.preimage) && isInFull(json);
    case 'lnbits': {
      const { payment_hash: about, amount } = Object(json.details);
      const isOther = typeof about === 'string' && about !== HASH;
      return json.paid === true && isPreimage(json.preimage) && !isOther && mayBe(amount);
    }
  }
}

/** What phoenixd received is without its fees, and may be less than was asked for. */
function isInFull({ receivedSat: received, requestedSat: asked, fees }: any): boolean {
  if (!Number.isSafeInteger(received) || !Number.isSafeInteger(asked)) return true;
  const paid = BigInt(received) * 1_000n + BigInt(Number.isSafeInteger(fees) && fees > 0 ? fees : 0);
  const most = paid > BigInt(asked) * 1_000n ? paid : BigInt(asked) * 1_000n;
  return most >= MSAT && most <= ALL_MSAT;
}

/** An answer of a wallet has no status: it comes over a relay, signed. */
function isWalletProof(json: any): boolean {
  const isTimed = Number.isSafeInteger(json.settled_at) && json.settled_at > 0;
  const isSettled = json.state === 'settled' || ((json.state ?? null) === null && isTimed);
  return json.payment_hash === HASH && json.type !== 'outgoing' && isSettled && isPreimage(json.preimage) && mayBe(json.amount);
}

/** What Florin reads in an answer about the invoice. Errors: BackEndError. */
function readAnswer(kind: Kind, status: number, json: unknown): Promise<InvoiceLook> | InvoiceLook {
  // Who signed it was checked before it is read.
  if (kind === 'nwc') return readWalletLook(asObject(JSON.parse(JSON.stringify(json))), HASH);
  const address = kind === 'address' ? 'shop@example.com' : 'https://node.example';
  const backEnd = BACK_ENDS[kind].open(answering(status, json), { merchantId: 'mer', address, credential: '00', certificate: null });
  return backEnd.look(kind === 'address' ? `https://example.com/verify ${INVOICE}` : HASH);
}

/** Asks the back ends about an invoice and judges their generated answers. Returns how many of these completed it, all of them with a proof, and by which kinds. */
export async function tellLies(count: number, seed: number): Promise<{ completed: number; kinds: ReadonlySet<Kind> }> {
  let completed = 0;
  const kinds = new Set<Kind>();
  const property = fc.asyncProperty(answers, fc.constantFrom(200, 200, 200, 201, 302, 404, 500), async ([kind, json], status) => {
    let look: InvoiceLook | null = null;
    try {
      look = await readAnswer(kind, status, json);
    } catch (error) {
      assert.ok(error instanceof BackEndError, String(error));
    }
    const verdict = look !== null ? judgeLook({ paymentHash: HASH, msat: MSAT }, look) : null;
    const isPaid = verdict?.is === 'paid';
    if (isPaid) assert.ok(verdict.feeMsat >= 0n && verdict.feeMsat <= verdict.msat);
    assert.equal(isPaid, isProof(kind, status, json));
    if (isPaid) {
      completed++;
      kinds.add(kind);
    }
  });
  await fc.assert(property, { numRuns: count, seed });
  return { completed, kinds };
}
