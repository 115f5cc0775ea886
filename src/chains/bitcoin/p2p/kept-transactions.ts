/**
 * Transactions that paid watched addresses, as blocks of peers had them. Files for signing need them again. A peer that is asked for exactly
 * those blocks, and then hears of the transaction that spends their money, knows whose it is.
 */
import type { BitcoinFamily, Network } from '../../../core/coin.ts';
import type { Sql } from '../../../db/db.ts';

/** Larger ones are read from their block again: no node announces them, so few payers can make them. */
const MOST_BYTES = 100_000;
/** Rows per statement. */
const AT_ONCE = 100;

/** A transaction without witness. */
export type KeptTransaction = { txid: string; raw: Uint8Array };
export type KeptTransactions = {
  keep(transactions: readonly KeptTransaction[]): Promise<void>;
  /** Those that are kept, by ID. */
  find(txids: readonly string[]): Promise<ReadonlyMap<string, Uint8Array>>;
};

/** Creates the store of one network. */
export const createKeptTransactions = (sql: Sql, { coin, network }: { coin: BitcoinFamily; network: Network }): KeptTransactions => ({
  keep: async (transactions) => {
    const rows = transactions.flatMap(({ txid, raw }) =>
      raw.length > MOST_BYTES ? [] : [{ txid, raw: Buffer.from(raw).toString('hex') }],
    );
    for (let from = 0; from < rows.length; from += AT_ONCE)
      await sql`
        insert into kept_transactions (chain, network, txid, raw)
        select ${coin}, ${network}, r.txid, decode(r.raw, 'hex')
        from jsonb_to_recordset(${sql.json(rows.slice(from, from + AT_ONCE))}) as r (txid text, raw text)
        on conflict do nothing`;
  },
  find: async (txids) => {
    const rows = await sql<KeptTransaction[]>`
      select txid, raw from kept_transactions where chain = ${coin} and network = ${network} and txid = any(${[...txids]}::text[])`;
    return new Map(rows.map(({ txid, raw }) => [txid, raw]));
  },
});
