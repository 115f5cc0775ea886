/** Blocks of a Blockbook server: as bytes, whose merkle root proves them, or from old servers page by page. */
import type { BitcoinFamily } from '../../core/coin.ts';
import type { Log } from '../../log.ts';
import { readBlock } from '../bitcoin/core-blocks.ts';
import { PARAMS } from '../bitcoin/params.ts';
import { matchBlock, merkleRootOf, type RawBlock } from '../bitcoin/raw-block.ts';
import { type BlockRef, ChainError, type ChainSource, orNull } from '../chain.ts';
import { type Fields, fields } from '../reply.ts';
import type { Match, Matches } from './blockbook-matching.ts';
import type { Get } from './blockbook-requests.ts';
import { integer, rows, text } from './replies.ts';

const MAX_PAGES = 1_000;

type Reads = { family: BitcoinFamily; server: string; get: Get; log: Log };

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
    if (ids.length !== integer(part.txCount) || (part.merkleRoot !== undefined && merkleRootOf(ids) !== text(part.merkleRoot)))
      throw new ChainError('outage', `${server} did not show all transactions of block ${hash}`);
  }
  return found;
}

/** Reads blocks as bytes, checked against their merkle root; null when the server does not offer them, as old servers do not. */
function createRawBlocks({ family, server, get, log }: Reads): (hash: string) => Promise<RawBlock | null> {
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
    hasRawBlocks = false;
    log.warn(
      { coin: family },
      'This Blockbook server does not return raw blocks; reading blocks page by page, which cannot detect replacements',
    );
    return null;
  };
}

export function createBlockbookBlocks(
  reads: Reads & { header(hash: string): Promise<BlockRef>; match: Match },
): Pick<ChainSource, 'fetchBlock'> {
  const { family, header, match } = reads;
  const readRaw = createRawBlocks(reads);
  return {
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
