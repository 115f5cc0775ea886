/** Builds the dashboard; `npm start` does the same when it is needed. For images and for folders that the service may not write to. */
import { buildApp } from '../src/web/dashboard/build.ts';

await buildApp({ info: (_details, message) => process.stdout.write(`${message}\n`) });
