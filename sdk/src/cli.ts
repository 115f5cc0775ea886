#!/usr/bin/env node
/** The developer command line: argv -> command. With --json standard output is JSON only. */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { COMMANDS } from './cli/commands.ts';
import { completion, SHELLS } from './cli/completion.ts';
import {
  describe,
  didYouMean,
  EVERYWHERE,
  type Flags,
  line,
  note,
  OPTIONS,
  type OptionName,
  optionRows,
  padded,
  UsageError,
} from './cli/terminal.ts';
import { ApiError, ConnectionError, FlorinError, WebhookError } from './errors.ts';
import { showControls } from './text.ts';

/** First words of the commands that belong to the person who runs the service. */
const OPERATOR = [
  ...['serve', 'migrate', 'merchant', 'wallet', 'key', 'user', 'plan', 'checkout', 'endpoint', 'delivery', 'doctor', 'verify'],
  ...['deposit', 'chain', 'backup', 'restore', 'shop', 'sweep', 'refund', 'payout', 'books', 'secret-key', 'lightning'],
  ...['version', 'upgrade'],
];
const COMPLETION = { usage: `completion ${SHELLS.join('|')}`, about: 'print a completion script for your shell', options: [] } as const;
const ABOUT: Readonly<Record<string, { usage: string; about: string; options: readonly OptionName[] }>> = {
  ...COMMANDS,
  completion: COMPLETION,
};

/** Words after the first: `payments` -> create, get, ... */
const secondWords = (first: string): string[] =>
  Object.keys(COMMANDS).flatMap((name) => (name.startsWith(`${first} `) ? [name.slice(first.length + 1)] : []));

/** All commands, or those of a group. */
function overview(group?: string): string {
  const rows = Object.entries(ABOUT)
    .filter(([name]) => group === undefined || name.startsWith(`${group} `))
    .map(([name, { about }]) => [name, about] as const);
  return `${group === undefined ? 'Florin: create and test payments from the command line\n\n' : ''}Usage: florin ${group === undefined ? 'COMMAND' : `${group} SUBCOMMAND`} [options]

Commands:
${padded(rows)}

Options of every command:
${padded(optionRows(group === undefined ? [...EVERYWHERE, 'version'] : EVERYWHERE))}`;
}

const helpOf = (name: string): string => {
  const { usage, about, options } = ABOUT[name]!;
  return `${about[0]!.toUpperCase()}${about.slice(1)}

Usage: florin ${usage} [options]

Options:
${padded(optionRows([...options, ...EVERYWHERE]))}`;
};
const asJson = (names: readonly string[]): string =>
  JSON.stringify({ commands: names.map((name) => ({ name, usage: `florin ${ABOUT[name]!.usage}`, about: ABOUT[name]!.about })) });

/** Words as a shell reads them again, without API keys: they have no place in a message. */
const asTyped = (argv: readonly string[]): string =>
  argv
    .filter((arg) => !/^(--key=)?((sk|pk)_|(live|test)_(sk|pk)_)/.test(arg))
    .map((arg) => (/^[\w@%+=:,./-]+$/.test(arg) ? arg : `'${arg.replaceAll("'", "'\\''")}'`))
    .join(' ');

/** The options that were given. Errors: UsageError for one that the command does not take, or that lacks its value. */
function readOptions(argv: readonly string[], name: string | null): { flags: Flags; words: string[] } {
  const { values, positionals, tokens } = parseArgs({
    args: [...argv],
    options: OPTIONS,
    allowPositionals: true,
    strict: false,
    tokens: true,
  });
  const allowed: readonly string[] = name === null ? Object.keys(OPTIONS) : [...ABOUT[name]!.options, ...EVERYWHERE];
  for (const token of tokens) {
    if (token.kind !== 'option') continue;
    if (!allowed.includes(token.name)) {
      const place = name === null ? '' : ` for "${name}"`;
      throw new UsageError(`Unknown option ${token.rawName}${place}.${didYouMean(token.name, allowed, (word) => `--${word}`)}`);
    }
    const takesValue = OPTIONS[token.name as OptionName].type === 'string';
    if (takesValue && (token.value === undefined || (!token.inlineValue && token.value.startsWith('--'))))
      throw new UsageError(`--${token.name} needs a value`);
    if (!takesValue && token.value !== undefined) throw new UsageError(`--${token.name} takes no value`);
  }
  return { flags: values as Flags, words: positionals };
}

