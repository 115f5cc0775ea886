/** The recipes of the guides, as printed: in each language they accept genuine deliveries and refuse all others. */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { webhooks } from '../../sdk/src/index.ts';
import { signDelivery } from '../../src/deliveries/deliver.ts';
import { codeBlocks } from '../kit/documents.ts';
import { isLongRun } from '../kit/long.ts';
import { addPaidBy } from '../kit/printed-receivers.ts';
import { shiftMs } from '../kit/shifted-clock.ts';

const ROOT = resolve(import.meta.dirname, '../..');
let folder: string;
/** As Florin has it when a receiver reads it. */
const paid = {
  id: 'pay_1',
  status: 'completed',
  exceptions: [] as string[],
  amount_refunded: '0',
  amount_overpaid: '0',
  metadata: { order: 'A-1001' },
};
let florin: { stop(): Promise<void> };
before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'florin-recipes-'));
  florin = await addPaidBy(folder, paid);
});
after(async () => {
  await florin.stop();
  rmSync(folder, { recursive: true, force: true });
});

const secret = webhooks.newSecret();
const id = 'evt_8sWn2LxR7vKd1Ye4fTq0ZcJb';
const body = JSON.stringify({
  id,
  type: 'payment.completed',
  created_at: new Date().toISOString(),
  data: { metadata: { name: 'Zoë 🦊' } },
});
/** `secret` null: an environment variable that is not set, as the language returns it. */
type Case = { name: string; headers: Record<string, string>; body: string; taken: boolean; secret?: string | null };
const MADE_UP = 'changeme-changeme-changeme';
/** Values that a receiver may be configured with that are not our secret. */
const NO_SECRETS: readonly (readonly [name: string, secret: string | null])[] = [
  ['an environment variable that is not set', null],
  ['an empty secret', ''],
  ['a prefix alone', 'whsec_'],
  ['a secret of 15 bytes', `whsec_${Buffer.alloc(15, 'x').toString('base64')}`],
  ['a secret without its prefix', Buffer.alloc(32, 'x').toString('base64')],
  ['a made-up text', MADE_UP],
  ['an API key', 'sk_test_0123456789abcdefghijklmnop'],
];
/** Signed by an attacker who guesses that secret, with every key that a receiver might derive from it. */
function forgedFor(guessed: string | null, timestamp: number): Record<string, string> {
  const text = guessed ?? '';
  const keys = [text.slice('whsec_'.length), text, text.replace(/^whsec_/, '')].flatMap((part) => [
    Buffer.from(part, 'base64'),
    Buffer.from(part),
  ]);
  const signatures = [...keys, Buffer.alloc(0)].map((key) =>
    createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64'),
  );
  return {
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': [...new Set(signatures)].map((s) => `v1,${s}`).join(' '),
  };
}
/** Dated at the given time, with minutes to spare: what is read late must not become too old, nor what is dated ahead current. */
function datedAt(nowMs: number): Case[] {
  const now = Math.floor(nowMs / 1000);
  const sign = (more: object = {}) => {
    const { 'X-Service-Signature': _, ...headers } = signDelivery({
      secret,
      previousSecret: null,
      id,
      timestampSeconds: now,
      body: Buffer.from(body),
      ...more,
    });
    return headers;
  };
  return [
    { name: 'a real delivery', headers: sign(), body, taken: true },
    { name: 'while the secret is changed', headers: sign({ secret: webhooks.newSecret(), previousSecret: secret }), body, taken: true },
    { name: 'two minutes old', headers: sign({ timestampSeconds: now - 120 }), body, taken: true },
    { name: 'six minutes old', headers: sign({ timestampSeconds: now - 360 }), body, taken: false },
    { name: 'dated a quarter of an hour ahead', headers: sign({ timestampSeconds: now + 900 }), body, taken: false },
    {
      name: 'an old one with a new date',
      headers: { ...sign({ timestampSeconds: now - 360 }), 'webhook-timestamp': String(now) },
      body,
      taken: false,
    },
    { name: 'another secret', headers: sign({ secret: webhooks.newSecret() }), body, taken: false },
    { name: 'a changed body', headers: sign(), body: body.replace('completed', 'cancelled'), taken: false },
    { name: 'no headers', headers: {}, body, taken: false },
    { name: 'an empty signature', headers: { ...sign(), 'webhook-signature': '' }, body, taken: false },
    { name: 'a short signature', headers: { ...sign(), 'webhook-signature': 'v1,AAAA' }, body, taken: false },
    { name: 'a timestamp in words', headers: { ...sign(), 'webhook-timestamp': 'now' }, body, taken: false },
    { name: 'another id', headers: sign({ id: 'evt_other' }), body, taken: false },
    ...NO_SECRETS.map(([name, guessed]) => ({ name, headers: forgedFor(guessed, now), body, taken: false, secret: guessed })),
  ];
}

