/** Runs one operator command: on any database, or with the core of the service. */
import { needDatabase, openCore } from '../app.ts';
import type { Config } from '../config.ts';
import { createLog } from '../log.ts';
import type { Command, Flags } from './command.ts';

/** `show` gets the result while the database is still open. `serve` has none: it runs until a signal. */
export async function runCommand(
  command: Command,
  { config, flags, show }: { config: Config; flags: Flags; show(result: object): void },
): Promise<void> {
  if ('serve' in command) return command.serve(config, flags);
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
