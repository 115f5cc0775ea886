/** The repository checks itself: direction of imports, table owners, forbidden words, generated files. */
import assert from 'node:assert/strict';
import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { test } from 'node:test';
import { STEPS } from '../dashboard/screens/home/steps.ts';
import { firstSentence, invariantsOf } from '../scripts/papers.ts';
import { CONFIG, readConfig, variableNames } from '../src/config.ts';
import { NEXT } from '../src/core/status.ts';
import { filesReached, importedFile, importsOf, loadedBy } from './kit/imports.ts';

const ROOT = join(import.meta.dirname, '..');
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');
const sources = globSync('src/**/*.ts', { cwd: ROOT }).filter((path) => !path.endsWith('.test.ts'));

/** Imports go only to the right; members of one group do not import each other, except for the listed pairs. */
const LAYERS: readonly (readonly string[])[] = [
  ['main'],
  ['cli'],
  ['app'],
  ['api'],
  ['web', 'http', 'shops'],
  ['operate'],
  ['follow', 'outgoing', 'lightning'],
  ['signing', 'books'],
  ['payments', 'queries'],
  ['settling'],
  ['readiness'],
  ['deliveries'],
  ['webhooks'],
  ['merchants'],
  ['wallets', 'keys', 'customers', 'sign-in'],
  ['people'],
  ['notices', 'transport'],
  ['context'],
  ['chain-store'],
  ['db', 'chains', 'prices'],
  ['evm'],
  ['addresses'],
  ['connections', 'log', 'loop', 'mail'],
  ['core'],
];
const PAIRS = new Set(['prices -> db', 'web -> http', 'web -> shops', 'shops -> http', 'connections -> log']);
const partOf = (path: string): string =>
  path
    .replace(/^src\//, '')
    .split('/')[0]!
    .replace(/\.ts$/, '');

export function wrongImports(path: string, text: string): string[] {
  const from = partOf(path);
  const level = (part: string) => LAYERS.findIndex((group) => group.includes(part));
  return importsOf(text).flatMap((target) => {
    const to = partOf(importedFile(path, target));
    if (to === from) return [];
    if (to === 'config')
      return ['main', 'cli', 'app', 'api'].includes(from)
        ? []
        : [`${path} imports ${target}: only what starts the service reads the configuration`];
    if (from === 'config') return to === 'core' ? [] : [`${path} imports ${target}: configuration knows the core alone`];
    if (level(to) > level(from) || PAIRS.has(`${from} -> ${to}`)) return [];
    return [`${path} imports ${target}: ${from} -> ${to} is against the direction`];
  });
}

// Invariant: Imports go one way.
test('imports go one way', () => {
  assert.deepEqual(
    sources.flatMap((path) => wrongImports(path, read(path))),
    [],
  );
  assert.equal(wrongImports('src/core/a.ts', "import { x } from '../db/db.ts';").length, 1);
  assert.equal(wrongImports('src/core/a.ts', "const { x } = await import('../db/db.ts');").length, 1);
  assert.equal(wrongImports('src/web/a.ts', "import { x } from '../http/server.ts';").length, 0);
  assert.equal(wrongImports('src/http/a.ts', "import { x } from '../web/html.ts';").length, 1);
});

/** The words that every room uses: each file of it is a chapter of its own, and has no door. */
const OPEN = 'core';
export const pastDoors = (path: string, text: string): string[] =>
  importsOf(text).flatMap((target) => {
    const to = partOf(importedFile(path, target));
    const isRight = to === partOf(path) ? !target.startsWith('#') : target === `#${to}` || (to === OPEN && target.startsWith(`#${OPEN}/`));
    return isRight ? [] : [`${path} imports ${target}`];
  });

// Invariant: A room is entered through its door.
test('a room is entered through its door, and its own files are imported by path', () => {
  assert.deepEqual(
    sources.flatMap((path) => pastDoors(path, read(path))),
    [],
  );
  assert.equal(pastDoors('src/web/a.ts', "import { x } from '../payments/payments.ts';").length, 1);
  assert.equal(pastDoors('src/web/a.ts', "import { x } from '#web';").length, 1);
  assert.deepEqual(
    pastDoors('src/web/a.ts', "import { x } from '#payments';\nimport { COIN } from '#core/coin';\nimport { y } from './b.ts';"),
    [],
  );
});

/** The names in the braces of imports and exports. */
const namesIn = (braces: string): string[] =>
  braces.split(',').flatMap(
    (part) =>
      part
        .trim()
        .replace(/^type /, '')
        .split(' as ')[0]!
        .trim() || [],
  );
/** What each file imports by name from each file, now or later: `file name`. */
function importedNames(paths: readonly string[]): Set<string> {
  const used = new Set<string>();
  for (const path of paths) {
    const text = read(path);
    for (const [, target] of text.matchAll(/\* as \w+ from '([.#][^']+)'/g))
      for (const name of exportedNames(read(importedFile(path, target!)))) used.add(`${importedFile(path, target!)} ${name}`);
    for (const [, braces, target] of text.matchAll(/(?:import|export) (?:type )?(?:\w+, )?\{([^}]*)\} from '([.#][^']+)'/g))
      for (const name of namesIn(braces!)) used.add(`${importedFile(path, target!)} ${name}`);
    for (const [, braces, target] of text.matchAll(/\{([^{}]*)\} = await import\('([.#][^']+)'\)/g))
      for (const name of namesIn(braces!)) used.add(`${importedFile(path, target!)} ${name.split(':')[0]}`);
    for (const [, target, name] of text.matchAll(/import\('([.#][^']+)'\)\)?\.(\w+)/g)) used.add(`${importedFile(path, target!)} ${name}`);
  }
  return used;
}
const isDoor = (path: string): boolean => /^src\/[\w-]+\/index\.ts$/.test(path);
/** A door that exports more names is a room that is two rooms. */
const MOST_NAMES = 40;

test('a door exports what other rooms use, and a file what other files use', () => {
  const code = globSync(['src/**/*.ts', 'test/**/*.ts', 'bench/**/*.ts', 'scripts/**/*.ts', 'signer/**/*.ts', 'sdk/**/*.ts'], {
    cwd: ROOT,
  });
  const byRooms = importedNames(sources);
  const byAll = importedNames(code.filter((path) => !path.includes('node_modules')));
  const doors = sources.filter(isDoor);
  assert.ok(doors.length > 15);
  for (const path of doors) {
    const names = [...read(path).matchAll(/^export (?:type )?\{([^}]*)\} from/gm)].flatMap(([, braces]) => namesIn(braces!));
    assert.ok(names.length <= MOST_NAMES, `${path} exports ${names.length} names, and may export ${MOST_NAMES}`);
    for (const name of names) assert.ok(byRooms.has(`${path} ${name}`), `${path} exports ${name}, which no other room uses`);
  }
  for (const path of sources.filter((one) => !isDoor(one)))
    for (const name of exportedNames(read(path)))
      assert.ok(byAll.has(`${path} ${name}`), `${path} exports ${name}, which no other file uses`);
});

const OWNERS: Readonly<Record<string, readonly string[]>> = {
  merchants: ['usage_alerts', 'merchants', 'merchant_logos', 'live_usage', 'test_clocks', 'clock_advances'],
  keys: ['keys', 'key_hours', 'requests'],
  customers: ['customers'],
  wallets: ['wallets', 'skipped_indexes', 'wallet_changes', 'wallet_waits_off', 'sweep_destinations'],
  readiness: ['payment_outages'],
  people: ['users', 'accounts', 'members', 'audit_log', 'invites'],
  'sign-in': [
    ...['sessions', 'verifications', 'second_factors', 'passkeys', 'email_changes', 'email_proofs', 'password_resets'],
    ...['known_browsers', 'trusted_devices'],
  ],
  web: ['preferences'],
  notices: ['notices', 'notice_reads', 'notice_settings', 'mail_timings', 'held_mails', 'mails'],
  payments: [
    ...['payments', 'rule_sets', 'payment_counters', 'payment_links', 'quotes', 'decisions', 'deposit_addresses', 'refund_addresses'],
    'simulations',
  ],
  settling: [
    ...['transfers', 'payment_metadata', 'payment_text_owners', 'payment_texts', 'payment_counts', 'payment_count_deltas'],
    ...['payment_quarters', 'payment_quarter_deltas', 'payment_days', 'payment_sales', 'erasures'],
  ],
  follow: [
    'chains',
    'blocks',
    'tips',
    'chain_guard',
    'followers',
    'chain_releases',
    'stray_deposits',
    'spare_addresses',
    'spent_outpoints',
    'anchors',
    'range_reads',
    'old_holdings',
    'token_contracts',
  ],
  lightning: ['lightning_backends', 'lightning_hosts', 'lightning_invoices'],
  signing: ['signing_files', 'signed_transactions', 'signing_inputs', 'moved_deposits'],
  outgoing: ['outgoing_payments', 'payout_batches', 'refund_invoices'],
  webhooks: ['events', 'endpoints', 'endpoint_notices'],
  deliveries: ['deliveries', 'attempts', 'attempt_counts', 'attempt_hours', 'recoveries'],
  transport: ['unlisted_proxies'],
  db: ['install', 'migrations', 'due_work', 'idempotency'],
  prices: ['price_history'],
  shops: ['shop_keys', 'shop_invoices', 'shop_refunds'],
  'chain-store': [
    ...['header_pages', 'known_peers', 'peer_status', 'kept_transactions', 'electrum_certificates', 'light_clients'],
    ...['balance_proofs', 'balance_gains'],
  ],
};
/** Statements over several owners' tables, with the reason. */
const SHARED: ReadonlySet<string> = new Set([
  'deliveries endpoints', // the outcome of an attempt and what follows for its endpoint are one statement
  'deliveries endpoint_notices',
  'deliveries events', // a test event is recorded with its delivery; what is 30 days old is forgotten with its deliveries
  'follow transfers', // what a chain shows is written while lockAndSettle holds the payments
  'lightning transfers', // what an invoice received is written while lockAndSettle holds the payment
  'merchants payment_days', // the days of a merchant are those of the time zone that is set
  'operate install', // the time of the last backup
  'outgoing signing_inputs', // a refund that ended frees the deposits that its signing file held
  'people merchants', // the setup link becomes its first owner; a team may require a second factor
  'payments live_usage', // the month is counted in the transaction of the create, as the payment is
  'payments payment_count_deltas',
  'payments payment_quarter_deltas',
  'payments test_clocks',
  'payments clock_advances', // an advance moves payments, deliveries and clock together
  'settling payments', // what follows from the facts of a payment is in its row
  'settling live_usage', // a payment counts in the month in which its money arrives
  'settling clock_advances', // a scenario ends the window of its test payment
  'settling due_work',
  'settling refund_addresses', // erasing customers' data covers what they left
  'settling outgoing_payments', // and refunds and payouts
  'settling refund_invoices',
  'settling signing_files', // and the signing files of both
  'settling signed_transactions',
  'settling shop_refunds',
  'signing deposit_addresses', // a rehearsal spends from addresses that test payments get for it
  'people sessions', // a member who joins or leaves a team, or works for another one, does so in every session
  'sign-in users', // the address and whether it is verified
  'sign-in accounts', // the hash of the password
  'signing outgoing_payments', // a file takes the refunds and payouts that it pays
  'webhooks deliveries', // an event is recorded with its deliveries
  'shops due_work', // the worker takes the payments that have news for shops
]);

export function foreignWrites(path: string, text: string): string[] {
  const from = partOf(path);
  return [...text.matchAll(/\b(?:insert into|delete from|update)\s+([a-z_]+)\b/g)].flatMap(([, table]) => {
    const owner = Object.keys(OWNERS).find((part) => OWNERS[part]!.includes(table!));
    return owner === undefined || owner === from || SHARED.has(`${from} ${table}`)
      ? []
      : [`${path} writes ${table}, which belongs to ${owner}`];
  });
}

// Invariant: Each table has one writer.
test('each table is written by one folder', () => {
  assert.deepEqual(
    sources.flatMap((path) => foreignWrites(path, read(path))),
    [],
  );
  assert.equal(foreignWrites('src/http/a.ts', 'insert into payments (id)').length, 1);
});

const WORDS: readonly { word: RegExp; instead: string; except: RegExp }[] = [
  // A page notices by the device's clock that the device slept.
  { word: /\bDate\.now\(/, instead: 'the clock of the context', except: /^src\/web\/checkout\/browser\.ts$/ },
  { word: /\bnew Date\(\)/, instead: 'the clock of the context', except: /^$/ },
  { word: /process\.env/, instead: 'config.ts', except: /^src\/config\.ts$/ },
  { word: /\bparseFloat\(|\.toFixed\(/, instead: 'core/money.ts', except: /^$/ },
  { word: /\.only\(/, instead: 'nothing: a left-over', except: /^$/ },
  { word: /\b(TODO|FIXME|XXX)\b/, instead: 'doing it, or saying why not', except: /^$/ },
  { word: /: any\b|\bas any\b|@ts-ignore/, instead: 'a type', except: /^$/ },
];
export const banned = (path: string, text: string): string[] =>
  WORDS.flatMap(({ word, instead, except }) =>
    word.test(text) && !except.test(path) ? [`${path} uses ${word.source}; use ${instead}`] : [],
  );

test('words with a better home', () => {
  assert.deepEqual(
    sources.flatMap((path) => banned(path, read(path))),
    [],
  );
  assert.equal(banned('src/a.ts', 'const x = Date.now();').length, 1);
});

export const crossings = (path: string, text: string): string[] =>
  importsOf(text).flatMap((target) => {
    const to = importedFile(path, target);
    return path.startsWith('dashboard/') === to.startsWith('dashboard/') ? [] : [`${path} imports ${to}`];
  });

test('the service and the dashboard share types only through generated files', () => {
  const all = [...globSync('dashboard/**/*.{ts,tsx}', { cwd: ROOT }), ...sources];
  assert.ok(all.some((path) => path.startsWith('dashboard/')));
  assert.deepEqual(
    all.flatMap((path) => crossings(path, read(path))),
    [],
  );
  assert.equal(crossings('dashboard/lib/a.ts', "import type { A } from '../../src/a.ts';").length, 1);
  assert.equal(crossings('src/a.ts', "import { a } from '../dashboard/a.ts';").length, 1);
});

test('the steps on Home open screens that exist, for the members who may open them', async () => {
  // A variable, so that the types of the service do not include those of the dashboard.
  const screensFile: string = '../dashboard/screens.ts';
  const { SCREENS } = (await import(screensFile)) as { SCREENS: readonly { path: string; action: string }[] };
  for (const { screen, action } of Object.values(STEPS))
    assert.ok(
      SCREENS.some((entry) => entry.path === screen && entry.action === action),
      `${screen} ${action}`,
    );
});

test('a service that starts loads no example and no sample payment, so that none can keep it from starting', () => {
  const loaded = filesReached(['src/main.ts', 'src/app.ts', 'src/api.ts'], loadedBy);
  assert.ok(loaded.has('src/http/routes.ts') && loaded.has('src/web/checkout/page.ts'), [...loaded].join());
  const samples = ['src/http/examples.ts', 'src/http/error-examples.ts', 'src/web/checkout/states.ts'];
  assert.deepEqual(
    samples.filter((path) => loaded.has(path) || !sources.includes(path)),
    [],
  );
  assert.deepEqual(loadedBy("import { a } from './a.ts';\nimport type { B } from './b.ts';\nawait import('./c.ts');"), ['./a.ts']);
  assert.deepEqual(loadedBy("import {\n  type A,\n  b,\n} from './a.ts';\nimport './b.ts';"), ['./a.ts', './b.ts']);
});

test('the test runner knows which files need the database server', () => {
  assert.ok(filesReached(['src/follow/follow.test.ts']).has('test/kit/database.ts'));
  assert.ok(filesReached(['test/flows/backup.test.ts']).has('test/kit/database.ts'));
  for (const file of ['src/core/settle.test.ts', 'src/transport/body.test.ts'])
    assert.ok(!filesReached([file]).has('test/kit/database.ts'), file);
});

/** Names that several folders use for the same part: what a route is, all routes, the style sheet. Never add one that readers mix up. */
const SHARED_NAMES = ['browser', 'fiat', 'health', 'id', 'index', 'route', 'routes', 'search', 'serve', 'sources'];

test('files in different folders have different names', () => {
  const names = Map.groupBy(sources, (path) => basename(path, '.ts'));
  assert.deepEqual(
    [...names].filter(([name, paths]) => paths.length > 1 && !SHARED_NAMES.includes(name)).map(([, paths]) => paths),
    [],
  );
});

test('no dead files', () => {
  const entries = new Set([
    'src/main.ts',
    'src/web/checkout/browser.ts',
    'src/web/checkout/embed.ts',
    'src/web/checkout/modal.ts',
    'src/web/docs/browser.ts',
  ]);
  const everything = [...sources, ...globSync(['test/**/*.ts', 'bench/**/*.ts', 'scripts/**/*.ts'], { cwd: ROOT })];
  const imported = new Set(everything.flatMap((path) => importsOf(read(path)).map((target) => importedFile(path, target))));
  assert.deepEqual(
    sources.filter((path) => !imported.has(path) && !entries.has(path)),
    [],
  );
});

test('links in the documents lead somewhere', () => {
  const documents = globSync(['*.md', 'docs/**/*.md', 'sdk/*.md', 'examples/*/*.md'], { cwd: ROOT });
  const broken = documents.flatMap((path) =>
    [...read(path).matchAll(/\]\((?!https?:|#|mailto:)([^)#\s]+)[^)]*\)/g)]
      .filter(([, target]) => globSync(join(dirname(path), target!), { cwd: ROOT }).length === 0)
      .map(([, target]) => `${path} -> ${target}`),
  );
  assert.deepEqual(broken, []);
});

test('the guide sections that the service links to exist', () => {
  const networks = ['bitcoin', 'litecoin', 'dash', 'dogecoin', 'ethereum'];
  // `${guide}` in the readiness report is the guide of any network.
  const links = globSync('src/**/*.ts', { cwd: ROOT }).flatMap((file) =>
    [...read(file).matchAll(/(?:guides\/([\w-]+)|\$\{guide\})#([\w-]+)/g)].flatMap(([, guide, anchor]) =>
      (guide ? [guide] : networks).map((name) => ({ file, name, anchor: anchor! })),
    ),
  );
  assert.ok(links.length >= 15, String(links.length));
  const anchors = (name: string): string[] =>
    [...read(`docs/guides/${name}.md`).matchAll(/^#+ (.*)$/gm)].map(([, title]) =>
      title!
        .toLowerCase()
        .replace(/[^\w -]/g, '')
        .replaceAll(' ', '-'),
    );
  assert.deepEqual(
    links.filter(({ name, anchor }) => !anchors(name).includes(anchor)),
    [],
  );
});

/** The transitions that a Mermaid diagram of states draws, except the first one. */
export const drawn = (text: string): string[] => [...text.matchAll(/^ +(\w+) --> (\w+):/gm)].map(([, from, to]) => `${from} ${to}`).sort();

test('the diagram in ARCHITECTURE.md draws exactly the transitions of a payment', () => {
  const [diagram] = /```mermaid\nstateDiagram[\s\S]*?```/.exec(read('ARCHITECTURE.md'))!;
  const allowed = Object.entries(NEXT).flatMap(([from, goals]) => goals.map((to) => `${from} ${to}`));
  assert.deepEqual(drawn(diagram!), allowed.sort());
  assert.deepEqual(drawn('  [*] --> a: begins\n  a --> b: because\n'), ['a b']);
});

test('until version 1.0, one migration makes the schema', () => {
  if (/^0\.|^1\.0\.0-/.test(JSON.parse(read('package.json')).version))
    assert.deepEqual(
      readdirSync(join(ROOT, 'src/db/migrations')),
      ['0001_schema.sql'],
      'change the schema in its place: nobody runs an older one',
    );
});

test('ARCHITECTURE.md is read in one go, names files that exist, and every file of src says what it is for', () => {
  const text = read('ARCHITECTURE.md');
  for (const paper of ['ARCHITECTURE.md', 'CHANGELOG.md'])
    assert.ok(
      Buffer.byteLength(read(paper)) <= 12_000,
      `${paper} is longer than 12 kB: what changes with the code belongs to its comments`,
    );
  const named = [...text.matchAll(/`((?:[\w-]+\/)+[\w-]+\.ts)`/g)].map(([, path]) => path!);
  assert.ok(named.length > 10);
  for (const path of named)
    assert.ok(
      [path, `src/${path}`].some((one) => existsSync(join(ROOT, one))),
      path,
    );
  for (const path of sources) assert.match(firstSentence(read(path)), /\w{3}/, `${path} begins with a comment`);
});

/** The names that a file exports, each once, as overloads repeat theirs. */
export const exportedNames = (text: string): string[] => [
  ...new Set([...text.matchAll(/^export (?:async )?(?:const|function|class|type) (\w+)/gm)].map(([, name]) => name!)),
];

test('a name is exported by one file', () => {
  const files = new Map<string, string[]>();
  for (const path of sources) for (const name of exportedNames(read(path))) files.set(name, [...(files.get(name) ?? []), path]);
  assert.deepEqual(
    [...files].filter(([, paths]) => paths.length > 1),
    [],
  );
  assert.deepEqual(exportedNames('export type A = 1;\nexport function b(): 1;\nexport function b(): 1 {}\nconst c = 1;\n'), ['A', 'b']);
});

test('an invariant is found above its test, or above the whole file', () => {
  const file =
    "/** A file. */\n// Invariant: All is well.\nimport a from 'a.ts';\n\n// Invariant: One is one.\ntest('one is one, always', () => {});\n";
  assert.deepEqual(invariantsOf(file), [
    { says: 'All is well', test: null },
    { says: 'One is one', test: 'one is one, always' },
  ]);
});

const SETTINGS: ReadonlySet<string> = new Set(CONFIG.flatMap(variableNames));

// Invariant: Every setting is documented.
test('every setting is in the example and in the reference, and no other one is read', () => {
  const example = read('.env.example');
  const reference = read('docs/reference/config.md');
  const asked = new Set<string>();
  readConfig(new Proxy({}, { get: (_, name) => void asked.add(String(name)) }));
  for (const key of CONFIG) {
    assert.ok(reference.includes(`| \`${key.name}\` |`), `${key.name} is missing in docs/reference/config.md`);
    for (const name of variableNames(key)) {
      assert.match(example, new RegExp(`^#${name}=`, 'm'), `${name} is missing in .env.example`);
      assert.ok(asked.has(name) || key.description.includes('Reserved:'), `${name} is documented but nothing reads it`);
    }
  }
  assert.deepEqual(
    [...asked].filter((name) => !SETTINGS.has(name)),
    [],
  );
});

/** Files that a Dockerfile copies from the build context. */
export const copied = (dockerfile: string): string[] =>
  [...dockerfile.matchAll(/^(?:COPY|ADD)\s+(.+)$/gm)]
    .map(([, words]) => words!.split(/\s+/))
    .filter((words) => !words.some((word) => word.startsWith('--from=')))
    .flatMap((words) => words.filter((word) => !word.startsWith('--')).slice(0, -1));

test('the container image is made of files that exist and are sent to the build', () => {
  const ignored = new Set(read('.dockerignore').split('\n').filter(Boolean));
  const files = copied(read('Dockerfile'));
  assert.ok(files.includes('src'));
  for (const file of files) {
    assert.ok(existsSync(join(ROOT, file)), `Dockerfile copies ${file}, which does not exist`);
    assert.ok(!ignored.has(file.split('/')[0]!), `.dockerignore keeps ${file} out of the build`);
  }
  assert.deepEqual(copied('FROM a\nCOPY --chown=b c d ./\nCOPY --from=a /e /f\n'), ['c', 'd']);
});

/** Variables that container files set, except for those of the system and of the database image. */
export const variablesSet = (text: string): string[] =>
  [...text.matchAll(/^\s+([A-Z][A-Z0-9_]*):/gm), ...text.matchAll(/^(?:ENV)?\s+([A-Z][A-Z0-9_]*)=/gm)]
    .map(([, name]) => name!)
    .filter((name) => name !== 'PATH' && !name.startsWith('POSTGRES_'));

test('container files set variables that the configuration knows, and compose.yaml each of them', () => {
  for (const path of ['compose.yaml', 'Dockerfile']) {
    const names = variablesSet(read(path));
    assert.ok(names.includes('HOST'), `${path} does not set HOST`);
    assert.deepEqual(
      names.filter((name) => !SETTINGS.has(name)),
      [],
      path,
    );
  }
  const passed = new Set(variablesSet(read('compose.yaml')));
  // Caddy has the certificate, and the container its own folder and one address. The database is a container, and Compose has secrets.
  for (const name of ['PAYMENT_PAGE_URL', 'TLS_CERT', 'TLS_KEY', 'FLORIN_DATA', 'POSTGRES_BIN', 'SETUP_TOKEN_FILE']) passed.add(name);
  assert.deepEqual(
    [...SETTINGS].filter((name) => !passed.has(name)),
    [],
    'compose.yaml passes no value on for these settings',
  );
  assert.deepEqual(variablesSet('environment:\n  PORT: 1\n  POSTGRES_DB: a\nENV A=1 \\\n  B=2\n'), ['PORT', 'A', 'B']);
});

test('the security policy names a private channel for reports, and says who may show the payment page in a frame', () => {
  const policy = read('SECURITY.md');
  const part = (name: string): string => policy.split(/^## |^\*\*(?=[A-Z])/m).find((text) => text.startsWith(name)) ?? '';
  assert.match(part('Reporting'), /Security\*\* tab.*Report a vulnerability/s);
  assert.doesNotMatch(policy, /\w@\w|commit log/, 'no address that nobody reads');
  assert.match(part('The hosted page'), /except those that the merchant allows/);
  assert.doesNotMatch(part('The hosted page'), /it cannot be framed/);
});

/** docs/decisions/house.md says what is aimed at. What grows past these has to say there why it is worth it. */
const MOST = { lines: 115_500, files: 403, 'files used by one other': 80 };
test('the house does not grow', (t) => {
  const product = globSync(['src/**/*.ts', 'dashboard/**/*.{ts,tsx}', 'signer/**/*.ts', 'sdk/**/*.ts'], { cwd: ROOT }).filter(
    (path) => !/\.(?:test|d)\.ts$|^dashboard\/generated\/|\/node_modules\/|^sdk\/(?:dist|src\/types\.ts$)/.test(path),
  );
  const lines = product.map((path) => ({ path, lines: read(path).split('\n').length - 1 })).sort((a, b) => b.lines - a.lines);
  const files = sources.filter((path) => !isDoor(path));
  const users = new Map<string, Set<string>>(files.map((path) => [path, new Set()]));
  for (const path of sources) for (const target of importsOf(read(path))) users.get(importedFile(path, target))?.add(path);
  const sizes = {
    lines: lines.reduce((sum, one) => sum + one.lines, 0),
    files: files.length,
    'files used by one other': [...users.values()].filter((by) => by.size === 1 && ![...by].some(isDoor)).length,
  };
  const largest = lines.slice(0, 5).map((one) => `${one.path} ${one.lines}`);
  t.diagnostic(`${JSON.stringify(sizes)}, largest: ${largest.join(', ')}`);
  for (const [name, size] of Object.entries(sizes)) assert.ok(size <= MOST[name as keyof typeof MOST], `${size} ${name}`);
});

/** Requests of a browser without a limit: a connection that died in silence would hold them forever. */
const unlimited = (text: string): string[] =>
  [...text.matchAll(/\bfetch\(/g)].flatMap(({ index }) => {
    const call = text.slice(index, text.indexOf(';', index));
    return call.includes('signal') ? [] : [call];
  });
test('every request of a page has a time limit', () => {
  const pages = [
    ...globSync('dashboard/**/*.{ts,tsx}', { cwd: ROOT }).filter((path) => !path.startsWith('dashboard/generated/')),
    ...['checkout/browser', 'checkout/embed', 'checkout/modal', 'docs/browser'].map((name) => `src/web/${name}.ts`),
  ];
  for (const path of pages) assert.deepEqual(unlimited(readFileSync(join(ROOT, path), 'utf8')), [], path);
  assert.deepEqual(unlimited("await fetch('/a');\nfetch('/b', { signal });"), ["fetch('/a')"]);
});
