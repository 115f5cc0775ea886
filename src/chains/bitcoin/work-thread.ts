/** Hashes headers in a thread of its own: 2,000 scrypt hashes take seconds, and the event loop must not wait for them. */
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { HEADER_BYTES } from './header.ts';
import type { HashWork } from './header-chain.ts';
import { workHash } from './proof-of-work.ts';
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

/** Consecutive headers to consecutive hashes. */
function hashAll(kind: ProofParams['work'], headers: Uint8Array): Uint8Array {
  const hashes = new Uint8Array((headers.length / HEADER_BYTES) * HASH_BYTES);
  for (let at = 0, to = 0; at < headers.length; at += HEADER_BYTES, to += HASH_BYTES)
    hashes.set(workHash(kind, headers.subarray(at, at + HEADER_BYTES)), to);
  return hashes;
}
if (!isMainThread && workerData === ROLE)
  parentPort!.on('message', ({ number, kind, headers }: Request) => {
    parentPort!.postMessage({ number, hashes: hashAll(kind, headers) } satisfies Reply);
  });

const split = (hashes: Uint8Array): Buffer[] =>
  Array.from({ length: hashes.length / HASH_BYTES }, (_, i) => Buffer.from(hashes.buffer, hashes.byteOffset + i * HASH_BYTES, HASH_BYTES));

export type WorkThread = { hashWork: HashWork; close(): Promise<void> };

/** The thread starts when there is work for it. */
export function createWorkThread({ idleMs = IDLE_MS } = {}): WorkThread {
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
    hashWork: async (kind, headers) => {
      if (headers.length <= (kind === 'sha256d' ? MAX_INLINE_SHA : MAX_INLINE)) return headers.map((header) => workHash(kind, header));
      clearTimeout(idle);
      thread ??= start();
      const number = sent++;
      const answer = new Promise<Uint8Array>((resolve, reject) => open.set(number, { resolve, reject }));
      thread.postMessage({ number, kind, headers: Uint8Array.from(Buffer.concat(headers)) } satisfies Request);
      return split(await answer);
    },
    close: () => end(new Error('the thread that hashes headers was stopped')),
  };
}
