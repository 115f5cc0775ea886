/** Every state of the page in a real browser: once for accessibility, policy and sizes; widths, themes and languages in turn. */
// Invariant: Every page state is accessible and follows its security policy.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { COIN } from '../../src/core/coin.ts';
import { EMBED_PATH } from '../../src/web/checkout/embedding.ts';
import { SCRIPT_PATH } from '../../src/web/checkout/shell.ts';
import { type Fixture, fixturesAt } from '../../src/web/checkout/states.ts';
import { startTestApp, type TestApp } from '../kit/app.ts';
import { assertStill, auditAccessibility, findClipped, openTab, readQr, startBrowser } from '../kit/browser.ts';
import { firstOf, isLongRun, longTest } from '../kit/long.ts';
import { serve } from '../kit/serve.ts';
import { onTheWire } from '../kit/wire.ts';
import { createInspector, type Inspector, stateUrl } from './states.ts';

let app: TestApp;
let browser: Browser;
let inspector: Inspector;
before(async () => {
  [app, browser] = await Promise.all([startTestApp(), startBrowser()]);
  inspector = createInspector(browser, app.url);
});
after(async () => {
  await inspector?.close();
  await browser?.close();
  await app?.stop();
});
const FIXTURES = fixturesAt(new Date());
const fixture = (name: string): Fixture => FIXTURES.find((one) => one.name === name)!;

/** They have parts that no other state has. */
const SPECIAL = [
  'choose, with stablecoins',
  'awaiting, with an invoice',
  'awaiting, test',
  'completed, refunded',
  'cancelled, may be paid again',
];
/** One of each kind and the special ones, or in the long run all. */
const SOME = FIXTURES.filter(
  ({ name, state }, i) => isLongRun || SPECIAL.includes(name) || FIXTURES.findIndex((one) => one.state === state) === i,
);

for (const [index, one] of SOME.entries()) {
  // In turn, so that every theme and width is covered; the long run covers all states and combinations.
  const dark = index % 2 === 1;
  const width = [360, 1280][Math.floor(index / 2) % 2]!;
  test(`${one.name}, ${dark ? 'dark' : 'light'}, ${width} px: accessible, nothing cut off, no browser errors`, () =>
    inspector.inspect(one, { dark, width }));
}
test('a page that arrives in two parts does not move when the second one is there', async () => {
  const whole = await fetch(stateUrl(app.url, fixture('awaiting, test')));
  const text = await whole.text();
  const at = text.indexOf('<details class="sim');
  assert.ok(at > 0);
  let finish = (): void => {};
  const { url, stop } = await serve((request, reply) => {
    // The rest of the page is not needed to see whether the card moves.
    if (!request.url?.startsWith('/_states')) return void reply.writeHead(404).end();
    reply.writeHead(200, { 'content-type': 'text/html; charset=utf-8' });
    reply.write(text.slice(0, at));
    finish = () => void reply.end(text.slice(at));
  });
  const tab = await openTab(browser, 'about:blank', { width: 1280 });
  try {
    const { page } = tab;
    await page.goto(`${url}/_states`, { waitUntil: 'commit' });
    // Shown, with nothing of the drawer yet.
    await page.locator('main .qr').first().waitFor();
    await page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))');
    assert.equal(await page.locator('.sim').count(), 0);
    finish();
    await page.locator('.sim').waitFor();
    await assertStill(page, 'in two parts');
  } finally {
    finish();
    await tab.close();
    await stop();
  }
});
test('the receipt: accessible, nothing cut off', () => inspector.inspect(fixture('overpaid'), { more: '&receipt' }));

test('every state: HTML with its style sheet is at most 14 kB on the wire, in the largest language too', async (t) => {
  let largest = 0;
  for (const lang of ['en', 'hi', 'ru']) {
    // Hindi has the largest pages.
    for (const one of lang === 'hi' ? FIXTURES : SOME) {
      for (const encoding of ['br', 'gzip']) {
        const page = await onTheWire(stateUrl(app.url, one, `&lang=${lang}`), encoding);
        assert.equal(page.encoding, encoding);
        assert.ok(page.bytes <= 14_000, `${one.name} in ${lang}, ${encoding}: ${page.bytes} bytes`);
        largest = Math.max(largest, page.bytes);
      }
    }
  }
  t.diagnostic(`largest ${largest} bytes`);
});

