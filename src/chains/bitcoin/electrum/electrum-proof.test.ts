/** Proofs of Electrum servers: every branch of real blocks is accepted, every forged one refused, and no bytes can crash the reader. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { scriptOfAddress } from '../../../addresses/address.ts';
import { PARAMS } from '../../../addresses/params.ts';
import type { BitcoinFamily } from '../../../core/coin.ts';
import { idOf, showHash } from '../header.ts';
import { PROOF_PARAMS } from '../proof-params.ts';
import { checkBranch, ElectrumProofError, readBranch, readProvenTransaction, rootOfBranch, scriptHashOf } from './electrum-proof.ts';

const read = (name: string) => JSON.parse(readFileSync(join(import.meta.dirname, '../../../../test/fixtures/electrum', name), 'utf8'));
type Proof = {
  coin: BitcoinFamily;
  block: string;
  header: string | null;
  tx_hash: string;
  pos: unknown;
  merkle: unknown;
  raw: string | null;
  why: string;
};
const { good, refuse } = read('proofs.json') as { good: Proof[]; refuse: Proof[] };
const hashes = read('hashes.json');
const conversations = read('conversations.json');

const FORGERIES = process.env.FLORIN_LONG ? 200_000 : 3_000;
/** How deep the transactions of each block are, by its coinbase. */
const depths = new Map(good.filter(({ pos }) => pos === 0).map(({ block, merkle }) => [block, (merkle as string[]).length]));
function verify({ coin, block, header, tx_hash, pos, merkle, raw }: Proof): void {
  const branch = readBranch(merkle, pos);
  if (header === null) throw new ElectrumProofError('there is no header at this height');
  checkBranch(tx_hash, branch, Buffer.from(header, 'hex'));
  if (raw !== null) readProvenTransaction(raw, tx_hash, coin);
  if (branch.siblings.length !== depths.get(block)) throw new ElectrumProofError('the transaction is not as deep as the coinbase');
}

test('branches of real blocks of four coins are accepted, with the HogEx of LTC and the special transactions of DASH', () => {
  assert.ok(good.length >= 12);
  for (const proof of good) assert.doesNotThrow(() => verify(proof), proof.why);
  const kinds = good.map(({ coin, raw, tx_hash }) => {
    const { isCoinbase, hasFee } = readProvenTransaction(raw, tx_hash, coin);
    return `${coin} ${isCoinbase ? 'coinbase' : hasFee ? 'payment' : 'other'}`;
  });
  for (const kind of ['BTC coinbase', 'BTC payment', 'LTC other', 'DOGE coinbase', 'DASH coinbase', 'DASH payment'])
    assert.ok(kinds.includes(kind), `${kind} in ${kinds.join()}`);
});

test('forged branches are refused, also those that fit the merkle root', () => {
  assert.ok(refuse.length >= 11);
  for (const proof of refuse) assert.throws(() => verify(proof), ElectrumProofError, proof.why);
});

test('a changed bit anywhere in a transaction or in its branch is refused', () => {
  const proof = good.find(({ coin, pos }) => coin === 'DOGE' && pos !== 0)!;
  for (let bit = 0; bit < proof.raw!.length * 4; bit++) {
    const bytes = Buffer.from(proof.raw!, 'hex');
    bytes[bit >> 3]! ^= 1 << (bit & 7);
    assert.throws(() => verify({ ...proof, raw: bytes.toString('hex') }), ElectrumProofError);
  }
  const merkle = proof.merkle as string[];
  for (let level = 0; level < merkle.length; level++)
    for (let bit = 0; bit < 256; bit += 7) {
      const sibling = Buffer.from(merkle[level]!, 'hex');
      sibling[bit >> 3]! ^= 1 << (bit & 7);
      assert.throws(() => verify({ ...proof, merkle: merkle.with(level, sibling.toString('hex')) }), ElectrumProofError);
    }
});

