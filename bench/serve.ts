/** The service as benchmarked: a process of its own on the database named in DATABASE_URL, unlimited plan, no endpoint. Prints `ready` with URL, key and set-up link. */
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
// What is garbage is no need of memory: benchmarks ask for it to be collected before they look.
setFlagsFromString('--expose-gc');
process.on('SIGUSR2', () => runInNewContext('gc')());
