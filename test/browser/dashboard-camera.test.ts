/** The camera of the wallet import in a real browser that sees a film: codes are read, and the camera light turns off. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { UR, UREncoder } from '@ngraveio/bc-ur';
import { HDKey } from '@scure/bip32';
import { PNG } from 'pngjs';
import decode from 'qr/decode.js';
import { createUrReader, splitUr } from '../../dashboard/lib/animated-ur.ts';
import { createBbqrReader, splitBbqr } from '../../dashboard/lib/bbqr.ts';
import { readCbor, readWords } from '../../dashboard/lib/uniform-resource.ts';
import { signFile } from '../../signer/sign.ts';
import { COIN } from '../../src/core/coin.ts';
import { readSignedFile, signingFileText } from '../../src/core/signing-file.ts';
import { inputsOfRaw } from '../../src/signing/utxo-check.ts';
import { setWallet } from '../../src/wallets/wallets.ts';
import { asIfFollowed } from '../kit/app.ts';
import { openTab } from '../kit/browser.ts';
import { cameraFlags, showToCamera } from '../kit/camera.ts';
import { startDashboard } from '../kit/dashboard.ts';
import { longTest } from '../kit/long.ts';
import { multisigDescriptor } from '../kit/multisig.ts';
import { PHRASE, sweepFile } from '../kit/signing.ts';

const folder = mkdtempSync(join(tmpdir(), 'florin-camera-'));
after(() => rmSync(folder, { recursive: true }));
const film = join(folder, 'film.y4m');
const dashboard = await startDashboard({
  // The node is never called: it only makes the coin a configured one.
  environment: { BTC_NODE_URL: 'http://user:pass@127.0.0.1:9' },
  windows: true,
  flags: [...cameraFlags(film), '--host-resolver-rules=MAP shop.example 127.0.0.1'],
});
const { app, browser, page, go, audit, noFaults } = dashboard;
/** The example of BCR-2020-015. */
const ACCOUNT =
  'oeadcyemrewytyaolntaadmutaaddloxaxhdclaxwmfmdeiamecsdsemgtvsjzcncygrkowtrontzschgezokstswkkscfmklrtauteyaahdcxiehfonurdppfyntapejpproypegrdawkgmaewejlsfdtsrfybdehcaflmtrlbdhpamtaaddyoyadlncsdwykaeykaeykaycynlytsnyltaadmhtaadmwtaaddloxaxhdclaostvelfemdyynwydwyaievosrgmambklovabdgypdglldvespsthysadamhpmjeinaahdcxntdllnaaeykoytdacygegwhgjsiyonpywmcmrpwphsvodsrerozsbyaxluzcoxdpamtaaddyoyadlncsehykaeykaeykaycypdbskeuytaadmwtaaddloxaxhdclaxzcfxeegdrpmogrgwkbzctlttweadkiengrwlhtprremouoluutqdpfbncedkynfhaahdcxjpwevdeogthttkmeswzcolcpsaahcfnshkhtehytclmnteatmoteadtlwynnftloamtaaddyoyadlncsghykaeykaeykaycybthlvytstaadmhtaaddloxaxhdclaxhhsnhdrpftdwuocntilydibehnecmovdfekpjkclcslasbhkpawsaddmcmmnahnyaahdcxlotedtndfymyltclhlmtpfsadscnhtztaolbnnkistaedegwfmmedreetnwmcycnamtaaddyoyadlfcsdpykaycyemrewytytaadmhtaadmetaaddloxaxhdclaxdwkswmztpytnswtsecnblfbayajkdldeclqzzolrsnhljedsgminetytbnahatbyaahdcxkkguwsvyimjkvwteytwztyswvendtpmncpasfrrylprnhtkblndrgrmkoyjtbkrpamtaaddyoyadlocsdyykaeykaeykadykaycyhkrpnddrtaadmetaaddloxaxhdclaohnhffmvsbndslrfgclpfjejyatbdpebacnzokotofxntaoemvskpaowmryfnotfgaahdcxdlnbvecentssfsssgylnhkrstoytecrdlyadrekirfaybglahltalsrfcaeerobwamtaaddyoyadlocsdyykaeykaeykaoykaycyhkrpnddrgdaogykb';
