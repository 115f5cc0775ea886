/** Blocks of a Blockbook server: as bytes, whose merkle root proves them, or from old servers page by page. */
import type { BitcoinFamily } from '../../core/coin.ts';
import type { Log } from '../../log.ts';
import { AUXPOW_BIT } from '../bitcoin/auxpow.ts';
import { merkleRootOf } from '../bitcoin/block-proof.ts';
import { readBlock } from '../bitcoin/core-blocks.ts';
import { encodeHeader, HEADER_BYTES } from '../bitcoin/header.ts';
import { PARAMS } from '../bitcoin/params.ts';
import type { ProofParams } from '../bitcoin/proof-params.ts';
import { matchBlock, type RawBlock } from '../bitcoin/raw-block.ts';
import { type BlockRef, ChainError, type ChainSource, orNull } from '../chain.ts';
import { type Fields, fields } from '../reply.ts';
import type { Match, Matches } from './blockbook-matching.ts';
import type { Get } from './blockbook-requests.ts';
import { integer, rows, text } from './replies.ts';

const MAX_PAGES = 1_000;
const HASH = /^[0-9a-f]{64}$/;

/** Headers requested at the same time: servers show one per request. */
const AT_ONCE = 4;
/** Beyond the last page of a block the server returns the last one, which may have few transactions. */
const LAST_PAGE = 1_000_000;

type Reads = { family: BitcoinFamily; server: string; get: Get; log: Log; proof: ProofParams | null };

/** All transactions of a block, page by page; complete, in order, and matching its merkle root. */
async function readPages(hash: string, { server, get }: Reads): Promise<Fields[]> {
  const found: Fields[] = [];
  for (let page = 1, pages = 1; page <= pages; page++) {
    const part = fields(await get(`v2/block/${hash}?page=${page}`));
    if (text(part.hash) !== hash || integer(part.page) !== page)
      throw new ChainError('outage', `${server} answered another page of ${hash}`);
    pages = Math.min(integer(part.totalPages) || 1, MAX_PAGES);
    found.push(...rows(part.txs));
    if (page < pages) continue;
    const ids = found.map((tx) => text(tx.txid));
    // CVE-2012-2459: a list that repeats its tail has the merkle root of the list without it.
    const isWhole = ids.length === integer(part.txCount) && new Set(ids).size === ids.length && ids.every((id) => HASH.test(id));
    if (!isWhole || (part.merkleRoot !== undefined && merkleRootOf(ids) !== text(part.merkleRoot)))
      throw new ChainError('outage', `${server} did not show all transactions of block ${hash}`);
  }
  return found;
}

/** Reads blocks as bytes, checked against their merkle root; null when the server does not offer them, as old servers do not. */
function createRawBlocks({ family, server, get, log, proof }: Reads): (hash: string) => Promise<RawBlock | null> {
  let hasRawBlocks = true;
  return async (hash) => {
    if (!hasRawBlocks) return null;
    const reply = await orNull(get(`v2/rawblock/${hash}`)).catch((error: ChainError) => {
      // An old server does not know the path and returns an HTML page or an error.
      if (/no JSON|status 404|internal/i.test(error.message)) return null;
      throw error;
    });
    const hex = text(fields(reply).hex);
    if (hex !== '') return readBlock(Buffer.from(hex, 'hex'), { hash, coin: family, server });
    if (proof) throw new ChainError('outage', `${server} does not return raw blocks, which the proof of work needs; upgrade it`);
    hasRawBlocks = false;
    log.warn(
      { coin: family },
      'This Blockbook server does not return raw blocks; reading blocks page by page, which cannot detect replacements',
    );
    return null;
  };
}

/** The header at a height; null above the server's tip. Merge-mined ones are followed by their proof, which only raw blocks have. */
async function readHeader({ server, get }: Reads, height: number): Promise<Buffer | null> {
  const found = await orNull(get(`v2/block/${height}?page=${LAST_PAGE}`));
  if (found === null) return null;
  const shown = fields(found);
  const bits = text(shown.bits);
  const root = text(shown.merkleRoot);
  if (!/^[0-9a-f]{1,8}$/.test(bits) || !HASH.test(root))
    throw new ChainError('outage', `${server} does not show the header of block ${height}`);
  const parent = text(shown.previousBlockHash);
  return encodeHeader({
    version: integer(shown.version) | 0,
    parent: HASH.test(parent) ? parent : '0'.repeat(64),
    merkleRoot: root,
    timeSeconds: integer(shown.time) >>> 0,
    bits: Number.parseInt(bits, 16),
    nonce: integer(shown.nonce) >>> 0,
  });
}

/** The headers of consecutive blocks. */
async function readHeaders(reads: Reads, from: number, count: number): Promise<Buffer[]> {
  const { get, proof } = reads;
  const found: (Buffer | null)[] = new Array(count).fill(null);
  const heights = Array.from({ length: count }, (_, i) => i).values();
  const work = async () => {
    for (const i of heights) {
      const header = await readHeader(reads, from + i);
      if (header === null) return;
      found[i] = header;
      if (!proof?.auxpow || !(header.readUInt32LE(0) & AUXPOW_BIT)) continue;
      const hash = text(fields(await get(`v2/block-index/${from + i}`)).blockHash);
      const raw = Buffer.from(text(fields(await get(`v2/rawblock/${hash}`)).hex), 'hex');
      found[i] = raw.length > HEADER_BYTES ? raw : null;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  const end = found.indexOf(null);
  return (end < 0 ? found : found.slice(0, end)) as Buffer[];
}

export function createBlockbookBlocks(
  reads: Reads & { header(hash: string): Promise<BlockRef>; match: Match },
): Pick<ChainSource, 'fetchBlock' | 'readHeaders'> {
  const { family, header, match } = reads;
  const readRaw = createRawBlocks(reads);
  return {
    readHeaders: (from, count) => readHeaders(reads, from, count),
    fetchBlock: async (hash) => {
      const ref = await header(hash);
      const raw = await readRaw(hash);
      if (raw && raw.parent !== ref.parent) throw new ChainError('outage', `the header of ${hash} does not fit the block`);
      const listed = raw ? [] : await readPages(hash, reads);
      return {
        ref,
        scan: async (matcher) => {
          if (raw) return { block: ref, ...(await matchBlock(raw, matcher)) };
          const found: Matches = { sightings: [], conflicts: [] };
          for (const [i, tx] of listed.entries()) {
            // LTC: the last transaction of a block is the HogEx. If it is not, the payment merely waits for more confirmations.
            const isLast = i === listed.length - 1;
            match(tx, matcher, i === 0 ? 'coinbase' : PARAMS[family].mweb && isLast ? 'pegout' : 'output', found);
          }
          return { block: ref, ...found };
        },
      };
    },
  };
}
