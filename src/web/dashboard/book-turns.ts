/**
 * Turns at the books. Each statement and file reads the whole history of a merchant, so only a few are computed at a time. A file is written
 * to the disk before it is sent: a client that reads slowly keeps no database connection.
 */
import { createWriteStream } from 'node:fs';
import { mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Problem } from '../../core/problem.ts';

const RETRY_SECONDS = 10;
const DOWNLOAD_MINUTES = 30;
const LIMITS = { running: 2, waiting: 20, waitingPerMerchant: 4, downloads: 20 };

const busy = () => new Problem('overloaded', { seconds: RETRY_SECONDS }, { retryAfterSeconds: RETRY_SECONDS });

type Waiting = { merchantId: string; start(): void };
export class BookTurns {
  readonly #running = new Set<string>();
  readonly #downloads = new Set<string>();
  #waiting: Waiting[] = [];

  /** Runs `work` when no other work of the merchant, and little of others, is running. Errors: overloaded. */
  async take<T>(merchantId: string, work: () => Promise<T>): Promise<T> {
    if (this.#isFree(merchantId)) this.#running.add(merchantId);
    else {
      const mine = this.#waiting.filter((other) => other.merchantId === merchantId).length;
      if (mine >= LIMITS.waitingPerMerchant || this.#waiting.length >= LIMITS.waiting) throw busy();
      await new Promise<void>((start) => this.#waiting.push({ merchantId, start }));
    }
    try {
      return await work();
    } finally {
      this.#running.delete(merchantId);
      this.#startNext();
    }
  }

  /**
   * The whole file, ready to be sent. A merchant downloads one at a time, and a download ends after half an hour.
   * Errors: overloaded, and those of `parts`.
   */
  async file(merchantId: string, parts: () => AsyncIterable<string | Uint8Array>): Promise<Readable> {
    if (this.#downloads.has(merchantId) || this.#downloads.size >= LIMITS.downloads) throw busy();
    this.#downloads.add(merchantId);
    const release = () => void this.#downloads.delete(merchantId);
    try {
      const file = await this.take(merchantId, () => spool(parts()));
      const timer = setTimeout(() => file.destroy(), DOWNLOAD_MINUTES * 60_000).unref();
      return file.once('end', release).once('close', () => {
        clearTimeout(timer);
        release();
      });
    } catch (error) {
      release();
      throw error;
    }
  }

  #isFree(merchantId: string): boolean {
    return this.#running.size < LIMITS.running && !this.#running.has(merchantId);
  }

  #startNext(): void {
    const next = this.#waiting.find(({ merchantId }) => this.#isFree(merchantId));
    if (!next) return;
    this.#waiting = this.#waiting.filter((other) => other !== next);
    this.#running.add(next.merchantId);
    next.start();
  }
}

/** Writes a file without a name; it disappears when the stream is closed, or the process ends. */
async function spool(parts: AsyncIterable<string | Uint8Array>): Promise<Readable> {
  const folder = await mkdtemp(join(tmpdir(), 'florin-books-'));
  try {
    const path = join(folder, 'file');
    await pipeline(Readable.from(parts, { objectMode: false }), createWriteStream(path, { mode: 0o600 }));
    return (await open(path, 'r')).createReadStream();
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** For all merchants of this process. */
export const bookTurns = new BookTurns();