const key = (seed: number) => HDKey.fromMasterSeed(new Uint8Array(32).fill(seed)).derive("m/84'/0'/0'").publicExtendedKey;
await asIfFollowed(app, 'BTC');
await setWallet(app.app.ctx, { merchantId: app.merchant.merchantId, coin: 'BTC', accountKey: key(1), script: 'p2wpkh' });

// Invariant: The camera is on only while it scans, and only the account key leaves the page.
test('the camera: a key is read and the wizard continues with it; the light turns off on success, on closing and on leaving', async () => {
  // Keeps every track that the page received.
  await page.addInitScript(`
    const tracks = []; window.tracks = tracks;
    if (navigator.mediaDevices) {
      const open = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
      navigator.mediaDevices.getUserMedia = async (wanted) => {
        const stream = await open(wanted);
        tracks.push(...stream.getTracks());
        return stream;
      };
    }`);
  const lights = () => page.evaluate('window.tracks.map((track) => track.readyState)') as Promise<string[]>;
  const scan = () => page.getByRole('button', { name: 'Scan with the camera' }).click();
  const dark = () =>
    page.waitForFunction(() => {
      const { tracks } = globalThis as unknown as { tracks: { readyState: string }[] };
      return tracks.length > 0 && tracks.every((track) => track.readyState === 'ended');
    });
  const picture = page.getByLabel('Camera preview');
  const sent: string[] = [];
  page.on('request', (request) => sent.push(request.postData() ?? ''));
  const nothingSent = () => assert.deepEqual(sent.splice(0).filter(Boolean), []);

  showToCamera(film, null);
  await go('live/wallets', 'Wallets');
  await page.getByRole('link', { name: 'Change key' }).click();
  await page.context().clearPermissions();
  await scan();
  await page.getByText('The browser blocked the camera').waitFor();
  await audit('camera, not allowed');
  await page.context().grantPermissions(['camera']);
  await page.getByRole('button', { name: 'Try again' }).click();
  await picture.waitFor();
  assert.deepEqual(await lights(), ['live']);
  await audit('camera');
  await page.getByRole('button', { name: 'Paste instead' }).click();
  await dark();
  await page.getByLabel('Account key').waitFor();

  await scan();
  await picture.waitFor();
  assert.deepEqual(await lights(), ['ended', 'live']);
  await page.goBack();
  await page.getByRole('heading', { name: 'Wallets', exact: true }).waitFor();
  await dark();
  await page.goForward();

  for (const [text, says] of [
    [splitUr(new Uint8Array(500))![0]!, 'This is a transaction to sign'],
    ['p1of3 cHNidP8B', 'Animated codes of this kind'],
    ['bitcoin:bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu', 'This is a single address'],
  ] as const) {
    showToCamera(film, text);
    await scan();
    await page.getByRole('dialog').getByText(says).waitFor();
    if (text.startsWith('UR')) await audit('camera, a code of another form');
    await page.keyboard.press('Escape');
    await dark();
  }
  const secret = HDKey.fromMasterSeed(new Uint8Array(32).fill(9)).derive("m/84'/0'/0'").privateExtendedKey;
  for (const text of [secret, 'legal winner thank year wave sausage worth useful legal winner thank yellow', '0000'.repeat(11) + '0003']) {
    showToCamera(film, text);
    await scan();
    await page.getByText('It was cleared and never left this browser').waitFor();
    await dark();
    assert.equal(await page.getByLabel('Account key').inputValue(), '');
    await page.getByLabel('Account key').fill('x');
  }
  nothingSent();

  showToCamera(film, key(3), { dark: true });
  await scan();
  await page.getByRole('heading', { name: 'Does your wallet show these addresses?' }).waitFor();
  await dark();
  assert.deepEqual(sent.splice(0).filter(Boolean), [JSON.stringify({ currency: 'BTC', key: key(3) })]);

  // What hardware wallets show as several codes: the setup file of a multisig wallet, and an account with all of its address types.
  const descriptor = multisigDescriptor({ required: 2, of: 3, network: 'mainnet' });
  const account = new UREncoder(new UR(Buffer.from(readWords(ACCOUNT)!), 'crypto-account'), 120);
  const [first] = splitBbqr({ type: 'U', bytes: new TextEncoder().encode(descriptor.repeat(3)) })!;
  for (const [codes, sends] of [
    [splitBbqr({ type: 'U', bytes: new TextEncoder().encode(`# Wallet\n\n${descriptor}\n${'#'.repeat(800)}`) })!, descriptor],
    [Array.from({ length: account.fragmentsLength }, () => account.nextPart().toUpperCase()), "wpkh([37b5eed4/84'/0'/0']"],
  ] as const) {
    await page.getByRole('button', { name: 'Back', exact: true }).click();
    assert.ok(codes.length > 1);
    showToCamera(film, first!);
    await scan();
    await page.getByText('1 of 3 codes read').waitFor();
    showToCamera(film, codes);
    await page.keyboard.press('Escape');
    await scan();
    await page.getByRole('heading', { name: 'Does your wallet show these addresses?' }).waitFor();
    await dark();
    const [body = ''] = sent.splice(0).filter(Boolean);
    assert.ok(JSON.parse(body).key.includes(sends), body);
  }
  await page.getByText('37b5eed4').waitFor();
  noFaults();
});

