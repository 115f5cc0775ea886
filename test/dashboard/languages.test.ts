/** The languages of the dashboard: which texts are looked up, that every language has all of them, and how amounts are written. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { LANGUAGES } from '../../dashboard/lib/language.ts';
import { findTexts } from '../../dashboard/texts.ts';
import { dashboardTexts } from '../../scripts/dashboard-texts.ts';
import { LOCALES } from '../../src/core/locales.ts';

const ROOT = join(import.meta.dirname, '../..');
const FOLDER = join(ROOT, 'dashboard/words');
const { keys, compared } = dashboardTexts();

/** What differs between the texts of the dashboard and a language. */
function faultsOf(texts: readonly string[], words: Readonly<Record<string, string>>): string[] {
  const marks = (text: string): string => (text.match(/\{\d+\}|<\/?\d+>/g) ?? []).sort().join(' ');
  return [
    ...texts.filter((key) => !words[key]).map((key) => `missing: ${key}`),
    ...Object.keys(words).flatMap((key) => (texts.includes(key) ? [] : [`not used: ${key}`])),
    ...Object.entries(words).flatMap(([key, word]) => (marks(key) === marks(word) ? [] : [`other blanks: ${key}`])),
  ];
}

test('every language has exactly the texts of the dashboard, with their blanks and elements', () => {
  assert.ok(keys.length > 2_000, `only ${keys.length} texts were found`);
  const tags = readdirSync(FOLDER).map((name) => name.replace(/\.json$/, ''));
  assert.deepEqual(
    tags.sort(),
    Object.keys(LANGUAGES)
      .filter((tag) => tag !== 'en')
      .sort(),
  );
  for (const tag of tags) {
    assert.deepEqual(faultsOf(keys, JSON.parse(readFileSync(join(FOLDER, `${tag}.json`), 'utf8'))), [], tag);
    assert.equal(LANGUAGES[tag as keyof typeof LANGUAGES], LOCALES[tag as keyof typeof LOCALES]);
  }
  assert.deepEqual(faultsOf(['Paid {0}', 'Home'], { 'Paid {0}': 'Bezahlt', Start: 'Start' }), [
    'missing: Home',
    'not used: Start',
    'other blanks: Paid {0}',
  ]);
});

test('no translation was left in English, except for names and words that are the same', () => {
  for (const tag of readdirSync(FOLDER)) {
    const words = JSON.parse(readFileSync(join(FOLDER, tag), 'utf8')) as Record<string, string>;
    const same = keys.filter((key) => words[key] === key && key.split(/\s+/).filter((word) => /^\p{L}{2,}$/u.test(word)).length > 3);
    assert.deepEqual(same, [], tag);
  }
});

test('a text that the code compares is not translated, unless it is the same in every language', () => {
  // States and units, which are compared where they are codes and read where they are words.
  const known = ['USD', 'Enter', 'delivered', 'failed', 'payouts', 'refunds'];
  assert.deepEqual(
    keys.filter((key) => compared.has(key) && !known.includes(key)),
    [],
  );
});

test('texts that people read are found, and names and values of the program are not', () => {
  const rows: [source: string, keys: string[]][] = [
    ['<p>Paid {amount} of {total}.</p>', ['Paid {0} of {1}.']],
    ['<p>Read <a href="/docs">the guide</a> first.</p>', ['Read <0>the guide</0> first.']],
    ['<p>\n  Set <code>NAME</code>,\n  then restart.\n</p>', ['Set <0>NAME</0>, then restart.']],
    ['<Button title="Copy" className="px-3 text-sm" />', ['Copy']],
    ['<p>{n === 1 ? "attempt" : "attempts"}</p>', ['attempt', 'attempts']],
    ['<p>{amount}: {price}</p>', []],
    ['const a = `$' + '{paid} of $' + '{total}`', ['{0} of {1}']],
    ['const a = `/payments/$' + '{id}`', []],
    ['const a = { label: "all", value: "all" }', ['all']],
    ['const a = kind === "Settings" ? "px-3 py-1" : "text-sm font-medium"', []],
    ['const { back = "Cancel" } = props', ['Cancel']],
    ['useApi("GET /:mode/home", ["home", "figures"])', []],
    ['const a = "curl URL\\n  -d data"', []],
    ['<code>Some code</code>', []],
  ];
  for (const [source, found] of rows) assert.deepEqual(findTexts(source, 'a.tsx').keys, found, source);
  assert.deepEqual(findTexts('if (kind === "Settings") act()', 'a.tsx').compared, ['Settings']);
  assert.equal(
    findTexts('<p>Paid {amount} of <b>{total} coins</b>.</p>', 'a.tsx').code,
    '<p>{$nodes("Paid {0} of <1>{2} coins</1>.", amount, <b></b>, total)}</p>',
  );
});

test('amounts are written as in the language, exactly, and typed amounts are read', () => {
  const script = `
    globalThis.florinWords = { language: 'de', words: { '{0} on {1}': '{0} auf {1}' } };
    const { moneyText } = await import('./dashboard/lib/amount.ts');
    const { typedAmount, countText } = await import('./dashboard/lib/language.ts');
    const { $text } = await import('./dashboard/lib/words.ts');
    const amounts = [['1234567.5', 'DOGE'], ['0.000000000000000001', 'ETH'], ['816.95', 'USD'], ['-12.50', 'EUR'], ['9007199254740993.05', 'CHF']];
    const texts = amounts.map((amount) => moneyText(...amount));
    console.log(JSON.stringify([...texts, typedAmount('12,50'), countText(12345), $text('{0} on {1}', 'USDC', 'Base'), $text('No {0}', 1)]));`;
  const out = execFileSync(process.execPath, ['--disable-warning=ExperimentalWarning', '--input-type=module', '-e', script], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  assert.deepEqual(JSON.parse(out), [
    '1.234.567,5 DOGE',
    '0,000000000000000001 ETH',
    '816,95\u00a0$',
    '-12,50\u00a0€',
    '9.007.199.254.740.993,05\u00a0CHF',
    '12.50',
    '12.345',
    'USDC auf Base',
    'No 1',
  ]);
});