/** For each language, the program that calls the recipe: reads cases as lines of JSON, prints `taken <name>` or `refused` for each. */
const LANGUAGES: readonly { name: string; page: string; program: string; file: string; main: string; args(file: string): string[] }[] = [
  {
    name: 'Node',
    page: 'node',
    program: process.execPath,
    file: 'recipe.mjs',
    args: (file) => [file],
    main: `import { readFileSync } from 'node:fs';
for (const line of readFileSync(0, 'utf8').trim().split('\\n')) {
  const { secret, headers, body } = JSON.parse(line);
  try {
    console.log('taken', verify(secret ?? process.env.UNSET_SECRET, headers, Buffer.from(body)).data.metadata.name);
  } catch {
    console.log('refused');
  }
}`,
  },
  {
    name: 'Python',
    page: 'python',
    program: 'python3',
    file: 'recipe.py',
    args: (file) => [file],
    main: `
import os
import sys
for line in sys.stdin.buffer:
    case = json.loads(line)
    try:
        event = verify(case["secret"] if case["secret"] is not None else os.environ.get("UNSET_SECRET"), case["headers"], case["body"].encode())
        print("taken", event["data"]["metadata"]["name"])
    except ValueError:
        print("refused")`,
  },
  {
    name: 'PHP',
    page: 'php',
    program: 'php',
    file: 'recipe.php',
    args: (file) => [file],
    main: `
while ($line = fgets(STDIN)) {
    $case = json_decode($line, true);
    try {
        echo 'taken ' . verify($case['secret'] ?? (getenv('UNSET_SECRET') ?: null), $case['headers'], $case['body'])['data']['metadata']['name'] . "\\n";
    } catch (UnexpectedValueException $e) {
        echo "refused\\n";
    }
}`,
  },
  {
    name: 'Ruby',
    page: 'ruby',
    program: 'ruby',
    file: 'recipe.rb',
    args: (file) => ['-Ku', file],
    main: `
STDIN.set_encoding('UTF-8')
STDIN.each_line do |line|
  given = JSON.parse(line)
  puts "taken #{verify(given['secret'] || ENV['UNSET_SECRET'], given['headers'], given['body'])['data']['metadata']['name']}"
rescue ArgumentError
  puts 'refused'
end`,
  },
  {
    name: 'Go',
    page: 'go',
    program: 'go',
    file: 'recipe.go',
    args: () => [],
    main: '',
  },
];
const GO_MAIN = `package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var given struct {
			Secret  *string
			Body    string
			Headers map[string]string
		}
		json.Unmarshal(lines.Bytes(), &given)
		secret := os.Getenv("UNSET_SECRET")
		if given.Secret != nil {
			secret = *given.Secret
		}
		headers := http.Header{}
		for name, value := range given.Headers {
			headers.Set(name, value)
		}
		event, err := Verify(secret, headers, []byte(given.Body), 5*time.Minute)
		if err != nil {
			fmt.Println("refused")
			continue
		}
		var data struct{ Metadata struct{ Name string } }
		json.Unmarshal(event.Data, &data)
		fmt.Println("taken", data.Metadata.Name)
	}
}
`;

