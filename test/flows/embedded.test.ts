/** The service with its own database: only one at a time, and the database stops with it. */
// Invariant: Only one service at a time uses a data folder.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { startApp } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';

const folder = mkdtempSync(join(tmpdir(), 'florin-embedded-'));
after(() => rmSync(folder, { recursive: true, force: true }));
const config = readConfig({ PORT: '0', FLORIN_DATA: join(folder, 'data'), LOG_LEVEL: 'silent', PRICES: 'static:BTC=97000.00' });

test('a second service on the same folder is refused, the first continues, and stopping it stops the database', async () => {
  const first = await startApp(config);
  await assert.rejects(startApp(config), /Florin already runs on this data folder/);
  assert.equal((await fetch(`${first.url}/readyz`)).status, 200);
  await first.stop();
  assert.ok(!existsSync(join(config.dataFolder, 'postgres/postmaster.pid')), 'the database still runs');
});

test('a stopped service can be started again', async () => {
  const again = await startApp(config);
  assert.equal((await fetch(`${again.url}/readyz`)).status, 200);
  await again.stop();
});
