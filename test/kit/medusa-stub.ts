/** Lets the Medusa provider be imported where Medusa is not installed. Import it before the provider. */
import { registerHooks } from 'node:module';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const STUB = resolve(import.meta.dirname, '../../plugins/medusa/stub');
const PREFIX = '@medusajs/framework/';

registerHooks({
  resolve: (specifier, context, next) =>
    next(specifier.startsWith(PREFIX) ? pathToFileURL(`${STUB}/${specifier.slice(PREFIX.length)}.ts`).href : specifier, context),
});
