/** The operator's commands. */
export { parseCommand, UsageError } from './command.ts';
export { COMMANDS, describeFailure, failureDetails, print, printError, runCommand } from './run.ts';
