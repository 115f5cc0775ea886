/** The package as developers get it: packed, installed into an empty folder, and used from every kind of module, compiler and page. */
// Invariant: The package installs and runs as every kind of module, in Node 20 and 24, and in a page.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import {
  createReadStream,
  existsSync,
  globSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { createContext, runInContext } from 'node:vm';
import { build } from 'vite';
import { createApiKey } from '../../src/keys/keys.ts';
import { startTestApp, type TestApp } from '../kit/app.ts';
import { openTab, startBrowser } from '../kit/browser.ts';
import { copySource } from '../kit/copy.ts';
import { serve } from '../kit/serve.ts';

const run = promisify(execFile);
const ROOT = resolve(import.meta.dirname, '../..');
let app: TestApp;
let home: string;
let packed: string[];
/** The versions of Node on this machine, by their major number. */
const nodes = new Map<number, string>();

before(async () => {
  app = await startTestApp();
  home = mkdtempSync(join(tmpdir(), 'florin-package-'));
  copySource(join(home, 'source'), { linked: true });
  const npm = (args: string[], cwd: string) => run('npm', args, { cwd, env: { ...process.env, npm_config_cache: join(home, '.npm') } });
  const { stdout } = await npm(['pack', '--json', '--pack-destination', home], join(home, 'source/sdk'));
  const answer = JSON.parse(stdout.slice(stdout.search(/^[[{]/m)));
  const [{ filename, files }] = Array.isArray(answer) ? answer : Object.values(answer);
  packed = files.map((file: { path: string }) => file.path);
  writeFileSync(join(home, 'package.json'), '{"private":true}');
  await npm(['install', '--offline', '--ignore-scripts', '--no-audit', '--no-fund', `./${filename}`], home);
  for (const path of [process.execPath, '/usr/bin/node', '/usr/local/bin/node']) {
    if (!existsSync(path)) continue;
    const { stdout: version } = await run(path, ['--version']);
    nodes.set(Number(/^v(\d+)/.exec(version)![1]), path);
  }
});
after(async () => {
  await app?.stop();
  rmSync(home, { recursive: true, force: true });
});

test('the package contains only what is built, and has no dependencies', () => {
  const others = packed.filter((path) => !/^dist\/(esm|cjs)\/.*\.(js|d\.ts)$/.test(path));
  assert.deepEqual(others.sort(), ['LICENSE', 'README.md', 'dist/cjs/package.json', 'package.json']);
  const manifest = JSON.parse(readFileSync(join(home, 'node_modules/florin/package.json'), 'utf8'));
  for (const field of ['dependencies', 'peerDependencies', 'optionalDependencies']) assert.equal(manifest[field], undefined);
  assert.equal(existsSync(join(home, 'node_modules/florin/dist/esm/cli.js')), true);
});

test('each install serves its own client: npm installs it from there, it is identical to the packed one, and its command runs', async (t) => {
  const shop = mkdtempSync(join(tmpdir(), 'florin-handed-out-'));
  t.after(() => rmSync(shop, { recursive: true, force: true }));
  writeFileSync(join(shop, 'package.json'), '{"private":true}');
  // A registry that does not answer: nothing is requested from it. npm would ask it again for a minute.
  const env = {
    ...process.env,
    ...{ npm_config_cache: join(shop, '.npm'), npm_config_registry: 'http://127.0.0.1:9/', npm_config_fetch_retries: '0' },
  };
  const npm = (...args: string[]) => run('npm', args, { cwd: shop, env });
  await assert.rejects(npm('exec', '--no', '--', 'florin', '--help'), 'what is not installed is not fetched from elsewhere');
  await npm('install', '--no-audit', '--no-fund', `${app.url}/florin.tgz`);
  const filesIn = (folder: string) => readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort();
  assert.deepEqual(filesIn(join(shop, 'node_modules/florin')), filesIn(join(home, 'node_modules/florin')));
  const { stdout } = await npm('exec', '--no', '--', 'florin', '--help');
  assert.match(stdout, /Florin: create and test payments/);
  // The same bytes each time, so that a lock file stays valid.
  const bytes = async () => Buffer.from(await (await fetch(`${app.url}/florin.tgz`)).arrayBuffer());
  assert.ok((await bytes()).equals(await bytes()));
  const head = await fetch(`${app.url}/florin.tgz`, { method: 'HEAD' });
  assert.deepEqual(
    [head.status, head.headers.get('content-type'), Number(head.headers.get('content-length')), (await head.arrayBuffer()).byteLength],
    [200, 'application/gzip', (await bytes()).length, 0],
  );
});

test('no document prints a command that downloads the client under a name that is not ours', () => {
  const documents = [
    'README.md',
    'CONTRIBUTING.md',
    'sdk/README.md',
    'examples/shop/README.md',
    ...globSync('docs/**/*.md', { cwd: ROOT }),
  ];
  for (const document of documents)
    assert.doesNotMatch(
      readFileSync(join(ROOT, document), 'utf8'),
      /npx (-\S+ )*florin|npm (install|i|exec) florin\b|npm exec -- florin/,
      document,
    );
});

/** What a shop does, with either kind of module. */
const STORY = `
  const { body, headers } = await webhooks.signTestEvent({ type: 'payment.completed', data: { id: 'pay_1' } }, webhooks.newSecret(new Uint8Array(32)));
  const event = await verify(body, headers, webhooks.newSecret(new Uint8Array(32)));
  const florin = createClient({ url: process.env.URL, key: process.env.KEY });
  const { id } = await florin.payments.createSimple({ amount_usd: 25, return_url: 'https://shop.example/' });
  await florin.test.simulate(id, { scenario: 'success' });
  const done = await florin.payments.waitFor(id, { timeoutMs: 20000, intervalMs: 100 });
  const rows = [];
  for await (const row of florin.payments.list({ limit: 1 })) rows.push(row.id);
  const refused = await florin.payments.retrieve('pay_000000000000000000000000').catch((error) => error);
  console.log(JSON.stringify([event.type, done.status, rows.includes(id), refused instanceof NotFoundError, refused.code]));
`;
const NAMES = '{ createClient, NotFoundError, webhooks }';
const MODULES: Readonly<Record<string, string>> = {
  'shop.mjs': `import ${NAMES} from 'florin';\nimport { verify } from 'florin/webhooks';\n${STORY}`,
  'shop.cjs': `const ${NAMES} = require('florin');\nconst { verify } = require('florin/webhooks');\n(async () => {${STORY}})();`,
};

for (const major of [20, 24]) {
  for (const [file, text] of Object.entries(MODULES)) {
    test(`${file.endsWith('.mjs') ? 'an ECMAScript module' : 'a CommonJS module'} accepts a payment in Node ${major}`, async (t) => {
      const node = nodes.get(major);
      if (!node) return t.skip(`there is no Node ${major} on this machine`);
      writeFileSync(join(home, file), text);
      const { stdout, stderr } = await run(node, [join(home, file)], {
        cwd: home,
        env: { PATH: process.env.PATH, URL: app.url, KEY: app.merchant.keys.testSecret },
      });
      assert.deepEqual(JSON.parse(stdout), ['payment.completed', 'completed', true, true, 'payment_not_found']);
      assert.equal(stderr, '');
    });
  }
}

/** The web platform as edge runtimes share it: no process, no Buffer, no Node modules. */
const WEB = [
  ...['AbortController', 'AbortSignal', 'Headers', 'TextDecoder', 'TextEncoder', 'URL', 'URLSearchParams', 'Uint8Array', 'ArrayBuffer'],
  ...['atob', 'btoa', 'clearTimeout', 'crypto', 'fetch', 'performance', 'setTimeout'],
] as const;

test('the web platform is enough to create a payment and verify its webhook', async () => {
  const folder = join(home, 'node_modules/florin/dist/cjs');
  const context = createContext(Object.fromEntries(WEB.map((name) => [name, globalThis[name]])));
  const loaded = new Map<string, object>();
  const load = (name: string): object => {
    assert.match(name, /^\.\/[\w-]+\.js$/, 'a module of the package');
    const known = loaded.get(name);
    if (known) return known;
    const exports = {};
    loaded.set(name, exports);
    runInContext(`(function (exports, require) {${readFileSync(join(folder, name), 'utf8')}\n})`, context)(exports, load);
    return exports;
  };
  const { createClient, webhooks } = load('./index.js') as typeof import('../../sdk/src/index.ts');
  const florin = createClient({ url: app.url, key: app.merchant.keys.testSecret });
  const { id } = await florin.payments.createSimple({ amount_usd: 25, return_url: 'https://shop.example/' });
  await florin.test.simulate(id, { scenario: 'success' });
  assert.equal((await florin.payments.waitFor(id, { timeoutMs: 20_000, intervalMs: 100 })).status, 'completed');
  const secret = webhooks.newSecret();
  const { body, headers } = await webhooks.signTestEvent({ type: 'payment.completed', data: { id } }, secret);
  assert.equal((await webhooks.verify(body, headers, secret)).type, 'payment.completed');
  await assert.rejects(webhooks.verify(`${body} `, headers, secret), { reason: 'signature_mismatch' });
});

test('the command line installs and runs in every available Node version', async () => {
  for (const node of nodes.values()) {
    const { stdout } = await run(node, [realpathSync(join(home, 'node_modules/.bin/florin')), '--version']);
    assert.equal(stdout.trim(), JSON.parse(readFileSync(join(ROOT, 'sdk/package.json'), 'utf8')).version);
  }
  const { stdout } = await run(join(home, 'node_modules/.bin/florin'), ['payments', 'list', '--json'], {
    env: { PATH: process.env.PATH, FLORIN_URL: app.url, FLORIN_API_KEY: app.merchant.keys.testSecret },
  });
  assert.equal(JSON.parse(stdout).success, true);
});

const CONSUMER = (imports: string) => `${imports}
const florin: Client = createClient({ url: 'https://pay.example', key: 'sk_test_aaaaaaaa' });
export async function take(request: Request): Promise<string | null> {
  const event = await webhooks.verify(await request.text(), request.headers, 'whsec_');
  switch (event.type) {
    case 'payment.completed': {
      const status: PaymentStatus = event.data.status;
      const amount: string | null = event.data.amount;
      return amount === null ? status : event.data.metadata.order ?? null;
    }
    case 'webhook.test':
      return event.data.endpoint_id;
    default: {
      const rest: Exclude<PaymentEvent['type'], 'payment.completed'> = event.type;
      return rest;
    }
  }
}
export async function pages(): Promise<number> {
  let count = 0;
  for await (const row of florin.payments.list({ status: 'completed', currency: 'BTC' })) if (row.exception === 'overpaid') count++;
  const page = await florin.payments.list();
  return count + page.total_count;
}
// @ts-expect-error a status that does not exist
florin.payments.list({ status: 'paid' });
// @ts-expect-error an amount is needed
florin.payments.createSimple({ return_url: 'https://shop.example/' });
// @ts-expect-error an amount needs its currency
florin.payments.createSimple({ return_url: 'https://shop.example/', amount: '20.00' });
florin.payments.createSimple({ return_url: 'https://shop.example/', amount: '20.00', currency_fiat: 'EUR' });
// @ts-expect-error a coin that does not exist
florin.crypto.fees('XMR');
export const isOurs = (error: unknown): string | null => (error instanceof ApiError && error.code === 'amount_invalid' ? error.param : null);
`;
const VALUES = 'ApiError, createClient, webhooks';
const TYPES = 'Client, PaymentEvent, PaymentStatus';

test('a strict compiler accepts the types in both kinds of module, and in a bundler, checking the declarations too', async () => {
  writeFileSync(join(home, 'consumer.mts'), CONSUMER(`import { ${VALUES}, type ${TYPES.replaceAll(', ', ', type ')} } from 'florin';`));
  writeFileSync(
    join(home, 'consumer.cts'),
    CONSUMER(`import florin_ = require('florin');\nimport type { ${TYPES} } from 'florin';\nconst { ${VALUES} } = florin_;`).replaceAll(
      'instanceof ApiError',
      'instanceof florin_.ApiError',
    ),
  );
  const base = [
    '--noEmit',
    '--strict',
    '--exactOptionalPropertyTypes',
    '--noUncheckedIndexedAccess',
    '--target',
    'es2022',
    '--lib',
    'es2022,dom,dom.iterable',
    '--types',
    '',
  ];
  const compile = (args: string[]) =>
    run(join(ROOT, 'node_modules/.bin/tsc'), [...base, ...args], { cwd: home }).catch((error) => assert.fail(error.stdout));
  await compile(['--module', 'nodenext', 'consumer.mts', 'consumer.cts']);
  await compile(['--module', 'esnext', '--moduleResolution', 'bundler', 'consumer.mts']);
});

/** The package as a shop's bundler combines it into one file for a page. */
async function bundle(): Promise<string> {
  writeFileSync(join(home, 'page.js'), "export { createClient } from 'florin';\n");
  const made = await build({
    root: home,
    configFile: false,
    logLevel: 'silent',
    build: { write: false, lib: { entry: 'page.js', formats: ['es'], fileName: 'bundle' } },
  });
  const [first] = Array.isArray(made) ? made : [made];
  assert.ok(first && 'output' in first);
  const [file, ...more] = first.output;
  assert.equal(more.length, 0);
  return file.code;
}

test('a page of another origin creates a payment with a public key but cannot use a secret one; from modules and from a bundle', async (t) => {
  const code = await bundle();
  assert.ok(!/from\s*["']|import\(|node:/.test(code), 'nothing else is loaded');
  t.diagnostic(`the bundle has ${code.length} bytes`);
  const { url: origin, stop } = await serve((request, reply) => {
    if (request.url === '/bundle.js') return void reply.writeHead(200, { 'content-type': 'text/javascript' }).end(code);
    const path = join(home, 'node_modules/florin', request.url!);
    if (request.url!.startsWith('/dist/') && existsSync(path)) {
      reply.writeHead(200, { 'content-type': 'text/javascript' });
      createReadStream(path).pipe(reply);
      return;
    }
    reply
      .writeHead(200, { 'content-type': 'text/html' })
      .end('<!doctype html><link rel="icon" href="data:,"><script type="importmap">{"imports":{"florin":"/dist/esm/index.js"}}</script>');
  });
  const { key } = await createApiKey(app.app.ctx, { merchantId: app.merchant.merchantId, mode: 'test', kind: 'public', origins: [origin] });
  const browser = await startBrowser();
  try {
    const { page, faults, close } = await openTab(browser, origin);
    const use = async (from: string) =>
      page.evaluate(
        async ({ url, key, secret, origin, from }) => {
          const { createClient } = await import(from);
          const ids: (string | null)[] = [];
          const florin = createClient({ url, key, onResponse: ({ requestId }: { requestId: string | null }) => ids.push(requestId) });
          const made = await florin.payments.createSimple({ amount_usd: '25.00', return_url: `${origin}/thanks` });
          const elsewhere = await florin.payments
            .createSimple({ amount_usd: 1, return_url: 'https://elsewhere.example/' }, { maxRetries: 0 })
            .catch((error: any) => [error.name, error.code, error.requestId]);
          let refused = '';
          try {
            createClient({ url, key: secret });
          } catch (error) {
            refused = String(error);
          }
          return { made, elsewhere, refused, ids };
        },
        { url: app.url, key, secret: app.merchant.keys.testSecret, origin, from },
      );
    for (const from of ['florin', '/bundle.js']) {
      const seen = await use(from);
      assert.equal((await app.test.get(`/api/payment/${seen.made.id}`)).json.created_with, 'public');
      assert.deepEqual(seen.elsewhere.slice(0, 2), ['InvalidRequestError', 'url_invalid']);
      assert.match(seen.elsewhere[2], /^req_/);
      for (const id of seen.ids) assert.match(String(id), /^req_/, 'the header is exposed to the page');
      assert.match(seen.refused, /read by everyone who opens it/);
    }
    assert.deepEqual(
      faults.filter((fault) => !/400/.test(fault)),
      [],
    );
    await close();
  } finally {
    await browser.close();
    await stop();
  }
});
