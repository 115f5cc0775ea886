/** The WooCommerce plugin in PHP, with a real Florin server and its real webhooks; only WordPress is scripted. */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { createHash, createHmac } from 'node:crypto';
import { globSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { packPlugin, pluginTexts, readTranslations } from '../../scripts/woocommerce.ts';
import { FIATS, fiatDecimals } from '../../src/core/fiat.ts';
import { createApiKey } from '../../src/keys/keys.ts';
import { changeSettings } from '../../src/merchants/merchants.ts';
import { approveOutgoing } from '../../src/outgoing/decisions.ts';
import { eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { setUpPerson } from '../kit/person.ts';
import { passOn, serve } from '../kit/serve.ts';
import { noPhp, startWordPress, WOOCOMMERCE, type WordPress } from '../kit/wordpress.ts';

const skip = noPhp();

let app: TestApp;
let shop: WordPress;
before(async () => {
  if (skip) return;
  app = await startTestApp();
  shop = await startWordPress();
});
after(async () => {
  if (skip) return;
  await shop?.stop();
  await app?.stop();
});

type Order = {
  status: string;
  meta: Record<string, any>;
  notes: { text: string; customer: boolean }[];
  mails?: string[];
  completions?: number;
  late_hooks?: number;
  broken?: number;
  transaction?: string;
  stock?: number[];
};
async function ask(path: string, body?: unknown): Promise<any> {
  const reply = await fetch(shop.url + path, { method: 'POST', ...(body !== undefined && { body: JSON.stringify(body) }) });
  const text = await reply.text();
  assert.equal(reply.status, 200, `${path}: ${text}`);
  return text.startsWith('{') ? JSON.parse(text) : text;
}
const settings = (more: object = {}) =>
  ask('/settings', {
    enabled: 'yes',
    server_url: `${app.url}/`,
    api_key: app.merchant.keys.testSecret,
    title: 'Coins',
    description: 'Pay with coins.',
    ...more,
  });
const read = (id: number): Promise<Order> => ask(`/orders/${id}`);
const reach = (id: number, wanted: (order: Order) => boolean) => eventually(() => read(id), wanted, 30_000);
const hasNote = (order: Order, words: RegExp) => order.notes.some(({ text }) => words.test(text));

/** An order whose customer is on the payment page. */
async function ordered(total: string): Promise<{ id: number; payment: string }> {
  const { id } = await ask('/orders', { total });
  const { result, redirect } = await ask(`/orders/${id}/pay`);
  assert.equal(result, 'success');
  const payment = new URL(redirect).searchParams.get('id')!;
  return { id, payment };
}
const simulate = async (payment: string, scenario: string) => {
  const reply = await app.test.post(`/v1/test/payments/${payment}/simulate`, { scenario });
  assert.equal(reply.status, 200, reply.text);
};
const advance = async (payment: string, seconds: number) => {
  const reply = await app.test.post('/v1/test/clock/advance', { seconds, payment_id: payment });
  assert.equal(reply.status, 200, reply.text);
};

/**
 * A way to Florin that loses the answers that `isLost` names: the request arrives, the reply does not. An older Florin does not know some
 * parameters.
 */
async function between(
  t: TestContext,
  isLost: (path: string) => boolean | Promise<boolean>,
  unknown: readonly string[] = [],
): Promise<string> {
  const { url, stop } = await serve(async (request, reply, body) => {
    const param = unknown.find((name) => body.includes(`"${name}"`));
    if (param !== undefined) {
      const error = { type: 'invalid_request_error', code: 'parameter_unknown', message: `There is no parameter ${param} here.`, param };
      return reply.writeHead(400, { connection: 'close' }).end(JSON.stringify({ error }));
    }
    const answer = await passOn(app.url, request, body);
    const sent = await answer.text();
    if (await isLost(request.url!)) return request.socket.destroy();
    return reply.writeHead(answer.status, { connection: 'close' }).end(sent);
  });
  t.after(stop);
  return url;
}
const statusOf = async (payment: string): Promise<string> => (await app.test.get(`/api/payment/${payment}`)).json.status;
const reached = (payment: string, wanted: string) =>
  eventually(
    () => statusOf(payment),
    (status) => status === wanted,
  );
/** A plan without webhooks, or a shop that cannot be reached. */
async function dropWebhooks() {
  for (const { id } of (await app.test.get('/v1/webhook_endpoints')).json.data) await app.test.delete(`/v1/webhook_endpoints/${id}`);
}
const pay = async (id: number): Promise<string> => (await ask(`/orders/${id}/pay`)).redirect;
const paymentIn = (url: string) => new URL(url).searchParams.get('id');

test('the files are PHP, and the parts without a server do what they say', { skip }, async () => {
  for (const file of globSync('**/*.php', { cwd: WOOCOMMERCE })) await promisify(execFile)('php', ['-l', join(WOOCOMMERCE, file)]);
  const units = spawnSync('php', [join(WOOCOMMERCE, 'tests/units.php')], {
    env: { ...process.env, SHOP_FILE: join(shop.folder, 'units.json'), SHOP_URL: 'http://localhost' },
    encoding: 'utf8',
  });
  assert.equal(units.stdout, '');
  assert.equal(units.status, 0, units.stderr);
});

test('the zip holds the plugin with its compiled translations, and nothing of its tests', { skip }, () => {
  const zip = packPlugin(shop.folder);
  const list =
    'foreach (new RecursiveIteratorIterator(new PharData($argv[1])) as $f) echo substr($f, strlen("phar://$argv[1]/")), " ", md5_file($f), "\\n";';
  const { stdout, stderr } = spawnSync('php', ['-r', list, zip], { encoding: 'utf8' });
  const packed = stdout.trim().split('\n').sort();
  const files = globSync(['*.{php,txt}', '{includes,assets,languages}/*'], { cwd: WOOCOMMERCE });
  const md5 = (file: string) =>
    createHash('md5')
      .update(readFileSync(join(WOOCOMMERCE, file)))
      .digest('hex');
  const sources = files.map((file) => `florin-payments/${file} ${md5(file)}`);
  assert.deepEqual(
    packed.filter((line) => !/\.(mo|json) /.test(line)),
    sources.sort(),
    stderr,
  );
  const compiled = packed.filter((line) => /\.(mo|json) /.test(line)).map((line) => line.split(' ')[0]!.split('/').at(-1)!);
  const expected = LANGUAGES.flatMap((name) => [`florin-payments-${name}-florin-blocks.json`, `florin-payments-${name}.mo`]);
  assert.deepEqual(compiled, expected.sort());
  // As gettext reads the compiled form.
  const readMo = `$d = file_get_contents("phar://$argv[1]/florin-payments/languages/florin-payments-de_DE.mo"); $h = unpack("V7", $d);
    for ($i = 0; $i < $h[3]; $i++) { foreach (array(4, 5) as $c) { list(, $l, $o) = unpack("V2", substr($d, $h[$c] + 8 * $i, 8)); $r[$i][] = substr($d, $o, $l); } }
    echo json_encode(array_column($r, 1, 0));`;
  const german = JSON.parse(spawnSync('php', ['-r', readMo, zip], { encoding: 'utf8' }).stdout);
  assert.equal(german.Settings, 'Einstellungen');
  assert.deepEqual(Object.keys(german), Object.keys(german).sort());
  assert.match(german[''], /charset=UTF-8/);
  assert.equal(Object.keys(german).length, textsOf(pluginTexts()).length + 1);
});

const LANGUAGES = ['de_DE', 'es_ES', 'fr_FR', 'pt_BR', 'pt_PT'];
const textsOf = (po: string): string[] => [...readTranslations(po).keys()];
const placeholders = (text: string): string[] => (text.match(/%(\d\$)?[sd]/g) ?? []).sort();

test('each language translates every text, with the same placeholders', () => {
  const texts = textsOf(pluginTexts());
  for (const name of LANGUAGES) {
    const translations = readTranslations(readFileSync(join(WOOCOMMERCE, `languages/florin-payments-${name}.po`), 'utf8'));
    assert.deepEqual([...translations.keys()].sort(), texts.toSorted(), name);
    for (const [text, translation] of translations) {
      assert.notEqual(translation.trim(), '', `${name}: ${text}`);
      assert.deepEqual(placeholders(translation), placeholders(text), `${name}: ${text}`);
    }
    const same = [...translations].filter(([text, translation]) => text === translation && text.includes(' '));
    assert.deepEqual(same, [], name);
  }
  assert.deepEqual(globSync('languages/*.po', { cwd: WOOCOMMERCE }).length, LANGUAGES.length);
});

/** What wordpress.org's Plugin Check refuses, as far as it can be read from the sources. */
function faultsOf(path: string, text: string): string[] {
  const code = text.replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '');
  const faults: string[] = [];
  if (!/^defined\( '(ABSPATH|WP_UNINSTALL_PLUGIN)' \) \|\| exit;$/m.test(code)) faults.push('runs when it is opened directly');
  for (const [, parts] of code.matchAll(/\becho ([\s\S]*?);\n/g))
    for (const part of parts!.split(/ \. (?=['a-z$])/))
      if (!/^('(?:[^'\\]|\\.)*'|(esc_html|esc_attr|esc_url|esc_html__|esc_attr__|wp_kses_post)\([\s\S]*\))$/.test(part.trim()))
        faults.push(`prints without escaping: ${part}`);
  for (const [line] of code.matchAll(/^.*\$_(GET|POST|REQUEST|COOKIE|SERVER).*$/gm))
    if (!/sanitize_text_field\( wp_unslash\( \$_/.test(line) && !/^\s*if \( isset\( \$_\w+\[ [^\]]+ \] \) \) \{$/.test(line))
      faults.push(`reads without cleaning: ${line}`);
  if (/\$_(GET|POST|REQUEST)\b/.test(code) && !/check_admin_referer\(|wp_verify_nonce\(/.test(code)) faults.push('acts without a nonce');
  for (const [call, domain] of code.matchAll(/\b(?:__|_e|_x|_n|esc_html__|esc_attr__|esc_html_e)\(\s*'(?:[^'\\]|\\.)*'(?:,\s*'([^']*)')?/g))
    if (domain !== 'florin-payments') faults.push(`has another text domain: ${call}`);
  for (const [call] of text.matchAll(/(?:esc_html__|__)\(\s*'(?:[^'\\]|\\.)*%(?:\d\$)?[sd](?:[^'\\]|\\.)*'/g)) {
    const before = text.slice(0, text.indexOf(call)).split('\n').slice(-2).join('\n');
    if (!before.includes('translators:')) faults.push(`does not explain its placeholders: ${call}`);
  }
  for (const [name] of code.matchAll(
    /\b(eval|exec|system|passthru|shell_exec|proc_open|popen|create_function|unserialize|extract|curl_\w+|fopen|fwrite|file_put_contents|error_log|var_dump|print_r|phpinfo|ini_set|set_time_limit|move_uploaded_file|wp_redirect|query_posts|mt_rand|rand|date|parse_url|strip_tags|json_encode)\(|<\?=|<\?\s|`[^`]*`/g,
  ))
    faults.push(`uses ${name}`);
  for (const [call] of code.matchAll(/file_get_contents\((?! 'php:\/\/input')[^)]*/g)) faults.push(`reads ${call}`);
  for (const [call] of code.matchAll(/\$wpdb->(query|get_\w+)\((?! \$wpdb->prepare\()[^)]*/g)) faults.push(`does not prepare ${call}`);
  return faults.map((fault) => `${path} ${fault}`);
}

test('the plugin keeps the rules of wordpress.org that can be read from its sources', () => {
  for (const path of globSync(['*.php', 'includes/*.php'], { cwd: WOOCOMMERCE }))
    assert.deepEqual(faultsOf(path, readFileSync(join(WOOCOMMERCE, path), 'utf8')), []);
  // The rules themselves.
  const bad = "<?php\necho $text;\n$a = $_POST['a'];\n__( 'Hi %s', 'other' );\neval( $a );\n$wpdb->query( 'x' );\n";
  assert.equal(faultsOf('bad.php', bad).length, 8, faultsOf('bad.php', bad).join('\n'));

  const readme = readFileSync(join(WOOCOMMERCE, 'readme.txt'), 'utf8');
  const main = readFileSync(join(WOOCOMMERCE, 'florin-payments.php'), 'utf8');
  const field = (name: string) => new RegExp(`^${name}: (.+)$`, 'm').exec(readme)?.[1];
  const header = (name: string) => new RegExp(`^ \\* ${name}: (.+)$`, 'm').exec(main)?.[1];
  assert.equal(/^=== (.+) ===\n/.exec(readme)![1], header('Plugin Name'));
  assert.deepEqual(
    [field('Stable tag'), field('Requires at least'), field('Requires PHP')],
    ['Version', 'Requires at least', 'Requires PHP'].map(header),
  );
  assert.deepEqual(
    [field('License'), field('License URI'), header('Text Domain')],
    [header('License'), header('License URI'), 'florin-payments'],
  );
  assert.match(main, new RegExp(`FLORIN_PAYMENTS_VERSION', '${header('Version')}'`));
  assert.ok(field('Tags')!.split(',').length <= 5 && /^\d+\.\d+$/.test(field('Tested up to')!));
  const [, short] = /\n\n(.+)\n\n== Description ==/.exec(readme)!;
  assert.ok(short!.length <= 150 && !/[*_`<[]/.test(short!), short);
  for (const section of ['Description', 'Installation', 'Frequently Asked Questions', 'External services', 'Screenshots', 'Changelog'])
    assert.match(readme, new RegExp(`^== ${section} ==$`, 'm'));
  assert.ok(readme.length < 10_000 && readme.includes(`= ${field('Stable tag')} =`));
});

test('the page of the plugin on wordpress.org has its icon, banner and a picture for each caption, which the plugin itself leaves out', () => {
  const folder = join(WOOCOMMERCE, 'directory');
  const [, captions] = /^== Screenshots ==\n\n((?:\d+\. .+\n)+)/m.exec(readFileSync(join(WOOCOMMERCE, 'readme.txt'), 'utf8'))!;
  const pictures = captions!.match(/^\d+/gm)!.map((number) => `screenshot-${number}.png`);
  const sized = ['banner-1544x500.png', 'banner-772x250.png', 'icon-128x128.png', 'icon-256x256.png'];
  assert.deepEqual(globSync('*', { cwd: folder }).sort(), [...sized, ...pictures]);
  for (const name of [...sized, ...pictures]) {
    const png = readFileSync(join(folder, name));
    assert.equal(png.toString('latin1', 1, 4), 'PNG', name);
    if (sized.includes(name)) assert.match(name, new RegExp(`-${png.readUInt32BE(16)}x${png.readUInt32BE(20)}\\.png$`));
    // The limits of the directory.
    assert.ok(png.length < (name.startsWith('banner') ? 4_000_000 : name.startsWith('icon') ? 1_000_000 : 10_000_000), name);
  }
});

test('the plugin is written in PHP 7.4, and uses nothing that later versions took away', { skip }, () => {
  // The tokens of a newer PHP name what PHP 7.4 does not know; functions and types are words.
  const scan = `foreach (token_get_all(file_get_contents($argv[1])) as $t) if (is_array($t)) echo token_name($t[0]), " ", trim(strtr($t[1], "\\n", " ")), "\\n"; else echo "SIGN $t\\n";`;
  const newer = (file: string): string[] => {
    const lines = spawnSync('php', ['-r', scan, file], { encoding: 'utf8' })
      .stdout.split('\n')
      .filter((line) => !/^T_(WHITESPACE|COMMENT|DOC_COMMENT) ?/.test(line));
    const text = lines.map((line) => line.slice(line.indexOf(' ') + 1)).join(' ');
    return [
      ...lines.filter((line) => /^T_(MATCH|ENUM|READONLY|NULLSAFE_OBJECT_OPERATOR|ATTRIBUTE|DOLLAR_OPEN_CURLY_BRACES) /.test(line)),
      ...lines.filter((line) =>
        /^T_STRING (str_contains|str_starts_with|str_ends_with|get_debug_type|array_is_list|array_find|json_validate|mb_str_pad|mixed|never|each|create_function|utf8_encode|utf8_decode|strftime)$/.test(
          line,
        ),
      ),
      // Named arguments, types in a row, promoted properties, a comma after the last parameter, an expression that throws, a class of an object.
      ...(text.match(/[(,] [a-z_]+ : (?!:)/g) ?? []),
      ...(text.match(/(?:[(,]|: ) \??\w+ \| \w+ \$\w+/g) ?? []),
      ...(text.match(/[(,] (?:public|private|protected) [\w ?]*\$\w+/g) ?? []),
      ...(text.match(/function \w* ?\([^()]*, \)/g) ?? []),
      ...(text.match(/(?:=>|\?\?|\?|:|=) throw /g) ?? []),
      ...(text.match(/\$\w+ :: class/g) ?? []),
    ];
  };
  for (const path of globSync(['*.php', 'includes/*.php'], { cwd: WOOCOMMERCE }))
    assert.deepEqual(newer(join(WOOCOMMERCE, path)), [], path);
  const eight = join(shop.folder, 'eight.php');
  const samples = [
    '$a?->b();',
    'echo match (1) { 1 => 2 };',
    'f( name: 1 );',
    'function f( int|string $a ) {}',
    '$a = $b ?? throw new E();',
    'str_contains( "a", "b" );',
    '#[A] function g() {}',
    'class C { public function __construct( private int $a ) {} }',
    'function h( $a, ) {}',
  ];
  for (const sample of samples) {
    writeFileSync(eight, `<?php ${sample}\n`);
    assert.notDeepEqual(newer(eight), [], sample);
  }
});

test('the settings connect the shop once, and say what is wrong', { skip }, async () => {
  const wrong = await settings({ api_key: app.merchant.keys.testPublic });
  assert.deepEqual([wrong.available, wrong.messages[0][0]], [false, 'error']);
  const unknown = await settings({ api_key: 'sk_test_0123456789012345678901234' });
  assert.match(unknown.messages[0][1], /could not be connected: The API key is missing, wrong/);
  const elsewhere = await settings({ server_url: shop.url });
  assert.equal(elsewhere.messages[0][0], 'error');

  const right = await settings();
  assert.equal(right.messages[0][0], 'message', right.messages[0][1]);
  assert.match(right.description, /^TEST MODE: .* Pay with coins\.$/);
  await settings();
  const { data } = (await app.test.get('/v1/webhook_endpoints')).json;
  assert.equal(data.length, 1);
  const events = ['*', 'payment.updated', 'refund.sent', 'refund.confirmed', 'refund.failed', 'refund.canceled'];
  assert.deepEqual([data[0].url, data[0].events], [`${shop.url}/?wc-api=florin`, events]);

  // As an older version of the plugin created it.
  const older = await app.test.post(`/v1/webhook_endpoints/${data[0].id}`, { events: ['*', 'payment.updated'] });
  assert.equal(older.status, 200, older.text);
  await settings();
  assert.deepEqual((await app.test.get(`/v1/webhook_endpoints/${data[0].id}`)).json.events, events);
});

test('an order is paid once, by webhooks alone', { skip }, async () => {
  await settings();
  const { id, payment } = await ordered('25.50');
  const detail = (await app.test.get(`/api/payment/${payment}`)).json;
  assert.deepEqual(
    [detail.amount_fiat, detail.currency_fiat, detail.invoice_id, detail.metadata.order_id],
    ['25.50', 'EUR', String(id), String(id)],
  );
  const again = await ask(`/orders/${id}/pay`);
  assert.equal(new URL(again.redirect).searchParams.get('id'), payment, 'the open payment is used again');

  await simulate(payment, 'success');
  const paid = await reach(id, (order) => hasNote(order, /Payment confirmed/));
  assert.deepEqual([paid.status, paid.completions], ['processing', 1]);
  assert.ok(
    hasNote(paid, /^\[TEST\] Payment confirmed \(0\.\d+ BTC\)\. <a href="http.*\/dashboard\/test\/payments\/pay_\w+">/),
    JSON.stringify(paid.notes),
  );
  assert.match(await ask(`/orders/${id}/thanks`), /Your payment is confirmed/);

  // Everything again, and what a merchant's own retry would send.
  const events = (await app.test.get(`/v1/events?payment_id=${payment}`)).json.data;
  assert.ok(events.length >= 2);
  for (const { id: event } of events) {
    const [delivery] = (await app.test.get(`/v1/webhook_deliveries?event_id=${event}`)).json.data;
    const resent = await app.test.post(`/v1/webhook_deliveries/${delivery.id}/resend`);
    assert.ok(resent.status < 300, resent.text);
  }
  await ask(`/orders/${id}/check`);
  assert.equal((await read(id)).completions, 1);
});

test('a refund gives the customer a page to claim it, and never more than was paid', { skip }, async () => {
  await settings();
  const { id, payment } = await ordered('50.00');
  assert.match((await ask(`/orders/${id}/refund`, { amount: '5.00' })).refused, /^Only an amount of a confirmed payment/);
  await simulate(payment, 'success');
  await reach(id, ({ status }) => status === 'processing');
  assert.equal((await ask(`/orders/${id}/refund`, { amount: '20.00' })).refunded, true);
  const [mail, ...others] = (await read(id)).mails!;
  assert.deepEqual(others, []);
  const [, url] = /^Your refund of 20\.00 EUR is ready\. .* (http\S+\/claim\/\S+)$/.exec(mail!)!;
  assert.match(url!, /^http:\/\/localhost/);
  assert.match((await ask(`/orders/${id}/refund`, { amount: '40.00' })).refused, /./);
  const [refund] = (await app.test.get(`/v1/refunds?payment_id=${payment}`)).json.data;
  assert.deepEqual([refund.status, refund.reason], ['requested', 'Broken']);
});

test('only the email and the account of the customer have the link at which a refund is claimed', { skip }, async (t) => {
  await settings();
  const [customer, other] = [7, 8];
  const refunded = async (who: number) => {
    const { id } = await ask('/orders', { total: '50.00', customer: who });
    const payment = paymentIn(await pay(id))!;
    await simulate(payment, 'success');
    await reach(id, ({ status }) => status === 'processing');
    assert.equal(await ask(`/orders/${id}/view?user=${who}`), '', 'nothing was refunded');
    assert.equal((await ask(`/orders/${id}/refund`, { amount: '20.00' })).refunded, true);
    const { notes, meta, mails } = await read(id);
    assert.doesNotMatch(JSON.stringify([notes, meta]), /claim/);
    assert.ok(notes.some(({ text }) => /^A refund of 20\.00 EUR was requested in Florin, and the customer was sent an email/.test(text)));
    assert.match(mails!.join(), /\/claim\//);
    for (const user of [0, other]) assert.doesNotMatch(await ask(`/orders/${id}/view?user=${user}`), /claim/);
    assert.doesNotMatch(await ask(`/orders/${id}/thanks`), /claim/);
    return { id, payment };
  };
  const guest = await refunded(0);
  assert.equal(await ask(`/orders/${guest.id}/view`), '');

  const { id, payment } = await refunded(customer);
  const shown = async () =>
    [...(await ask(`/orders/${id}/view?user=${customer}`)).matchAll(/href="(\S+\/claim\/[^"]+)"/g)].map(([, url]) => url!);
  const [first, ...none] = await shown();
  assert.deepEqual(none, []);
  assert.ok((await read(id)).mails![0]!.endsWith(` ${first}`));
  const [refund] = await refundsOf(payment);
  const { claim_url: replaced } = (await app.test.post(`/v1/refunds/${refund.id}/claim_link`)).json;
  assert.deepEqual([await shown(), replaced === first], [[replaced], false]);

  const url = await between(t, (path) => path.startsWith('/v1/refunds?'));
  await settings({ server_url: url });
  assert.match(await ask(`/orders/${id}/view?user=${customer}`), /We cannot show your refund right now/);
  await settings();
  assert.equal((await app.test.post(`/v1/refunds/${refund.id}/cancel`)).status, 200);
  assert.deepEqual(await shown(), []);
});

const refundsOf = async (payment: string): Promise<any[]> => (await app.test.get(`/v1/refunds?payment_id=${payment}`)).json.data;
/** An order of 50 EUR that is paid. */
async function paidOrder(): Promise<{ id: number; payment: string }> {
  const made = await ordered('50.00');
  await simulate(made.payment, 'success');
  await reach(made.id, ({ status }) => status === 'processing');
  return made;
}

test('a refund that was canceled and deleted can be requested again; a double click requests one', { skip }, async () => {
  await settings();
  const { id, payment } = await paidOrder();
  const first = await ask(`/orders/${id}/refund`, { amount: '10.00' });
  assert.equal((await ask(`/orders/${id}/refund`, { amount: '10.00', again: first.refund })).refunded, true);
  const [canceled, ...others] = await refundsOf(payment);
  assert.equal(others.length, 0, 'two clicks on one refund');
  assert.equal((await app.test.post(`/v1/refunds/${canceled.id}/cancel`)).status, 200);
  const repeated = await ask(`/orders/${id}/refund`, { amount: '10.00', again: first.refund });
  assert.match(repeated.refused, /^This refund was canceled in Florin, and the customer is not paid/);

  const second = await ask(`/orders/${id}/refund`, { amount: '10.00' });
  assert.equal(second.refunded, true);
  const [open] = await refundsOf(payment);
  assert.equal(open.status, 'requested');
  const { mails } = await read(id);
  assert.ok(mails!.at(-1)!.endsWith(` ${open.claim_url}`), mails!.at(-1));
  // A second refund of the same amount is another one.
  await ask(`/orders/${id}/refund`, { amount: '10.00' });
  assert.equal((await refundsOf(payment)).filter(({ status }) => status === 'requested').length, 2);
});

test('a refund whose answer was lost is requested once, however often the merchant tries', { skip }, async (t) => {
  const { id, payment } = await settings().then(paidOrder);
  let lost = 1;
  const url = await between(t, (path) => path === '/v1/refunds' && lost-- > 0);
  // Disabled, so that no second endpoint is created.
  await settings({ server_url: url, enabled: 'no' });
  assert.match((await ask(`/orders/${id}/refund`, { amount: '10.00' })).refused, /cannot be reached/);
  assert.equal((await refundsOf(payment)).length, 1, 'Florin has it, WooCommerce does not know');
  // Another refund in between does not make it forget.
  assert.equal((await ask(`/orders/${id}/refund`, { amount: '5.00' })).refunded, true);
  assert.equal((await ask(`/orders/${id}/refund`, { amount: '10.00' })).refunded, true);
  assert.equal((await refundsOf(payment)).length, 2);
  assert.equal((await ask(`/orders/${id}/refund`, { amount: '10.00' })).refunded, true);
  assert.equal((await refundsOf(payment)).length, 3);
  await settings();
});

test('the order says what became of its refunds', { skip }, async () => {
  await settings();
  const { id, payment } = await paidOrder();
  await ask(`/orders/${id}/refund`, { amount: '10.00' });
  await ask(`/orders/${id}/refund`, { amount: '20.00' });
  const [canceled, paid] = await refundsOf(payment);
  await app.test.post(`/v1/refunds/${canceled.id}/cancel`);
  const words = `Refund canceled in Florin: the customer was not paid ${Number(canceled.amount)} BTC. Delete the refund in this order. `;
  const told = await reach(id, (order) => hasNote(order, /Refund canceled/));
  const note = told.notes.find(({ text }) => text.includes('Refund canceled'))!;
  assert.ok(note.text.startsWith(`[TEST] ${words}`) && !note.customer, note.text);
  assert.ok(note.text.endsWith(` <a href="${app.url}/dashboard/test/payments/${payment}">Open the payment in Florin</a>`), note.text);

  const claim = new URLSearchParams({ address: 'test_btc_payer', checked: 'yes' });
  const path = new URL(paid.claim_url).pathname;
  assert.equal((await fetch(app.url + path, { method: 'POST', redirect: 'manual', body: claim })).status, 303);
  const { ctx } = app.app;
  const owner = { merchantId: app.merchant.merchantId, mode: 'test' } as const;
  await approveOutgoing(ctx, { kind: 'refund', ...owner, id: paid.id, actor: { userId: '', name: 'Ada', ip: '' } });
  const { transaction_hash: txid } = (await app.test.get(`/v1/refunds/${paid.id}`)).json;
  await reach(id, (order) =>
    hasNote(order, new RegExp(`Refund confirmed: the customer received ${Number(paid.amount)} BTC in transaction ${txid}\\.`)),
  );
  // Events that arrive again add nothing.
  const before = (await read(id)).notes.length;
  const events = (await app.test.get(`/v1/events?payment_id=${payment}`)).json.data.filter(({ type }: any) => type.startsWith('refund.'));
  for (const { id: event } of events) {
    const [delivery] = (await app.test.get(`/v1/webhook_deliveries?event_id=${event}`)).json.data;
    if (delivery === undefined) continue;
    assert.ok((await app.test.post(`/v1/webhook_deliveries/${delivery.id}/resend`)).status < 300);
    await eventually(
      async () => (await app.test.get(`/v1/webhook_deliveries?event_id=${event}`)).json.data,
      (sent) => sent.length > 0 && sent.every(({ state }: any) => state === 'delivered'),
    );
  }
  assert.equal((await read(id)).notes.length, before);
});

test('an order whose money the merchant returned before the shop heard of it is not completed', { skip }, async () => {
  await settings();
  const state = async (isSent: boolean) => {
    const { id, payment } = await ordered('84.00');
    await dropWebhooks();
    await simulate(payment, 'success');
    await reached(payment, 'completed');
    const { json: refund } = await app.test.post('/v1/refunds', { payment_id: payment, address: 'test_btc_payer' });
    const owner = { merchantId: app.merchant.merchantId, mode: 'test' } as const;
    if (isSent) await approveOutgoing(app.app.ctx, { kind: 'refund', ...owner, id: refund.id, actor: { userId: '', name: 'Ada', ip: '' } });
    await ask(`/orders/${id}/check`);
    const { status, completions, notes } = await ask(`/orders/${id}/check`);
    return [status, completions, notes.filter(({ text }: any) => /a refund of it was requested or sent/.test(text)).length];
  };
  assert.deepEqual(
    [await state(true), await state(false)],
    [
      ['on-hold', undefined, 1],
      ['on-hold', undefined, 1],
    ],
  );
  await settings();
});

test('an order that WooCommerce could not complete is completed by the next attempt', { skip }, async () => {
  await settings();
  const { id } = await ask('/orders', { total: '19.00', broken: 2 });
  const payment = new URL((await ask(`/orders/${id}/pay`)).redirect).searchParams.get('id')!;
  await simulate(payment, 'success');
  await eventually(
    () => read(id),
    ({ broken }) => broken! < 2,
  );
  await ask(`/orders/${id}/check`);
  await ask(`/orders/${id}/check`);
  const paid = await reach(id, ({ status }) => status === 'processing');
  assert.equal(paid.completions, 1);
});

test('a slow payment puts the order on hold first', { skip }, async () => {
  await settings();
  const { id, payment } = await ordered('30');
  await simulate(payment, 'slow');
  // WooCommerce stores the status first, and then the note.
  await reach(id, (order) => order.status === 'on-hold' && hasNote(order, /Waiting for confirmations; do not ship yet/));
  assert.match(await ask(`/orders/${id}/thanks`), /waiting for the network to confirm/);
  await advance(payment, 3600);
  await reach(id, ({ status }) => status === 'processing');
});

test('an expired order can be paid again; while late money waits for the merchant, nobody is asked for more', { skip }, async () => {
  await settings();
  const { id, payment } = await ordered('12.00');
  await advance(payment, 7200);
  await reach(id, ({ status }) => status === 'failed');
  const again = paymentIn(await pay(id))!;
  assert.notEqual(again, payment);
  await simulate(again, 'late');
  await advance(again, 7200);
  const late = await reach(id, (order) => hasNote(order, /^\[TEST\] Late payment: .* this order was not changed/));
  assert.equal(late.status, 'failed');
  const made = async () => (await app.test.get(`/api/payments?invoice_id=${id}`)).json.data.length;
  const before = await made();
  const { redirect } = await ask(`/orders/${id}/button`);
  assert.equal(paymentIn(redirect), null, redirect);
  assert.equal(await made(), before, 'no payment is made');
  assert.match(await ask(`/orders/${id}/thanks`), /We received your payment and are looking at it. You do not have to pay again/);
  // Money that goes back does not pay the order: the customer can.
  const returned = await app.test.post(`/v1/payments/${again}/resolve`, { action: 'refund_sent' });
  assert.equal(returned.status, 200, returned.text);
  const third = paymentIn(await pay(id))!;
  assert.ok(third && third !== again);
  await simulate(third, 'late');
  await advance(third, 7200);
  await eventually(
    () => app.test.get(`/api/payment/${third}`),
    ({ json }) => Number(json.amount_held) > 0,
  );
  const accepted = await app.test.post(`/v1/payments/${third}/resolve`, { action: 'accept' });
  assert.equal(accepted.status, 200, accepted.text);
  const paid = await reach(id, ({ status }) => status === 'processing');
  assert.equal(paid.completions, 1);
});

test('a simulated payment keeps no order of a shop that takes real money', { skip }, async () => {
  await settings();
  const { id } = await ordered('13.00');
  await settings({ api_key: app.merchant.keys.liveSecret });
  await ask(`/orders/${id}/stock`);
  const order = await read(id);
  await settings();
  assert.equal(order.status, 'cancelled');
  assert.ok(!hasNote(order, /does not know payment/));
});

test('too little waits for the merchant, too much is noted', { skip }, async () => {
  await settings();
  const little = await ordered('40.00');
  await simulate(little.payment, 'underpaid');
  await reach(little.id, (order) => hasNote(order, /A part of the payment arrived/));
  await advance(little.payment, 86_400);
  await reach(little.id, (order) => order.status === 'on-hold' && hasNote(order, /The customer paid too little/));
  const much = await ordered('41.00');
  await simulate(much.payment, 'overpaid');
  const done = await reach(much.id, (order) => order.status === 'processing' && hasNote(order, /too much/));
  assert.equal(done.completions, 1);
});

test('an order that was edited meanwhile is not paid', { skip }, async () => {
  await settings();
  const { id, payment } = await ordered('9.00');
  await ask(`/orders/${id}/edit`, { total: '90.00' });
  await simulate(payment, 'success');
  const held = await reach(id, (order) => hasNote(order, /another total/));
  assert.deepEqual([held.status, held.completions], ['on-hold', undefined]);
});

test('a canceled order cancels its payment', { skip }, async () => {
  await settings();
  const { id, payment } = await ordered('15.00');
  await ask(`/orders/${id}/status`, { status: 'cancelled' });
  assert.equal((await app.test.get(`/api/payment/${payment}`)).json.status, 'cancelled');
  assert.equal((await read(id)).status, 'cancelled');
});

test('without webhooks, a check finds the payment', { skip }, async () => {
  await settings();
  const [endpoint] = (await app.test.get('/v1/webhook_endpoints')).json.data;
  await app.test.delete(`/v1/webhook_endpoints/${endpoint.id}`);
  const { id, payment } = await ordered('16.00');
  await simulate(payment, 'success');
  await eventually(
    async () => (await app.test.get(`/api/payment/${payment}`)).json.status,
    (status) => status === 'completed',
  );
  assert.equal((await read(id)).status, 'pending');
  await ask(`/orders/${id}/check`);
  assert.equal((await read(id)).status, 'processing');
  await settings();
  assert.equal((await app.test.get('/v1/webhook_endpoints')).json.data.length, 1, 'the endpoint is created again');
});

test('what is not signed is refused, and what is unknown changes nothing', { skip }, async () => {
  await settings();
  const hook = (headers: Record<string, string>, body: string) =>
    fetch(`${shop.url}/?wc-api=florin`, { method: 'POST', headers, body }).then(({ status }) => status);
  assert.equal(await hook({}, '{}'), 401);
  assert.equal(
    await hook(
      { 'webhook-id': 'evt_1', 'webhook-timestamp': String(Math.floor(Date.now() / 1000)), 'webhook-signature': 'v1,AAAA' },
      '{"id":"evt_1"}',
    ),
    401,
  );
  assert.equal(await hook({}, 'x'.repeat(1_000_001)), 413);
});

test('a customer sees a notice when no payment can be created, and a currency that Florin does not know is named', { skip }, async () => {
  await settings();
  const { id } = await ask('/orders', { total: '10', currency: 'XXX' });
  const refused = await ask(`/orders/${id}/pay`);
  assert.equal(refused.result, 'failure');
  assert.match(refused.notices[0], /not possible in this currency/);
  assert.ok(hasNote(await read(id), /could not be created: Florin has no rate for XXX/));
  // What no coin can carry, or more than Florin takes, does not become possible in a minute.
  for (const total of ['0.004', '99999999999']) {
    const { id } = await ask('/orders', { total });
    assert.match((await ask(`/orders/${id}/pay`)).notices[0], /not possible for this order/, total);
  }
});

test('an order is completed once, though requests that read it before come together', { skip }, async (t) => {
  await settings();
  const { id, payment } = await ordered('82.00');
  // The first one waits for Florin while it holds the lock, so that each of them has read the order before.
  const url = await between(t, async (path) => {
    if (path === `/api/payment/${payment}`) await new Promise((resolve) => setTimeout(resolve, 700));
    return false;
  });
  await settings({ server_url: url });
  await dropWebhooks();
  await simulate(payment, 'success');
  await reached(payment, 'completed');
  await Promise.all(Array.from({ length: 4 }, (_, at) => ask(`/orders/${id}/${at % 2 ? 'thanks' : 'check'}`)));
  const order = await read(id);
  assert.deepEqual([order.status, order.completions, order.late_hooks], ['processing', 1, undefined]);
  assert.equal(order.notes.filter(({ text }) => /Payment confirmed/.test(text)).length, 1);
  await settings();
});

test('what an object cache kept of an order from before its payment decides nothing', { skip }, async (t) => {
  const cached = await startWordPress({ cached: true });
  t.after(() => cached.stop());
  const call = async (path: string, body: object = {}) => {
    const reply = await fetch(cached.url + path, { method: 'POST', body: JSON.stringify(body) });
    assert.equal(reply.status, 200, path);
    return reply.json();
  };
  await call('/settings', { enabled: 'yes', server_url: app.url, api_key: app.merchant.keys.testSecret, title: 'Coins', description: '' });
  /** An order of which the cache of WooCommerce has what it was before its customer went to pay. */
  const order = async (scenario: string | null) => {
    const { id } = await call('/orders', { total: '20.00' });
    await call(`/orders/${id}`);
    const kept = ['orders', 'posts'].map((group) => join(cached.folder, `shop.json.cache.${group}.${id}`));
    const before = kept.map((path) => readFileSync(path));
    const payment = paymentIn((await call(`/orders/${id}/pay`)).redirect)!;
    if (scenario !== null) {
      await simulate(payment, scenario);
      await eventually(
        () => call(`/orders/${id}`),
        (one: any) => hasNote(one, /A part of the payment arrived/),
      );
    }
    for (const [i, path] of kept.entries()) writeFileSync(path, before[i]!);
    return { id, payment };
  };
  const partial = await order('underpaid');
  await call(`/orders/${partial.id}/stock`);
  const held = await call(`/orders/${partial.id}`);
  assert.equal(held.status, 'on-hold', JSON.stringify(held));
  assert.ok(hasNote(held, /A part of the payment arrived/));
  for (const [path, body] of [
    ['status', { status: 'processing' }],
    ['trash', {}],
    ['delete', {}],
  ] as const) {
    const open = await order(null);
    await call(`/orders/${open.id}/${path}`, body);
    assert.equal(await statusOf(open.payment), 'cancelled', path);
  }
});

test('the lock of an order has a name per site: shops of one database server do not wait for each other', { skip }, async (t) => {
  await settings();
  const { id } = await ordered('82.50');
  const another = await startWordPress({ copyOf: shop });
  t.after(() => another.stop());
  const locksOf = ({ folder }: WordPress) => readdirSync(folder).filter((name) => name.includes('.florin_'));
  for (const { url } of [shop, another]) await fetch(`${url}/orders/${id}/check`, { method: 'POST', body: '{}' });
  assert.ok(locksOf(another).length > 0);
  assert.deepEqual(
    locksOf(another).filter((name) => locksOf(shop).includes(name)),
    [],
  );
});

test('a customer whose money is on its way, or arrived, is not asked for it again', { skip }, async () => {
  await settings();
  await dropWebhooks();
  const slow = await ordered('80.00');
  await simulate(slow.payment, 'slow');
  await reached(slow.payment, 'processing');
  assert.equal(paymentIn(await pay(slow.id)), slow.payment);
  const done = await ordered('80.50');
  await simulate(done.payment, 'success');
  await reached(done.payment, 'completed');
  assert.equal(await pay(done.id), `${shop.url}/checkout/order-received/${done.id}/`);
  assert.equal((await read(done.id)).status, 'processing');
});

test('a payment that was replaced by another is canceled, and each one is followed until it ends', { skip }, async () => {
  await settings();
  await dropWebhooks();
  const { id, payment } = await ordered('20.00');
  await ask(`/orders/${id}/edit`, { total: '30.00' });
  const second = paymentIn(await pay(id))!;
  assert.deepEqual([second === payment, await statusOf(payment), await statusOf(second)], [false, 'cancelled', 'pending']);
  // Months later, money comes to the first one; no webhook tells.
  const { meta } = await read(id);
  await ask(`/orders/${id}/edit`, { meta: { ...meta, _florin_started: '1000' } });
  await simulate(second, 'success');
  await reached(second, 'completed');
  await ask('/later');
  assert.equal((await read(id)).status, 'processing');
});

test('an order that is a draft again when its payment is confirmed is completed', { skip }, async () => {
  await settings();
  await dropWebhooks();
  const { id, payment } = await ordered('33.00');
  await ask(`/orders/${id}/edit`, { status: 'checkout-draft' });
  await simulate(payment, 'success');
  await reached(payment, 'completed');
  for (let at = 0; at < 2; at += 1) await ask(`/orders/${id}/check`);
  const order = await read(id);
  assert.deepEqual([order.status, order.completions, order.late_hooks], ['processing', 1, undefined]);
});

test('each open order is checked, not one for all', { skip }, async () => {
  await settings();
  await dropWebhooks();
  const both = [await ordered('21.00'), await ordered('22.00')];
  // A first round finds nothing, and plans the next.
  await ask('/later');
  for (const { payment } of both) await simulate(payment, 'success').then(() => reached(payment, 'completed'));
  await ask('/later');
  for (const { id } of both) assert.equal((await read(id)).status, 'processing');
});

test('a payment names the customer of its order, and one that Florin does not take keeps nobody from paying', { skip }, async (t) => {
  await settings();
  const customerOf = async (payment: string) => (await app.test.get(`/v1/payments/${payment}`)).json.customer;
  const paidFor = async (order: object): Promise<string> => {
    const { id } = await ask('/orders', { total: '20.00', ...order });
    return new URL((await ask(`/orders/${id}/pay`)).redirect).searchParams.get('id')!;
  };
  const ada = { email: 'Ada@shop.example ', first_name: 'Ada', last_name: 'Lovelace' };
  const first = await customerOf(await paidFor({ ...ada, customer: 1 }));
  assert.deepEqual([first.email, first.name, first.reference], ['Ada@shop.example', 'Ada Lovelace', null]);
  // A guest is the same person. The number of an account in a shop says nothing in another one.
  assert.equal((await customerOf(await paidFor({ ...ada, email: 'ada@shop.example' }))).id, first.id);
  assert.equal(await customerOf(await paidFor({ first_name: 'Ada', last_name: 'Lovelace' })), null);
  const refused = [{ email: 'no address' }, { ...ada, first_name: 'A'.repeat(101) }, { ...ada, last_name: 'Love\u0007lace' }];
  for (const order of refused) assert.equal(await customerOf(await paidFor(order)), null, JSON.stringify(order));
  await settings({ server_url: await between(t, () => false, ['customer']), enabled: 'no' });
  assert.equal(await customerOf(await paidFor(ada)), null, 'an older Florin');
  await settings();
});

test('an older Florin, which may cancel money away, cancels nothing, and a changed order can still be paid', { skip }, async (t) => {
  await settings();
  await dropWebhooks();
  const older = await between(t, () => false, ['only_if_unpaid', 'replaces']);
  await settings({ server_url: older, enabled: 'no' });
  const unpaid = await ordered('86.00');
  await ask(`/orders/${unpaid.id}/stock`);
  const held = await read(unpaid.id);
  assert.deepEqual([held.status, await statusOf(unpaid.payment)], ['on-hold', 'pending']);
  assert.ok(hasNote(held, /did not cancel this payment/));
  const edited = await ordered('86.50');
  await ask(`/orders/${edited.id}/edit`, { total: '87.00' });
  const second = paymentIn(await pay(edited.id))!;
  assert.notEqual(second, edited.payment);
  await settings();
  await ask(`/orders/${edited.id}/check`);
  assert.deepEqual([await statusOf(edited.payment), await statusOf(second)], ['cancelled', 'pending']);
});

test('Florin refuses to cancel or refund a payment that turned out to be of another shop', { skip }, async (t) => {
  await settings();
  const paid = await paidOrder();
  await dropWebhooks();
  const open = await ordered('88.00');
  const moved = async (payment: string, shop: string) =>
    assert.equal((await app.test.post(`/v1/payments/${payment}`, { metadata: { shop } })).status, 200);
  const { shop: name } = (await app.test.get(`/api/payment/${open.payment}`)).json.metadata;
  // The plugin has read the payment, which is another shop's when it acts.
  const url = await between(t, async (path) => {
    const payment = [paid.payment, open.payment].find((one) => path === `/api/payment/${one}`);
    if (payment !== undefined) await moved(payment, 'https://another.example');
    return false;
  });
  await settings({ server_url: url, enabled: 'no' });
  await ask(`/orders/${open.id}/stock`);
  assert.equal(await statusOf(open.payment), 'pending');
  assert.match((await ask(`/orders/${paid.id}/refund`, { amount: '10.00' })).refused, /was not requested/);
  assert.deepEqual(await refundsOf(paid.payment), []);
  for (const one of [open, paid]) await moved(one.payment, name);
  await settings();
});

test('a payment that the customer started again on its page is the payment of the order, also without webhooks', { skip }, async () => {
  const { merchantId } = app.merchant;
  await changeSettings(app.app.ctx, { merchantId, settings: { payerCancel: true } });
  const startAgain = async (payment: string) => {
    await advance(payment, 7_200);
    await reached(payment, 'expired');
    const page = await (await fetch(`${app.url}/pay?id=${payment}`)).text();
    const body = new URLSearchParams({ id: payment, token: /name="token" value="([^"]+)"/.exec(page)![1]! });
    const reply = await fetch(`${app.url}/pay/again`, { method: 'POST', redirect: 'manual', body });
    assert.equal(reply.status, 303);
    return paymentIn(new URL(reply.headers.get('location')!, app.url).href)!;
  };
  // The shop does not know that the first one ended when it hears of the second.
  await settings();
  await dropWebhooks();
  const told = await ordered('89.00');
  await advance(told.payment, 7_200);
  await reached(told.payment, 'expired');
  await settings();
  const second = await startAgain(told.payment);
  await reach(told.id, ({ meta }) => meta._florin_payment_id === second);
  assert.deepEqual([await statusOf(second), paymentIn(await pay(told.id))], ['pending', second]);
  await simulate(second, 'success');
  assert.equal((await reach(told.id, ({ status }) => status === 'processing')).completions, 1);
  // Nothing arrives, and the customer starts again twice.
  await dropWebhooks();
  const untold = await ordered('89.50');
  const last = await startAgain(await startAgain(untold.payment));
  assert.equal(paymentIn(await pay(untold.id)), last);
  await simulate(last, 'success');
  await reached(last, 'completed');
  await ask(`/orders/${untold.id}/check`);
  assert.deepEqual([(await read(untold.id)).status, (await read(untold.id)).meta._florin_booked], ['processing', last]);
  await changeSettings(app.app.ctx, { merchantId, settings: { payerCancel: false } });
});

test('an order that is deleted while its customer presses Pay leaves no payment that can be paid', { skip }, async (t) => {
  await settings();
  await dropWebhooks();
  const { id } = await ask('/orders', { total: '90.00' });
  const url = await between(t, async (path) => {
    if (path === '/api/payment/create/simple') await ask(`/orders/${id}/vanish`);
    return false;
  });
  await settings({ server_url: url, enabled: 'no' });
  assert.equal((await ask(`/orders/${id}/pay`)).result, 'failure');
  const { data } = (await app.test.get(`/api/payments?invoice_id=${id}`)).json;
  assert.deepEqual([data.map(({ status }: any) => status), (await read(id)).status], [['cancelled'], 'deleted']);
  await settings();
});

test('a canceled order that is paid is put on hold with a note, and is not completed by later events', { skip }, async () => {
  await settings();
  const { id, payment } = await ordered('81.00');
  await simulate(payment, 'slow');
  await reach(id, ({ status }) => status === 'on-hold');
  await ask(`/orders/${id}/status`, { status: 'cancelled' });
  await advance(payment, 3600);
  const held = await reach(id, (order) => hasNote(order, /for this canceled order/));
  await ask(`/orders/${id}/check`);
  await ask(`/orders/${id}/thanks`);
  assert.deepEqual([held.status, (await read(id)).status, held.completions], ['on-hold', 'on-hold', undefined]);
});

test('an order that is canceled by hand while the plugin waits for Florin is not completed', { skip }, async (t) => {
  await settings();
  await dropWebhooks();
  const { id, payment } = await ordered('81.50');
  await simulate(payment, 'success');
  await reached(payment, 'completed');
  const url = await between(t, async (path) => {
    if (path === `/api/payment/${payment}`) await ask(`/orders/${id}/edit`, { status: 'cancelled' });
    return false;
  });
  await settings({ server_url: url, enabled: 'no' });
  await ask(`/orders/${id}/check`);
  const order = await read(id);
  assert.deepEqual([order.status, order.completions], ['on-hold', undefined]);
  assert.ok(hasNote(order, /for this canceled order/));
  await settings();
});

test('money for a refunded order is a note, and the hooks of a paid order do not run', { skip }, async () => {
  await settings();
  const { id, payment } = await ordered('83.00');
  await simulate(payment, 'slow');
  await reach(id, ({ status }) => status === 'on-hold');
  await ask(`/orders/${id}/status`, { status: 'refunded' });
  await advance(payment, 3600);
  await reach(id, (order) => hasNote(order, /Money arrived for a refunded order/));
  await ask(`/orders/${id}/check`);
  const order = await read(id);
  assert.deepEqual([order.status, order.completions, order.late_hooks], ['refunded', undefined, undefined]);
});

test('an order that has another payment method now is left alone, and its open payment is canceled', { skip }, async () => {
  await settings();
  const other = await ordered('84.00');
  await ask(`/orders/${other.id}/edit`, { method: 'bacs' });
  await ask(`/orders/${other.id}/check`);
  await reached(other.payment, 'cancelled');
  // Without webhooks: one that is late would cancel this payment too, before it is paid.
  await dropWebhooks();
  const paid = await ordered('84.50');
  await simulate(paid.payment, 'success');
  await reached(paid.payment, 'completed');
  await ask(`/orders/${paid.id}/edit`, { method: 'bacs' });
  await ask(`/orders/${paid.id}/check`);
  const order = await reach(paid.id, (one) => hasNote(one, /does not wait for that payment/));
  assert.deepEqual([order.status, order.completions, (await read(other.id)).status], ['pending', undefined, 'pending']);
});

test('an order that was not paid in time is canceled only when Florin says that no money came', { skip }, async () => {
  await settings();
  const empty = await ordered('41.00');
  await ask(`/orders/${empty.id}/stock`);
  assert.deepEqual([(await read(empty.id)).status, await statusOf(empty.payment)], ['cancelled', 'cancelled']);

  const partly = await ordered('40.00');
  await simulate(partly.payment, 'underpaid');
  await reach(partly.id, (order) => hasNote(order, /A part of the payment arrived/));
  await ask(`/orders/${partly.id}/stock`);
  assert.deepEqual([(await read(partly.id)).status, await statusOf(partly.payment)], ['on-hold', 'pending']);
  await ask(`/orders/${partly.id}/status`, { status: 'cancelled' });
  assert.equal(await statusOf(partly.payment), 'pending', 'a payment that holds money is not canceled');

  await dropWebhooks();
  const late = await ordered('42.00');
  await simulate(late.payment, 'success');
  await reached(late.payment, 'completed');
  await ask(`/orders/${late.id}/stock`);
  assert.equal((await read(late.id)).status, 'processing');
});

test('while the key is refused, nothing is canceled, the merchant sees a notice, and a new key repairs all', { skip }, async () => {
  await settings();
  const { id, payment } = await ordered('43.00');
  // The shop canceled this one before it knew that it was paid.
  const canceled = await ordered('43.50');
  const [endpoint] = (await app.test.get('/v1/webhook_endpoints')).json.data;
  await ask('/options', {
    woocommerce_florin_settings: { enabled: 'no', server_url: app.url, api_key: 'sk_test_0123456789012345678901234' },
    florin_payments_place: 'another key',
  });
  for (const one of [payment, canceled.payment]) await simulate(one, 'success').then(() => reached(one, 'completed'));
  await ask(`/orders/${canceled.id}/edit`, { status: 'cancelled' });
  await ask(`/orders/${id}/stock`);
  assert.equal((await read(id)).status, 'pending');
  const page = await ask(`/orders/${id}/thanks`);
  assert.match(page, /We cannot reach our payment service.*do not have to pay again/);
  assert.doesNotMatch(page, /not seen|Continue/);
  assert.match(await ask('/notices'), /refuses the API key/);

  await settings();
  assert.equal(await ask('/notices'), '');
  await ask('/later');
  assert.equal((await read(id)).status, 'processing');
  assert.equal((await read(canceled.id)).status, 'on-hold');
  const after = (await app.test.get('/v1/webhook_endpoints')).json.data;
  assert.deepEqual(
    after.map(({ id: one }: { id: string }) => one),
    [endpoint.id],
    'the endpoint and its secret are kept',
  );
});

test('a key that is replaced in the dashboard and entered in the shop loses no event, and the endpoint keeps its secret', {
  skip,
}, async () => {
  await settings();
  const { ctx } = app.app;
  const owner = await setUpPerson(app);
  const endpoints = async () => (await app.test.get('/v1/webhook_endpoints')).json.data.map(({ id }: { id: string }) => id);
  const secretsOf = async () => (await ask('/options', {})).options.florin_payments_endpoint;
  const first = await createApiKey(ctx, { merchantId: app.merchant.merchantId, mode: 'test', kind: 'secret' });
  await settings({ api_key: first.key });
  const [kept, secrets] = [await endpoints(), await secretsOf()];
  assert.match(JSON.stringify(secrets), /whsec_/);
  const { id, payment } = await ordered('43.60');
  const late = await ordered('43.70');
  const rolled = await owner.post(`/test/keys/${first.keyId}/roll`, { ends: 'now' });
  assert.equal(rolled.status, 200, rolled.text);
  await eventually(
    () => app.as(first.key).get('/api/payments'),
    ({ status }) => status === 401,
  );
  // The event comes while the shop has no valid key: it is answered with an error, and kept.
  await simulate(payment, 'success');
  const attempts = () => ctx.db.sql<{ state: string; attempts: number }[]>`
    select state, attempts from deliveries where payment_id = ${payment} order by id desc`;
  // The notice is there before Florin has recorded the answer.
  await eventually(attempts, (all) => all.some(({ state, attempts }) => state === 'pending' && attempts > 0));
  await eventually(
    () => ask('/notices'),
    (notices) => /refuses the API key/.test(notices),
  );
  assert.equal((await read(id)).status, 'pending');

  await settings({ api_key: rolled.json.text });
  assert.equal(await ask('/notices'), '');
  assert.deepEqual([await endpoints(), await secretsOf()], [kept, secrets], 'the endpoint and its secret are kept');
  // What was refused comes again, with the same secret, and later events as if nothing had happened.
  await simulate(late.payment, 'success');
  await eventually(
    async () => {
      await ctx.db.sql`update endpoints set rests_until = null where id = any(${kept})`;
      await ctx.db
        .sql`update deliveries set due_at = clock_timestamp() where endpoint_id = any(${kept}) and state = 'pending' and not waits`;
      await ctx.db.sql`select pg_notify('deliveries', '')`;
      return [await read(id), await read(late.id)];
    },
    (orders) => orders.every(({ status }) => status === 'processing'),
    30_000,
  );
  for (const one of [id, late.id]) assert.equal((await read(one)).completions, 1);
  await eventually(attempts, (all) => all.every(({ state }) => state === 'delivered'), 30_000);
  await settings();
});

test('an order that a gift card pays in part asks for the rest, and one that it pays in full for nothing', { skip }, async () => {
  await settings();
  const { id, payment } = await ordered('60.00');
  // Plugins for gift cards take what a card pays from the total.
  await ask(`/orders/${id}/edit`, { total: '17.50' });
  const rest = paymentIn(await pay(id))!;
  const { amount_fiat: amount, currency_fiat: currency } = (await app.test.get(`/api/payment/${rest}`)).json;
  assert.deepEqual([amount, currency, await statusOf(payment)], ['17.50', 'EUR', 'cancelled']);
  // The second card pays the rest, and WooCommerce completes the order.
  await ask(`/orders/${id}/edit`, { total: '0.00' });
  await ask(`/orders/${id}/status`, { status: 'processing' });
  await reached(rest, 'cancelled');
  assert.equal((await read(id)).status, 'processing');
});

test('money of a second payment for a paid order is named, and completes nothing again', { skip }, async () => {
  await settings();
  await dropWebhooks();
  const { id, payment } = await ordered('18.00');
  await simulate(payment, 'late');
  await advance(payment, 7200);
  await eventually(
    () => app.test.get(`/api/payment/${payment}`),
    ({ json }) => Number(json.amount_held) > 0,
  );
  // The shop has not heard of that money when the merchant marks the order as paid in another way.
  await ask(`/orders/${id}/status`, { status: 'processing' });
  const accepted = await app.test.post(`/v1/payments/${payment}/resolve`, { action: 'accept' });
  assert.equal(accepted.status, 200, accepted.text);
  await reached(payment, 'completed');
  for (let at = 0; at < 2; at++) await ask(`/orders/${id}/check`);
  const order = await read(id);
  assert.deepEqual([order.status, order.completions, order.late_hooks], ['processing', undefined, undefined]);
  assert.equal(
    order.notes.filter(({ text }) => /Second payment: .* Refund it in Florin/.test(text)).length,
    1,
    JSON.stringify(order.notes),
  );
});

test('enabling the method in the list of payment methods registers the webhook', { skip }, async () => {
  await settings({ enabled: 'no' });
  await dropWebhooks();
  const off = { enabled: 'no', server_url: app.url, api_key: app.merchant.keys.testSecret };
  await ask('/options', { woocommerce_florin_settings: off });
  assert.equal((await app.test.get('/v1/webhook_endpoints')).json.data.length, 0);
  await ask('/options', { woocommerce_florin_settings: { ...off, enabled: 'yes' } });
  assert.equal((await app.test.get('/v1/webhook_endpoints')).json.data.length, 1);
});

test('a copy of a shop changes nothing of the shop that it was copied from', { skip }, async (t) => {
  await settings();
  const open = await ordered('44.00');
  const paid = await paidOrder();
  const original = shop;
  const copy = await startWordPress({ copyOf: original });
  t.after(() => copy.stop());
  shop = copy;
  try {
    await ask(`/orders/${open.id}/stock`);
    await ask(`/orders/${open.id}/status`, { status: 'cancelled' });
    assert.equal(await statusOf(open.payment), 'pending');
    assert.match((await ask(`/orders/${paid.id}/refund`, { amount: '10.00' })).refused, /made by another shop/);
    assert.deepEqual(await refundsOf(paid.payment), []);
    assert.match(await ask('/notices'), /This shop was copied: connect it again/);
  } finally {
    shop = original;
  }
  await simulate(open.payment, 'success');
  await reach(open.id, ({ status }) => status === 'processing');
  // The money of the original completes no order of the copy, until its merchant says that the shop moved.
  shop = copy;
  try {
    const next = await ordered('44.50');
    await ask(`/orders/${open.id}/edit`, { status: 'pending' });
    await ask(`/orders/${open.id}/check`);
    assert.equal((await read(open.id)).status, 'pending');
    await simulate(next.payment, 'success');
    await reached(next.payment, 'completed');
    await ask(`/orders/${next.id}/check`);
    assert.equal((await read(next.id)).status, 'processing', 'its own money does');
    await settings();
    await ask('/later');
    assert.equal((await read(open.id)).status, 'processing');
  } finally {
    shop = original;
    await settings();
  }
});

test('a copy of an order, with all that is stored with it, is not paid by the payment of the other order and changes nothing of it', {
  skip,
}, async () => {
  await settings();
  await dropWebhooks();
  const copied = async (id: number): Promise<number> => {
    const { meta } = await read(id);
    return (await ask('/orders', { total: '46.00', meta })).id;
  };
  const open = await ordered('46.00');
  for (const verb of ['check', 'stock', 'delete']) {
    await ask(`/orders/${await copied(open.id)}/${verb}`);
    assert.equal(await statusOf(open.payment), 'pending', verb);
  }
  const late = await copied(open.id);
  await simulate(open.payment, 'success');
  await reached(open.payment, 'completed');
  await ask(`/orders/${open.id}/check`);
  const early = await copied(open.id);
  assert.match((await ask(`/orders/${early}/refund`, { amount: '46.00' })).refused, /copy of another one/);
  assert.deepEqual(await refundsOf(open.payment), []);
  for (const id of [late, early]) {
    await ask(`/orders/${id}/check`);
    assert.deepEqual([(await read(id)).status, (await read(id)).completions ?? 0], ['pending', 0]);
    const own = paymentIn(await pay(id))!;
    assert.notEqual(own, open.payment);
    await simulate(own, 'success');
    await reached(own, 'completed');
    await ask(`/orders/${id}/check`);
    assert.deepEqual([(await read(id)).status, (await read(id)).completions], ['processing', 1]);
    assert.equal((await ask(`/orders/${id}/refund`, { amount: '46.00' })).refunded, true);
    assert.equal((await refundsOf(own)).length, 1);
  }
  // A copy of what was asked for, and not answered yet.
  const metadata = { order_id: String(open.id), order_key: 'wc_order_copied', shop: shop.url };
  const body = { amount: '46.00', currency_fiat: 'EUR', return_url: shop.url, metadata };
  const { id } = await ask('/orders', { total: '46.00', meta: { _florin_attempt: { key: 'wc:copied', body } } });
  const made = (await app.test.get(`/api/payment/${paymentIn(await pay(id))}`)).json;
  assert.equal(made.metadata.order_id, String(id));
});

test('a payment whose answer was lost is asked for again; one that is paid meanwhile finds its order', { skip }, async (t) => {
  await settings();
  let lost = 0;
  const created: string[] = [];
  const url = await between(t, (path) => path === '/api/payment/create/simple' && lost-- > 0);
  const listed = async () => (await app.test.get('/api/payments')).json.data as { id: string; invoice_id: string }[];
  await settings({ server_url: url, enabled: 'no' });
  for (const total of ['45.00', '46.00']) {
    lost = 1;
    const { id } = await ask('/orders', { total });
    assert.equal((await ask(`/orders/${id}/pay`)).result, 'failure');
    created.push((await listed()).find((one) => one.invoice_id === String(id))!.id);
    if (total === '45.00') {
      assert.equal(paymentIn(await pay(id)), created[0]);
    } else {
      await simulate(created[1]!, 'success');
      await reach(id, ({ status }) => status === 'processing');
    }
  }
  await settings();
});

test('a request whose answer was lost is repeated with a key of its own mode only', { skip }, async (t) => {
  await settings({ enabled: 'no' });
  // Real payments return to encrypted pages only.
  await ask('/home', { home: 'https://shop.example' });
  t.after(() => ask('/home', { home: shop.url }));
  let lost = 0;
  const url = await between(t, (path) => path === '/api/payment/create/simple' && lost-- > 0);
  const real = { server_url: url, enabled: 'no', api_key: app.merchant.keys.liveSecret };
  const simulated = { ...real, api_key: app.merchant.keys.testSecret };
  const made = async (id: number, api: TestApp['live']) => (await api.get(`/api/payments?invoice_id=${id}`)).json.data.length as number;
  const loseOne = async (total: string): Promise<number> => {
    lost = 1;
    const { id } = await ask('/orders', { total, currency: 'USD' });
    assert.equal((await ask(`/orders/${id}/pay`)).result, 'failure');
    assert.equal(lost, 0);
    return id;
  };
  await settings(simulated);
  const rehearsed = await loseOne('48.00');
  await settings(real);
  await ask(`/orders/${rehearsed}/check`);
  assert.deepEqual([await made(rehearsed, app.test), await made(rehearsed, app.live)], [1, 0], 'no real payment for a simulated one');
  await ask(`/orders/${rehearsed}/stock`);
  assert.equal((await read(rehearsed)).status, 'cancelled', 'it waits for nothing');

  const sold = await loseOne('49.00');
  await settings(simulated);
  await ask(`/orders/${sold}/check`);
  await ask(`/orders/${sold}/stock`);
  assert.deepEqual([await made(sold, app.live), await made(sold, app.test)], [1, 0], 'no simulated payment for a real one');
  assert.equal((await read(sold)).status, 'pending', 'its payment may have money, and this key cannot see it');
  await settings(real);
  await ask(`/orders/${sold}/check`);
  const [payment] = (await app.live.get(`/api/payments?invoice_id=${sold}`)).json.data;
  assert.deepEqual([await made(sold, app.live), (await read(sold)).meta._florin_payment_id], [1, payment.id]);
  await ask('/home', { home: shop.url });
  await settings();
});

test('the goods of an order on hold are put back once when its money never arrived, and taken again when it is paid', {
  skip,
}, async () => {
  await settings();
  const { id, payment } = await ordered('50.00');
  // As the plugin leaves an order while money is on its way, which the network then drops.
  const { meta } = await read(id);
  await ask(`/orders/${id}/edit`, { status: 'on-hold', meta: { ...meta, _florin_awaited: payment }, stock_taken: true, stock: [-1] });
  await advance(payment, 7200);
  await reach(id, ({ status }) => status === 'failed');
  const again = paymentIn(await pay(id))!;
  assert.deepEqual((await read(id)).stock, [-1, 1]);
  await simulate(again, 'success');
  await reach(id, ({ status }) => status === 'processing');
  assert.deepEqual((await read(id)).stock, [-1, 1, -1]);
});

test('an order number that comes a second time, in a database put back to an earlier day, gets its own payment', { skip }, async () => {
  await settings();
  const first = await ordered('47.00');
  await ask(`/orders/${first.id}/edit`, { key: 'wc_order_of_another_customer', meta: {} });
  const second = paymentIn(await pay(first.id))!;
  assert.notEqual(second, first.payment);
  const { metadata } = (await app.test.get(`/api/payment/${second}`)).json;
  assert.equal(metadata.order_key, 'wc_order_of_another_customer');
  // The money of the first customer is not taken for the second order.
  await simulate(first.payment, 'success');
  await reached(first.payment, 'completed');
  await ask(`/orders/${first.id}/check`);
  assert.equal((await read(first.id)).status, 'pending');
  // Its money belongs to no order any more, and is named.
  await eventually(
    () => ask('/notices'),
    (page) => page.includes(`Money arrived for order ${first.id}`) && page.includes(first.payment),
  );
});

test('money of orders that are missing after a backup was put back is found, and named in the shop and in Florin', { skip }, async () => {
  await settings();
  const backup = await ask('/options');
  const kept = await ordered('47.60');
  const withIt = await ask('/options');
  const lost = await ordered('47.70');
  for (const { payment } of [kept, lost]) await simulate(payment, 'success');
  for (const { id } of [kept, lost]) await reach(id, ({ status }) => status === 'processing');
  const missing = async (id: string) => (await app.test.get(`/api/payment/${id}`)).json.metadata.order_missing;
  // No webhook tells about them again. The daily check looks at what was paid lately.
  await ask('/restore', backup);
  await ask('/later');
  for (const { id, payment } of [kept, lost]) {
    assert.ok((await ask('/notices')).includes(payment));
    assert.equal(await missing(payment), `The shop does not have order ${id} any more, or has it in the trash.`);
  }
  // A later backup has one of the orders, which is open in it.
  await ask('/restore', withIt);
  await ask(`/orders/${kept.id}/check`);
  assert.equal((await read(kept.id)).status, 'processing');
  assert.equal(await missing(kept.payment), undefined);
  await ask('/later');
  assert.notEqual(await missing(lost.payment), undefined);
});

test('an order in the trash or deleted cancels its open payment, and money that has come is named until it is dismissed', {
  skip,
}, async () => {
  await settings();
  for (const verb of ['trash', 'delete']) {
    const open = await ordered('48.00');
    await ask(`/orders/${open.id}/${verb}`);
    assert.equal(await statusOf(open.payment), 'cancelled', verb);
    const paid = await ordered('48.50');
    await simulate(paid.payment, 'slow');
    await reach(paid.id, ({ status }) => status === 'on-hold');
    await ask(`/orders/${paid.id}/${verb}`);
    assert.equal(await statusOf(paid.payment), 'processing', verb);
    const page = await ask('/notices');
    assert.match(page, new RegExp(`Money arrived for order ${paid.id}, .*48\\.50 EUR, payment ${paid.payment}`), verb);
    assert.ok(!page.includes(open.payment), 'a payment without money is not named');
    const link = /href="([^"]+action=florin_payments_seen[^"]+)"/.exec(page)![1]!.replaceAll('&amp;', '&');
    assert.equal((await fetch(link.replace(/_wpnonce=\w+/, '_wpnonce=wrong'), { redirect: 'manual' })).status, 403);
    assert.equal((await fetch(link, { redirect: 'manual' })).status, 302);
    await advance(paid.payment, 3600);
    await reached(paid.payment, 'completed');
    assert.ok(!(await ask('/notices')).includes(paid.payment));
  }
});

test('money that comes after its order was deleted is named, and so is one that Florin could not be asked about', { skip }, async (t) => {
  await settings();
  const late = await ordered('49.00');
  await simulate(late.payment, 'late');
  await ask(`/orders/${late.id}/delete`);
  await advance(late.payment, 7200);
  await eventually(
    () => ask('/notices'),
    (page) => page.includes(late.payment),
  );
  const unasked = await ordered('49.50');
  let isDown = true;
  await settings({ server_url: await between(t, () => isDown), enabled: 'no' });
  await ask(`/orders/${unasked.id}/delete`);
  assert.match(await ask('/notices'), new RegExp(`was deleted, and its payment ${unasked.payment} could not be canceled`));
  isDown = false;
  await settings();
});

test('an order whose total was edited names both totals on its page and its note, and is refunded from the order', { skip }, async () => {
  await settings();
  const { id, payment } = await ordered('9.50');
  await ask(`/orders/${id}/edit`, { total: '95.00' });
  await simulate(payment, 'success');
  const held = await reach(id, (order) => hasNote(order, /another total/));
  assert.ok(hasNote(held, /9\.50 EUR were paid, and this order costs 95\.00 EUR now/), JSON.stringify(held.notes));
  for (let at = 0; at < 2; at += 1)
    assert.match(await ask(`/orders/${id}/thanks`), /You paid 9\.50 EUR, and the total of this order is 95\.00 EUR now/);
  assert.equal((await ask(`/orders/${id}/refund`, { amount: '9.5' })).refunded, true);
  assert.ok(hasNote(await read(id), /^A refund of 9\.50 EUR was requested in Florin/));
  assert.equal((await refundsOf(payment)).length, 1);
  assert.match((await ask(`/orders/${id}/refund`, { amount: '0.02' })).refused, /^A refund of 0\.02 EUR was not requested: /);
});

test('a shop that is at another address than the one it was connected at says so, and a check restores a lost endpoint', {
  skip,
}, async () => {
  await settings();
  await dropWebhooks();
  await ask('/later');
  assert.equal((await app.test.get('/v1/webhook_endpoints')).json.data.length, 1);
  await ask('/home', { home: 'https://moved.example' });
  await dropWebhooks();
  assert.match(await ask('/notices'), /connected to Florin as http:\S+ and is now https:\/\/moved\.example/);
  await ask('/later');
  assert.equal((await app.test.get('/v1/webhook_endpoints')).json.data.length, 0, 'a copy connects nothing');
  await ask('/home', { home: shop.url });
  assert.doesNotMatch(await ask('/notices'), /connected to Florin as/);
  await settings();
});

test('a shop that turns encryption on, or changes its permalinks, keeps its one endpoint and its secret', { skip }, async (t) => {
  await dropWebhooks();
  await settings();
  const endpoints = async () => (await app.test.get('/v1/webhook_endpoints')).json.data.map(({ id, url }: any) => ({ id, url }));
  const [{ id }] = await endpoints();
  await app.test.post(`/v1/webhook_endpoints/${id}`, { url: `${shop.url}/index.php/wc-api/florin/` });
  await app.test.post('/v1/webhook_endpoints', { url: `${shop.url}/copy/?wc-api=florin` });
  t.after(dropWebhooks);
  await ask('/later');
  const moved = await endpoints();
  assert.deepEqual(moved.find((one: any) => one.id === id)?.url, `${shop.url}/?wc-api=florin`);
  assert.equal(moved.length, 2, 'the endpoint of a shop in a folder is left alone');
  const secure = shop.url.replace('http:', 'https:');
  await ask('/home', { home: secure });
  await ask('/later');
  assert.deepEqual((await endpoints()).find((one: any) => one.id === id)?.url, `${secure}/?wc-api=florin`);
  await ask('/home', { home: shop.url });
  await settings();
});

test('amounts have the digits of their currency, whatever the shop is set to', { skip }, async () => {
  await settings();
  for (const [currency, total, asked] of [
    ['JPY', '1098.90', '1099'],
    ['KWD', '10.1234', '10.123'],
    ['HUF', '12990.50', '12990.50'],
    ['EUR', '10.1264', '10.13'],
  ] as const) {
    const { id } = await ask('/orders', { total, currency });
    const payment = paymentIn(await pay(id))!;
    assert.equal((await app.test.get(`/api/payment/${payment}`)).json.amount_fiat, asked);
    await simulate(payment, 'success');
    await reach(id, ({ status }) => status === 'processing');
  }
});

test('where the currency of the shop has no rate, customers do not see the method, and the settings say why', { skip }, async () => {
  await ask('/options', { woocommerce_currency: 'CUP' });
  const hidden = await settings();
  await ask('/options', { woocommerce_currency: 'JPY' });
  const shown = await settings();
  await ask('/options', { woocommerce_currency: 'EUR' });
  assert.deepEqual([hidden.available, shown.available], [false, true]);
  // A shop with several currencies: on its own page, an order is paid in its own.
  for (const [shop, order, offered] of [
    ['CUP', 'EUR', true],
    ['EUR', 'CUP', false],
  ] as const) {
    await ask('/options', { woocommerce_currency: shop });
    const { id } = await ask('/orders', { total: '10.00', currency: order });
    const { available } = await ask(`/orders/${id}/offered`);
    await ask('/options', { woocommerce_currency: 'EUR' });
    assert.equal(available, offered, `an order in ${order} of a shop in ${shop}`);
  }
  assert.match(hidden.method, /no rate for CUP/);
  const source = readFileSync(join(WOOCOMMERCE, 'includes/class-florin-amounts.php'), 'utf8');
  const listed = [...source.matchAll(/^\t\t(\d) => '([A-Z ]+)',$/gm)].flatMap(([, digits, names]) =>
    names!.split(' ').map((name) => `${name} ${digits}`),
  );
  assert.deepEqual(listed.sort(), FIATS.map((name) => `${name} ${fiatDecimals(name)}`).sort());
});

test('a signed event of unexpected types is refused without a warning of PHP', { skip }, async () => {
  await settings();
  const secrets = Object.values((await ask('/options', {})).options.florin_payments_endpoint) as string[];
  for (const data of ['text', 7, [], { id: ['a'] }, { id: 'pay_1', metadata: 'x' }, { id: 'pay_1', metadata: { order_id: ['1'] } }]) {
    const body = JSON.stringify({ id: 'evt_1', data });
    const at = String(Math.floor(Date.now() / 1000));
    const key = Buffer.from(secrets[0]!.slice('whsec_'.length), 'base64');
    const signature = createHmac('sha256', key).update(`evt_1.${at}.${body}`).digest('base64');
    const reply = await fetch(`${shop.url}/?wc-api=florin`, {
      method: 'POST',
      headers: { 'webhook-id': 'evt_1', 'webhook-timestamp': at, 'webhook-signature': `v1,${signature}` },
      body,
    });
    assert.deepEqual([reply.status, await reply.text()], [Array.isArray(data) ? 200 : 400, ''], body);
  }
});

test('money that arrives while the plugin is about to cancel its payment stops the cancel', { skip }, async (t) => {
  await settings();
  await dropWebhooks();
  const acts: Record<string, (id: number) => Promise<unknown>> = {
    stock: (id) => ask(`/orders/${id}/stock`),
    method: (id) => ask(`/orders/${id}/edit`, { method: 'bacs' }).then(() => ask(`/orders/${id}/check`)),
    total: (id) => ask(`/orders/${id}/edit`, { total: '95.00' }).then(() => pay(id)),
    delete: (id) => ask(`/orders/${id}/delete`),
  };
  let next = '';
  const url = await between(t, async (path) => {
    if (next === '' || path !== `/api/payment/${next}`) return false;
    // The plugin reads that nothing came, and then a part does.
    const payment = next;
    next = '';
    await simulate(payment, 'underpaid');
    await eventually(
      () => app.test.get(path),
      ({ json }) => Number(json.amount_received) > 0,
    );
    return false;
  });
  await settings({ server_url: url, enabled: 'no' });
  for (const [name, act] of Object.entries(acts)) {
    const { id, payment } = await ordered('85.00');
    next = payment;
    await act(id);
    assert.equal(await statusOf(payment), 'pending', name);
    const order = await read(id);
    if (name === 'delete') assert.match(await ask('/notices'), new RegExp(`Money arrived for order ${id}, .*${payment}`));
    else
      assert.ok(
        order.notes.some(({ text }) => /(did not cancel|A part of) .*payment/.test(text) && text.includes(payment)),
        name,
      );
    if (name === 'stock') assert.equal(order.status, 'on-hold');
    if (name === 'total') {
      const { replaces, status } = (await app.test.get(`/api/payment/${order.meta._florin_payment_id}`)).json;
      assert.deepEqual([replaces, status], [payment, 'pending']);
    }
  }
  await settings();
});
