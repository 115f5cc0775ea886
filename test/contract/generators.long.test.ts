/**
 * The API document in other tools: two linters find nothing, and clients from two generators compile and create a test payment. The tools
 * are installed separately from the project, as `test/generators/package-lock.json` pins them.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'vite';
import { startTestApp, type TestApp } from '../kit/app.ts';

const run = promisify(execFile);
const PINNED = resolve(import.meta.dirname, '../generators');
const HOME = resolve('.cache/generators');
const OUT = join(HOME, 'out');
const DOCUMENT = join(OUT, 'openapi.json');
let app: TestApp;

before(async () => {
  const lock = join(HOME, 'package-lock.json');
  if (!existsSync(join(HOME, 'node_modules')) || readFileSync(lock, 'utf8') !== readFileSync(join(PINNED, 'package-lock.json'), 'utf8')) {
    mkdirSync(HOME, { recursive: true });
    rmSync(join(HOME, 'node_modules'), { recursive: true, force: true });
    for (const file of ['package.json', 'package-lock.json']) cpSync(join(PINNED, file), join(HOME, file));
    await run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: HOME });
  }
  rmSync(OUT, { recursive: true, force: true });
  mkdirSync(OUT, { recursive: true });
  app = await startTestApp();
  writeFileSync(DOCUMENT, (await app.anonymous.get('/openapi.json')).text);
});
after(() => app?.stop());

const tool = (path: string, ...args: string[]) => run(process.execPath, [join(HOME, 'node_modules', path), ...args], { cwd: HOME });

test('Redocly finds no error and no warning', async () => {
  writeFileSync(
    join(OUT, 'redocly.yaml'),
    // An install on this machine is on localhost. Webhook receivers use WebhookEvent, which no operation refers to.
    'extends: [recommended]\nrules:\n  no-server-example.com: off\n  no-unused-components: off\n',
  );
  const lint = async (document: string): Promise<{ ruleId: string; message: string }[]> => {
    const args = ['lint', document, '--format=json', `--config=${join(OUT, 'redocly.yaml')}`];
    const { stdout } = await tool('@redocly/cli/bin/cli.js', ...args).catch((error: { stdout: string }) => error);
    return JSON.parse(stdout.slice(stdout.indexOf('{'))).problems;
  };
  assert.deepEqual(await lint(DOCUMENT), []);
  const wrong = JSON.parse(readFileSync(DOCUMENT, 'utf8'));
  wrong.paths['/payments'].post.requestBody.content['application/json'].schema.$ref = '#/components/schemas/Lost';
  writeFileSync(join(OUT, 'wrong.json'), JSON.stringify(wrong));
  assert.ok((await lint(join(OUT, 'wrong.json'))).length > 0, 'a document with a dead reference is found');
});

test('swagger-parser validates the document', async () => {
  const { default: SwaggerParser } = await import(pathToFileURL(join(HOME, 'node_modules/@apidevtools/swagger-parser/lib/index.js')).href);
  const { openapi } = await SwaggerParser.validate(DOCUMENT);
  assert.equal(openapi, '3.1.0');
});

/** What a shop writes with the client of each generator. The compiler refuses a wrong scenario, and narrows events by their type. */
const SHOPS: Readonly<Record<string, string>> = {
  'openapi-typescript': `
    import createClient from 'openapi-fetch';
    import type { components, paths } from './openapi-typescript.ts';
    type WebhookEvent = components['schemas']['WebhookEvent'];
    export const about = (event: WebhookEvent): string => {
      if (event.type === 'webhook.test') return event.data.endpoint_id;
      if (event.type === 'payment.completed') { const status: 'completed' = event.data.status; return status; }
      return event.type === 'payment.failed' ? event.data.payment_url : event.data.id;
    };
    export async function shop(url: string, key: string): Promise<components['schemas']['Payment']> {
      const { GET, POST } = createClient<paths>({ baseUrl: url, headers: { authorization: \`Bearer \${key}\` } });
      const made = await POST('/api/payment/create/simple', { body: { amount_usd: '25.50', return_url: 'https://shop.example/' } });
      const path = { id: made.data!.id };
      await POST('/v1/test/payments/{id}/simulate', { params: { path }, body: { scenario: 'success', currency: 'LTC' } });
      // @ts-expect-error no such scenario
      void (() => POST('/v1/test/payments/{id}/simulate', { params: { path }, body: { scenario: 'lost' } }));
      // @ts-expect-error the body is required
      void (() => POST('/api/payment/create/simple', {}));
      for (;;) {
        const { data } = await GET('/api/payment/{payment_id}', { params: { path: { payment_id: path.id } } });
        if (data!.status === 'completed') return data!;
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }`,
  'hey-api': `
    import { createClient } from './hey-api/client/index.ts';
    import { createSimple, readPayment, simulate } from './hey-api/sdk.gen.ts';
    import type { Payment, WebhookEvent } from './hey-api/types.gen.ts';
    export const about = (event: WebhookEvent): string => {
      if (event.type === 'webhook.test') return event.data.endpoint_id;
      if (event.type === 'payment.completed') { const status: 'completed' = event.data.status; return status; }
      return event.type === 'payment.failed' ? event.data.payment_url : event.data.id;
    };
    export async function shop(url: string, key: string): Promise<Payment> {
      const client = createClient({ baseUrl: url, auth: key, throwOnError: true });
      const made = await createSimple({ client, throwOnError: true, body: { amount_usd: '25.50', return_url: 'https://shop.example/' } });
      const path = { id: made.data.id };
      await simulate({ client, throwOnError: true, path, body: { scenario: 'success', currency: 'LTC' } });
      // @ts-expect-error no such scenario
      void (() => simulate({ client, path, body: { scenario: 'lost' } }));
      // @ts-expect-error the body is required
      void (() => createSimple({ client }));
      for (;;) {
        const { data } = await readPayment({ client, throwOnError: true, path: { payment_id: path.id } });
        if (data.status === 'completed') return data;
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }`,
};
const GENERATE: Readonly<Record<string, () => Promise<unknown>>> = {
  'openapi-typescript': () => tool('openapi-typescript/bin/cli.js', DOCUMENT, '-o', join(OUT, 'openapi-typescript.ts')),
  'hey-api': () => tool('@hey-api/openapi-ts/bin/run.js', '-i', DOCUMENT, '-o', join(OUT, 'hey-api')),
};

for (const [name, shop] of Object.entries(SHOPS)) {
  test(`a client generated by ${name} compiles and creates a test payment`, async () => {
    await GENERATE[name]!();
    const file = join(OUT, `${name}-shop.ts`);
    writeFileSync(file, shop);
    const flags = [
      '--ignoreConfig',
      '--noEmit',
      '--strict',
      '--skipLibCheck',
      '--allowImportingTsExtensions',
      '--target',
      'es2022',
      '--lib',
      'es2023,dom,dom.iterable',
    ];
    await run('tsc', [...flags, '--module', 'esnext', '--moduleResolution', 'bundler', '--types', '', file], { cwd: OUT }).catch(
      ({ stdout }: { stdout: string }) => assert.fail(stdout.slice(0, 2_000)),
    );
    await build({
      configFile: false,
      logLevel: 'silent',
      root: OUT,
      ssr: { noExternal: true },
      build: { ssr: file, outDir: join(OUT, 'built', name), minify: false },
    });
    const built = await import(pathToFileURL(join(OUT, 'built', name, `${name}-shop.mjs`)).href);
    const payment = await built.shop(app.url, app.merchant.keys.testSecret);
    assert.deepEqual([payment.status, payment.currency, payment.amount_usd], ['completed', 'LTC', '25.50']);
  });
}
