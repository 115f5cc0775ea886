#!/usr/bin/env node
/** The command line of developers: argv -> command. With --json standard output is the JSON alone. */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { COMMANDS, TRIGGER_NAMES } from './cli/commands.ts';
import { describe, type Flags, line, note, OPTIONS, UsageError } from './cli/terminal.ts';
import { ApiError, FlorinError, WebhookError } from './errors.ts';

/** First words of the commands that belong to who runs the service. */
const OPERATOR = [
  ...['serve', 'migrate', 'merchant', 'wallet', 'key', 'user', 'plan', 'checkout', 'endpoint', 'delivery', 'doctor', 'verify'],
  ...['deposit', 'chain', 'backup', 'restore'],
];
const SHELLS = ['bash', 'zsh', 'fish'];

const width = 18;
const USAGE = `florin: takes and tests payments of a Florin service

${Object.entries(COMMANDS)
  .map(([name, { about }]) => `  ${name.padEnd(width)}${about}`)
  .join('\n')}
  ${'completion'.padEnd(width)}print the completion of a shell: ${SHELLS.join(', ')}

  --url URL   where the service answers; default FLORIN_URL, else http://localhost:3000
  --key KEY   a secret key; default FLORIN_API_KEY, which other users of this machine cannot see
  --json      print the result as JSON alone
  --help      with a command: how to use it`;

const helpOf = (only?: string): { name: string; usage: string; about: string }[] =>
  Object.entries(COMMANDS)
    .filter(([name]) => only === undefined || name === only)
    .map(([name, { usage, about }]) => ({ name, usage: `florin ${usage}`, about }));

/** Words after the first: `payments` -> create, get, ... */
const secondWords = (first: string): string[] =>
  first === 'trigger'
    ? [...TRIGGER_NAMES]
    : first === 'completion'
      ? SHELLS
      : Object.keys(COMMANDS).flatMap((name) => (name.startsWith(`${first} `) ? [name.slice(first.length + 1)] : []));

function completion(shell: string | undefined): string {
  const firsts = [...new Set([...Object.keys(COMMANDS).map((name) => name.split(' ')[0]!), 'completion'])];
  const flags = Object.keys(OPTIONS).map((name) => `--${name}`);
  const seconds = firsts.map((first) => [first, secondWords(first)] as const).filter(([, words]) => words.length > 0);
  switch (shell) {
    case 'bash':
    case 'zsh':
      return `${shell === 'zsh' ? 'autoload -U +X bashcompinit && bashcompinit\n' : ''}_florin() {
  local word="\${COMP_WORDS[COMP_CWORD]}" words=""
  if [ "\${word#-}" != "$word" ]; then words="${flags.join(' ')}"
  elif [ "$COMP_CWORD" -eq 1 ]; then words="${firsts.join(' ')}"
  elif [ "$COMP_CWORD" -eq 2 ]; then case "\${COMP_WORDS[1]}" in
${seconds.map(([first, words]) => `    ${first}) words="${words.join(' ')}";;`).join('\n')}
  esac; fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -F _florin florin`;
    case 'fish':
      return [
        'complete -c florin -f',
        ...firsts.map((first) => `complete -c florin -n __fish_use_subcommand -a ${first}`),
        ...seconds.map(
          ([first, words]) =>
            `complete -c florin -n '__fish_seen_subcommand_from ${first}; and test (count (commandline -opc)) -eq 2' -a '${words.join(' ')}'`,
        ),
        ...Object.keys(OPTIONS).map((name) => `complete -c florin -l ${name}`),
      ].join('\n');
    default:
      throw new UsageError(`completion takes one of ${SHELLS.join(', ')}`);
  }
}

/** Words as a shell reads them again; without an API key, which has no place in a message. */
const asTyped = (argv: readonly string[]): string =>
  argv
    .filter((arg) => !/^(--key=)?((sk|pk)_|(live|test)_(sk|pk)_)/.test(arg))
    .map((arg) => (/^[\w@%+=:,./-]+$/.test(arg) ? arg : `'${arg.replaceAll("'", "'\\''")}'`))
    .join(' ');

async function main(argv: readonly string[]): Promise<void> {
  const { values, positionals } = parseArgs({ args: [...argv], options: OPTIONS, allowPositionals: true, strict: false });
  const flags = values as Flags;
  const [first, second] = positionals;
  if (first !== undefined && OPERATOR.includes(first)) {
    throw new UsageError(
      `"${first}" is a command of the operator: run \`npm run florin -- ${asTyped(argv)}\` where the service is installed.`,
    );
  }
  if (flags.version) {
    const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string };
    return line(flags.json ? JSON.stringify({ version }) : version);
  }
  const unknown = Object.keys(flags).find((name) => !Object.hasOwn(OPTIONS, name));
  if (unknown !== undefined) throw new UsageError(`there is no --${unknown}`);
  for (const [name, value] of Object.entries(flags)) {
    if (OPTIONS[name as keyof Flags].type === 'string' && (value === true || (Array.isArray(value) && value.includes(true as never))))
      throw new UsageError(`--${name} takes a value`);
  }
  if (first === undefined || first === 'help') return line(flags.json ? JSON.stringify({ commands: helpOf() }) : USAGE);
  if (first === 'completion') {
    const script = completion(second);
    return line(flags.json ? JSON.stringify({ script }) : script);
  }
  const name = Object.hasOwn(COMMANDS, `${first} ${second}`) ? `${first} ${second}` : first;
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (!command) {
    const seconds = secondWords(first);
    throw new UsageError(seconds.length > 0 ? `${first} takes one of ${seconds.join(', ')}` : `there is no command "${first}"`);
  }
  if (flags.help) return line(flags.json ? JSON.stringify({ commands: helpOf(name) }) : `florin ${command.usage}\n\n${command.about}`);
  const { json, text, failed } = await command.run(positionals.slice(name.split(' ').length), flags);
  if (json !== undefined) line(flags.json ? JSON.stringify(json) : (text ?? describe(json)));
  if (failed) process.exitCode = 1;
}

/** What went wrong, with the same names for every kind: of a refusal of the service those of its reply. */
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

// A reader such as `head` that has seen enough ends the command, and nothing is wrong with that.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit();
});

main(process.argv.slice(2)).catch((error: unknown) => {
  const json = process.argv.includes('--json');
  process.exitCode = error instanceof UsageError ? 2 : 1;
  if (json) note(JSON.stringify({ error: faultOf(error) }));
  else if (error instanceof ApiError) note(`${error.message}\n  ${error.code}, request ${error.requestId}\n  ${error.docUrl}`);
  else if (error instanceof UsageError) note(`${error.message}\nSee: florin --help`);
  else if (error instanceof FlorinError || (error as NodeJS.ErrnoException | null)?.code) note((error as Error).message);
  else note(error instanceof Error ? (error.stack ?? error.message) : String(error));
});
