/** A disk that fills up while the service runs on its embedded database. */
// Invariant: A full disk answers 503 and leaves nothing half-written.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { client, eventually, withoutRootWarning } from '../../test/kit/app.ts';
import { createLog } from '../log.ts';
import { openDb } from './db.ts';
import { startEmbedded } from './embedded.ts';

const MAIN = join(import.meta.dirname, '../main.ts');
const log = createLog('silent');

/** A separate file system, if one can be mounted. */
function mountSmall(): string | null {
  const folder = mkdtempSync('/dev/shm/florin-disk-');
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=150m,mode=755', 'tmpfs', folder]).status === 0) return folder;
  rmSync(folder, { recursive: true });
  return null;
}
const disk = mountSmall();

/** Fills a file until not one more byte fits. */
function fill(path: string): void {
  const file = openSync(path, 'w');
  for (let size = 1 << 20; size >= 1; ) {
    try {
      writeSync(file, Buffer.alloc(size));
    } catch (error) {
      assert.equal((error as { code?: string }).code, 'ENOSPC');
      size >>= 1;
    }
  }
  closeSync(file);
}

test('a full disk answers 503 and leaves nothing half-written; once there is space again everything continues', {
  skip: disk === null && 'no file system can be mounted here',
}, async (t) => {
  const folder = join(disk!, 'data');
  const service = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', MAIN, 'serve'], {
    env: {
      PATH: process.env.PATH,
      NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
      PORT: '0',
      FLORIN_DATA: folder,
      LOG_LEVEL: 'fatal',
      PRICES: 'static:BTC=97000',
      PUBLIC_URL: 'http://localhost:3000',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = { out: '', err: '' };
  service.stdout.on('data', (part) => {
    output.out += part;
  });
  service.stderr.on('data', (part) => {
    output.err += part;
  });
  const ended = once(service, 'exit');
  t.after(async () => {
    service.kill('SIGTERM');
    await ended;
    spawnSync('umount', ['--lazy', disk!]);
    rmSync(disk!, { recursive: true, force: true });
  });
  const { out } = await eventually(
    async () => output,
    ({ out, err }) => {
      assert.equal(withoutRootWarning(err), '');
      return out.includes('Public test key');
    },
    30_000,
  );
  const key = /Secret test key +(\S+)/.exec(out)![1]!;
  // PORT=0 is any free port: the listening socket shows which.
  const url = listeningUrl(service.pid!);
  const api = client(url, key);
  const create = (number: number) =>
    api.post(
      '/api/payment/create/simple',
      { amount_usd: 25, return_url: 'https://example.com/thanks', metadata: { n: String(number), fill: 'x'.repeat(400) } },
      { 'idempotency-key': `create-${number}` },
    );
  const many = async (from: number, to: number) => {
    const replies = new Map<number, Awaited<ReturnType<typeof create>>>();
    for (let at = from; at < to; at += 20) {
      await Promise.all(
        Array.from({ length: Math.min(20, to - at) }, async (_, i) => {
          replies.set(at + i, await create(at + i));
        }),
      );
    }
    return replies;
  };
  const accepted = new Map<number, string>();
  const refused = new Set<number>();
  const take = (replies: Awaited<ReturnType<typeof many>>) => {
    for (const [number, reply] of replies) {
      if (reply.status === 503) {
        assert.equal(reply.json.error.code, 'database_unavailable', reply.text);
        assert.equal(reply.json.error.type, 'service_unavailable');
        assert.ok(Number(reply.headers.get('retry-after')) > 0);
        refused.add(number);
      } else {
        assert.ok(reply.status === 200 || reply.status === 201, `${reply.status} ${reply.text}`);
        accepted.set(number, reply.json.payment_id ?? reply.json.id);
        refused.delete(number);
      }
    }
  };
  const inDatabase = async () => {
    // Beside the service, like an operator's command.
    const embedded = await startEmbedded({ dataFolder: folder, log });
    const { sql, close } = await openDb({ ...embedded.connection, max: 1, log });
    try {
      const [row] = await sql<Record<string, bigint>[]>`
          select count(*) as payments, max(sequence) as last, (select last_sequence from payment_counters) as counter,
            (select count(*) from events e join payments p on p.id = e.payment_id where e.type = 'payment.created') as events,
            (select sum(payments)::bigint from (
              select payments from payment_counts union all select payments from payment_count_deltas) as counted) as counted,
            (select count(*) from idempotency) as replies from payments`;
      const ids = (await sql<{ id: string }[]>`select id from payments`).map(({ id }) => id);
      return { ...row, ids };
    } finally {
      await close();
      await embedded.release();
    }
  };

  take(await many(0, 40));
  assert.equal(accepted.size, 40);
  const filler = join(disk!, 'filler');
  let next = 40;
  for (const crash of [false, true]) {
    fill(filler);
    if (crash) {
      // The database log needs its next file now: without space the server gives up, and restarts again and again.
      const embedded = await startEmbedded({ dataFolder: folder, log }).catch(() => null);
      if (embedded) {
        const { sql, close } = await openDb({ ...embedded.connection, max: 1, log });
        await sql`select pg_switch_wal()`.catch(() => {});
        await sql`create table filler as select repeat('x', 1000) from generate_series(1, 100)`.catch(() => {});
        await close();
        await embedded.release();
      }
    }
    const before = refused.size;
    for (let round = 0; round < 100 && refused.size < before + 40; round++) {
      take(await many(next, next + 40));
      next += 40;
    }
    assert.ok(refused.size >= before + 40, `${refused.size - before} creates were refused on a full disk`);
    assert.equal((await fetch(`${url}/healthz`)).status, 200);
    const readiness = async () => {
      const reply = await fetch(`${url}/readyz`);
      const { reasons } = (await reply.json()) as { reasons: string[] };
      return { status: reply.status, reasons };
    };
    const full = await readiness();
    assert.equal(full.status, 503);
    assert.match(full.reasons.join(), /the disk of the database is full|the database does not answer/);
    rmSync(filler);
    await eventually(readiness, ({ status }) => status === 200, 60_000);
    // Every refused create is retried with its key until it succeeds.
    await eventually(
      async () => {
        const again = new Map<number, Awaited<ReturnType<typeof create>>>();
        for (const number of [...refused].slice(0, 20)) again.set(number, await create(number));
        take(again);
        return refused.size;
      },
      (left) => left === 0,
      60_000,
    );
    const { ids, ...counts } = await inDatabase();
    const all = BigInt(next);
    assert.deepEqual(counts, { payments: all, last: all, counter: all, events: all, counted: all, replies: all });
    assert.deepEqual(new Set(ids), new Set(accepted.values()));
  }
});

function listeningUrl(pid: number): string {
  const inodes = new Set(
    spawnSync('sh', ['-c', `readlink /proc/${pid}/fd/*`], { encoding: 'utf8' })
      .stdout.split('\n')
      .map((line) => /^socket:\[(\d+)\]$/.exec(line)?.[1]),
  );
  for (const line of readFileSync('/proc/net/tcp', 'utf8').split('\n').slice(1)) {
    const [, local, , state, , , , , , inode] = line.trim().split(/\s+/);
    if (state === '0A' && inodes.has(inode)) return `http://127.0.0.1:${Number.parseInt(local!.split(':')[1]!, 16)}`;
  }
  throw new Error('the service does not listen');
}
