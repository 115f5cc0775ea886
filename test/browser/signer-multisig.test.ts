/** The signer page as one of several signers, opened from the disk with the network cut. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { signFile } from '../../signer/sign.ts';
import { readSignedFile, signingFileText } from '../../src/core/signing-file.ts';
import { readUpload } from '../../src/signing/signed.ts';
import { startBrowser } from '../kit/browser.ts';
import { multisigFile, signer } from '../kit/multisig.ts';
import { openSignerPage } from '../kit/signer-page.ts';

test('two of three sign a file in turn on the page with the network cut, and what they make is the whole transaction', async () => {
  const { file, destination } = multisigFile({ required: 2, of: 3 }, 2);
  const browser = await startBrowser();
  try {
    const { page, begin, sign, assertSilent } = await openSignerPage(browser);
    const by = (seed: number, content: string) => ({ content, secret: signer(seed).privateExtendedKey, destination });
    const signed = async (seed: number, content: string): Promise<string> => {
      const text = await sign(by(seed, content));
      assert.equal(text, signFile(by(seed, content)).text);
      return text;
    };
    const first = await signed(1, signingFileText(file));
    const partly = readUpload(first, readSignedFile).sign(file)!.file;
    await begin(by(1, signingFileText(partly)));
    await page.getByText('2 of 3 keys have to sign').waitFor();
    await page.getByText('This wallet has already signed the file').waitFor();
    await page.reload();
    const second = readUpload(await signed(3, signingFileText(partly)), readSignedFile);
    assert.equal(second.sign(partly), null);
    assert.equal(second.check(partly).length, 1);
    assertSilent();
  } finally {
    await browser.close();
  }
});