test('a page over plain HTTP says that it cannot use the camera, and the key can be pasted; so does a machine without one', async () => {
  const other = await openTab(browser, 'about:blank', { width: 1280 });
  const cookies = await page.context().cookies();
  await other.page.context().addCookies(cookies.map((cookie) => ({ ...cookie, domain: 'shop.example', secure: false })));
  const { port } = new URL(app.config.publicUrl);
  await other.page.goto(`http://shop.example:${port}/dashboard/live/wallets/BTC`);
  await other.page.getByRole('button', { name: 'Scan with the camera' }).click();
  await other.page.getByRole('dialog').getByText('this page was opened over HTTP').waitFor();
  assert.equal(await other.page.getByRole('button', { name: 'Try again' }).count(), 0);
  await other.page.getByRole('button', { name: 'Paste instead' }).click();
  await other.page.getByLabel('Account key').fill(key(3));
  await other.close();
  await go('live/wallets/BTC', 'Bitcoin wallet');
  for (const [name, says] of [
    ['NotFoundError', 'No camera was found.'],
    ['NotReadableError', 'another app may be using it'],
  ] as const) {
    await page.evaluate(`navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException('', '${name}'))`);
    await page.getByRole('button', { name: 'Scan with the camera' }).click();
    await page.getByRole('dialog').getByText(says).waitFor();
    await page.keyboard.press('Escape');
  }
  noFaults();
});

