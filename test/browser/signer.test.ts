/** The signer page: signs a file with the network cut, sends nothing, and forgets the secret. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { PNG } from 'pngjs';
import decode from 'qr/decode.js';
import { createBbqrReader, splitBbqr } from '../../dashboard/lib/bbqr.ts';
import { signFile } from '../../signer/sign.ts';
import { type SigningFile, signingFileText } from '../../src/core/signing-file.ts';
import { hashSigner } from '../../src/operate/app-build.ts';
import { buildApp } from '../../src/web/dashboard/build.ts';
import { openTab, startBrowser } from '../kit/browser.ts';
import { cameraFlags, showToCamera } from '../kit/camera.ts';
import { longTest } from '../kit/long.ts';
import { accountFile, PHRASE, refundFile, sweepFile, tokenRefundFile } from '../kit/signing.ts';

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
      await tab.getByRole('button', { name: 'Read text' }).click();
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

test('a file that is chosen, pasted or scanned gives the same signed bytes as in Node, with the network cut', async () => {
  const film = join(folder, 'film.y4m');
  showToCamera(film, null);
  const browser = await startBrowser({ windows: true, flags: cameraFlags(film) });
  try {
    const { page: tab, faults } = await openTab(browser, `file://${page}`, { width: 390 });
    await tab.context().grantPermissions(['camera']);
    await tab.context().setOffline(true);
    await tab.evaluate(`
      window.tracks = [];
      const open = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
      navigator.mediaDevices.getUserMedia = async (wanted) => {
        const stream = await open(wanted);
        window.tracks.push(...stream.getTracks());
        return stream;
      };`);
    const [sweep, refund, tokens] = [sweepFile('BTC', 'p2wpkh', 2), refundFile('BTC', 'p2wpkh', 2), tokenRefundFile(2)];
    const files: [file: SigningFile, destination: string, recipients: string][] = [
      [sweep.file, sweep.destination, ''],
      [refund.file, refund.destination, refund.customer],
      [tokens.file, '', tokens.customers.join('\n')],
    ];
    const scan = tab.getByRole('button', { name: 'Scan with the camera' });
    const ways: Record<string, (content: string) => Promise<unknown>> = {
      chosen: (content) =>
        tab
          .getByLabel('File', { exact: true })
          .setInputFiles({ name: 'file.json', mimeType: 'application/json', buffer: Buffer.from(content) }),
      pasted: async (content) => {
        await tab.getByLabel('Text', { exact: true }).fill(`\n${content}\n`);
        await tab.getByRole('button', { name: 'Read text' }).click();
      },
      scanned: (content) => {
        showToCamera(film, splitBbqr({ type: 'J', bytes: Uint8Array.from(Buffer.from(content)) }));
        return scan.click();
      },
    };
    for (const [file, destination, recipients] of files) {
      const content = signingFileText(file);
      const expected = signFile({ content, secret: PHRASE, destination, recipients }).text;
      for (const [way, give] of Object.entries(ways)) {
        await give(content);
        await tab.getByRole('heading', { name: 'Check what it does' }).waitFor();
        const [own, others] = [tab.getByLabel('Your own address'), tab.getByLabel('Recipients')];
        assert.deepEqual([await own.isVisible(), await others.isVisible()], [destination !== '', recipients !== ''], way);
        if (destination) await own.fill(destination);
        if (recipients) await others.fill(recipients);
        await tab.getByLabel('Seed phrase').fill(PHRASE);
        await tab.getByRole('button', { name: 'Sign', exact: true }).click();
        await tab.getByRole('heading', { name: 'Signed' }).waitFor();
        assert.equal(await tab.getByLabel('Signed file').inputValue(), expected, way);
        await tab.getByRole('button', { name: 'Sign another file' }).click();
      }
    }
    const dark = () =>
      tab.waitForFunction(() => {
        const { tracks } = globalThis as unknown as { tracks: { readyState: string }[] };
        return tracks.length > 0 && tracks.every((track) => track.readyState === 'ended');
      });
    await dark();
    for (const [text, says] of [
      ['https://shop.example', 'not a part of a signing file'],
      [splitBbqr({ type: 'P', bytes: new Uint8Array(40) })![0]!, 'These codes are not a signing file'],
    ] as const) {
      showToCamera(film, text);
      await scan.click();
      await tab.getByText(says).waitFor();
      await tab.getByRole('button', { name: 'Stop the camera' }).click();
      await dark();
    }
    showToCamera(film, splitBbqr({ type: 'U', bytes: new TextEncoder().encode('hello') }));
    await scan.click();
    await tab.getByRole('alert').getByText('The file cannot be read: it is not JSON').waitFor();
    await tab.context().clearPermissions();
    await scan.click();
    await tab.getByRole('alert').getByText('The browser blocked the camera').waitFor();
    await tab.evaluate("Object.defineProperty(navigator, 'mediaDevices', { value: undefined })");
    await scan.click();
    await tab.getByRole('alert').getByText('The camera is not available here').waitFor();
    assert.deepEqual(faults, []);
  } finally {
    await browser.close();
  }
});

longTest(
  'the secret stays while an address or a word is corrected, and is cleared after signing, for another file, and for a refused one',
  async () => {
    const { file, destination, customer } = refundFile('BTC', 'p2wpkh', 120);
    const content = signingFileText(file);
    const browser = await startBrowser();
    try {
      const { page: tab, faults } = await openTab(browser, `file://${page}`, { width: 390 });
      const read = async (text: string) => {
        await tab.getByLabel('Text', { exact: true }).fill(text);
        await tab.getByRole('button', { name: 'Read text' }).click();
      };
      const [own, others, secret] = [tab.getByLabel('Your own address'), tab.getByLabel('Recipients'), tab.getByLabel('Seed phrase')];
      const press = (name: string) => tab.getByRole('button', { name, exact: true }).click();
      const focused = () => tab.evaluate(() => document.activeElement?.id);
      await read(content);
      await secret.fill(PHRASE);
      await tab.getByLabel('Passphrase').fill('trezor');
      const attempts: [fill: () => Promise<void>, says: string, field: string][] = [
        [async () => {}, 'Enter your own address.', 'destination'],
        [() => own.fill(customer), 'not the address that you entered', 'destination'],
        [() => own.fill(destination), 'Enter the recipients.', 'recipients'],
        [() => others.fill(destination), 'not among the recipients', 'recipients'],
        [() => others.fill(customer), 'This secret belongs to another wallet', 'secret'],
      ];
      for (const [fill, says, field] of attempts) {
        await fill();
        await press('Sign');
        await tab.getByRole('alert').getByText(says).waitFor();
        assert.deepEqual(
          [await focused(), await secret.inputValue(), await tab.getByLabel('Passphrase').inputValue()],
          [field, PHRASE, 'trezor'],
        );
      }
      const isClear = async () => {
        assert.deepEqual([await secret.inputValue(), await tab.getByLabel('Passphrase').inputValue()], ['', '']);
      };
      await press('Clear');
      await isClear();
      await secret.fill(PHRASE);
      await read(content);
      await isClear();
      const refused = signingFileText({ ...file, feeUnits: 1n });
      const fill = async (text: string) => {
        await read(text);
        await own.fill(destination.toUpperCase());
        await others.fill(customer.toUpperCase());
        await secret.fill(PHRASE);
        await press('Sign');
      };
      await fill(refused);
      await tab.getByRole('alert').getByText('not the sum of its fees').waitFor();
      await isClear();
      await tab.evaluate(() => {
        const seen: string[] = [];
        Object.assign(window, { seen });
        const progress = document.querySelector('#progress')!;
        new MutationObserver(() => seen.push(progress.textContent!)).observe(progress, { childList: true });
      });
      await fill(content);
      await tab.getByRole('heading', { name: 'Signed' }).waitFor();
      await isClear();
      const seen = (await tab.evaluate('window.seen')) as string[];
      assert.ok(seen.filter((text) => /^Signing \d+ of 120$/.test(text)).length > 1, seen.join());
      assert.equal(await tab.locator('#progress').isVisible(), false);
      assert.equal(
        await tab.getByLabel('Signed file').inputValue(),
        signFile({ content, secret: PHRASE, destination, recipients: customer }).text,
      );
      assert.deepEqual(faults, []);
    } finally {
      await browser.close();
    }
  },
);
