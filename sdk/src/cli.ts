#!/usr/bin/env node
/** The command line of developers: argv -> command. With --json standard output is the JSON alone. */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { COMMANDS, TRIGGER_NAMES } from './cli/commands.ts';
import { describe, type Flags, line, note, OPTIONS, UsageError } from './cli/terminal.ts';
import { ApiError, FlorinError } from './errors.ts';

/** First words of the commands that belong to who runs the service. */
const OPERATOR = ['serve', 'migrate', 'merchant', 'wallet', 'key', 'plan', 'endpoint', 'doctor', 'verify', 'deposit', 'backup', 'restore'];
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
        ...seconds.map(([first, words]) => `complete -c florin -n '__fish_seen_subcommand_from ${first}' -a '${words.join(' ')}'`),
        ...Object.keys(OPTIONS).map((name) => `complete -c florin -l ${name}`),
      ].join('\n');
    default:
      throw new UsageError(`completion takes one of ${SHELLS.join(', ')}`);
  }
}

async function main(argv: readonly string[]): Promise<void> {
  const { values, positionals } = parseArgs({ args: [...argv], options: OPTIONS, allowPositionals: true, strict: false });
  const flags = values as Flags;
  const [first, second] = positionals;
  if (first !== undefined && OPERATOR.includes(first)) {
    throw new UsageError(
      `"${first}" is a command of the operator: run \`npm run florin -- ${argv.filter((arg) => !/^(--key=)?(sk|pk)_/.test(arg)).join(' ')}\` where the service is installed.`,
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
  if (first === undefined || first === 'help') return line(USAGE);
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
  if (flags.help) return line(`florin ${command.usage}\n\n${command.about}`);
  const { json, text, failed } = await command.run(positionals.slice(name.split(' ').length), flags);
  if (json !== undefined) line(flags.json ? JSON.stringify(json) : (text ?? describe(json)));
  if (failed) process.exitCode = 1;
}

main(process.argv.slice(2)).catch((error: unknown) => {
  const json = process.argv.includes('--json');
  if (error instanceof ApiError) {
    const { message, code, param, requestId, docUrl } = error;
    note(
      json
        ? JSON.stringify({ error: { message, code, param, request_id: requestId } })
        : `${message}\n  ${code}, request ${requestId}\n  ${docUrl}`,
    );
  } else if (error instanceof FlorinError || error instanceof UsageError) {
    note(
      json
        ? JSON.stringify({ error: { message: error.message, code: error instanceof UsageError ? 'usage' : error.name } })
        : error.message,
    );
    if (error instanceof UsageError && !json) note('See: florin --help');
  } else
    note(error instanceof Error ? ((error as NodeJS.ErrnoException).code ? error.message : (error.stack ?? error.message)) : String(error));
  process.exitCode = error instanceof UsageError ? 2 : 1;
});
