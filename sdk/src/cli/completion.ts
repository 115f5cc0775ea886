/** Completion scripts for shells: commands, their subcommands, and the options of each. */
// cspell:ignore autoload bashcompinit compinit
import { COMMANDS, TRIGGER_NAMES } from './commands.ts';
import { EVERYWHERE, UsageError } from './terminal.ts';

export const SHELLS = ['bash', 'zsh', 'fish'];
/** Installed in a project, the command is not on the PATH: then this function of the same name runs it through npm. */
const THROUGH_NPM = 'npm exec --no -- florin';

const firsts = [...new Set([...Object.keys(COMMANDS).map((name) => name.split(' ')[0]!), 'completion', 'help'])];
const secondsOf = (first: string): readonly string[] => {
  if (first === 'trigger') return TRIGGER_NAMES;
  if (first === 'completion') return SHELLS;
  if (first === 'help') return firsts;
  return Object.keys(COMMANDS).flatMap((name) => (name.startsWith(`${first} `) ? [name.slice(first.length + 1)] : []));
};
const seconds = firsts.map((first) => [first, secondsOf(first)] as const).filter(([, words]) => words.length > 0);
const optionsOf = (names: readonly string[]): string => [...names, ...EVERYWHERE].map((name) => `--${name}`).join(' ');

const bash = (): string => `command -v florin >/dev/null || florin() { ${THROUGH_NPM} "$@"; }
_florin() {
  local word="\${COMP_WORDS[COMP_CWORD]}" words=""
  if [ "\${word#-}" != "$word" ]; then
    case "\${COMP_WORDS[1]} \${COMP_WORDS[2]}" in
${Object.entries(COMMANDS)
  .map(([name, { options }]) => `      "${name}${name.includes(' ') ? '"' : ' "*'}) words="${optionsOf(options)}";;`)
  .join('\n')}
      *) words="${optionsOf(['version'])}";;
    esac
  elif [ "$COMP_CWORD" -eq 1 ]; then words="${firsts.join(' ')}"
  elif [ "$COMP_CWORD" -eq 2 ]; then case "\${COMP_WORDS[1]}" in
${seconds.map(([first, words]) => `    ${first}) words="${words.join(' ')}";;`).join('\n')}
  esac; fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -F _florin florin`;

const fish = (): string =>
  [
    `command -q florin; or function florin; ${THROUGH_NPM} $argv; end`,
    'complete -c florin -f',
    ...firsts.map((first) => `complete -c florin -n __fish_use_subcommand -a ${first}`),
    ...seconds.map(
      ([first, words]) =>
        `complete -c florin -n '__fish_seen_subcommand_from ${first}; and test (count (commandline -opc)) -eq 2' -a '${words.join(' ')}'`,
    ),
    ...Object.entries(COMMANDS).flatMap(([name, { options }]) => {
      const seen = name.split(' ').map((word) => `__fish_seen_subcommand_from ${word}`);
      return options.map((option) => `complete -c florin -n '${seen.join('; and ')}' -l ${option}`);
    }),
    ...[...EVERYWHERE, 'version'].map((name) => `complete -c florin -l ${name}`),
  ].join('\n');

/** Errors: UsageError when the shell is none of these. */
export function completion(shell: string | undefined): string {
  switch (shell) {
    case 'bash':
      return bash();
    case 'zsh':
      return `autoload -U +X bashcompinit && bashcompinit\n${bash()}`;
    case 'fish':
      return fish();
    default:
      throw new UsageError(`Name a shell: ${SHELLS.join(', ')}`);
  }
}
