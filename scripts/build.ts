/** Builds the dashboard and the package of the client; the service does the same when they are needed. For images and for folders that it may not write to. */
import { buildApp } from '../src/web/dashboard/build.ts';
import { buildPackage } from '../src/web/sdk-package.ts';

const log = { info: (_details: object, message: string) => process.stdout.write(`${message}\n`) };
await buildApp(log);
await buildPackage(log);
