/** Sends a transaction by Electrum servers, which then know who asks: only where nothing else can send it. */
import { ChainError } from '../../chain.ts';
import { AnswerError } from './electrum-connection.ts';
import { type Desk, missing, noteFailure } from './electrum-desk.ts';

/** Errors: ChainError. */
export async function sendTransaction(desk: Desk, raw: Uint8Array): Promise<void> {
  const failures: string[] = [];
  for await (const session of desk.servers.sessions(failures)) {
    try {
      await session.ask('blockchain.transaction.broadcast', [Buffer.from(raw).toString('hex')]);
      return;
    } catch (error) {
      if (error instanceof AnswerError)
        throw new ChainError('refused', `the Electrum server ${session.name} did not accept it`, { cause: error });
      noteFailure(error, session, failures);
    }
  }
  throw missing(desk, 'no Electrum server took the transaction', failures);
}