/** The command that the words name; null for none. Errors: UsageError, with what was probably meant. */
function findCommand([first, second]: readonly string[]): string | null {
  if (first === undefined) return null;
  for (const name of [`${first} ${second}`, first]) if (Object.hasOwn(ABOUT, name)) return name;
  const seconds = secondWords(first);
  if (seconds.length > 0) {
    if (second === undefined) throw new UsageError(`"${first}" needs a subcommand: ${seconds.join(', ')}`);
    throw new UsageError(`Unknown command "${first} ${second}".${didYouMean(second, seconds, (word) => `"${first} ${word}"`)}`);
  }
  throw new UsageError(
    `Unknown command "${first}".${didYouMean(first, [...new Set(Object.keys(ABOUT).map((name) => name.split(' ')[0]!))])}`,
  );
}

/** What --help asks for: everything, a group, or one command. */
function showHelp(words: readonly string[], isJson: boolean): void {
  const [first] = words;
  const group = first !== undefined && words.length === 1 && secondWords(first).length > 0 ? first : null;
  const name = group === null ? findCommand(words) : null;
  const names = name === null ? Object.keys(ABOUT).filter((one) => group === null || one.startsWith(`${group} `)) : [name];
  if (isJson) line(asJson(names));
  else line(name === null ? overview(group ?? undefined) : helpOf(name));
}

async function main(argv: readonly string[]): Promise<void> {
  const loose = parseArgs({ args: [...argv], options: OPTIONS, allowPositionals: true, strict: false });
  const given = loose.values as Flags;
  const [first] = loose.positionals;
  if (first !== undefined && OPERATOR.includes(first)) {
    throw new UsageError(
      `"${first}" is a command for the operator of the service. Run it in the folder where Florin is installed: ./florin ${asTyped(argv)}`,
    );
  }
  if (given.version) {
    const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string };
    return line(given.json ? JSON.stringify({ version }) : version);
  }
  const isHelp = first === 'help';
  if (isHelp || given.help) return showHelp(isHelp ? loose.positionals.slice(1) : loose.positionals, given.json === true);
  if (first === undefined) {
    readOptions(argv, null);
    return showHelp([], given.json === true);
  }
  const name = findCommand(loose.positionals)!;
  const { flags, words } = readOptions(argv, name);
  if (name === 'completion') {
    const script = completion(words[1]);
    return line(flags.json ? JSON.stringify({ script }) : script);
  }
  const { json, text, failed } = await COMMANDS[name]!.run(words.slice(name.split(' ').length), flags);
  if (json !== undefined) line(flags.json ? JSON.stringify(json) : (text ?? describe(json)));
  if (failed) process.exitCode = 1;
}

/** An error with the same names for every kind; a refusal by the service keeps the names of its reply. */
function faultOf(error: unknown): { type: string; message: string; code: string; param: string | null; request_id: string | null } {
  const own = (name: string, code?: string) => {
    const type = name.replace(/(?<=[a-z])(?=[A-Z])/g, '_').toLowerCase();
    return { type, message: error instanceof Error ? error.message : String(error), code: code ?? type, param: null, request_id: null };
  };
  if (error instanceof ApiError) {
    const { type, message, code, param, requestId, docUrl, status } = error;
    return { type, message, code, param, request_id: requestId, ...{ doc_url: docUrl, status } };
  }
  if (error instanceof UsageError) return own('UsageError', 'usage');
  if (error instanceof FlorinError) return own(error.name, error instanceof WebhookError ? error.reason : undefined);
  return own('Error', (error as NodeJS.ErrnoException | null)?.code);
}

// A reader such as `head` may stop early; that is not an error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit();
});

main(process.argv.slice(2)).catch((error: unknown) => {
  const json = process.argv.includes('--json');
  process.exitCode = error instanceof UsageError ? 2 : 1;
  if (json) note(JSON.stringify({ error: faultOf(error) }));
  else {
    const message = showControls(error instanceof Error ? error.message : String(error));
    if (error instanceof ApiError)
      note(`${message}\n  ${showControls(`${error.code}, request ${error.requestId}`)}\n  ${showControls(error.docUrl ?? '')}`);
    else if (error instanceof UsageError) note(`${message}\nSee: florin --help`);
    else if (error instanceof ConnectionError && !process.env.FLORIN_URL && !process.argv.some((arg) => /^--url(=|$)/.test(arg)))
      note(`${message}\nIf Florin runs at another address, set FLORIN_URL to it.`);
    else if (error instanceof FlorinError || (error as NodeJS.ErrnoException | null)?.code) note(message);
    else note(error instanceof Error ? (error.stack ?? message) : message);
  }
});
