/** Names the network in every error of a source, because several networks share the code that reads their nodes. */
import { ChainError } from '../chain.ts';

function named(name: string, error: unknown): unknown {
  if (!(error instanceof ChainError) || error.message.includes(name)) return error;
  error.message = /\bthe source\b/.test(error.message)
    ? error.message.replace(/\bthe source\b/, `the ${name} source`)
    : `${name}: ${error.message}`;
  return error;
}

/** The same functions, also those of parts such as `ranges`. */
export function nameNetwork<T extends object>(name: string, part: T): T {
  const wrap = (value: unknown): unknown => {
    if (typeof value === 'function')
      return (...given: unknown[]) => {
        try {
          const result = value(...given);
          if (!(result instanceof Promise)) return result;
          return result.catch((error: unknown) => {
            throw named(name, error);
          });
        } catch (error) {
          throw named(name, error);
        }
      };
    const isPart = typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
    return isPart ? nameNetwork(name, value) : value;
  };
  return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, wrap(value)])) as T;
}
