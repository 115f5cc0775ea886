/** A shop with Florin's plugin for WooCommerce, on PHP's own server; WordPress is scripted in the tests of the plugin. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { eventually } from './app.ts';
import { freePort } from './nodes.ts';
import { shiftMs } from './shifted-clock.ts';

export const WOOCOMMERCE = resolve(import.meta.dirname, '../../plugins/woocommerce');

/** Why a test with a shop is skipped; false if it is not. */
export const noPhp = (): string | false =>
  (spawnSync('php', ['--version']).status !== 0 && 'PHP is not installed') || (shiftMs() !== 0 && 'PHP reads the real clock');

export type WordPress = { url: string /** For files of a test. */; folder: string; stop(): Promise<void> };
/** A shop; `copyOf` is another one whose database it has, at its own address. `cached`: an object cache keeps orders between requests. */
export async function startWordPress({ copyOf, cached = false }: { copyOf?: WordPress; cached?: boolean } = {}): Promise<WordPress> {
  const folder = mkdtempSync(join(tmpdir(), 'florin-woocommerce-'));
  // Read by the shop itself, so that no write is cut in two.
  if (copyOf) writeFileSync(join(folder, 'shop.json'), await (await fetch(`${copyOf.url}/options`, { method: 'POST', body: '{}' })).text());
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const server = spawn(
    'php',
    ['-d', 'display_errors=1', '-d', 'opcache.enable_cli=1', '-S', `127.0.0.1:${port}`, join(WOOCOMMERCE, 'tests/shop.php')],
    {
      env: {
        ...process.env,
        SHOP_FILE: join(folder, 'shop.json'),
        SHOP_URL: url,
        SHOP_CACHE: cached ? '1' : '',
        PHP_CLI_SERVER_WORKERS: '4',
      },
      stdio: 'ignore',
      // Its workers are stopped with it.
      detached: true,
    },
  );
  const answers = () =>
    fetch(url).then(
      () => true,
      () => false,
    );
  await eventually(answers, (yes) => yes);
  return {
    ...{ url, folder },
    stop: async () => {
      const ended = once(server, 'exit');
      process.kill(-server.pid!, 'SIGTERM');
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
