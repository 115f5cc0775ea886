/**
 * The service under test: a separate process on the database in DATABASE_URL, with an unlimited plan and no endpoint. Prints `ready` with
 * URL, key and set-up link.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { startApp } from '../src/app.ts';
import { readConfig } from '../src/config.ts';
import { createMerchant } from '../src/merchants/merchants.ts';

const app = await startApp(readConfig());
const merchant = await createMerchant(app.ctx, { name: 'Bench', plan: 'enterprise' });
const { merchantId, setupUrl, keys } = merchant;
process.stdout.write(`ready ${JSON.stringify({ url: app.url, secret: keys.liveSecret, merchantId, setupUrl })}\n`);
process.on('SIGTERM', () => void app.stop().then(() => process.exit(0)));
// Garbage does not count as required memory: benchmarks request a collection before they measure.
setFlagsFromString('--expose-gc');
process.on('SIGUSR2', () => runInNewContext('gc')());
