/** JSON lines on standard error. Secrets cannot be printed: they are redacted by name and by shape. */
import { pino } from 'pino';

export type Log = {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
};

const SECRETS = [
  /\b(?:[sp]k_(?:live|test)|(?:live|test)_[sp]k)_[0-9A-Za-z]{8,}/g,
  /\bwhsec_[0-9A-Za-z+/=]{16,}/g,
  // Extended keys: public ones are private data of the merchant, private ones must never have come here.
  /\b(?:[xyzuvtYZUV](?:prv|pub)|drk[pv]|dg(?:pv|ub)|Ltub|Ltpv|Mtub|Mtpv|ttub|ttpv)[1-9A-HJ-NP-Za-km-z]{60,}/g,
  /(?<=:\/\/[^:@/\s]*:)[^@/\s]+(?=@)/g,
];

/** The text with everything that looks like a key, signing secret or password removed. */
export const redact = (text: string): string => SECRETS.reduce((t, shape) => t.replace(shape, '[redacted]'), text);

export function createLog(level: string): Log {
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      redact: ['*.authorization', 'authorization', '*.secret', 'secret', '*.password', '*.account_key'],
    },
    { write: (line: string) => void process.stderr.write(redact(line)) },
  );
}
