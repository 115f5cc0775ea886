/** Why a command or the service could not start: the cause, the setting that it depends on, and what to do. */
import { inspect } from 'node:util';
import { ConfigError } from '../config.ts';
import { Problem } from '../core/problem.ts';
import { showControls, showLines } from '../core/text.ts';

export type Failure = { message: string; hint: string | null };
type Coded = Error & { code?: unknown; syscall?: unknown; address?: unknown; port?: unknown; path?: unknown; hostname?: unknown };

const DATABASE = 'Check DATABASE_URL. Without it, Florin runs its own PostgreSQL in the data folder.';
const MORE = 'To see where it failed, run it again with LOG_LEVEL=debug.';
const placeOf = ({ address, port, hostname }: Coded): string => [address ?? hostname, port].filter((part) => part !== undefined).join(':');

/** Failures by the code of the error, which systems and PostgreSQL define. */
const BY_CODE: Readonly<Record<string, (error: Coded) => Failure>> = {
  EADDRINUSE: ({ port }) => ({
    message: `Port ${port} is already in use.`,
    hint: 'Stop the other program, or set PORT to another port.',
  }),
  EADDRNOTAVAIL: ({ address }) => ({
    message: `This machine has no network address ${address}.`,
    hint: 'Set HOST to an address of this machine, or to 0.0.0.0 for all of them.',
  }),
  ECONNREFUSED: (error) => ({ message: `No database server answers at ${placeOf(error)}.`, hint: DATABASE }),
  ENOTFOUND: (error) => ({ message: `The host of the database, ${placeOf(error)}, is unknown.`, hint: DATABASE }),
  CONNECT_TIMEOUT: (error) => ({ message: `The database at ${placeOf(error)} does not answer.`, hint: DATABASE }),
  CONNECTION_NOT_PRIMARY: ({ message }) => ({
    message: `${message}.`,
    hint: 'With several servers: DATABASE_URL=postgres://user@host1:5432,host2:5432/florin. docs/guides/self-hosting.md explains failover.',
  }),
  SHARED_SESSIONS: ({ message }) => ({
    message: `${message}.`,
    hint: 'Set pool_mode = session for it in PgBouncer, or let DATABASE_URL lead to the server itself.',
  }),
  CONNECTION_CLOSED: () => ({ message: 'The database server, or a proxy in front of it, closed the connection.', hint: DATABASE }),
  '08P01': ({ message }) => ({
    message: `The database, or a pooler in front of it, refused the connection: ${message}.`,
    hint: /unsupported startup parameter/.test(message)
      ? 'Remove the parameter from DATABASE_URL, or add it to ignore_startup_parameters in the configuration of PgBouncer.'
      : DATABASE,
  }),
  '28P01': () => ({ message: 'The database rejected the user or the password.', hint: DATABASE }),
  '28000': () => ({ message: 'The database does not let this user connect.', hint: DATABASE }),
  '3D000': ({ message }) => ({ message: `The database server answers, but ${message}.`, hint: `Create it. ${DATABASE}` }),
  '42501': ({ message }) => ({
    message: `The database user may not do this: ${message}.`,
    hint: 'Make the user of DATABASE_URL the owner of its database.',
  }),
  ENOSPC: () => ({ message: 'The disk is full.', hint: 'Make room, and start again. Nothing was half-written.' }),
};

/** What to print about an error; line breaks are only between its parts. */
export function describeFailure(error: unknown): Failure {
  const { message, cause, hint } = partsOf(error);
  return { message: [message, ...(cause === undefined ? [] : [`Cause: ${cause}`])].map(showControls).join('\n'), hint };
}

function partsOf(error: unknown): Failure & { cause?: string } {
  if (error instanceof ConfigError)
    return { message: error.message, hint: 'Change the setting in .env or in the environment. All settings: docs/reference/config.md' };
  if (error instanceof Problem) return { message: error.message, hint: null };
  if (!(error instanceof Error)) return { message: String(error), hint: MORE };
  const { code, syscall, port, path } = error as Coded;
  if (code === 'EACCES' && syscall === 'listen')
    return {
      message: `This user may not listen on port ${port}.`,
      hint: 'Set PORT to 1024 or higher. docs/guides/self-hosting.md shows how to use a port below.',
    };
  if ((code === 'ENOENT' || code === 'EACCES') && typeof path === 'string')
    return { message: `${path} ${code === 'ENOENT' ? 'does not exist' : 'may not be read or written by this user'}.`, hint: MORE };
  const known = typeof code === 'string' && Object.hasOwn(BY_CODE, code) ? BY_CODE[code]!(error) : null;
  if (known) return known;
  // Errors of ours are sentences; others begin with their kind.
  const message = error.name === 'Error' ? error.message : `${error.name}: ${error.message}`;
  const cause = error.cause instanceof Error && !message.includes(error.cause.message) ? error.cause.message : undefined;
  const isComplete = error.name === 'Error' && error.cause === undefined;
  return { message, ...(cause !== undefined && { cause }), hint: isComplete ? null : MORE };
}

/** The error with its stack and its causes, for debugging. */
export const failureDetails = (error: unknown): string => showLines(inspect(error, { depth: 4 }));
