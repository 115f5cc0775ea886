/** The page without a browser: every state in every language, accent colors, choice of language, logos. */
// Invariant: A payment page never has a dead button; with nothing to pay with it says so and continues when there is.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { matchLocale, TAGS } from '#core/locales';
import { GLOSSARY, TERMS, type Term } from '../../../test/kit/glossary.ts';
import { COIN, coinText } from '../../core/coin.ts';
import type { CustomerView } from '../../core/payment-view.ts';
import { SCENARIOS } from '../../core/simulated.ts';
import { logoType } from '../../merchants/settings.ts';
import { assetsOf, coinChosen } from './choice.ts';
import { embedScript } from './embedding.ts';
import { PAGE_STATES, renderPage } from './page.ts';
import { renderReceipt } from './receipt.ts';
import { accentFor, BACKGROUNDS, contrast, SCRIPT } from './shell.ts';
import { fixtureOptions, fixturesAt } from './states.ts';
import { chooseLanguage, languageOf, type Words } from './words.ts';

const FIXTURES = fixturesAt(new Date('2026-11-21T10:00:00.000Z'));
const en = languageOf('en').words;

test('the fixtures show the states they are named after, and include every state', () => {
  for (const fixture of FIXTURES) assert.equal(renderPage(fixture.view, fixtureOptions(fixture, 'en')).state, fixture.state, fixture.name);
  assert.deepEqual([...new Set(FIXTURES.map(({ state }) => state))].sort(), [...PAGE_STATES].sort());
});

