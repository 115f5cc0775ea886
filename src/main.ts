/** argv -> command. Commands work while the service runs and while it does not; with --json standard output is JSON only. */
import { describeFailure, failureDetails, loadCommands, parseCommand, print, printError, runCommand, UsageError } from '#cli';
import { isDebugging, readConfig } from '#config';
import { showControls } from '#core/text';
import { redact } from '#log';

async function main(argv: readonly string[]): Promise<void> {
  // "deliveries list" stays valid.
  const words = argv[0] === 'deliveries' ? ['delivery', ...argv.slice(1)] : argv;
  const parsed = parseCommand(words, await loadCommands(words[0]));
  if ('help' in parsed) process.stdout.write(`${parsed.help}\n`);
  else if ('version' in parsed) process.stdout.write(`${(await import('#operate')).florinVersion()}\n`);
  else {
    const { command, flags, name } = parsed;
    const show = (result: object) => {
      print(result, command, flags);
      if ('run' in command && 'ok' in result && result.ok === false) process.exitCode = 1;
    };
    await runCommand(command, { config: readConfig(), flags, show }).catch((error: unknown) => {
      throw error instanceof UsageError && error.command === '' ? new UsageError(error.message, name) : error;
    });
  }
}

if (Number(process.versions.node.split('.')[0]) < 24) {
  printError(`Florin needs Node 24 or newer; this is ${process.version}. On Linux "npm ci" installs it; elsewhere install Node 24.`);
  process.exit(1);
}
// The reader of the output may have enough, as `head` does. The command still ends in order.
for (const stream of [process.stdout, process.stderr])
  stream.on('error', (error: Error & { code?: string }) => {
    if (error.code !== 'EPIPE') throw error;
  });
main(process.argv.slice(2)).catch((error: unknown) => {
  if (error instanceof UsageError) {
    printError(showControls(error.message), `See: ./florin ${error.command ? `${error.command} ` : ''}--help`);
    process.exit(2);
  }
  const { message, hint } = describeFailure(error);
  printError(message, hint ?? undefined);
  if (isDebugging()) process.stderr.write(`${redact(failureDetails(error))}\n`);
  process.exit(1);
});
