/** How operator commands are described, how their options are parsed, and the help generated from the descriptions. */
import { parseArgs } from 'node:util';
import type { Config } from '#config';
import type { Context } from '#context';
import { ALL_COINS, COINS, type Coin, chainCode, leadingCoins, MODES, type Mode, NATIVE_COINS, type NativeCoin } from '#core/coin';
import { mistakesBetween } from '#core/text';
import type { Log } from '#log';

/** The command line is not valid: exit code 2. `command` is the one whose help explains it. */
export class UsageError extends Error {
  readonly command: string;
  constructor(message: string, command = '') {
    super(message);
    this.name = 'UsageError';
    this.command = command;
  }
}

/** Without `value` it is a switch. */
export type Option = { value?: string; about: string; required?: true };
/** The given options; an enabled switch is the string `true`. */
export type Flags = Readonly<Record<string, string | undefined>>;
export type Command = {
  about: string;
  options?: Readonly<Record<string, Option>>;
  /** Columns of the human-readable list, a subset of those in its JSON. */
  columns?: readonly string[];
  /** Notes, shown below the options in the command's help. */
  notes?: string;
} & (
  | { run(ctx: Context, flags: Flags): Promise<object> }
  /** Works on any database: neither migrates it nor needs its contents. */
  | { onStore(config: Config, flags: Flags, log: Log): Promise<object>; createsDatabase?: true }
  | { serve(config: Config, flags: Flags): Promise<void> }
);
export type Commands = Readonly<Record<string, Command>>;

const EVERYWHERE: Readonly<Record<string, Option>> = {
  json: { about: 'Print the result as JSON' },
  help: { about: 'Show this help' },
};
const SHORT: ReadonlyMap<string, string> = new Map([
  ['-h', '--help'],
  ['-v', '--version'],
]);

export const MERCHANT: Option = { value: 'ID', about: 'Merchant, such as mer_... ("merchant list" shows them)', required: true };
export const MODE: Option = { value: MODES.join('|'), about: 'Live or test mode', required: true };
/** For commands about money that goes out, which is mostly live. */
export const LIVE_MODE: Option = { value: MODES.join('|'), about: 'Mode (default live)' };
export const COIN_OPTION: Option = { value: 'COIN', about: `One of ${COINS.join(', ')}`, required: true };
/** For commands about money that arrived, also in a coin that is never offered. */
export const ARRIVED_COIN_OPTION: Option = { value: 'COIN', about: `One of ${ALL_COINS.join(', ')}`, required: true };
/** For commands about a wallet: tokens use that of the native coin. */
export const NATIVE_COIN_OPTION: Option = { value: 'COIN', about: `One of ${NATIVE_COINS.join(', ')}`, required: true };
/** For commands about a chain, which is named after its native coin, or by its ID. */
export const CHAIN_OPTION: Option = { value: 'COIN', about: `One of ${leadingCoins().map(chainCode).join(', ')}`, required: true };
export const LIMIT: Option = { value: 'N', about: 'How many to show, 1 to 100 (default 25)' };

