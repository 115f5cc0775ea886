/** What every source of a chain needs of HTTP: one request whose failure is an outage of the source, and replies of unknown shape. */
import { type Outgoing, OutgoingError } from '../outgoing.ts';
import { ChainError } from './chain.ts';

/** One request, its whole reply; `name` says in the error who does not answer. Errors: ChainError outage. */
export async function requestFrom(
  outgoing: Outgoing,
  name: string,
  request: Omit<Parameters<Outgoing['request']>[0], 'over'>,
): ReturnType<Outgoing['request']> {
  try {
    return await outgoing.request({ ...request, over: 'refuse' });
  } catch (cause) {
    const reason = cause instanceof OutgoingError ? ` (${cause.class})` : '';
    throw new ChainError('outage', `${name} does not answer${reason}`, { cause });
  }
}

export type Fields = Record<string, unknown>;
/** The fields of an object; none of anything else. */
export const fields = (value: unknown): Fields => (typeof value === 'object' && value !== null ? (value as Fields) : {});