test('scripts on the wire: those of the page are at most 8 kB, those that merchants load at most 3 kB', async (t) => {
  for (const [path, most] of [
    [SCRIPT_PATH, 8_000],
    [EMBED_PATH, 3_000],
  ] as const) {
    for (const encoding of ['br', 'gzip']) {
      const script = await onTheWire(`${app.url}${path}`, `${encoding}, deflate`);
      assert.deepEqual([script.encoding, script.vary], [encoding, 'accept-encoding']);
      assert.ok(script.bytes <= most, `${path}, ${encoding}: ${script.bytes} bytes`);
      t.diagnostic(`${path} ${encoding} ${script.bytes} bytes`);
    }
  }
});

test('a browser gets only encodings that it accepts, and every answer says what it depends on', async () => {
  const url = stateUrl(app.url, fixture('choose'));
  for (const [accept, encoding] of [
    ['gzip, deflate, br, zstd', 'br'],
    ['gzip;q=0.5, br;q=0', 'gzip'],
    ['identity', undefined],
    ['br;q=0.0, gzip; q=0', undefined],
  ] as const) {
    const page = await onTheWire(url, accept);
    assert.equal(page.encoding, encoding, accept);
    assert.match(page.vary!, /\baccept-encoding\b/);
  }
  const taken = await fetch(url, { headers: { 'x-fragment': '1' } });
  assert.match(await taken.text(), /^<title>.*<\/main>$/s);
});

test('a page is usable after one request, its script is the only other one, and nothing moves while it loads', async () => {
  const names = ['choose', 'awaiting BTC', 'underpaid', 'processing', 'completed'];
  for (const scripts of [true, false]) {
    const tab = await openTab(browser, 'about:blank', { scripts });
    let asked: string[] = [];
    tab.page.on('request', (request) => {
      if (!request.url().startsWith('data:')) asked.push(new URL(request.url()).pathname);
    });
    for (const name of isLongRun ? names : names.slice(0, 2)) {
      asked = [];
      await tab.page.goto(stateUrl(app.url, fixture(name)));
      await tab.page.waitForLoadState('networkidle');
      assert.deepEqual(asked, scripts ? ['/_states', SCRIPT_PATH] : ['/_states'], name);
      if (scripts) await assertStill(tab.page, name);
    }
    await tab.close();
  }
});

for (const coin of ['BTC', 'ETH', 'LTC', 'DASH', 'DOGE'] as const) {
  // The links of the others differ only in the name of their scheme.
  (coin === 'BTC' || coin === 'ETH' ? test : longTest)(
    `${coin}: the code on the screen is the link, with the address and amount of the text, light and dark, small and large`,
    async () => {
      const one = fixture(`awaiting ${coin}`);
      for (const { width, dark } of [
        { width: 320, dark: false },
        { width: 1280, dark: true },
      ]) {
        const tab = await openTab(browser, stateUrl(app.url, one), { width, dark });
        const { page } = tab;
        const uri = (await page.locator('#wallet').getAttribute('href'))!;
        const address = (await page.locator('#address').innerText()).replaceAll(/\s/g, '');
        const amount = await page.locator('#amount').innerText();
        assert.equal(await readQr(page.locator('#qr-request svg')), uri);
        // The switch is seen before the code that it changes, and what it is for is said below.
        const [choice, code] = [(await page.locator('.seg').boundingBox())!, (await page.locator('#qr-request').boundingBox())!];
        assert.ok(choice.y + choice.height <= code.y);
        assert.match(await page.locator('.qr .hint').innerText(), /Choose “Address only” and enter the amount yourself/);
        await page.getByText('Address only', { exact: true }).click();
        assert.equal(await page.locator('.qr .hint').isVisible(), false);
        assert.equal(await readQr(page.locator('#qr-address svg')), address);
        assert.equal(address, one.view.quote!.address);
        const wei = coin === 'ETH' ? (BigInt(amount.replace('.', '')) * 10n ** 10n).toString() : null;
        const scheme = { BTC: 'bitcoin', LTC: 'litecoin', DASH: 'dash', DOGE: 'dogecoin', ETH: 'ethereum' }[coin];
        assert.equal(uri, wei === null ? `${scheme}:${address}?amount=${amount}` : `${scheme}:${address}@1?value=${wei}`);
        await tab.close();
      }
    },
  );
}

