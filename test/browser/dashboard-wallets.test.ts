/** Giving Florin a key that merchants really have: from a file, of several signers, of another coin, and one that can spend. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { HDKey } from '@scure/bip32';
import { asIfFollowed } from '../kit/app.ts';
import { startDashboard } from '../kit/dashboard.ts';

const EXPORTS = join(import.meta.dirname, '../fixtures/account-exports');
// The node is never called: it only makes the coin a configured one.
const dashboard = await startDashboard({ environment: { BTC_NODE_URL: 'http://user:pass@127.0.0.1:9' } });
const { app, page, go, audit, noFaults, forgiveFaults } = dashboard;
await asIfFollowed(app, 'BTC');
const key = page.getByLabel('Account key');
const upload = (name: string) => page.getByLabel('Upload a file').setInputFiles(join(EXPORTS, name));
const goOn = () => page.getByRole('button', { name: 'Continue' }).click();

test('the wizard says where each wallet shows the key and which gap limit to set, for the wallets that have the coin', async () => {
  await go('live/wallets/BTC', 'Bitcoin wallet');
  const wallets = page.getByLabel('Your wallet');
  await wallets.selectOption('Ledger');
  await page.getByText('choose the wrench and then Advanced').waitFor();
  await page.getByText('Begin with 50.').waitFor();
  await audit('where a key is');
  await wallets.selectOption('Exodus');
  await page.getByText('copy the one that begins with zpub').waitFor();
  await go('live/wallets/DASH', 'Dash wallet');
  assert.deepEqual((await wallets.locator('option').allInnerTexts()).slice(1), ['Dash Electrum', 'Ledger', 'Trezor']);
  await go('live/wallets/ETH', 'Ethereum wallet');
  await wallets.selectOption('Keystone');
  await page.getByText('Sweeps find every address that was paid.').waitFor();
  noFaults();
});

test('the key of another coin, of another network or of one signer is refused with the reason, and so is an address', async () => {
  await go('live/wallets/BTC', 'Bitcoin wallet');
  const account = HDKey.fromMasterSeed(new Uint8Array(32).fill(5)).derive("m/84'/0'/0'").publicExtendedKey;
  for (const [name, says] of [
    ['litecoin-Ltub.txt', 'its prefix is for LTC, not for BTC'],
    ['coldcard-generic.json', 'it is a test network key'],
    ['bip129-other-address.bsms', 'the file says another one'],
    ['single-address.txt', 'it is a single address'],
  ] as const) {
    await upload(name);
    await goOn();
    await page.getByText(says).waitFor();
  }
  await audit('a key of another coin');
  await go('live/wallets/DOGE', 'Dogecoin wallet');
  await key.fill(`wpkh(${account}/0/*)`);
  await goOn();
  await page.getByText('DOGE has no addresses of this type').waitFor();
  forgiveFaults();
});

test('a file with a key that can spend is cleared and never leaves the browser', async () => {
  await go('live/wallets/BTC', 'Bitcoin wallet');
  const sent: string[] = [];
  page.on('request', (request) => sent.push(request.postData() ?? ''));
  const secret = HDKey.fromMasterSeed(new Uint8Array(32).fill(5)).privateExtendedKey;
  const content = JSON.stringify({ wallet_type: 'standard', keystore: { xprv: secret } });
  await page.getByLabel('Upload a file').setInputFiles({ name: 'wallet', mimeType: 'text/plain', buffer: Buffer.from(content) });
  await page.getByText('It was cleared and never left this browser').waitFor();
  assert.equal(await key.inputValue(), '');
  assert.deepEqual(sent.filter(Boolean), []);
  noFaults();
});

test('a multisig wallet is set from its file: who signs, its first address, a wrong end, and the policy for hardware wallets', async () => {
  await go('live/wallets/BTC', 'Bitcoin wallet');
  await upload('coldcard-setup.txt');
  await goOn();
  await page.getByText('2 of 3 keys must sign').waitFor();
  await page.getByText('Multisig (p2wsh)').waitFor();
  await audit('comparing the addresses of a multisig wallet');
  const first = 'bc1qm43n7nnev58aj3nrznz2xscgv98t7gxycq5pmp20a5vzfp5t0q2s7r6twa';
  assert.equal(await page.locator('[data-address]').first().getAttribute('data-address'), first);
  const use = page.getByRole('button', { name: 'Use this key' });
  await page.getByLabel('Last 6 characters').fill('zzzzzz');
  await use.click();
  await page.getByText('does not match the end of any of the five addresses').waitFor();
  forgiveFaults();
  await page.getByLabel('Last 6 characters').fill(first.slice(-6));
  await use.click();
  await page.getByRole('button', { name: /allow .* underpayment/ }).click();
  const download = page.getByRole('link', { name: 'Download wallet policy' });
  await download.waitFor();
  await audit('a multisig wallet is set');
  const [file] = await Promise.all([page.waitForEvent('download'), download.click()]);
  assert.equal(file.suggestedFilename(), 'wallet-policy-BTC.json');
  const policy = JSON.parse(readFileSync(await file.path(), 'utf8'));
  assert.equal(policy.descriptor_template, 'wsh(sortedmulti(2,@0/**,@1/**,@2/**))');
  await page.getByRole('link', { name: 'Done', exact: true }).click();
  assert.match(await page.locator('dl').first().innerText(), /Most unpaid addresses in a row\s+0\s+Gap limit to set in your wallet\s+50/);
  await page.getByRole('link', { name: 'Download wallet policy' }).waitFor();
  await audit('the card of a multisig wallet');
  noFaults();
});
