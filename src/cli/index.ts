/** The operator's commands. */
export { parseCommand, UsageError } from './command.ts';
export { describeFailure, failureDetails, loadCommands, print, printError, runCommand } from './run.ts';
