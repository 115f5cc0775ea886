/** The operator commands of the README, run as printed and in the printed order. In long runs, in a fresh copy of the source. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { testEnvironment } from '../kit/app.ts';
import { base58check } from '../kit/base58.ts';
import { copySource, terminalEnvironment } from '../kit/copy.ts';
import { type TestDatabase, testDatabase } from '../kit/database.ts';
import { codeBlocks } from '../kit/documents.ts';
import { isLongRun } from '../kit/long.ts';
import { account } from '../kit/shop.ts';

const folder = mkdtempSync(join(tmpdir(), 'florin-readme-'));
let database: TestDatabase;
before(async () => {
  database = await testDatabase();
  if (isLongRun) copySource(folder, { linked: true });
  else
    for (const name of ['florin', 'package.json', 'node_modules', 'src', 'sdk', 'dashboard'])
      symlinkSync(resolve(name), join(folder, name));
  const settings = { ...testEnvironment(database.url, database.folder) };
  // Read by ./florin: the only thing that tells the commands which database to use.
  writeFileSync(
    join(folder, '.env'),
    Object.entries(settings)
      .map(([name, value]) => `${name}='${value}'\n`)
      .join(''),
  );
});
after(async () => {
  await database?.drop();
  rmSync(folder, { recursive: true, force: true });
});

const { NODE_COMPILE_CACHE } = process.env;
async function run(line: string): Promise<{ code: number; out: string; err: string }> {
  // The code that is linked was compiled before.
  const env = { ...terminalEnvironment(), ...(!isLongRun && NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }) };
  const child = spawn('bash', ['--norc', '-c', line], { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
  const said = { out: '', err: '' };
  child.stdout.on('data', (part: Buffer) => {
    said.out += part;
  });
  child.stderr.on('data', (part: Buffer) => {
    said.err += part;
  });
  const [code] = (await once(child, 'close')) as [number];
  return { code, ...said };
}

test('the commands under Operate work in the printed order, for the merchant that they create', async () => {
  const [block] = codeBlocks('README.md').filter(({ heading, language }) => heading === 'Operate' && language === 'sh');
  const lines = block!.text.trim().split('\n');
  assert.ok(lines.length >= 10);
  const zpub = base58check.respell(account('BTC').publicExtendedKey, 0x04b24746);
  let merchant = '';
  const said = new Map<string, string>();
  for (const line of lines) {
    const typed = line
      .replace('mer_...', merchant)
      .replace('zpub...', zpub)
      // Where this test's settings allow webhooks to go.
      .replace('https://shop.example/hook', 'http://127.0.0.1:9/hook');
    const { code, out, err } = await run(typed);
    const name = line.split(' ').slice(1, 3).join(' ');
    // Without a Bitcoin node, the doctor reports a problem and exits with its code.
    assert.deepEqual([code, err], [name === 'doctor' ? 1 : 0, ''], `${line}\n${out}`);
    said.set(name, out);
    merchant = /^merchant_id: (mer_\w+)$/m.exec(out)?.[1] ?? merchant;
  }
  assert.equal(said.get('merchant list'), 'Nothing found.\n');
  assert.match(said.get('wallet list')!, /^coin +state .*\nBTC +active +mainnet +zpub/m);
  assert.match(said.get('key list')!, new RegExp(`^id +type .*\\n${/key_id: (\S+)/.exec(said.get('key create')!)![1]} +secret `, 'm'));
  assert.match(said.get('doctor')!, /^FIX {3}BTC/m);
  assert.ok(existsSync(join(folder, 'florin.backup')));

  // The same with --json: standard output is the JSON alone, ready for jq.
  const listed = JSON.parse((await run('./florin merchant list --json')).out);
  assert.deepEqual(
    listed.merchants.map(({ id, name, plan, members }: any) => ({ id, name, plan, members })),
    [{ id: merchant, name: 'Second shop', plan: 'professional', members: 0 }],
  );
  const { keys } = JSON.parse((await run(`./florin key list --merchant ${merchant} --mode live --type public --json`)).out);
  assert.deepEqual(
    keys.map((key: any) => [key.type, 'key' in key]),
    [['public', false]],
  );
  const { wallets } = JSON.parse((await run(`./florin wallet list --merchant ${merchant} --json`)).out);
  assert.deepEqual(
    wallets.filter(({ state }: any) => state === 'active').map(({ coin, key }: any) => [coin, key.length < zpub.length]),
    [['BTC', true]],
  );
  for (const command of ['key list --mode live', 'wallet list'])
    assert.match((await run(`./florin ${command} --merchant mer_none`)).err, /^No such merchant/, command);
});
