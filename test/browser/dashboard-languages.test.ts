/** The dashboard in other languages: signing in, a few screens, amounts and times, and the choice of the language. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { LANGUAGES } from '../../dashboard/lib/language.ts';
import { openTab } from '../kit/browser.ts';
import { noFaults, OWNER, startDashboard } from '../kit/dashboard.ts';
import { firstOf, isLongRun } from '../kit/long.ts';

const { app, browser, page: english, audit } = await startDashboard();
const url = (path: string): string => `${app.config.publicUrl}/dashboard/${path}`;
const languageOf = (page: Page) => page.evaluate('document.documentElement.lang');

/** What is read on the screens in a language of the browser. */
const SPOKEN = [
  {
    locale: 'de-DE',
    tag: 'de',
    signIn: { title: 'Anmelden', email: 'E-Mail', password: 'Passwort', wrong: 'Passwort vergessen?' },
    amount: '25,00\u00a0$',
    time: /^\d{2}\.\d{2}\.\d{4}, \d{2}:\d{2}$/,
    screens: [
      { path: 'test/home', title: 'Startseite', texts: ['Abgeschlossenes Volumen', 'Handlungsbedarf', '30 Tage', 'TESTDATEN'] },
      { path: 'test/payments', title: 'Zahlungen', texts: ['Abgeschlossen', 'CSV exportieren'] },
      { path: 'live/wallets', title: 'Wallets', texts: ['Bitcoin einrichten', 'Stablecoins'] },
      { path: 'test/business', title: 'Unternehmen', texts: ['Öffentliche Angaben', 'Anzeigewährung'] },
      { path: 'test/language', title: 'Sprache', texts: ['Sprache des Dashboards'] },
    ],
    payment: ['Verlauf', 'Erstellt von Olga Owner', 'Zahlungs-ID kopieren'],
  },
  {
    locale: 'ja-JP',
    tag: 'ja',
    signIn: { title: 'サインイン', email: 'メールアドレス', password: 'パスワード', wrong: 'パスワードをお忘れですか?' },
    amount: '$25.00',
    time: /^\d{4}\/\d{2}\/\d{2} \d{1,2}:\d{2}$/,
    screens: [
      { path: 'test/home', title: 'ホーム', texts: ['完了した取引額', '要対応', '30 日間', 'テストデータ'] },
      { path: 'test/payments', title: '支払い', texts: ['完了', 'CSV をエクスポート'] },
      { path: 'live/wallets', title: 'ウォレット', texts: ['Bitcoin を設定', 'ステーブルコイン'] },
      { path: 'test/business', title: 'ビジネス', texts: ['公開情報', '表示通貨'] },
      { path: 'test/language', title: '言語', texts: ['ダッシュボードの言語'] },
    ],
    payment: ['タイムライン', 'Olga Owner が作成', '支払い ID をコピー'],
  },
];

test('a test payment exists', async () => {
  await english.getByRole('listitem').getByRole('button', { name: 'Create test payment' }).click();
  await english.getByRole('heading', { name: 'Simulate a customer payment' }).waitFor();
  await english.getByLabel('Scenario').selectOption('success');
  await english.getByLabel('Coin', { exact: true }).selectOption('LTC');
  await english.getByRole('button', { name: 'Simulate' }).click();
  await english.getByRole('listitem').getByText('Completed', { exact: true }).waitFor();
  assert.equal(await languageOf(english), 'en');
});

for (const { locale, tag, signIn, amount, time, screens, payment } of firstOf(SPOKEN))
  test(`a member signs in and reads the dashboard in the language of the browser: ${locale}`, async () => {
    const tab = await openTab(browser, url('sign-in'), { width: 1280, locale });
    const { page } = tab;
    await page.getByRole('heading', { name: signIn.title, exact: true }).waitFor();
    assert.equal(await languageOf(page), tag);
    await page.getByRole('link', { name: signIn.wrong }).waitFor();
    await audit(`sign-in, ${tag}`, { on: page });
    await page.getByLabel(signIn.email).fill(OWNER.email);
    await page.getByLabel(signIn.password).fill(OWNER.password);
    await page.getByRole('button', { name: signIn.title, exact: true }).click();
    await page.getByRole('heading', { name: screens[0]!.title, exact: true, level: 1 }).waitFor();
    for (const { path, title, texts } of screens) {
      await page.goto(url(path));
      await page.getByRole('heading', { name: title, exact: true, level: 1 }).waitFor();
      for (const text of texts) await page.getByText(text, { exact: true }).first().waitFor();
      await audit(`${path}, ${tag}`, { on: page });
    }
    await page.goto(url('test/payments'));
    assert.match(await page.locator('table time').first().innerText(), time);
    await page.getByRole('link', { name: amount }).first().click();
    for (const text of payment)
      await page
        .getByText(text)
        .or(page.getByRole('button', { name: text }))
        .first()
        .waitFor();
    await audit(`payment, ${tag}`, { on: page });
    noFaults(tab);
    await page.context().close();
  });

