/** Sends a transaction by Electrum servers, which then know who asks: only where nothing else can send it. */
import { ChainError } from '../../chain.ts';
import { parseTransaction, txidOf } from '../raw-block.ts';
import { AnswerError } from './electrum-connection.ts';
import { type Desk, lookupFailed, noteFailure } from './electrum-desk.ts';

/**
 * The next server is asked when one refuses: it may be wrong, and what no network accepts is refused by all. Errors: ChainError; refused
 * when no server takes it and one says why not.
 */
export async function sendTransaction(desk: Desk, raw: Uint8Array): Promise<void> {
  const bytes = Buffer.from(raw);
  const txid = txidOf(parseTransaction(bytes, desk.family));
  const failures: string[] = [];
  let refusal: ChainError | null = null;
  for await (const session of desk.servers.sessions(failures)) {
    try {
      const answer = await session.ask('blockchain.transaction.broadcast', [bytes.toString('hex')]);
      if (answer === txid) return;
      failures.push(`${session.name} answered something else than the transaction that it was sent`);
    } catch (error) {
      if (error instanceof AnswerError)
        refusal ??= new ChainError('refused', `the Electrum server ${session.name} did not accept it`, { cause: error });
      noteFailure(error, session, failures);
    }
  }
  throw refusal ?? lookupFailed(desk, 'no Electrum server took the transaction', failures);
}
