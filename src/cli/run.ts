/** Runs one operator command: on any database, or with the core of the service. */
import { inspect, styleText } from 'node:util';
import { type Config, ConfigError } from '#config';
import { Problem } from '#core/problem';
import { showAll, showControls, showLines } from '#core/text';
import type { ChainStatus } from '#follow';
import { createLog } from '#log';
import type { Finding } from '#operate';
import type { Command, Commands, Flags } from './command.ts';

/** `show` gets the result while the database is still open. `serve` has none: it runs until a signal. */
export async function runCommand(
  command: Command,
  { config, flags, show }: { config: Config; flags: Flags; show(result: object): void },
): Promise<void> {
  if ('serve' in command) return command.serve(config, flags);
  const { needDatabase, openCore } = await import('#app');
  // With a wrong data folder, a command would otherwise work on a new, empty database.
  if (!('createsDatabase' in command)) needDatabase(config);
  const log = createLog('warn');
  if ('onStore' in command) return show(await command.onStore(config, flags, log));
  const core = await openCore(config, log);
  try {
    show(await command.run(core.ctx, flags));
  } finally {
    await core.close();
  }
}

// Why a command or the service could not start: the cause, the setting that it depends on, and what to do.

type Failure = { message: string; hint: string | null };
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
  CONNECTION_INSECURE: ({ message }) => ({
    message: `${message}.`,
    hint: 'Check sslmode and sslrootcert in DATABASE_URL. docs/guides/self-hosting.md explains both.',
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

// What commands print for people, with colors only on a terminal.

type Style = Parameters<typeof styleText>[0];
/** styleText omits colors when standard output is not a terminal, and with NO_COLOR. */
const paint = (style: Style, text: string): string => styleText(style, text, { stream: process.stdout });
const line = (text = ''): void => void process.stdout.write(`${text}\n`);

const cellText = (value: unknown): string => {
  if (value === null || value === undefined || value === '') return '-';
  if (Array.isArray(value)) return value.length === 0 ? '-' : value.map(cellText).join(',');
  return typeof value === 'object' ? Object.values(value).map(cellText).join(':') : String(value);
};

/** Rows with columns as wide as their widest cell. */
function printTable(rows: readonly Record<string, unknown>[], columns: readonly string[]): void {
  const cells = rows.map((row) => columns.map((column) => cellText(row[column])));
  const widths = columns.map((column, i) => Math.max(column.length, ...cells.map((row) => row[i]!.length)));
  const join = (row: readonly string[]) =>
    row
      .map((cell, i) => cell.padEnd(widths[i]!))
      .join('  ')
      .trimEnd();
  line(paint('bold', join(columns)));
  for (const row of cells) line(join(row));
}

/** One line per value. */
function printFields(value: object, indent = ''): void {
  for (const [name, item] of Object.entries(value)) {
    if (Array.isArray(item)) {
      line(`${indent}${paint('bold', `${name}:`)}${item.length === 0 ? ' none' : ''}`);
      for (const entry of item) line(`${indent}  ${typeof entry === 'object' ? JSON.stringify(entry) : entry}`);
    } else if (typeof item === 'object' && item !== null) {
      line(`${indent}${paint('bold', `${name}:`)}`);
      printFields(item, `${indent}  `);
    } else line(`${indent}${paint('bold', `${name}:`)} ${item ?? '-'}`);
  }
}

/** A list as a table, and how to see the rest of it. */
function printList(result: Record<string, unknown>, columns: readonly string[]): void {
  const [rows] = Object.values(result).filter(Array.isArray) as Record<string, unknown>[][];
  if (rows!.length === 0) line('Nothing found.');
  else printTable(rows!, columns);
  if (result.has_more) line(`\nThere are more. Show them with --after ${cellText(rows!.at(-1)![columns[0]!])}`);
}

/** The doctor's findings: `FIX` must be fixed, `note` is advice. */
function printFindings(findings: readonly Finding[]): void {
  for (const { check, ok, detail, fix } of findings) {
    const label = ok ? (fix === null ? paint('green', 'ok  ') : paint('yellow', 'note')) : paint(['red', 'bold'], 'FIX ');
    line(`${label}  ${check}: ${detail}${fix === null ? '' : `\n      ${paint('dim', '->')} ${fix}`}`);
  }
  const wrong = findings.filter(({ ok }) => !ok).length;
  line(wrong === 0 ? '\nNo problems found.' : `\n${wrong} of ${findings.length} checks failed.`);
}

/** A paragraph per chain; holds and problems are highlighted. */
function printChains(chains: readonly ChainStatus[]): void {
  for (const { coin, network, sources, height, cursor, behind, watched_from, holds, troubles, released } of chains) {
    const place = cursor ? `read to block ${cursor.height}, ${behind ?? 'unknown number of blocks'} behind` : 'not started';
    line(`${paint('bold', `${coin} (${network})`)}: ${place}${watched_from === null ? '' : `, watched from block ${watched_from}`}`);
    for (const { name, state, height: at, followed, reason } of sources)
      line(
        `  source ${name}: ${state}${at === null ? '' : ` at block ${at}`}${followed ? ', followed' : ''}${reason ? `: ${reason}` : ''}`,
      );
    for (const hold of holds) line(`  ${paint(['red', 'bold'], 'HELD')}  ${hold}`);
    for (const trouble of troubles) line(`  ${paint('yellow', '!')}     ${trouble}`);
    if (released) line(`  released at ${released.at}: ${released.reason}`);
    if (height === null) line('  no source is responding');
  }
  if (chains.length === 0) line('No chain is configured.');
}

/** With --json, only the JSON. Nothing that a member or a customer wrote acts on the terminal. */
export function print(given: object, { columns }: Command, flags: Flags): void {
  const result = showAll(given) as object;
  // Within JSON, these characters are parts of strings, and this is how JSON escapes them.
  if (flags.json) line(showControls(JSON.stringify(given)));
  else if ('findings' in result) printFindings(result.findings as Finding[]);
  else if ('chains' in result) printChains(result.chains as ChainStatus[]);
  else if (columns) printList(result as Record<string, unknown>, columns);
  else printFields(result);
}

/** An error and what to do about it, on standard error. */
export function printError(message: string, hint?: string): void {
  const red = styleText('red', showLines(message), { stream: process.stderr });
  process.stderr.write(`${red}\n${hint ? `${showLines(hint)}\n` : ''}`);
}

// The operator commands. Only those that are asked for are loaded, with what they need: that is most of the time in which a command starts.

type Group = { names: readonly string[]; load(): Promise<Commands> };
/** By their first word, in the order in which help lists them. */
const GROUPS: readonly Group[] = [
  { names: ['serve'], load: async () => (await import('./install-commands.ts')).SERVE_COMMAND },
  {
    names: ['merchant', 'plan', 'key', 'wallet', 'checkout', 'user'],
    load: async () => (await import('./merchant-commands.ts')).MERCHANT_COMMANDS,
  },
  { names: ['lightning'], load: async () => (await import('./lightning-commands.ts')).LIGHTNING_COMMANDS },
  { names: ['shop'], load: async () => (await import('./shop-commands.ts')).SHOP_COMMANDS },
  { names: ['sweep'], load: async () => (await import('./signing-commands.ts')).SWEEP_COMMANDS },
  { names: ['refund'], load: async () => (await import('./signing-commands.ts')).REFUND_COMMANDS },
  { names: ['payout'], load: async () => (await import('./signing-commands.ts')).PAYOUT_COMMANDS },
  { names: ['books'], load: async () => (await import('./book-commands.ts')).BOOK_COMMANDS },
  { names: ['endpoint', 'delivery'], load: async () => (await import('./webhook-commands.ts')).WEBHOOK_COMMANDS },
  {
    names: ['doctor', 'verify', 'chain', 'deposit', 'secret-key', 'backup', 'restore', 'version', 'upgrade', 'migrate'],
    load: async () => (await import('./install-commands.ts')).INSTALL_COMMANDS,
  },
];

/** The commands that begin with a word, and others of their kind; all for any other word, which may be a misspelled one or ask for help. */
export async function loadCommands(word?: string): Promise<Commands> {
  if (word === '--version' || word === '-v') return {};
  const group = GROUPS.find(({ names }) => names.includes(word ?? ''));
  const loaded = await Promise.all((group ? [group] : GROUPS).map(({ load }) => load()));
  return Object.assign({}, ...loaded);
}