test('an amount is typed as it is written in the language', async () => {
  await english.context().addCookies([{ name: 'florin_language', value: 'de', url: app.config.publicUrl }]);
  await english.goto(url('test/checkout'));
  const cap = english.getByLabel('Höchste Toleranz (USD)');
  await audit('test/checkout, de', { on: english });
  await cap.fill('3,75');
  assert.equal(await cap.inputValue(), '3.75');
  await english.getByRole('button', { name: 'Änderungen speichern' }).click();
  await english.getByText('Gespeichert.').waitFor();
  await english.reload();
  await cap.waitFor();
  assert.equal(await cap.inputValue(), '3.75');
});

test('Home, the payments and the settings fit in every language, also on a phone', async () => {
  for (const tag of isLongRun ? Object.keys(LANGUAGES).filter((one) => one !== 'en') : ['ja']) {
    const words = JSON.parse(readFileSync(new URL(`../../dashboard/words/${tag}.json`, import.meta.url), 'utf8')) as Record<string, string>;
    await english.context().addCookies([{ name: 'florin_language', value: tag, url: app.config.publicUrl }]);
    for (const [path, title] of [
      ['test/home', 'Home'],
      ['test/payments', 'Payments'],
      ['test/checkout', 'Checkout'],
    ] as const) {
      await english.goto(url(path));
      await english.getByRole('heading', { name: words[title]!, exact: true, level: 1 }).waitFor();
      await audit(`${path}, ${tag}`, { on: english });
    }
    assert.equal(await languageOf(english), tag);
  }
  await english.context().clearCookies({ name: 'florin_language' });
});

test('the choice of a language applies at once, is stored in this browser, and also applies to signing in', async () => {
  await english.goto(url('test/language'));
  await english.getByLabel('Language', { exact: true }).selectOption('Deutsch');
  await english.getByRole('heading', { name: 'Sprache', exact: true }).waitFor();
  assert.equal(await languageOf(english), 'de');
  await english.goto(url('sign-in'));
  await english.getByRole('heading', { name: 'Anmelden', exact: true }).waitFor();
  await english.getByLabel('Sprache').selectOption('English');
  await english.getByRole('heading', { name: 'Sign in', exact: true }).waitFor();
  assert.equal(await languageOf(english), 'en');
  await english.goto(url('test/home'));
  await english.getByRole('heading', { name: 'Home', exact: true }).waitFor();
});

test('languages that the dashboard does not have are passed over, and the page loads the words of its own', async () => {
  const ask = async (headers: Record<string, string>) => (await fetch(url('sign-in'), { headers })).text();
  const rows: [headers: Record<string, string>, lang: string][] = [
    [{}, 'en'],
    [{ 'accept-language': 'xx, de-AT;q=0.8, en;q=0.5' }, 'de'],
    [{ 'accept-language': 'en-GB, de;q=0.8' }, 'en'],
    [{ 'accept-language': 'de', cookie: 'a=b; florin_language=en' }, 'en'],
    [{ 'accept-language': 'en', cookie: 'florin_language=de' }, 'de'],
    [{ 'accept-language': 'en', cookie: 'florin_language=../../x' }, 'en'],
  ];
  for (const [headers, lang] of rows) {
    const text = await ask(headers);
    assert.match(text, new RegExp(`<html lang="${lang}">`), JSON.stringify(headers));
    const words = /<script type="module" src="\/dashboard\/(assets\/words-[\w-]+\.js)"><\/script>\s*<script type="module"/.exec(text)?.[1];
    assert.ok(words !== undefined, text);
    const script = await (await fetch(url(words))).text();
    assert.ok(script.startsWith(`globalThis.florinWords={"language":"${lang}",`), script.slice(0, 100));
    if (lang === 'en') assert.match(script, /"words":\{\}/);
  }
});