for (const { name, page, program, file, main, args } of isLongRun ? LANGUAGES : LANGUAGES.slice(0, 2)) {
  test(`the ${name} recipe accepts real deliveries and refuses the rest`, async (t) => {
    if (spawnSync(program, [name === 'Go' ? 'version' : '--version']).error)
      return t.skip(`${program} is not installed; npm test installs it on Debian when run as root`);
    const [recipe, ...more] = codeBlocks(`docs/guides/recipes/${page}.md`);
    assert.equal(more.length, 0);
    const path = join(folder, file);
    writeFileSync(path, `${recipe!.text}\n${main}\n`);
    const { UNSET_SECRET: _, ...inherited } = process.env;
    const env = {
      ...inherited,
      LC_ALL: 'C.UTF-8',
      // Plain Go: no C compiler, no other modules, no newer toolchain, nothing downloaded and nothing left behind.
      GOCACHE: join(folder, 'go-cache'),
      GOPATH: join(folder, 'go'),
      GOFLAGS: '-mod=mod',
      GOTOOLCHAIN: 'local',
      GOPROXY: 'off',
      CGO_ENABLED: '0',
    };
    const execute = (command: string, given: string[], input: () => string): Promise<string> =>
      new Promise((done, failed) => {
        const child = execFile(command, given, { env }, (error, stdout, stderr) =>
          error ? failed(new Error(stderr || error.message)) : done(stdout),
        );
        child.stdin!.end(input());
      });
    let command = program;
    if (name === 'Go') {
      writeFileSync(join(folder, 'main.go'), GO_MAIN);
      command = join(folder, 'recipe');
      await execute(program, ['build', '-o', command, path, join(folder, 'main.go')], () => '');
    }
    let cases: Case[] = [];
    const out = await execute(command, args(path), () => {
      // Go programs read the machine's clock directly, which a test run at another date cannot shift.
      cases = datedAt(name === 'Go' ? Date.now() - shiftMs() : Date.now());
      return cases.map((given) => JSON.stringify({ secret, ...given })).join('\n');
    });
    assert.deepEqual(
      out
        .trim()
        .split('\n')
        .map((said, i) => `${cases[i]?.name}: ${said}`),
      cases.map((given) => `${given.name}: ${given.taken ? 'taken Zoë 🦊' : 'refused'}`),
    );
  });
}

test('the receiver for former Coinbase Commerce users accepts real deliveries, and no forgery when it has no secret', async () => {
  const [receiver] = codeBlocks('docs/guides/migrate-coinbase-commerce.md').filter(({ language }) => language === 'js');
  writeFileSync(join(folder, 'coinbase.mjs'), receiver!.text);
  const { verifySignature } = await import(pathToFileURL(join(folder, 'coinbase.mjs')).href);
  const signed = (key: string) => ({ 'x-service-signature': createHmac('sha256', key).update(body).digest('hex') });
  assert.equal(verifySignature(Buffer.from(body), signed(secret), secret).id, id);
  assert.throws(() => verifySignature(Buffer.from(body), signed(webhooks.newSecret()), secret), /does not match/);
  for (const [name, guessed] of NO_SECRETS)
    assert.throws(() => verifySignature(Buffer.from(body), signed(guessed ?? ''), guessed ?? undefined), /secret/, name);
});

test('the SDK accepts no forgery when it has no secret', async () => {
  const now = Math.floor(Date.now() / 1000);
  for (const [name, guessed] of NO_SECRETS)
    await assert.rejects(webhooks.verify(body, forgedFor(guessed, now), guessed ?? (undefined as never)), /secret/, name);
});

const EXAMPLES = codeBlocks('docs/guides/frameworks.md');
const exampleOf = (framework: string): string => EXAMPLES.find(({ tab }) => tab === framework)!.text;
/** Imports the code of a guide as a module. `florin` is the SDK; `ship` records its arguments. */
async function importExample(file: string, text: string): Promise<any> {
  for (const framework of ['fastify', 'express', 'hono']) {
    try {
      symlinkSync(join(ROOT, 'node_modules', framework), join(folder, 'node_modules', framework));
    } catch {
      // It exists from the example before.
    }
  }
  writeFileSync(join(folder, file), `const ship = async (...given) => void globalThis.shipped.push(given);\n${text}`);
  return import(pathToFileURL(join(folder, file)).href);
}
const shipped: unknown[][] = [];
Object.assign(globalThis, { shipped });