// Invariant: The codes of a sweep carry exactly its PSBT, and a signed transaction that was read by camera is checked like an uploaded one.
longTest(
  'a sweep is signed by camera: its PSBT is shown as codes, and the codes of the signed transaction are read and checked',
  async () => {
    const { file, destination, outputs } = sweepFile('BTC', 'p2wpkh', 3);
    const content = signingFileText(file);
    const { sql } = app.app.ctx.db;
    await sql`
    insert into signing_files (id, merchant_id, wallet_id, coin, state, file, destination, total_units, fee_units, input_count, made_by)
    select ${file.id}, merchant_id, id, 'BTC', 'made', ${sql.json(JSON.parse(content))}, ${destination},
      ${file.totalUnits.toString()}, ${file.feeUnits.toString()}, 3, 'Test' from wallets limit 1`;
    await page.context().grantPermissions(['camera']);
    await go('live/sweeps', 'Sweeps');
    await page.getByRole('table', { name: 'Sweeps' }).getByRole('button').first().click();
    const [request] = file.requests;
    assert.ok(request?.kind === 'psbt');
    await page.getByRole('button', { name: 'Sign with another wallet' }).click();
    await page.getByText('imported without its origin').waitFor();
    const highest = outputs.map(({ index }) => Number(index)).toSorted((a, b) => b - a)[0]!;
    const hint = await page.getByText('This file spends from addresses up to index').innerText();
    const [index, limit] = [...hint.matchAll(/\d+/g)].map(([digits]) => Number(digits));
    assert.equal(index, highest);
    assert.ok(limit! > highest && limit! <= highest + 50, hint);
    await audit('PSBTs of a sweep');
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'Download PSBT' }).click()]);
    assert.equal(download.suggestedFilename(), `${file.id}.psbt`);
    assert.equal(readFileSync(await download.path(), 'base64'), request.psbt);
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Show as QR codes' }).click();
    const code = page.getByRole('img', { name: /^QR code/ });
    const reader = createBbqrReader();
    for (let isWhole = false; !isWhole; ) {
      const { data, width, height } = PNG.sync.read(await code.screenshot());
      const seen = reader.add(decode({ data: new Uint8Array(data), width, height }));
      assert.ok(seen !== null && seen.total > 1);
      isWhole = seen.have === seen.total;
    }
    const { type, bytes } = await reader.file();
    assert.deepEqual([type, Buffer.from(bytes).toString('base64')], ['P', request.psbt]);
    await page.getByLabel('Kind of codes').selectOption('ur');
    const urReader = createUrReader();
    for (let psbt: Uint8Array | null = null; psbt === null; ) {
      const { data, width, height } = PNG.sync.read(await code.screenshot());
      const seen = urReader.add(decode({ data: new Uint8Array(data), width, height }));
      // Until the codes of the other kind were replaced.
      if (seen === null) continue;
      assert.ok(seen.total > 1);
      psbt = seen.bytes === null ? null : (readCbor(seen.bytes) as Uint8Array);
      if (psbt) assert.equal(Buffer.from(psbt).toString('base64'), request.psbt);
    }
    await page.getByLabel('Kind of codes').selectOption('file');
    const fileReader = createBbqrReader();
    for (let isWhole = false; !isWhole; ) {
      const { data, width, height } = PNG.sync.read(await page.getByRole('img', { name: /of the signing file$/ }).screenshot());
      const seen = fileReader.add(decode({ data: new Uint8Array(data), width, height }));
      assert.ok(seen !== null && seen.total > 1);
      isWhole = seen.have === seen.total;
    }
    const whole = await fileReader.file();
    const scanned = { content: Buffer.from(whole.bytes).toString(), secret: PHRASE, destination };
    assert.deepEqual([whole.type, signFile(scanned).text], ['J', signFile({ content, secret: PHRASE, destination }).text]);
    await page.getByRole('button', { name: 'Pause' }).click();
    await audit('codes of a sweep');
    await page.keyboard.press('Escape');
    await page.keyboard.press('Escape');

    const [signed = ''] = readSignedFile(signFile({ content, secret: PHRASE, destination }).text).transactions;
    for (const [number, input] of inputsOfRaw(signed).entries())
      await sql`insert into signing_inputs (file_id, number, chain, input) values (${file.id}, ${number}, ${COIN.BTC.chain}, ${input})`;

    // A wallet with UR codes: they are read whole, and the server says that nobody signed this PSBT.
    await page.context().grantPermissions(['camera']);
    showToCamera(film, splitUr(Buffer.from(request.psbt, 'base64'))!.toReversed());
    await page.getByRole('button', { name: 'Scan signed transaction' }).click();
    await page.getByRole('alert').getByText(/sign/).waitFor();

    // The signed transaction in the form that hardware wallets show. The second half comes first.
    const half = Math.ceil(signed.length / 4) * 2;
    const parts = [signed.slice(0, half), signed.slice(half)].map((part, i) => `B$HT020${i}${part.toUpperCase()}`);
    showToCamera(film, 'https://shop.example');
    await page.getByRole('button', { name: 'Scan signed transaction' }).click();
    await page.getByRole('dialog').getByText('not a signed transaction').waitFor();
    await page.keyboard.press('Escape');
    showToCamera(film, parts.toReversed());
    await page.getByRole('button', { name: 'Scan signed transaction' }).click();
    await page.getByText('The signed file is correct').waitFor();
    const [{ state } = { state: '' }] = await sql<{ state: string }[]>`select state from signing_files where id = ${file.id}`;
    assert.notEqual(state, 'made');
    noFaults(/signed$/, /422 \(Unprocessable Entity\)$/);
  },
);
