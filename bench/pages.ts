/** 10,000 payment pages held open by one process compared with bare node:http server-sent events. Goal: memory <= 1.5. */
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { client, testEnvironment } from '../test/kit/app.ts';
import { testDatabase } from '../test/kit/database.ts';
import { type Child, startChild } from './kit.ts';

const PAGES = 10_000;
const AT_ONCE = 200;

/** Megabytes of the process in memory, after garbage collection. */
async function residentMb({ process: child }: Child): Promise<number> {
  for (let i = 0; i < 2; i++) {
    child.kill('SIGUSR2');
    await sleep(1_000);
  }
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))![1]) / 1024;
}
/** Seconds of processor time used so far. */
const cpuSeconds = ({ process: child }: Child): number => {
  const fields = readFileSync(`/proc/${child.pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
};

/** Opens one page per path; each is open when its first line has arrived. */
async function openPages(url: string, paths: readonly string[]): Promise<Socket[]> {
  const { port } = new URL(url);
  const sockets: Socket[] = [];
  let next = 0;
  const openSome = async () => {
    while (next < paths.length) {
      const path = paths[next]!;
      // Each payer is a separate client: this measures pages, not the limit per client.
      const payer = `10.0.${next >> 8}.${next & 255}`;
      next++;
      const socket = connect(Number(port), '127.0.0.1');
      await new Promise<void>((resolve, reject) => {
        let text = '';
        socket.once('error', reject);
        socket.on('data', (part: Buffer) => {
          text += part.toString('latin1');
          if (!text.includes('data: ')) return;
          if (!text.startsWith('HTTP/1.1 200')) reject(new Error(text.slice(0, 200)));
          socket.removeAllListeners('data');
          socket.resume();
          resolve();
        });
        socket.write(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAccept: text/event-stream\r\nX-Forwarded-For: ${payer}\r\n\r\n`);
      });
      sockets.push(socket);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, openSome));
  return sockets;
}

async function measure(child: Child, url: string, paths: readonly string[]) {
  // The first connections pay for code that is compiled once.
  for (const socket of await openPages(url, paths.slice(0, 200))) socket.destroy();
  await sleep(500);
  const before = await residentMb(child);
  const sockets = await openPages(url, paths);
  const after = await residentMb(child);
  const cpu = cpuSeconds(child);
  await sleep(5_000);
  return { before, after, growth: after - before, cpu: (cpuSeconds(child) - cpu) / 5, sockets };
}

const database = await testDatabase({ parent: '/var/tmp' });
const environment = testEnvironment(database.url, database.folder, {
  ...{ PLANS: '{"enterprise":{"per_minute":0,"per_month":0}}', TRUSTED_PROXIES: '127.0.0.1' },
});
// Another process creates the payments: its allocations are not a cost of open pages.
const maker = await startChild('bench/serve.ts', environment);
const made = JSON.parse(maker.line) as { url: string; secret: string };
const ids: string[] = [];
while (ids.length < PAGES) {
  const batch = await Promise.all(
    Array.from({ length: 100 }, () =>
      client(made.url, made.secret).post('/api/payment/create/simple', { amount_usd: 25.5, return_url: 'https://shop.example/thanks' }),
    ),
  );
  ids.push(...batch.map((reply) => reply.json.transaction_id as string));
}
await maker.stop();

const bare = await startChild('bench/bare-events.ts', {});
const paths = ids.map((id) => `/pay/events?id=${id}`);
const baseline = await measure(bare, bare.line, paths);
for (const socket of baseline.sockets) socket.destroy();
await bare.stop();

const florin = await startChild('bench/serve.ts', environment);
const { url } = JSON.parse(florin.line) as { url: string };
const subject = await measure(florin, url, paths);

const latencies: number[] = [];
for (let i = 0; i < 9; i++) {
  // Sockets are opened in no fixed order, so the page that receives the change is found by listening to all.
  const { promise: heard, resolve } = Promise.withResolvers<void>();
  const listen = (part: Buffer) => void (part.includes('event: v') && resolve());
  for (const socket of subject.sockets) socket.on('data', listen);
  const reply = await client(url, made.secret).post(`/v1/payments/${ids[i * 1_000]}/cancel`);
  const committed = performance.now();
  if (reply.status !== 200) throw new Error(reply.text);
  await heard;
  latencies.push(performance.now() - committed);
  for (const socket of subject.sockets) socket.off('data', listen);
}
for (const socket of subject.sockets) socket.destroy();
await florin.stop();
await database.drop();

const kb = (growth: number) => `${((growth * 1024) / PAGES).toFixed(1)} kB a page`;
console.log(`pages: ${PAGES} open payment pages on one process
  florin    ${subject.growth.toFixed(0)} MB more (${kb(subject.growth)}; ${subject.before.toFixed(0)} -> ${subject.after.toFixed(0)} MB), ${(subject.cpu * 100).toFixed(0)} % of a core
  baseline  ${baseline.growth.toFixed(0)} MB more (${kb(baseline.growth)}; ${baseline.before.toFixed(0)} -> ${baseline.after.toFixed(0)} MB), ${(baseline.cpu * 100).toFixed(0)} % of a core
  ratio     memory ${(subject.growth / baseline.growth).toFixed(2)}   news to a page: median ${latencies.toSorted((a, b) => a - b)[4]!.toFixed(0)} ms
  goal      memory <= 1.5`);