/** What may be wrong with a branch. Each kind changes the leaf, the siblings or the position of a real one. */
const forgedBranch = fc.record({
  proof: fc.nat(),
  other: fc.nat(),
  kind: fc.nat(6),
  level: fc.nat(),
  bits: fc.bigInt({ min: 1n, max: 2n ** 256n - 1n }),
});
type ForgedBranch = typeof forgedBranch extends fc.Arbitrary<infer T> ? T : never;
function forgeBranch({ proof, other, kind, level, bits }: ForgedBranch): Proof {
  const real = good[proof % good.length]!;
  const another = good[other % good.length]!;
  const siblings = real.merkle as string[];
  const at = level % siblings.length;
  const changed = (hash: string): string => (BigInt(`0x${hash}`) ^ bits).toString(16).padStart(64, '0');
  const forged = (given: Partial<Proof>): Proof => ({ ...real, raw: null, ...given });
  switch (kind) {
    case 0:
      return forged({ merkle: siblings.with(at, changed(siblings[at]!)) });
    case 1:
      return forged({ merkle: siblings.toSpliced(at, 1) });
    case 2:
      return forged({ merkle: siblings.toSpliced(at, 0, changed(siblings[at]!)) });
    case 3:
      return forged({ pos: Number((BigInt(real.pos as number) ^ bits) & 0x3f_ffffn) });
    case 4:
      return forged({ merkle: siblings.with(at, siblings[other % siblings.length]!).with(other % siblings.length, siblings[at]!) });
    case 5:
      return forged({ tx_hash: changed(real.tx_hash) });
    default:
      return forged({ merkle: another.merkle, pos: another.pos, header: another.header, block: another.block });
  }
}
const isReal = ({ tx_hash, merkle, pos, header }: Proof): boolean =>
  good.some((one) => one.tx_hash === tx_hash && one.pos === pos && one.header === header && String(one.merkle) === String(merkle));

test(`of ${FORGERIES} forged branches none is accepted`, () => {
  let forgeries = 0;
  fc.assert(
    fc.property(forgedBranch, (one) => {
      const proof = forgeBranch(one);
      if (isReal(proof)) return;
      forgeries++;
      assert.throws(() => verify(proof), ElectrumProofError);
    }),
    { numRuns: FORGERIES },
  );
  assert.ok(forgeries > FORGERIES * 0.9, String(forgeries));
});

test('script hashes of all address forms, and of the address that leads to the script', () => {
  type Named = { coin: string; address: string | null; script: string; scripthash: string };
  for (const { coin, address, script, scripthash } of hashes.scripthashes as Named[]) {
    assert.equal(scriptHashOf(script), scripthash);
    // A public key as the output script has no address.
    if (address === null) continue;
    const network = address.startsWith('bcrt') ? 'regtest' : 'mainnet';
    assert.equal(scriptOfAddress(address, PARAMS[coin as BitcoinFamily].forms[network]), script, address);
  }
});

test('the branch of a header leads to the root over all headers up to another one', () => {
  for (const { coin, height, header, branch, root } of hashes.header_proofs) {
    const leaf = showHash(idOf(PROOF_PARAMS[coin as BitcoinFamily].main, Buffer.from(header, 'hex')));
    assert.equal(rootOfBranch(leaf, readBranch(branch, height)), root);
  }
});

test('whole lookups: every transaction has its ID, and every branch leads to the block', () => {
  const header = Buffer.from(conversations.hello[2].receive.result.hex, 'hex');
  let checked = 0;
  for (const { send, receive } of [...conversations.address_lookup.exchange, ...conversations.transaction_lookup.exchange]) {
    const [txid] = send.params;
    if (send.method.endsWith('transaction.get')) readProvenTransaction(receive.result, txid, 'BTC');
    else if (send.method.endsWith('get_merkle')) checkBranch(txid, readBranch(receive.result.merkle, receive.result.pos), header);
    else continue;
    checked++;
  }
  assert.ok(checked >= 8);
});

test('no bytes and no branch can do more than be refused', () => {
  const raws = good.map(({ raw, coin, tx_hash }) => ({ bytes: Buffer.from(raw!, 'hex'), coin, txid: tx_hash }));
  fc.assert(
    fc.property(
      fc.constantFrom(...raws),
      fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), { minLength: 1, maxLength: 8 }),
      fc.nat(),
      ({ bytes, coin, txid }, changes, cut) => {
        const changed = Buffer.from(bytes);
        for (const [at, value] of changes) changed[at % changed.length] = value;
        const end = cut % 3 === 0 ? cut % changed.length : changed.length;
        try {
          const { outputs } = readProvenTransaction(changed.toString('hex', 0, end), txid, coin);
          assert.ok(outputs.length <= changed.length);
        } catch (error) {
          assert.ok(error instanceof ElectrumProofError, String(error));
        }
      },
    ),
    { numRuns: 3_000 },
  );
  fc.assert(
    fc.property(fc.anything(), fc.anything(), (siblings, position) => {
      try {
        rootOfBranch('ab'.repeat(32), readBranch(siblings, position));
      } catch (error) {
        assert.ok(error instanceof ElectrumProofError, String(error));
      }
    }),
    { numRuns: 1_000 },
  );
});
