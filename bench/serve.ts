/** The service as benchmarked: a process of its own on the database named in DATABASE_URL, unlimited plan, no endpoint. Prints `ready` with URL and key. */
import { startApp } from '../src/app.ts';
import { readConfig } from '../src/config.ts';
import { createMerchant } from '../src/merchants/merchants.ts';

const app = await startApp(readConfig());
const merchant = await createMerchant(app.ctx, { name: 'Bench', plan: 'enterprise' });
process.stdout.write(`ready ${JSON.stringify({ url: app.url, secret: merchant.keys.liveSecret, merchantId: merchant.merchantId })}\n`);
process.on('SIGTERM', () => void app.stop().then(() => process.exit(0)));
