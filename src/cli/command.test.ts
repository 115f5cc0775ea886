/** The operator command line: what it accepts, what it rejects, and its error messages. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { coinOf, nativeCoinOf, parseCommand, UsageError } from './command.ts';
import { loadCommands } from './run.ts';

const COMMANDS = await loadCommands();

const parse = (line: string) => parseCommand(line.split(' ').filter(Boolean), COMMANDS);

const REFUSED = `
command                                                 | says
merchant create --name X --coin BTC                     | Unknown option --coin for "merchant create".
merchant create --nam X                                 | Unknown option --nam for "merchant create". Did you mean --name?
doctor --jsno                                           | Unknown option --jsno for "doctor". Did you mean --json?
merchant create                                         | Missing --name
endpoint test                                           | Missing --merchant, --mode, --endpoint
merchant create --name                                  | --name needs a value
merchant create --name --plan pro                       | --name needs a value
user operator --email a@b.example --off=yes             | --off takes no value
plan set --merchant a --merchant b --plan pro           | --merchant was given twice
doctor now                                              | Unexpected argument "now"
merchant                                                | "merchant" needs a subcommand: list, create, setup-link, time-zone
merchant crate                                          | Unknown command "merchant crate". Did you mean "merchant create"?
docter                                                  | Unknown command "docter". Did you mean "doctor"?
wobble                                                  | Unknown command "wobble".
constructor                                             | Unknown command "constructor".
--json doctor                                           | Put the command first: ./florin COMMAND --json
`;
test('each command refuses what it does not accept, with a suggestion', () => {
  for (const row of REFUSED.trim().split('\n').slice(1)) {
    const [line, says] = row.split(/ +\| /);
    assert.throws(
      () => parse(line!),
      (error) => error instanceof UsageError && error.message === says,
      row,
    );
  }
});

test('options are accepted with spaces or =, switches without a value', () => {
  const parsed = parseCommand(['merchant', 'create', '--name=My shop', '--plan', 'enterprise', '--json'], COMMANDS);
  assert.ok('flags' in parsed);
  assert.deepEqual([parsed.name, parsed.flags], ['merchant create', { name: 'My shop', plan: 'enterprise', json: 'true' }]);
  const empty = parseCommand(['endpoint', 'update', '--merchant', 'm', '--mode', 'live', '--endpoint', 'e', '--description', ''], COMMANDS);
  assert.ok('flags' in empty && empty.flags.description === '');
});

test('a coin is found in upper or lower case; commands about chains and wallets refuse tokens', () => {
  const given = (line: string) => {
    const parsed = parse(line);
    assert.ok('flags' in parsed);
    return parsed.flags;
  };
  // As doctor prints it.
  assert.equal(coinOf(given('deposit claim --coin USDC@ethereum --ref abc:0')), 'USDC@ethereum');
  assert.equal(coinOf(given('deposit claim --coin usdc@ETHEREUM --ref abc:0')), 'USDC@ethereum');
  assert.equal(coinOf(given('deposit claim --coin btc --ref abc:0')), 'BTC');
  assert.equal(nativeCoinOf(given('chain status --coin eth')), 'ETH');
  const refused = { name: 'UsageError', message: '--coin must be one of BTC, ETH, LTC, DASH, DOGE' };
  assert.throws(() => nativeCoinOf(given('chain status --coin USDC@ethereum')), refused);
});

test('help lists all commands, those of a group, or the options of one', () => {
  const help = (line: string): string => {
    const parsed = parse(line);
    assert.ok('help' in parsed, line);
    return parsed.help;
  };
  for (const all of ['', 'help', '--help', '-h'])
    for (const name of Object.keys(COMMANDS)) assert.ok(help(all).includes(`\n  ${name} `), name);
  assert.match(help('key --help'), /key list.*key create.*key revoke/s);
  assert.doesNotMatch(help('key -h'), /merchant create/);
  for (const one of ['wallet set --help', 'help wallet set', 'wallet set -h --nonsense']) {
    assert.match(help(one), /^Usage: \.\/florin wallet set --merchant ID --coin COIN --key ACCOUNT_KEY \[options\]$/m, one);
    assert.match(help(one), /^ {2}--script SCRIPT .*p2tr/m);
    assert.doesNotMatch(help(one), /--origins/);
  }
});

test('a usage error exits with 2, another error with 1, both on standard error and without colors there', async () => {
  const run = (args: string[], env: object = {}) =>
    new Promise<unknown[]>((done) => {
      const main = join(import.meta.dirname, '../main.ts');
      const { PATH, NODE_COMPILE_CACHE } = process.env;
      execFile(process.execPath, [main, ...args], { env: { PATH, NODE_COMPILE_CACHE, ...env } }, (error, out, err) =>
        done([error?.code ?? 0, out, err]),
      );
    });
  const [version, usage, config] = await Promise.all([
    run(['--version']),
    run(['merchant', 'lst', '--json']),
    run(['merchant', 'list'], { PORT: 'many' }),
  ]);
  assert.deepEqual(version, [0, `${JSON.parse(readFileSync('package.json', 'utf8')).version}\n`, '']);
  assert.deepEqual(usage, [2, '', 'Unknown command "merchant lst". Did you mean "merchant list"?\nSee: ./florin merchant --help\n']);
  const remedy = 'Change the setting in .env or in the environment. All settings: docs/reference/config.md';
  assert.deepEqual(config, [1, '', `PORT must be a whole number from 0 to 65535\n${remedy}\n`]);
});