test('the networks of a coin appear when it is chosen, the cheapest one selected, with and without scripts', async () => {
  for (const scripts of [true, false]) {
    const tab = await openTab(browser, stateUrl(app.url, fixture('choose, with stablecoins')), { scripts, width: 360 });
    const { page } = tab;
    const networks = page.getByRole('group', { name: 'Network for USDC' });
    assert.equal(await networks.isVisible(), false);
    await page.locator('#c-USDC').check();
    const radios = await networks.getByRole('radio').all();
    const shown = await Promise.all(radios.map(async (radio) => [await radio.getAttribute('value'), await radio.isChecked()]));
    assert.deepEqual(shown, [
      ['base', true],
      ['optimism', false],
      ['polygon', false],
      ['arbitrum', false],
      ['ethereum', false],
    ]);
    assert.match(await networks.innerText(), /Base\s+fee about \$0\.01, done in about 10 seconds/);
    // The keyboard reaches them right after the coin.
    await page.locator('#c-USDC').focus();
    await page.keyboard.press('Tab');
    await page.keyboard.press('ArrowDown');
    assert.equal(await page.locator('#c-USDC-optimism').isChecked(), true);
    await page.locator('#c-USDT').check();
    assert.equal(await networks.isVisible(), false);
    if (scripts) assert.deepEqual(await auditAccessibility(page), []);
    assert.deepEqual(tab.faults, []);
    await tab.close();
  }
});

/** Announces a wallet (EIP-6963) that records what it is asked; `on` is its chain, `refuses` a method that its user declines. */
const walletScript = ({ on = '0x2105', refuses = '', name = 'Fox <b>Wallet</b>' } = {}): string => `
  window.asked = [];
  let chain = '${on}';
  const provider = { async request({ method, params }) {
    window.asked.push({ method, ...(params && { params }) });
    if (method === '${refuses}') throw Object.assign(new Error('declined'), { code: 4001 });
    if (method === 'eth_requestAccounts') return ['0x00000000000000000000000000000000000000aa'];
    if (method === 'eth_chainId') return chain;
    if (method === 'wallet_switchEthereumChain') { chain = params[0].chainId; return null; }
    return '0x' + '11'.repeat(32);
  } };
  const info = { uuid: 'u1', name: '${name}', icon: 'data:image/svg+xml,%3Csvg xmlns="http://www.w3.org/2000/svg"/%3E', rdns: 'x.y' };
  const announce = () => dispatchEvent(new CustomEvent('eip6963:announceProvider', { detail: { info, provider } }));
  addEventListener('eip6963:requestProvider', announce);
  announce();
  dispatchEvent(new CustomEvent('eip6963:announceProvider', { detail: { info: { uuid: 5 } } }));
`;

test('a wallet in the browser is asked for exactly the amount, on the right chain, of the right token, and for nothing else', async () => {
  const one = fixture('awaiting, token');
  const tab = await openTab(browser, 'about:blank');
  const { page } = tab;
  await page.addInitScript(walletScript());
  await page.goto(stateUrl(app.url, one));
  // Its name is text, whatever it contains.
  const button = page.getByRole('button', { name: 'Pay with Fox <b>Wallet</b>' });
  await button.click();
  await page.getByText('Sent. This page updates').waitFor();
  assert.equal(await button.isVisible(), false, 'it cannot be pressed twice');
  const { address } = one.view.quote!;
  const call = `0xa9059cbb${address.slice(2).toLowerCase().padStart(64, '0')}${one.view.settlement.remainingUnits.toString(16).padStart(64, '0')}`;
  assert.deepEqual(await page.evaluate('window.asked'), [
    { method: 'eth_requestAccounts' },
    { method: 'eth_chainId' },
    { method: 'wallet_switchEthereumChain', params: [{ chainId: '0x1' }] },
    { method: 'eth_chainId' },
    {
      method: 'eth_sendTransaction',
      params: [
        {
          from: '0x00000000000000000000000000000000000000aa',
          chainId: '0x1',
          to: COIN['USDC@ethereum'].contract,
          value: '0x0',
          data: call,
        },
      ],
    },
  ]);
  await page.reload();
  await page.getByText('Sent. This page updates').waitFor();
  assert.deepEqual([await button.count(), tab.faults], [0, []], 'not after a reload either');
  await tab.close();
});