export const need = (flags: Flags, name: string): string => {
  const value = flags[name];
  if (value === undefined || value === '') throw new UsageError(`Missing option --${name}`);
  return value;
};
export const oneOfOption = <T extends string>(value: string, known: readonly T[], name: string): T => {
  const found = known.find((k) => k === value);
  if (!found) throw new UsageError(`--${name} must be one of ${known.join(', ')}`);
  return found;
};
const coinAmong = <T extends Coin>(flags: Flags, known: readonly T[]): T => {
  const given = need(flags, 'coin').toLowerCase();
  return oneOfOption(known.find((coin) => coin.toLowerCase() === given) ?? given, known, 'coin');
};
/** Any coin, such as `btc` or `USDC@ethereum`, in upper or lower case. */
export const coinOf = (flags: Flags): Coin => coinAmong(flags, COINS);
/** The same, or a coin that is only recognized, such as `ETH@base`. */
export const arrivedCoinOf = (flags: Flags): Coin => coinAmong(flags, ALL_COINS);
/** A native coin, which names its chain and its wallet. */
export const nativeCoinOf = (flags: Flags): NativeCoin => coinAmong(flags, NATIVE_COINS);
/** The leading coin of a chain, such as `btc` or `base`. */
export const chainCoinOf = (flags: Flags): Coin => {
  const given = need(flags, 'coin').toLowerCase();
  const coin = leadingCoins().find((one) => chainCode(one).toLowerCase() === given);
  if (coin === undefined) throw new UsageError(`--coin must be one of ${leadingCoins().map(chainCode).join(', ')}`);
  return coin;
};
export const ownerOfFlags = (flags: Flags): { merchantId: string; mode: Mode } => ({
  merchantId: need(flags, 'merchant'),
  mode: oneOfOption(need(flags, 'mode'), MODES, 'mode'),
});
/** The same with LIVE_MODE. */
export const liveOwnerOf = (flags: Flags): { merchantId: string; mode: Mode } => ownerOfFlags({ ...flags, mode: flags.mode ?? 'live' });
/** Who acts in the audit log. */
export const OPERATOR_ACTOR = { userId: '', name: 'operator command', ip: '' } as const;
export const limitOf = (flags: Flags): number => {
  const limit = flags.limit ?? '25';
  if (!/^([1-9]\d?|100)$/.test(limit)) throw new UsageError('--limit must be a number from 1 to 100');
  return Number(limit);
};
export const commaList = (text: string | undefined): string[] =>
  (text ?? '')
    .split(',')
    .map((part) => part.trim())
    .filter(Boolean);

/** ` Did you mean "x"?` when one of the known words is close. */
function didYouMean(given: string, known: readonly string[], show = (word: string) => `"${word}"`): string {
  const [best] = known
    .map((word) => ({ word, mistakes: word.startsWith(given) && given.length > 2 ? 1 : mistakesBetween(given, word, 3) }))
    .filter(({ word, mistakes }) => mistakes <= Math.max(1, Math.floor(word.length / 3)))
    .sort((a, b) => a.mistakes - b.mistakes);
  return best ? ` Did you mean ${show(best.word)}?` : '';
}

/** The command that the words name. Errors: UsageError, with what was probably meant. */
function findCommand(words: readonly string[], commands: Commands): string {
  const [first = '', second] = words;
  for (const name of [`${first} ${second}`, first]) if (Object.hasOwn(commands, name)) return name;
  const group = Object.keys(commands).filter((name) => name.startsWith(`${first} `));
  if (group.length > 0) {
    const seconds = group.map((name) => name.slice(first.length + 1));
    if (second === undefined) throw new UsageError(`"${first}" needs a subcommand: ${seconds.join(', ')}`, first);
    throw new UsageError(`Unknown command "${first} ${second}".${didYouMean(second, seconds, (word) => `"${first} ${word}"`)}`, first);
  }
  throw new UsageError(
    `Unknown command "${first}".${didYouMean(first, [...new Set(Object.keys(commands).map((name) => name.split(' ')[0]!))])}`,
  );
}

