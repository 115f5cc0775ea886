/** The signer page as people use it: the built page, opened from the disk in Chromium with the network cut. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import type { signFile } from '../../signer/sign.ts';
import { buildApp } from '../../src/web/dashboard/build.ts';
import { openTab } from './browser.ts';

type Signing = Parameters<typeof signFile>[0];
export type SignerPage = {
  page: Page;
  /** Reads the file, enters what is asked for, and presses Sign. */
  begin(signing: Signing): Promise<void>;
  /** The signed file that the page shows. */
  sign(signing: Signing): Promise<string>;
  /** That nothing was sent and nothing failed. */
  assertSilent(): void;
};

export async function openSignerPage(browser: Browser): Promise<SignerPage> {
  const { page, faults } = await openTab(browser, `file://${join(await buildApp({ info: () => {} }), 'signer.html')}`, { width: 390 });
  const requests: string[] = [];
  page.on('request', (request) => requests.push(request.url()));
  await page.context().setOffline(true);
  const begin = async ({ content, secret, destination, recipients }: Signing) => {
    await page.getByLabel('Text', { exact: true }).fill(content);
    await page.getByRole('button', { name: 'Read text' }).click();
    await page.getByRole('heading', { name: 'Check what it does' }).waitFor();
    const [own, others] = [page.getByLabel('Your own address'), page.getByLabel('Recipients')];
    if (await own.isVisible()) await own.fill(destination ?? '');
    if (await others.isVisible()) await others.fill(recipients ?? '');
    await page.getByLabel('Seed phrase').fill(secret);
    await page.getByRole('button', { name: 'Sign', exact: true }).click();
  };
  return {
    page,
    begin,
    sign: async (signing) => {
      await begin(signing);
      await page.getByRole('heading', { name: 'Signed' }).waitFor();
      const text = await page.getByLabel('Signed file').inputValue();
      await page.getByRole('button', { name: 'Sign another file' }).click();
      return text;
    },
    assertSilent: () => {
      assert.deepEqual(
        requests.filter((url) => !/^(blob|file):/.test(url)),
        [],
      );
      assert.deepEqual(faults, []);
    },
  };
}
