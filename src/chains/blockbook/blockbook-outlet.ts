/** What spending needs from a Blockbook server: which outputs are unspent, the transactions that made them, and sending. */
import type { BitcoinFamily } from '../../core/coin.ts';
import { parseTransaction, type RawTransaction, strippedOf, txidOf } from '../bitcoin/raw-block.ts';
import { ChainError, type Outlet, orNull } from '../chain.ts';
import { type Fields, fields } from '../reply.ts';
import { isUnconfirmed } from './blockbook-mempool.ts';
import type { Get } from './blockbook-requests.ts';
import { integer, rows, text } from './replies.ts';

/** Requests at the same time: servers show one transaction per request. */
const AT_ONCE = 4;
/** Errors that mean that the server has the transaction already. */
const KNOWN = /already (in|known)|txn-already/i;

export function createBlockbookOutlet({ family, server, get }: { family: BitcoinFamily; server: string; get: Get }): Outlet {
  const readAll = async (txids: readonly string[]): Promise<Map<string, Fields | null>> => {
    const found = new Map<string, Fields | null>();
    const wanted = new Set(txids).values();
    const work = async (): Promise<void> => {
      for (const txid of wanted) {
        const tx = await orNull(get(`v2/tx/${txid}`));
        if (tx !== null && text(fields(tx).txid) !== txid) throw new ChainError('outage', `${server} answered another transaction`);
        found.set(txid, tx === null ? null : fields(tx));
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    return found;
  };
  const parse = (hex: string, txid: string): RawTransaction => {
    let parsed: RawTransaction | null = null;
    try {
      parsed = parseTransaction(Buffer.from(hex, 'hex'), family);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    if (!parsed || txidOf(parsed) !== txid) throw new ChainError('outage', `${server} did not return the bytes of ${txid}`);
    return parsed;
  };
  return {
    // The index knows what blocks spend. Outputs that a waiting transaction spends are refused when they are sent.
    areUnspent: async (outpoints) => {
      const found = await readAll(outpoints.map((outpoint) => outpoint.slice(0, 64)));
      return outpoints.map((outpoint) => {
        const tx = found.get(outpoint.slice(0, 64));
        if (!tx || isUnconfirmed(tx)) return false;
        const output = rows(tx.vout).find(({ n }) => integer(n) === Number(outpoint.slice(65)));
        return output !== undefined && output.spent !== true;
      });
    },
    readTransactions: async (wanted) => {
      const found = await readAll(wanted.map(({ txid }) => txid));
      return wanted.map(({ txid }) => strippedOf(parse(text(found.get(txid)?.hex), txid)));
    },
    send: async (raw) => {
      try {
        await get('v2/sendtx/', Buffer.from(raw).toString('hex'));
      } catch (error) {
        if (!(error instanceof ChainError) || error.kind !== 'refused' || !KNOWN.test(error.message)) throw error;
      }
    },
  };
}