test('a wallet that declines, or stays on another chain, sends nothing; without a wallet nothing is shown', async () => {
  for (const [refuses, said] of [
    ['wallet_switchEthereumChain', 'Your wallet doesn’t have this network.'],
    ['eth_sendTransaction', 'Your wallet didn’t confirm the payment.'],
  ] as const) {
    const tab = await openTab(browser, 'about:blank');
    await tab.page.addInitScript(walletScript({ refuses, name: 'Fox' }));
    await tab.page.goto(stateUrl(app.url, fixture('awaiting, token')));
    await tab.page.getByRole('button', { name: 'Pay with Fox' }).click();
    await tab.page.getByText(said).waitFor();
    assert.deepEqual(await auditAccessibility(tab.page), []);
    const methods = (await tab.page.evaluate('window.asked.map(({ method }) => method)')) as string[];
    assert.equal(methods.at(-1), refuses === 'eth_sendTransaction' ? refuses : 'eth_chainId');
    assert.equal(await tab.page.getByRole('button', { name: 'Pay with Fox' }).isEnabled(), true, 'it can be tried again');
    await tab.close();
  }
  const without = await openTab(browser, stateUrl(app.url, fixture('awaiting, token')));
  assert.equal(await without.page.locator('#wallets').isVisible(), false);
  await without.close();
  const tab = await openTab(browser, 'about:blank');
  await tab.page.addInitScript(walletScript());
  for (const name of ['awaiting BTC', 'awaiting, test']) {
    await tab.page.goto(stateUrl(app.url, fixture(name)));
    assert.equal(await tab.page.getByRole('button', { name: /Pay with/ }).count(), 0, name);
  }
  await tab.close();
});

test('right-to-left: the page is mirrored, amounts and addresses are not', async () => {
  for (const lang of firstOf(['ar', 'he'])) {
    const tab = await openTab(browser, stateUrl(app.url, fixture('awaiting BTC'), `&lang=${lang}`));
    const { page } = tab;
    assert.equal(await page.evaluate('getComputedStyle(document.querySelector("main")).direction'), 'rtl');
    assert.equal(await page.evaluate('getComputedStyle(document.querySelector("#address").parentElement).direction'), 'ltr');
    const [amount, whole] = [await page.locator('#amount').boundingBox(), await page.locator('bdi:has(#amount)').boundingBox()];
    assert.ok(amount!.x - whole!.x < 1 && amount!.width < whole!.width, 'the coin is to the right of its amount');
    const spans = page.locator('#address span');
    const [first, second] = [await spans.nth(0).boundingBox(), await spans.nth(1).boundingBox()];
    assert.ok(first!.x < second!.x, 'the parts of the address stand from left to right');
    const heading = await page.locator('h1').boundingBox();
    const logo = await page.locator('.logo').boundingBox();
    assert.ok(logo!.x > heading!.x, 'the logo is on the right');
    assert.deepEqual(await findClipped(page), []);
    await tab.close();
    await inspector.inspect(fixture('overpaid, wrong address'), { more: `&lang=${lang}`, width: 360 });
  }
});

test('320 px: nothing is wider than the screen in the languages with the longest words', async () => {
  const tab = await openTab(browser, 'about:blank', { width: 320 });
  for (const lang of isLongRun ? ['de', 'ar', 'en', 'ru', 'hi', 'ja'] : ['de', 'ar']) {
    for (const name of ['choose', 'awaiting ETH', 'underpaid', 'overpaid, wrong address', 'expired, part paid', 'rate over']) {
      await tab.page.goto(stateUrl(app.url, fixture(name), `&lang=${lang}`));
      assert.deepEqual(await findClipped(tab.page), [], `${name} in ${lang}`);
    }
    await tab.page.goto(stateUrl(app.url, fixture('overpaid'), `&lang=${lang}&receipt`));
    assert.deepEqual(await findClipped(tab.page), [], `receipt in ${lang}`);
  }
  await tab.close();
});

test('text at twice the size: everything can still be read without scrolling sideways', async () => {
  const tab = await openTab(browser, 'about:blank');
  for (const name of ['choose', 'awaiting BTC', 'underpaid', 'processing', 'overpaid, wrong address', 'late']) {
    await tab.page.goto(stateUrl(app.url, fixture(name)));
    await tab.page.evaluate('document.documentElement.style.fontSize = "200%"');
    for (const width of [640, 1280]) {
      await tab.page.setViewportSize({ width, height: 844 });
      assert.deepEqual(await findClipped(tab.page), [], `${name} at ${width} px`);
    }
  }
  await tab.close();
});

test('reduced motion: nothing is animated; otherwise only waiting indicators are', async () => {
  const count = 'document.getAnimations().length';
  for (const name of firstOf(['processing', 'awaiting BTC'])) {
    const calm = await openTab(browser, stateUrl(app.url, fixture(name)));
    assert.equal(await calm.page.evaluate(count), 0, name);
    await calm.close();
    const usual = await openTab(browser, stateUrl(app.url, fixture(name)), { motion: true });
    assert.ok(((await usual.page.evaluate(count)) as number) > 0, name);
    await usual.close();
  }
});

