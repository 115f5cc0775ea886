/**
 * Load and ratios: two servers on one database in the same run, alternating, medians compared. Figures are ratios, so that the machine's
 * speed cancels out.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Sql } from '../src/db/db.ts';

export type Load = {
  url: string;
  method?: 'GET' | 'POST';
  headers?: Record<string, string>;
  body?: string;
  connections?: number;
  seconds?: number;
  paths?: string[];
};
export type Figures = { perSecond: number; p50: number; p99: number; errors: number; non2xx: number };

/** As a Lua string, whatever is in it. */
const lua = (text: string): string => `"${[...Buffer.from(text)].map((byte) => `\\${String(byte).padStart(3, '0')}`).join('')}"`;

/**
 * Runs one load and reads its figures. Errors and refusals are reported, never hidden. The load comes from wrk, which needs a tenth of a
 * server's processor time: a heavier client on the same two cores would hide the difference.
 */
export async function measure(load: Load): Promise<Figures> {
  const folder = mkdtempSync(join(tmpdir(), 'florin-load-'));
  const script = join(folder, 'load.lua');
  writeFileSync(
    script,
    `wrk.method = ${lua(load.method ?? 'GET')}
${load.body === undefined ? '' : `wrk.body = ${lua(load.body)}`}
${Object.entries(load.headers ?? {})
  .map(([name, value]) => `wrk.headers[${lua(name)}] = ${lua(value)}`)
  .join('\n')}
local paths = { ${(load.paths ?? []).map(lua).join(', ')} }
local at = 0
if #paths > 0 then
  request = function()
    at = at % #paths + 1
    return wrk.format(nil, paths[at])
  end
end
done = function(summary, latency)
  local e = summary.errors
  io.write(string.format('figures {"requests":%d,"seconds":%f,"p50":%f,"p99":%f,"errors":%d,"non2xx":%d}\\n', summary.requests,
    summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, e.connect + e.read + e.write + e.timeout, e.status))
end
`,
  );
  const { stdout } = await run('wrk', ['-t1', `-c${load.connections ?? 64}`, `-d${load.seconds ?? 5}s`, '-s', script, load.url]);
  rmSync(folder, { recursive: true });
  const { requests, seconds, ...figures } = JSON.parse(/^figures (.*)$/m.exec(stdout)![1]!) as Omit<Figures, 'perSecond'> &
    Record<'requests' | 'seconds', number>;
  return { perSecond: requests / seconds, ...figures };
}
const run = promisify(execFile);

export const median = (values: number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;

/** Measures both alternately (A B A B …) after a warm-up of each and prints the ratio of the medians. */
export async function compare(
  name: string,
  { subject, baseline, rounds = 15, goal }: { subject: Load; baseline: Load; rounds?: number; goal: string },
): Promise<{ rate: number; p99: number }> {
  // Long enough for the compiler to have seen everything.
  await measure({ ...subject, seconds: 8 });
  await measure({ ...baseline, seconds: 8 });
  const runs: { subject: Figures; baseline: Figures }[] = [];
  // Short turns, so that other load on the machine affects both equally.
  for (let i = 0; i < rounds; i++)
    runs.push({ subject: await measure({ seconds: 2, ...subject }), baseline: await measure({ seconds: 2, ...baseline }) });
  const rates = runs.map((run) => run.subject.perSecond / run.baseline.perSecond);
  const p99s = runs.map((run) => run.subject.p99 / run.baseline.p99);
  const bad = runs.reduce((sum, run) => sum + run.subject.errors + run.subject.non2xx + run.baseline.errors + run.baseline.non2xx, 0);
  const line = (side: 'subject' | 'baseline') =>
    `${median(runs.map((r) => r[side].perSecond)).toFixed(0)}/s p50 ${median(runs.map((r) => r[side].p50)).toFixed(1)} ms p99 ${median(runs.map((r) => r[side].p99)).toFixed(1)} ms`;
  console.log(`${name}
  florin    ${line('subject')}
  baseline  ${line('baseline')}
  ratio     rate ${median(rates).toFixed(2)} (${rates.map((r) => r.toFixed(2)).join(' ')})   p99 ${median(p99s).toFixed(2)} (${p99s.map((r) => r.toFixed(2)).join(' ')})
  goal      ${goal}${bad > 0 ? `\n  REFUSED OR FAILED: ${bad}` : ''}`);
  return { rate: median(rates), p99: median(p99s) };
}

export type Child = { process: ChildProcess; line: string; stop(): Promise<void> };

/** Starts a script and waits for its first line of output that begins with `ready `. */
export async function startChild(script: string, environment: Record<string, string>, args: string[] = []): Promise<Child> {
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', script, ...args], {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  const line = await new Promise<string>((resolve, reject) => {
    child.stdout.on('data', (part: Buffer) => {
      text += part.toString();
      const found = /^ready (.*)$/m.exec(text);
      if (found) resolve(found[1]!);
    });
    child.once('exit', (code) => reject(new Error(`${script} ended with ${code}`)));
  });
  return {
    process: child,
    line,
    stop: async () => {
      if (child.exitCode !== null) return;
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      await ended;
    },
  };
}

/** Ticks of the system's clock. */
const HUNDREDTH_SECONDS = 0.01;
/** Processor time of a process, in seconds; of a parent with that of its children, also of those that ended. */
export function cpuOf(process: number, withChildren = false): number {
  const fields = readFileSync(`/proc/${process}/stat`, 'utf8').split(') ')[1]!.split(' ');
  const own = fields.slice(11, withChildren ? 15 : 13).reduce((sum, ticks) => sum + Number(ticks) * HUNDREDTH_SECONDS, 0);
  if (!withChildren) return own;
  const children = readFileSync(`/proc/${process}/task/${process}/children`, 'utf8').trim().split(' ').filter(Boolean);
  return children.reduce((sum, child) => sum + cpuOf(Number(child)), own);
}
/** The first process of the database server. */
export async function postmasterOf(sql: Sql): Promise<number> {
  const [backend] = await sql<{ pid: number }[]>`select pg_backend_pid() as pid`;
  return Number(readFileSync(`/proc/${backend!.pid}/stat`, 'utf8').split(') ')[1]!.split(' ')[1]);
}
