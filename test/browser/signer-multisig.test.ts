/** The signer page as one of several signers, opened from the disk with the network cut. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { signFile } from '../../signer/sign.ts';
import { readSignedFile, signingFileText } from '../../src/core/signing-file.ts';
import { readUpload } from '../../src/signing/signed.ts';
import { buildApp } from '../../src/web/dashboard/build.ts';
import { openTab, startBrowser } from '../kit/browser.ts';
import { multisigFile, signer } from '../kit/multisig.ts';

test('two of three sign a file in turn on the page with the network cut, and what they make is the whole transaction', async () => {
  const page = join(await buildApp({ info: () => {} }), 'signer.html');
  const { file, destination } = multisigFile({ required: 2, of: 3 }, 2);
  const browser = await startBrowser();
  try {
    const { page: tab, faults } = await openTab(browser, `file://${page}`, { width: 390 });
    const requests: string[] = [];
    tab.on('request', (request) => requests.push(request.url()));
    await tab.context().setOffline(true);
    const signOn = async (content: string, seed: number) => {
      await tab.getByLabel('Text', { exact: true }).fill(content);
      await tab.getByRole('button', { name: 'Read text' }).click();
      await tab.getByText('2 of 3 keys have to sign').waitFor();
      await tab.getByLabel('Your own address').fill(destination);
      await tab.getByLabel('Seed phrase').fill(signer(seed).privateExtendedKey);
      await tab.getByRole('button', { name: 'Sign', exact: true }).click();
    };
    const signed = async (content: string, seed: number): Promise<string> => {
      await signOn(content, seed);
      await tab.getByRole('heading', { name: 'Signed' }).waitFor();
      const text = await tab.getByLabel('Signed file').inputValue();
      assert.equal(text, signFile({ content, secret: signer(seed).privateExtendedKey, destination }).text);
      await tab.getByRole('button', { name: /another file/i }).click();
      return text;
    };
    const first = await signed(signingFileText(file), 1);
    const partly = readUpload(first, readSignedFile).sign(file)!.file;
    await signOn(signingFileText(partly), 1);
    await tab.getByText('This wallet has already signed the file').waitFor();
    await tab.reload();
    const second = readUpload(await signed(signingFileText(partly), 3), readSignedFile);
    assert.equal(second.sign(partly), null);
    assert.equal(second.check(partly).length, 1);
    assert.deepEqual(
      requests.filter((url) => !url.startsWith('blob:') && !url.startsWith('file:')),
      [],
    );
    assert.deepEqual(faults, []);
  } finally {
    await browser.close();
  }
});
