/**
 * Hashes headers in threads: 2,000 scrypt hashes take seconds, and the event loop must not wait for them. All cores hash: X11 in a thread
 * for each core, scrypt in Node's thread pool.
 */
import { scrypt } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { HEADER_BYTES, SCRYPT, workHash } from './header.ts';
import type { HashWork } from './header-chain.ts';
import type { ProofParams } from './proof-params.ts';

/** Tells a thread of this file from the main thread. */
const ROLE = 'florin-work-thread';
const HASH_BYTES = 32;
/** So few scrypt or X11 hashes take a few milliseconds: less than a thread costs. */
const MAX_INLINE = 4;
/** SHA-256 is so fast that the way to the thread and back costs more. */
const MAX_INLINE_SHA = 2_000;
/** A thread without work ends after this long, to give its memory back. */
const IDLE_MS = 30_000;

type Request = { number: number; kind: ProofParams['work']; headers: Uint8Array };
type Reply = { number: number; hashes: Uint8Array };

/**
 * Hashes at the same time: one for each core. Scrypt is hashed in Node's thread pool, where lookups of names and files need a free thread.
 * X11 takes a thread of ours with its own memory for each.
 */
const CORES = Math.min(3, availableParallelism());

const scryptOf = (header: Uint8Array): Promise<Uint8Array> =>
  new Promise((resolve, reject) => {
    scrypt(header, header, HASH_BYTES, SCRYPT, (error, hash) => (error ? reject(error) : resolve(hash)));
  });

/** Consecutive headers to consecutive hashes. */
async function hashAll(kind: ProofParams['work'], headers: Uint8Array): Promise<Uint8Array> {
  const count = headers.length / HEADER_BYTES;
  const hashes = new Uint8Array(count * HASH_BYTES);
  const numbers = Array.from({ length: count }, (_, i) => i).values();
  const work = async (): Promise<void> => {
    for (const i of numbers) {
      const header = headers.subarray(i * HEADER_BYTES, (i + 1) * HEADER_BYTES);
      hashes.set(kind === 'scrypt' ? await scryptOf(header) : workHash(kind, header), i * HASH_BYTES);
    }
  };
  await Promise.all(Array.from({ length: kind === 'scrypt' ? CORES : 1 }, work));
  return hashes;
}
if (!isMainThread && workerData === ROLE)
  parentPort!.on('message', async ({ number, kind, headers }: Request) => {
    parentPort!.postMessage({ number, hashes: await hashAll(kind, headers) } satisfies Reply);
  });

const split = (hashes: Uint8Array): Buffer[] =>
  Array.from({ length: hashes.length / HASH_BYTES }, (_, i) => Buffer.from(hashes.buffer, hashes.byteOffset + i * HASH_BYTES, HASH_BYTES));

type Thread = { hash(kind: ProofParams['work'], headers: readonly Buffer[]): Promise<Buffer[]>; end(reason: Error): Promise<void> };

/** One thread, which starts when there is work for it. */
function createThread(idleMs: number): Thread {
  let thread: Worker | null = null;
  let idle: NodeJS.Timeout | undefined;
  let sent = 0;
  const open = new Map<number, { resolve(hashes: Uint8Array): void; reject(error: Error): void }>();

  const end = async (reason: Error): Promise<void> => {
    const ended = thread;
    thread = null;
    clearTimeout(idle);
    for (const { reject } of open.values()) reject(reason);
    open.clear();
    await ended?.terminate();
  };
  const start = (): Worker => {
    const worker = new Worker(new URL(import.meta.url), { workerData: ROLE });
    worker.on('message', ({ number, hashes }: Reply) => {
      open.get(number)?.resolve(hashes);
      open.delete(number);
      if (open.size > 0) return;
      idle = setTimeout(() => void end(new Error('the thread was idle')), idleMs);
      idle.unref();
    });
    const lost = (error: Error) => {
      if (worker === thread) void end(error);
    };
    worker.on('error', lost);
    worker.on('exit', (code) => lost(new Error(`the thread that hashes headers ended with ${code}`)));
    // It keeps no process running.
    worker.unref();
    return worker;
  };
  return {
    hash: async (kind, headers) => {
      clearTimeout(idle);
      thread ??= start();
      const number = sent++;
      const answer = new Promise<Uint8Array>((resolve, reject) => open.set(number, { resolve, reject }));
      thread.postMessage({ number, kind, headers: Uint8Array.from(Buffer.concat(headers)) } satisfies Request);
      return split(await answer);
    },
    end,
  };
}

export type WorkThreads = { hashWork: HashWork; close(): Promise<void> };

/** `cores`: how many threads hash X11. */
export function createWorkThreads({ idleMs = IDLE_MS, cores = CORES } = {}): WorkThreads {
  const threads = Array.from({ length: cores }, () => createThread(idleMs));
  return {
    hashWork: async (kind, headers) => {
      if (headers.length <= (kind === 'sha256d' ? MAX_INLINE_SHA : MAX_INLINE)) return headers.map((header) => workHash(kind, header));
      if (kind !== 'x11') return threads[0]!.hash(kind, headers);
      const size = Math.max(MAX_INLINE, Math.ceil(headers.length / cores));
      const parts = Array.from({ length: Math.ceil(headers.length / size) }, (_, i) => headers.slice(i * size, (i + 1) * size));
      return (await Promise.all(parts.map((part, i) => threads[i]!.hash(kind, part)))).flat();
    },
    close: async () => {
      await Promise.all(threads.map((thread) => thread.end(new Error('the thread that hashes headers was stopped'))));
    },
  };
}