/** A paid order is shipped. A forged event is rejected and ships nothing, and neither does a genuine one whose payment was reversed or refunded since. */
async function holdsTo(post: (body: string, headers: Record<string, string>) => Promise<{ status: number; text: string }>): Promise<void> {
  process.env.SIGNING_SECRET = secret;
  const order = await webhooks.signTestEvent({ type: 'payment.completed', data: { id: 'pay_1', metadata: { order: 'A-1001' } } }, secret);
  assert.equal((await post(order.body, order.headers)).status, 200);
  assert.deepEqual(shipped.at(-1)?.[1], 'A-1001');
  const count = shipped.length;
  const forged = await post(order.body.replace('A-1001', 'A-1002'), order.headers);
  assert.equal(forged.status, 400);
  assert.match(forged.text, /does not match/);
  assert.equal(shipped.length, count);
  paid.exceptions.push('reorged');
  try {
    assert.equal((await post(order.body, order.headers)).status, 200);
    assert.equal(shipped.length, count, 'the network reversed the payment before its event arrived');
  } finally {
    paid.exceptions.pop();
  }
  paid.amount_refunded = '0.00100000';
  try {
    assert.equal((await post(order.body, order.headers)).status, 200);
    assert.equal(shipped.length, count, 'the merchant refunded it before');
  } finally {
    paid.amount_refunded = '0';
  }
}
const read = async (reply: Response) => ({ status: reply.status, text: await reply.text() });

test('the Next.js example ships paid orders, not reversed ones, and refuses a forgery', async () => {
  const { POST } = await importExample('next.mjs', exampleOf('Next.js'));
  await holdsTo(async (body, headers) => read(await POST(new Request('https://shop.example/hook', { method: 'POST', body, headers }))));
});

test('the Fastify example ships paid orders, not reversed ones, and refuses a forgery', async () => {
  const { app } = await importExample('fastify.mjs', `${exampleOf('Fastify')}\nexport { app };`);
  await holdsTo(async (payload, headers) => {
    const { statusCode, body } = await app.inject({ method: 'POST', url: '/hook', payload, headers });
    return { status: statusCode, text: body };
  });
  await app.close();
});

test('the Hono example ships paid orders, not reversed ones, and refuses a forgery', async () => {
  const { default: app } = await importExample('hono.mjs', exampleOf('Hono'));
  await holdsTo(async (body, headers) => read(await app.request('/hook', { method: 'POST', body, headers })));
});

test('the Express example ships paid orders, not reversed ones, refuses a forgery, and leaves parsed bodies to other routes', async () => {
  const { app } = await importExample(
    'express.mjs',
    `${exampleOf('Express')}\napp.post('/order', (request, response) => response.json(request.body));\nexport { app };`,
  );
  const server = await new Promise<Server>((resolve) => {
    const listening: Server = app.listen(0, '127.0.0.1', () => resolve(listening));
  });
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    await holdsTo(async (body, headers) => read(await fetch(`${url}/hook`, { method: 'POST', body, headers })));
    const other = await fetch(`${url}/order`, { method: 'POST', body: '{"item":"mug"}', headers: { 'content-type': 'application/json' } });
    assert.deepEqual(await other.json(), { item: 'mug' });
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test("the guide's own test of a receiver signs deliveries that are accepted", async () => {
  process.env.SIGNING_SECRET = secret;
  const sent: [string, { body: string; headers: Record<string, string> }][] = [];
  const text = codeBlocks('docs/guides/frameworks.md')
    .find(({ heading }) => heading === 'Test your receiver')!
    .text.replace('await fetch(', 'await globalThis.sent(');
  Object.assign(globalThis, { sent: (...given: (typeof sent)[number]) => sent.push(given) });
  await importExample('own.mjs', text);
  const [, { body: given, headers }] = sent[0]!;
  assert.equal((await webhooks.verify(given, headers, secret)).type, 'payment.completed');
});