test('the countdown is announced only at five minutes and one minute left', async () => {
  const tab = await openTab(browser, 'about:blank');
  const { page } = tab;
  await page.clock.install();
  await page.goto(stateUrl(app.url, fixture('awaiting BTC')));
  const said = () => page.locator('#live').innerText();
  await page.clock.runFor(7 * 60_000);
  assert.equal(await said(), '');
  await page.clock.runFor(61_000);
  assert.equal(await said(), 'Rate valid for 5:00');
  await page.clock.runFor(4 * 60_000);
  assert.equal(await said(), 'Rate valid for 1:00');
  assert.equal(await page.locator('#clock').getAttribute('aria-live'), 'off');
  await tab.close();
});

test('bitcoin with an invoice: one code for wallets of both kinds, and the address and the invoice alone, inside the card', async () => {
  const one = fixture('awaiting, with an invoice');
  const [{ address: invoice }, { address }] = [one.view.facts.quotes[0]!, one.view.quote!];
  for (const width of isLongRun ? [320, 390, 1280] : [320, 1280]) {
    const tab = await openTab(browser, stateUrl(app.url, one), { width });
    const { page } = tab;
    const amount = await page.locator('#amount').innerText();
    assert.equal(await page.locator('#wallet').getAttribute('href'), `bitcoin:${address}?amount=${amount}&lightning=${invoice}`);
    const unified = `bitcoin:${address.toUpperCase()}?amount=${amount}&lightning=${invoice.toUpperCase()}`;
    assert.equal(await readQr(page.locator('#qr-request svg')), unified);
    await page.getByText('Lightning', { exact: true }).click();
    assert.equal(await readQr(page.locator('#qr-invoice .box svg')), `lightning:${invoice.toUpperCase()}`);
    assert.equal(await page.locator('#qr-invoice a').getAttribute('href'), `lightning:${invoice}`);
    const card = (await page.locator('.qr').boundingBox())!;
    for (const part of ['.seg', '#qr-invoice .copy', '#qr-invoice .copy span']) {
      const box = (await page.locator(`.qr ${part}`).boundingBox())!;
      assert.ok(box.x >= card.x - 1 && box.x + box.width <= card.x + card.width + 1 && box.height < 130, `${part} at ${width} px`);
    }
    await page.getByText('Address only', { exact: true }).click();
    assert.equal(await readQr(page.locator('#qr-address svg')), address);
    await tab.close();
  }
});

test('forced colors: the QR code stays black on white, the chosen coin and the main button keep an outline', async () => {
  const tab = await openTab(browser, stateUrl(app.url, fixture('awaiting BTC')), { forcedColors: true, dark: true });
  assert.equal(await readQr(tab.page.locator('#qr-request svg')), await tab.page.locator('#wallet').getAttribute('href'));
  assert.equal(await tab.page.evaluate('parseFloat(getComputedStyle(document.querySelector("#wallet")).borderTopWidth) >= 1'), true);
  await tab.close();
  const choose = await openTab(browser, stateUrl(app.url, fixture('choose')), { forcedColors: true });
  const edges = 'document.querySelectorAll(".coin").values().map((row) => getComputedStyle(row).borderTopWidth).toArray()';
  const [chosen, other] = (await choose.page.evaluate(edges)) as string[];
  assert.notEqual(chosen, other);
  await choose.close();
});

test('targets are at least 24 px high and wide, the main ones 44 px', async () => {
  const tab = await openTab(browser, 'about:blank', { width: 360 });
  for (const name of ['choose', 'awaiting BTC', 'completed', 'overpaid, wrong address']) {
    await tab.page.goto(stateUrl(app.url, fixture(name)));
    const small =
      await tab.page.evaluate(`[...document.querySelectorAll('button, summary, select, .main, .coin, .seg label, input:not([type=hidden]):not([type=radio])')]
      .filter((part) => part.getClientRects().length > 0 && part.getBoundingClientRect().height < 44)
      .map((part) => part.outerHTML.slice(0, 80) + ' ' + part.getBoundingClientRect().height)`);
    assert.deepEqual(small, [], name);
  }
  await tab.close();
});

test('the states are available on loopback only', async () => {
  const outside = await startTestApp({ PUBLIC_URL: 'https://pay.example' });
  try {
    assert.equal((await fetch(`${outside.url}/_states`)).status, 404);
    assert.equal((await fetch(`${app.url}/_states`)).status, 200);
  } finally {
    await outside.stop();
  }
});
