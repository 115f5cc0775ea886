/** The log on standard error: short lines on a terminal, JSON elsewhere. Secrets cannot be printed: they are redacted by name and by shape. */
import { styleText } from 'node:util';
import { pino } from 'pino';
import { cutText, LONGEST_LOG_TEXT, MOST_LOG_ENTRIES, showControls } from '#core/text';

export type Log = {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
};

const SECRETS = [
  /\b(?:[sp]k_(?:live|test)|(?:live|test)_[sp]k)_[0-9A-Za-z]{8,}/g,
  /\bwhsec_[0-9A-Za-z+/=]{16,}/g,
  // Extended keys: public ones are the merchant's private data, and private ones should never get here.
  /\b(?:[xyzuvtYZUV](?:prv|pub)|drk[pv]|dg(?:pv|ub)|Ltub|Ltpv|Mtub|Mtpv|ttub|ttpv)[1-9A-HJ-NP-Za-km-z]{60,}/g,
  /(?<=:\/\/[^:@/\s]*:)[^@/\s]+(?=@)/g,
];

/** The text with everything that looks like a key, signing secret or password removed. */
export const redact = (text: string): string => SECRETS.reduce((t, shape) => t.replace(shape, '[redacted]'), text);

type Style = Parameters<typeof styleText>[0];
const LEVELS: Readonly<Record<number, { name: string; style: Style }>> = {
  20: { name: 'debug', style: 'dim' },
  30: { name: 'info ', style: 'cyan' },
  40: { name: 'warn ', style: 'yellow' },
  50: { name: 'error', style: 'red' },
};

const valueText = (value: unknown): string =>
  showControls(typeof value === 'string' && !/[\s=]/.test(value) ? value : JSON.stringify(value));

/** The first line of a stack is the message, which may quote strangers; the frames follow on lines of their own. */
function stackText({ message = '', stack = '' }: { message?: string; stack?: string }): string {
  const end = Math.max(stack.indexOf(message), 0) + message.length;
  const lines = [stack.slice(0, end), ...stack.slice(end).split('\n')];
  return lines.map((line, i) => `${i > 1 ? '\n         ' : ''}${showControls(line)}`).join('');
}

/** One JSON line of the log as a person reads it: local time, level, message, then the fields. */
export function describeLine(json: string, paint: (style: Style, text: string) => string = (_, text) => text): string {
  const { level, time, msg, err, ...fields } = JSON.parse(json) as Record<string, unknown> & { level: number; time: string };
  const { name, style } = LEVELS[level] ?? { name: String(level), style: 'red' };
  const error = err as { message?: string; stack?: string } | undefined;
  const details = Object.entries(error?.message === undefined ? fields : { ...fields, reason: error.message })
    .map(([key, value]) => `${showControls(key)}=${valueText(value)}`)
    .join(' ');
  const stack = level >= 50 && error?.stack ? `\n         ${stackText(error)}` : '';
  const clock = new Date(time).toTimeString().slice(0, 8);
  return `${paint('dim', clock)} ${paint(style, name)} ${showControls(String(msg))}${details && `  ${paint('dim', details)}`}${paint('dim', stack)}\n`;
}

/** How deep fields are written; the message of an error is on the second level. */
const LOG_DEPTH = 4;
/** Fields without what is too long to read: messages of errors contain what others wrote. */
export function shortened(value: unknown, depth = 0): unknown {
  if (typeof value === 'string') return value.length <= LONGEST_LOG_TEXT ? value : `${cutText(value, LONGEST_LOG_TEXT)}…`;
  if (typeof value !== 'object' || value === null || value instanceof Date) return value;
  if (value instanceof Error) return shortened({ ...pino.stdSerializers.err(value) }, depth);
  if (depth > LOG_DEPTH) return '…';
  if (Array.isArray(value)) return value.slice(0, MOST_LOG_ENTRIES).map((entry) => shortened(entry, depth + 1));
  const entries = Object.entries(value).slice(0, MOST_LOG_ENTRIES);
  return Object.fromEntries(entries.map(([name, held]) => [cutText(name, 100), shortened(held, depth + 1)]));
}

/** Colors follow what the terminal can show, and NO_COLOR. */
const paintTerminal = (style: Style, text: string): string => (text === '' ? '' : styleText(style, text, { stream: process.stderr }));

export function createLog(level: string): Log {
  const toText = process.stderr.isTTY
    ? (line: string) => describeLine(line, paintTerminal)
    : (line: string) => `${showControls(line.trimEnd())}\n`;
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { log: (fields) => shortened(fields) as Record<string, unknown> },
      // An error is written out above, with its causes, and then shortened.
      serializers: { err: (written) => written },
      redact: ['*.authorization', 'authorization', '*.secret', 'secret', '*.password', '*.account_key'],
    },
    { write: (line: string) => void process.stderr.write(redact(toText(line))) },
  );
}