test('every state in every language: no open placeholders, nothing undefined, the heading in the language', () => {
  for (const tag of TAGS) {
    for (const fixture of FIXTURES) {
      const options = fixtureOptions(fixture, tag);
      const { main, title } = renderPage(fixture.view, options);
      // Scripts fill these.
      const shown = `${title} ${main.text}`.replace('{seconds}', '').replaceAll('{wallet}', '');
      assert.doesNotMatch(shown, /\{\w+\}|undefined|\[object|NaN/, `${tag}: ${fixture.name}`);
      if (fixture.view.facts.status === 'completed')
        assert.doesNotMatch(renderReceipt(fixture.view, options).main.text, /\{\w+\}|undefined|\[object|NaN/);
    }
  }
});

test('a time has enough room in every format, language and date', () => {
  const { view } = FIXTURES.find(({ name }) => name === 'awaiting, until tomorrow')!;
  for (const date of ['2026-11-21T10:00:00Z', '2031-02-28T23:59:00Z', '2026-12-31T23:58:00Z', '2028-02-29T00:01:00Z']) {
    const fixture = fixturesAt(new Date(date)).find(({ name }) => name === 'awaiting, until tomorrow')!;
    for (const tag of TAGS) {
      const text = renderPage(fixture.view, fixtureOptions(fixture, tag)).main.text;
      const [near, far] = [...text.matchAll(/<time datetime="([^"]+)" data-widest="([^"]+)"(?: data-days="([^"]+)")?>/g)];
      assert.equal(near![3], undefined, 'a time of today is a time alone');
      const ends = new Date(far![1]!);
      assert.equal(ends.getTime() - fixture.view.now.getTime(), 86_100_000);
      for (const [timeZone, day] of [
        ['Etc/GMT+12', ends.getUTCHours() < 12 ? 0 : 1],
        ['UTC', 1],
        ['Pacific/Kiritimati', ends.getUTCHours() < 10 ? 1 : 2],
      ] as const) {
        const locale = `${tag}-u-nu-latn`;
        const written = new Intl.DateTimeFormat(locale, { timeZone, dateStyle: 'long', timeStyle: 'short' }).format(ends);
        const time = new Intl.DateTimeFormat(locale, { timeZone, timeStyle: 'short' }).format(ends);
        assert.equal(far![3]!.split('|')[day]!.replace('#', time), written, `${tag} ${timeZone}`);
        assert.ok(far![2]!.length >= written.length && near![2]!.length >= time.length, `${tag} ${timeZone}: ${written}`);
      }
    }
  }
  assert.equal(view.facts.createdAt.toISOString(), '2026-11-21T09:55:00.000Z', 'made-up payments are as old as their stories say');
});

/** The main action of each state; actions inside collapsed sections do not count. */
const MAIN: Readonly<Record<(typeof PAGE_STATES)[number], RegExp>> = {
  choose: /id="c-continue"/,
  unavailable: /href="mailto:|id="reload"/,
  awaiting: /id="wallet"/,
  rate_over: /id="requote"/,
  underpaid: /id="wallet"/,
  processing: /id="return"/,
  completed: /id="return"/,
  overpaid: /id="return"/,
  reversed: /href="mailto:/,
  expired: /id="sent"/,
  expired_partial: /href="mailto:/,
  late: /href="mailto:/,
  wrong_network: /href="mailto:/,
  wrong_token: /href="mailto:/,
  cancelled: /id="(return|again)"|href="mailto:/,
  failed: /href="mailto:/,
};
test('each state has one main action, the one that helps the customer most', () => {
  const actionsOf = (name: string) => {
    const fixture = FIXTURES.find((one) => one.name === name)!;
    const shown = renderPage(fixture.view, fixtureOptions(fixture, 'en')).main.text.replace(
      /<details[^>]*>(<summary class="main".*?<\/summary>)?.*?<\/details>/gs,
      '$1',
    );
    return [...shown.matchAll(/<(?:a|button|summary) class="main"[^>]*>/g)].map(([tag]) => tag);
  };
  for (const { name, state } of FIXTURES) {
    const actions = actionsOf(name);
    // The link of a token calls its contract, which some wallets misread, so it is only the second choice after address and amount.
    if (name === 'awaiting, token') {
      assert.deepEqual(actions, []);
      continue;
    }
    assert.equal(actions.length, 1, `${name}: ${actions}`);
    assert.match(actions[0]!, MAIN[state], name);
  }
  assert.match(actionsOf('cancelled')[0]!, /id="return"/);
  assert.match(actionsOf('cancelled, may be paid again')[0]!, /id="again"/);
  assert.match(actionsOf('cancelled, paid all the same')[0]!, /subject=pay_Live/, 'the merchant hears which payment it is about');
});

test('an expired payment asks whether it was already sent before it offers a new one', () => {
  const fixture = FIXTURES.find(({ name }) => name === 'expired')!;
  const view = { ...fixture.view, merchant: { ...fixture.view.merchant, payerCancel: true } };
  const shown = renderPage(view, fixtureOptions(fixture, 'en')).main.text;
  const [sent, contact, again] = ['I have already sent it', 'Contact Corner Coffee', 'Start a new payment'].map((text) =>
    shown.indexOf(text),
  );
  assert.ok(sent! > 0 && sent! < contact! && contact! < again!, `${sent} ${contact} ${again}`);
  assert.match(shown, /subject=pay_Live/, 'the merchant gets the payment ID');
  assert.match(shown, /class="main second" id="again"/);
});

// Invariant: A live payment page has nothing to simulate a payment with.
test('only the page of a test payment has a drawer to simulate it', () => {
  for (const fixture of FIXTURES) {
    // A live payment has no drawer, whatever else its view says.
    const view = { ...fixture.view, nextScenarios: SCENARIOS };
    const shown = renderPage(view, fixtureOptions(fixture, 'en')).main.text;
    assert.equal(/class="sim|\/pay\/simulate|name="scenario"/.test(shown), view.facts.mode === 'test', fixture.name);
  }
});

test('announcements include the amount if it has changed', () => {
  const said = (name: string) => {
    const fixture = FIXTURES.find((one) => one.name === name)!;
    return /data-say="([^"]*)"/.exec(renderPage(fixture.view, fixtureOptions(fixture, 'en')).main.text)![1];
  };
  assert.equal(said('awaiting BTC'), 'Pay Corner Coffee');
  assert.equal(said('awaiting, rate renewed'), 'Pay Corner Coffee. Rate updated: 0.52500000 LTC instead of 0.51219513 LTC.');
  assert.equal(said('underpaid'), 'Partial payment received. Remaining: 0.00027062 BTC');
});

test('a coin that cannot carry the amount says from which one on it does; one without a price is shown with the reason', () => {
  const shown = (name: string, change: (coins: CustomerView['coins']) => CustomerView['coins'] = (coins) => coins) => {
    const fixture = FIXTURES.find((one) => one.name === name)!;
    const view = { ...fixture.view, coins: change(fixture.view.coins) };
    return renderPage(view, fixtureOptions(fixture, 'en')).main.text;
  };
  assert.match(shown('choose, small amount'), /value="BTC"[^>]* disabled>[\s\S]*?Bitcoin<\/b><span class="est">from \$5\.30</);
  assert.match(shown('choose, small amount'), /Litecoin/);
  const away = shown('choose, two coins away');
  assert.match(away, /value="ETH"[^>]* disabled/);
  assert.match(away, /rate unavailable right now/);
  const onlyBitcoin = shown('choose, small amount', (coins) => coins.filter(({ coin }) => coin === 'BTC'));
  assert.match(onlyBitcoin, /This amount is too small to pay with cryptocurrency/, 'a payer with no coin left sees why');
});

test('with nothing to pay with, the page says so, that nothing was charged, and who to contact, and has no dead button', () => {
  const shown = (name: string) => {
    const fixture = FIXTURES.find((one) => one.name === name)!;
    return renderPage(fixture.view, fixtureOptions(fixture, 'en'));
  };
  const { title, main, waits } = shown('unavailable');
  assert.match(title, /^This shop can’t take payments right now/);
  assert.match(main.text, /Nothing was charged\. This page checks again/);
  assert.match(main.text, /<a class="main" href="mailto:help@shop\.example\?subject=pay_Live/);
  assert.match(main.text, /id="return"/);
  assert.equal(waits, true, 'it continues when a coin can be paid');
  for (const { name } of FIXTURES) assert.doesNotMatch(shown(name).main.text, /<button[^>]* disabled/, name);
  assert.match(shown('unavailable, no contact').main.text, /id="reload" href="\/pay\?id=pay_Live/);
  assert.doesNotMatch(shown('unavailable, amount too small').main.text, /checks again/);
});

test('the coin is chosen first, one row for each asset; its networks are shown only where there are several, cheapest first', () => {
  const fixture = FIXTURES.find(({ name }) => name === 'choose, with stablecoins')!;
  const { view } = fixture;
  const shown = renderPage(view, fixtureOptions(fixture, 'en')).main.text;
  const rows = [...shown.matchAll(/name="currency" value="([^"]+)"/g)].map(([, asset]) => asset);
  assert.deepEqual(rows, [...new Set(view.coins.map(({ coin }) => COIN[coin].asset))]);
  for (const [asset, choices] of assetsOf(view)) {
    const asked = [...shown.matchAll(new RegExp(`name="network-${asset}" value="([^"]+)" id="[^"]+"( checked)?`, 'g'))];
    assert.deepEqual(
      asked.map(([, network, checked]) => [network, checked !== undefined]),
      choices.length === 1 ? [] : choices.map(({ coin }, index) => [COIN[coin].chain, index === 0]),
      asset,
    );
    const fees = choices.map(({ costs }) => costs?.feeUsdCents ?? 0);
    assert.deepEqual(
      fees,
      fees.toSorted((one, other) => one - other),
    );
  }
});

test('a form names an asset and its network, a coin, or neither', () => {
  const { view } = FIXTURES.find(({ name }) => name === 'choose, with stablecoins')!;
  const chosen = (fields: Record<string, string>) => coinChosen(view, new URLSearchParams(fields));
  assert.equal(chosen({ currency: 'BTC' }), 'BTC');
  assert.equal(chosen({ currency: 'USDC', 'network-USDC': 'ethereum' }), 'USDC@ethereum');
  assert.equal(chosen({ currency: 'USDC@ethereum', 'network-USDC': 'bitcoin' }), 'USDC@ethereum');
  assert.equal(COIN[chosen({ currency: 'USDC' })].asset, 'USDC', 'without a network, the cheapest');
  for (const fields of [
    {},
    { currency: 'XYZ' },
    { currency: 'USDC', 'network-USDC': 'bitcoin' },
    { currency: 'USDC', 'network-USDC': 'x' },
  ])
    assert.throws(() => chosen(fields), { code: 'currency_unknown' });
});

test('an address with an invoice: one code for both, the address and the invoice alone beside it', () => {
  const fixture = FIXTURES.find(({ name }) => name === 'awaiting, with an invoice')!;
  const page = renderPage(fixture.view, fixtureOptions(fixture, 'en')).main.text;
  const { address, quotes } = { address: fixture.view.quote!.address, quotes: fixture.view.facts.quotes };
  const invoice = quotes[0]!.address;
  assert.match(invoice, /^lnbcrt/);
  assert.ok(page.includes(`id="wallet" href="bitcoin:${address}?amount=`) && page.includes(`&amp;lightning=${invoice}"`));
  assert.ok(page.includes(`href="lightning:${invoice}"`));
  for (const tab of ['qr-r', 'qr-a', 'qr-l']) assert.ok(page.includes(`id="${tab}"`), tab);
  const without = (change: Partial<CustomerView>) => renderPage({ ...fixture.view, ...change }, fixtureOptions(fixture, 'en')).main.text;
  const later = new Date(fixture.view.settlement.quoteExpiresAt!.getTime() + 1);
  assert.ok(!without({ now: later }).includes('lightning='), 'the invoice ends with the rate');
  const { settlement } = fixture.view;
  assert.ok(!without({ settlement: { ...settlement, seenUnits: 1n } }).includes('lightning='), 'not once money is on its way');
});

test('a token: the address first, the network in words, and the same transaction for browser wallets, for live payments only', () => {
  const fixture = FIXTURES.find(({ name }) => name === 'awaiting, token')!;
  const shown = (view: CustomerView) => renderPage(view, fixtureOptions(fixture, 'en')).main.text;
  const page = shown(fixture.view);
  assert.match(page, /Send USDC on <b>Ethereum<\/b> only\./);
  assert.match(page, /id="qr-a" checked/);
  const request = JSON.parse(/data-request="([^"]+)"/.exec(page)![1]!.replaceAll('&quot;', '"'));
  const { address } = fixture.view.quote!;
  assert.deepEqual(request, {
    chainId: '0x1',
    to: COIN['USDC@ethereum'].contract,
    value: '0x0',
    data: `0xa9059cbb${address.slice(2).toLowerCase().padStart(64, '0')}${52_500_000n.toString(16).padStart(64, '0')}`,
  });
  const native = FIXTURES.find(({ name }) => name === 'awaiting ETH')!;
  const { to, data } = JSON.parse(
    /data-request="([^"]+)"/.exec(renderPage(native.view, fixtureOptions(native, 'en')).main.text)![1]!.replaceAll('&quot;', '"'),
  );
  assert.deepEqual([to, data], [native.view.quote!.address, '0x']);
  assert.doesNotMatch(shown({ ...fixture.view, facts: { ...fixture.view.facts, mode: 'test' } }), /data-request/);
});

test('money in a wrong coin: the page says that it is not lost and what arrived where, and still offers to pay as requested', () => {
  for (const [name, heading] of [
    ['wrong network', 'Received on another network'],
    ['wrong token', 'Received in another coin'],
  ] as const) {
    const fixture = FIXTURES.find((one) => one.name === name)!;
    const { title, main } = renderPage(fixture.view, fixtureOptions(fixture, 'en'));
    assert.ok(title.startsWith(heading));
    const [wrong] = fixture.view.transfers;
    assert.ok(main.text.includes(`52.50 ${coinText(wrong!.coin)}`), main.text);
    assert.match(main.text, /Your money is not lost\..*Don’t send it again\./);
    assert.match(main.text, /<summary>Pay as requested instead<\/summary>/);
  }
  const over = FIXTURES.find(({ name }) => name === 'wrong token, expired')!;
  assert.doesNotMatch(renderPage(over.view, fixtureOptions(over, 'en')).main.text, /Pay as requested/);
});

test('money that comes weeks after its payment is not said to be the customer’s, and no refund is offered for it', () => {
  const render = (name: string) => {
    const fixture = FIXTURES.find((one) => one.name === name)!;
    return renderPage(fixture.view, fixtureOptions(fixture, 'en'));
  };
  const soon = render('late');
  assert.match(soon.main.text, /Your money is not lost\./);
  assert.match(soon.main.text, /refund-address/);
  const { main, title } = render('late, by weeks');
  assert.match(main.text, /<h1[^>]*>This payment has expired</);
  assert.match(main.text, /This money arrived long after the payment ended\. Did you send it\? Contact the merchant/);
  assert.match(main.text, /href="mailto:/);
  assert.match(main.text, /0\.00\d+ BTC/);
  assert.doesNotMatch(main.text, /not lost|refund-address|[Yy]our (money|payment)/);
  assert.doesNotMatch(title, /[Yy]our/);
});

test('an overpayment is shown; a refund address is requested until there is one', () => {
  const shown = (name: string) => {
    const fixture = FIXTURES.find((one) => one.name === name)!;
    return renderPage(fixture.view, fixtureOptions(fixture, 'en')).main.text;
  };
  assert.match(shown('overpaid'), /You overpaid by .*\. Leave a refund address/);
  assert.match(shown('overpaid, refund asked'), /You overpaid by [^.]*\.\d+ BTC<\/bdi>\.<\/span>/);
});

test('a reversed payment is not called paid: the customer is asked not to pay again, and there is no receipt', () => {
  const fixture = FIXTURES.find(({ name }) => name === 'reversed')!;
  const { title, main, waits } = renderPage(fixture.view, fixtureOptions(fixture, 'en'));
  assert.match(title, /^Payment reversed – /);
  assert.match(main.text, /the network reversed the transaction\. It may still be confirmed again\. Don’t pay a second time\./);
  assert.doesNotMatch(main.text, /Thank you|>Paid<|reversed a block|\/pay\/receipt/);
  assert.equal(waits, true, 'the page shows when it is confirmed again');
});

test('every language has every text, with the same placeholders as English, and all are translated', () => {
  const blanks = (text: string) => (text.match(/\{\w+\}/g) ?? []).sort().join(' ');
  for (const tag of TAGS) {
    const words = languageOf(tag).words;
    assert.deepEqual(Object.keys(words), Object.keys(en), tag);
    for (const [key, text] of Object.entries(en)) {
      const own = words[key as keyof Words];
      assert.ok(own.trim().length > 0, `${tag}.${key}`);
      assert.equal(blanks(own), blanks(text), `${tag}.${key}`);
      // Long texts that equal the English ones were never translated.
      if (tag !== 'en' && text.length > 20) assert.notEqual(own, text, `${tag}.${key}`);
    }
  }
});

/** Texts that need the term. */
const USED_IN: Readonly<Record<Term, readonly (keyof Words)[]>> = {
  payment: ['preparing', 'waiting', 'partial', 'expired', 'cancelled', 'number', 'notFound', 'simulate', 'again'],
  amount: ['qrRequest', 'noWallet', 'rateOverText', 'newAmount', 'tooSmall', 'incompleteText', 'amountInvalid'],
  address: ['to', 'qrAddress', 'noWallet', 'rateOverText', 'partialText', 'refundAddress', 'refundNote', 'addressInvalid', 'testText'],
  rate: ['rate', 'rateHolds', 'rateOver', 'rateOverText', 'newRate', 'rateRenewed', 'noPrice'],
  wallet: ['openWallet', 'noWallet'],
  network: ['network', 'layer2', 'processingText', 'locking', 'reorgedNote'],
  merchant: [
    'merchant',
    'sentText',
    'incompleteText',
    'lateText',
    'longLateText',
    'failedText',
    'refundNote',
    'refundKept',
    'notFoundText',
  ],
  refund: ['refund', 'incompleteText', 'refundNote', 'refundKept'],
  transaction: ['transaction', 'failedText', 'replacedNote', 'playReplaced'],
  cancel: ['cancel', 'cancelled', 'cancelText', 'paidAfterCancel'],
};
test('every language uses one word for each term of its glossary', () => {
  for (const tag of TAGS) {
    for (const term of TERMS) {
      for (const key of USED_IN[term]) {
        const text = languageOf(tag).words[key].toLocaleLowerCase(tag);
        assert.ok(
          GLOSSARY[tag][term].some((form) => text.includes(form)),
          `${tag}: "${text}" (${key}) has none of ${GLOSSARY[tag][term].join(', ')} for "${term}"`,
        );
      }
    }
  }
});

test('amounts: digits are Latin, the cents are those of the payment, in every language', () => {
  for (const tag of TAGS) {
    const shown = languageOf(tag).usd(100_000_000_005n);
    assert.equal(shown.replace(/\D/g, ''), '100000000005', `${tag}: ${shown}`);
  }
  assert.equal(languageOf('en').usd(5_250n), '$52.50');
  assert.match(languageOf('de').usd(5_250n), /^52,50\s\$$/u);
});

const WISHES = `
chosen | payment | accept                          | merchant | gets
de     | fr      | it                              | es       | de
       | fr      | it                              | es       | fr
       |         | it;q=0.3, nl;q=0.8, xx          | es       | nl
       |         | xx, *                           | es       | es
       |         |                                 |          | en
tlh    |         | pt-PT                           |          | pt-BR
       | zh-Hant | en                              |          | zh-TW
       | zh      | en                              |          | zh-CN
       | iw      | en                              |          | he
       | pt_BR   | en                              |          | pt-BR
       |         | de;q=0, fr;q=0.1                |          | fr
       | DE-at   |                                 |          | de
`;
for (const line of WISHES.trim().split('\n').slice(1)) {
  const [chosen, payment, accept, merchant, gets] = line.split('|').map((cell) => cell.trim()) as [string, string, string, string, string];
  test(`language: chosen "${chosen}", payment "${payment}", browser "${accept}", merchant "${merchant}" gets ${gets}`, () => {
    const language = chooseLanguage({ chosen: chosen || null, payment: payment || null, accept, merchant: merchant || null });
    assert.equal(language.tag, gets);
  });
}
test('right-to-left languages are marked as such, the others not', () => {
  assert.deepEqual(
    TAGS.filter((tag) => languageOf(tag).dir === 'rtl'),
    ['ar', 'he'],
  );
  assert.equal(matchLocale('../../etc'), null);
});

test('any accent color is readable in both themes, as text and behind text', () => {
  for (const accent of ['#ffffff', '#000000', '#ffd500', '#1b4fd6', '#7f7f7f', '#ff0000', '#00ff88', '#0b1220']) {
    for (const theme of ['light', 'dark'] as const) {
      const { brand, on } = accentFor(accent, theme);
      for (const back of BACKGROUNDS[theme]) assert.ok(contrast(brand, back) >= 4.5, `${accent} on ${theme} ${back}: ${brand}`);
      assert.ok(contrast(brand, on) >= 4.5, `${on} on ${brand}`);
    }
  }
  // A color that is readable already stays unchanged.
  assert.equal(accentFor('#1b4fd6', 'light').brand, '#1b4fd6');
  assert.equal(contrast('#000000', '#ffffff'), 21);
});

test('scripts still work once types and comments are removed, and text never becomes code', () => {
  const settings = { publicUrl: 'https://api.example', paymentPageUrl: 'https://pay.example' } as Parameters<typeof embedScript>[0];
  const embed = embedScript(settings);
  for (const script of [SCRIPT, embed]) {
    assert.doesNotMatch(script, /\beval\(|new Function|innerHTML/);
    new Function(`return async () => {${script}}`);
  }
  assert.doesNotMatch(embed, /__API__|__PAGE__/);
});

test('logos: PNG and plain SVG are accepted, everything that could run code is refused', () => {
  const svg = (inside: string, head = '') =>
    Buffer.from(`${head}<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9">${inside}</svg>`);
  assert.equal(logoType(Buffer.from('89504e470d0a1a0a00', 'hex')), 'image/png');
  assert.equal(logoType(svg('<circle r="4" fill="url(#a)"/>', '<?xml version="1.0"?>\n<!-- made by hand -->')), 'image/svg+xml');
  for (const bad of [
    svg('<script>alert(1)</script>'),
    svg('<svg:script/>'),
    svg('<circle onload="alert(1)"/>'),
    svg('<foreignObject/>'),
    svg('<image href="https://evil.example/x.png"/>'),
    svg('<rect fill="url(https://evil.example/x)"/>'),
    svg('', '<!DOCTYPE svg [<!ENTITY a "b">]>'),
    svg('<style>@import "https://evil.example"</style>'),
    Buffer.from('<html><svg/></html>'),
    Buffer.from('GIF89a'),
    Buffer.concat([Buffer.from('89504e470d0a1a0a', 'hex'), Buffer.alloc(70_000)]),
  ])
    assert.throws(() => logoType(bad), /logo/, bad.toString().slice(0, 80));
});

test('the page of a refunded payment says so, and no longer thanks for it', () => {
  const fixture = FIXTURES.find(({ name }) => name === 'completed, refunded')!;
  const shown = (view: CustomerView) => {
    const { title, main } = renderPage(view, fixtureOptions(fixture, 'en'));
    return { title, text: main.text.replaceAll(/<[^>]+>/g, ' ').replaceAll(/\s+/g, ' ') };
  };
  const { settlement } = fixture.view;
  const whole = shown(fixture.view);
  assert.match(whole.title, /^Refund sent/);
  assert.match(whole.text, /Refund of [\d.]+ BTC from Corner Coffee/);
  assert.doesNotMatch(whole.text, /Paid|Thank you/);
  const part = shown({ ...fixture.view, refundedUnits: settlement.receivedUnits / 2n });
  assert.match(part.title, /^✓ Paid/);
  assert.match(part.text, /Refund of [\d.]+ BTC from Corner Coffee .*Thank you/);
  assert.doesNotMatch(shown({ ...fixture.view, refundedUnits: 0n }).text, /Refund/);
});
