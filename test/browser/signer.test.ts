/** The signer page: signs a file with the network cut, sends nothing, and forgets the secret. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { PNG } from 'pngjs';
import decode from 'qr/decode.js';
import { createBbqrReader } from '../../dashboard/lib/bbqr.ts';
import { signFile } from '../../signer/sign.ts';
import { signingFileText } from '../../src/core/signing-file.ts';
import { buildApp, hashSigner } from '../../src/web/dashboard/build.ts';
import { openTab, startBrowser } from '../kit/browser.ts';
import { accountFile, PHRASE, sweepFile } from '../kit/signing.ts';

let folder = '';
let page = '';
before(async () => {
  page = join(await buildApp({ info: () => {} }), 'signer.html');
  folder = mkdtempSync(join(tmpdir(), 'florin-signer-'));
});
after(() => rmSync(folder, { recursive: true, force: true }));

test('the hash that doctor prints is that of the page, whose policy allows no connection', async () => {
  const html = readFileSync(page, 'utf8');
  assert.equal(await hashSigner(), createHash('sha256').update(html).digest('hex'));
  const [, policy = ''] = /http-equiv="Content-Security-Policy" content="([^"]+)"/.exec(html) ?? [];
  assert.match(policy, /default-src 'none'; script-src 'sha256-[^']+'; style-src 'sha256-[^']+'; connect-src 'none'/);
  assert.doesNotMatch(html, /<script[^>]+src=|<link[^>]+href="(?!data:)/);
});

test('opened from the disk with the network cut, it signs the same bytes as in Node and clears the secret', async () => {
  const { file, destination } = sweepFile('BTC', 'p2wpkh', 3);
  const content = signingFileText(file);
  const asked = join(folder, 'sweep.json');
  writeFileSync(asked, content);
  const browser = await startBrowser();
  try {
    const { page: tab, faults } = await openTab(browser, `file://${page}`, { width: 390 });
    const requests: string[] = [];
    tab.on('request', (request) => requests.push(request.url()));
    await tab.context().setOffline(true);
    for (const [coin, said] of [
      ['ETH', 'regtest (not real money)'],
      ['USDC@base', 'regtest. Treat this as real money'],
    ] as const) {
      await tab.getByLabel('Text', { exact: true }).fill(signingFileText(accountFile(coin, 'regtest').file));
      await tab.getByRole('button', { name: 'Read file' }).click();
      await tab.getByText(said).waitFor();
    }
    await tab.getByLabel('File', { exact: true }).setInputFiles(asked);
    await tab.getByText(`${destination} receives`).waitFor();
    const sign = async (entered: string) => {
      await tab.getByLabel('Your own address').fill(entered);
      await tab.getByLabel('Seed phrase').fill(PHRASE);
      await tab.getByRole('button', { name: 'Sign', exact: true }).click();
    };
    await sign(destination.slice(-6));
    await tab.getByText('is not the address that you entered').waitFor();
    assert.equal(await tab.getByLabel('Seed phrase').inputValue(), '');
    await sign(` ${destination}\n`);
    await tab.getByRole('heading', { name: 'Signed' }).waitFor();
    const expected = signFile({ content, secret: PHRASE, destination }).text;
    assert.equal(await tab.getByLabel('Signed file').inputValue(), expected);
    const [download] = await Promise.all([tab.waitForEvent('download'), tab.getByRole('link', { name: 'Save signed file' }).click()]);
    assert.equal(readFileSync(await download.path(), 'utf8'), expected);
    await tab.getByRole('button', { name: 'Show as QR codes' }).click();
    const reader = createBbqrReader();
    for (let isWhole = false; !isWhole; ) {
      const { data, width, height } = PNG.sync.read(await tab.getByRole('img', { name: /^QR code/ }).screenshot());
      const seen = reader.add(decode({ data: new Uint8Array(data), width, height }));
      assert.ok(seen !== null && seen.total > 1);
      isWhole = seen.have === seen.total;
    }
    const shown = await reader.file();
    assert.deepEqual([shown.type, Buffer.from(shown.bytes).toString()], ['J', expected]);
    const fields = await tab.locator('textarea, input').evaluateAll((all) => all.map((one) => (one as HTMLInputElement).value));
    assert.ok(!fields.some((value) => value.includes('abandon')));
    const sent = await tab.evaluate(() =>
      fetch('https://example.com/').then(
        () => 'sent',
        () => 'refused',
      ),
    );
    assert.equal(sent, 'refused');
    assert.deepEqual(
      requests.filter((url) => !url.startsWith('blob:')),
      [],
    );
    assert.ok(
      faults.every((fault) => fault.includes('example.com')),
      faults.join('\n'),
    );
  } finally {
    await browser.close();
  }
});
