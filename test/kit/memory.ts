/** Searches the memory of a process and the files of a folder, as an attacker does who took over the machine. */
import { closeSync, openSync, readdirSync, readFileSync, readSync } from 'node:fs';
import { join } from 'node:path';

const PART = 8 << 20;

const foundIn = (bytes: Buffer, wanted: ReadonlyMap<string, Buffer>): string[] =>
  [...wanted].flatMap(([name, needle]) => (bytes.includes(needle) ? [name] : []));

/** The names of those that are in memory that the process can write. */
export function findInMemory(pid: number, wanted: ReadonlyMap<string, Buffer>): string[] {
  const overlap = Math.max(...[...wanted.values()].map(({ length }) => length)) - 1;
  const found = new Set<string>();
  const memory = openSync(`/proc/${pid}/mem`, 'r');
  const part = Buffer.alloc(PART + overlap);
  for (const line of readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n')) {
    const [, from, to] = /^([0-9a-f]+)-([0-9a-f]+) rw/.exec(line) ?? [];
    if (!from || !to) continue;
    const end = BigInt(`0x${to}`);
    for (let at = BigInt(`0x${from}`); at < end; at += BigInt(PART)) {
      const length = Number(end - at) < part.length ? Number(end - at) : part.length;
      try {
        const read = readSync(memory, part, 0, length, at);
        for (const name of foundIn(part.subarray(0, read), wanted)) found.add(name);
      } catch (error) {
        // The region is gone, or belongs to the kernel.
        if (!['EIO', 'EFAULT'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
      }
    }
  }
  closeSync(memory);
  return [...found];
}

/** The names of those that are in any file of a folder. */
export function findOnDisk(folder: string, wanted: ReadonlyMap<string, Buffer>): string[] {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return [...new Set(files.flatMap((file) => foundIn(readFileSync(join(file.parentPath, file.name)), wanted)))];
}