/** Reads the options of one command. Errors: UsageError. */
function readOptions(name: string, args: readonly string[], options: Readonly<Record<string, Option>>): Flags {
  const refuse = (message: string): never => {
    throw new UsageError(message, name);
  };
  const { tokens } = parseArgs({
    args: [...args],
    options: Object.fromEntries(
      Object.entries(options).map(([key, { value }]) => [key, { type: value === undefined ? 'boolean' : 'string' } as const]),
    ),
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const flags: Record<string, string> = {};
  let extra: string | null = null;
  for (const token of tokens) {
    if (token.kind === 'positional') extra ??= token.value;
    if (token.kind !== 'option') continue;
    const option = Object.hasOwn(options, token.name) ? options[token.name]! : null;
    if (!option) {
      return refuse(`Unknown option ${token.rawName} for "${name}".${didYouMean(token.name, Object.keys(options), (word) => `--${word}`)}`);
    }
    if (Object.hasOwn(flags, token.name)) refuse(`--${token.name} was given twice`);
    if (option.value === undefined && token.value !== undefined) refuse(`--${token.name} takes no value`);
    const isNext = token.inlineValue === false && token.value.startsWith('--');
    if (option.value !== undefined && (token.value === undefined || isNext)) refuse(`--${token.name} needs a value`);
    flags[token.name] = token.value ?? 'true';
  }
  if (extra !== null) refuse(`Unexpected argument "${extra}"`);
  if (flags.help !== undefined) return flags;
  const missing = Object.keys(options).filter((key) => options[key]!.required && !flags[key]);
  if (missing.length > 0) refuse(`Missing ${missing.map((key) => `--${key}`).join(', ')}`);
  return flags;
}

type Parsed = { help: string } | { version: true } | { name: string; command: Command; flags: Flags };

/** What a command line asks for. Errors: UsageError. */
export function parseCommand(argv: readonly string[], commands: Commands): Parsed {
  const args = argv.map((arg) => SHORT.get(arg) ?? arg);
  const at = args.findIndex((arg) => arg.startsWith('-'));
  const words = at === -1 ? args : args.slice(0, at);
  const asked = words[0] === 'help' ? words.slice(1) : words;
  const wantsHelp = words[0] === 'help' || args.includes('--help');
  if (asked.length === 0) {
    if (args.includes('--version')) return { version: true };
    if (args.length > 0 && !wantsHelp) throw new UsageError(`Put the command first: ./florin COMMAND ${args[0]}`);
    return { help: overview(commands) };
  }
  const isGroup = asked.length === 1 && !Object.hasOwn(commands, asked[0]!);
  if (isGroup && wantsHelp && Object.keys(commands).some((name) => name.startsWith(`${asked[0]} `)))
    return { help: overview(commands, asked[0]) };
  const name = findCommand(asked, commands);
  const command = commands[name]!;
  if (wantsHelp) return { help: helpOf(name, command) };
  const flags = readOptions(name, args.slice(name.split(' ').length), { ...command.options, ...EVERYWHERE });
  return { name, command, flags };
}

const padded = (rows: readonly (readonly [string, string])[]): string => {
  const width = Math.max(...rows.map(([left]) => left.length)) + 2;
  return rows.map(([left, right]) => `  ${left.padEnd(width)}${right}`).join('\n');
};

/** All commands, or those of a group. */
function overview(commands: Commands, group?: string): string {
  const rows = Object.entries(commands)
    .filter(([name]) => group === undefined || name.startsWith(`${group} `))
    .map(([name, { about }]) => [name, about] as const);
  const title = group === undefined ? 'Florin: self-hosted cryptocurrency payments\n\n' : '';
  return `${title}Usage: ./florin ${group ?? 'COMMAND'}${group === undefined ? '' : ' SUBCOMMAND'} [options]

Commands:
${padded(rows)}

Every command has --help, and --json to print the result as JSON.`;
}

/** The help of one command. */
function helpOf(name: string, { about, options = {}, notes }: Command): string {
  const shown = ([key, { value }]: readonly [string, Option]) => (value === undefined ? `--${key}` : `--${key} ${value}`);
  const required = Object.entries(options).filter(([, option]) => option.required);
  const all = Object.entries({ ...options, ...EVERYWHERE });
  const usage = ['./florin', name, ...required.map(shown), ...(required.length < all.length ? ['[options]'] : [])].join(' ');
  return `${about}

Usage: ${usage}

Options:
${padded(all.map((entry) => [shown(entry), `${entry[1].about}${entry[1].required ? ' (required)' : ''}`]))}${notes ? `\n\n${notes}` : ''}`;
}
