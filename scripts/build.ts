/** Builds the dashboard, the package of the client and the plugins for shops; the service does the same when they are needed. For images and for folders that it may not write to. */
import { join } from 'node:path';
import { buildApp } from '../src/web/dashboard/build.ts';
import { buildPackage } from '../src/web/sdk-package.ts';
import { packProvider } from './medusa.ts';
import { packPlugin } from './woocommerce.ts';

const log = { info: (_details: object, message: string) => process.stdout.write(`${message}\n`) };
await buildApp(log);
await buildPackage(log);
const plugins = join(import.meta.dirname, '../dist/plugins');
for (const file of [packPlugin(plugins), await packProvider(plugins)]) log.info({}, `Plugin is ready: ${file}`);
