/** Where the embedded server has its socket: a private folder that another user of the machine cannot make in advance. */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chownSync,
  closeSync,
  constants,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import type { Log } from '../log.ts';

type Owner = { uid: number; gid: number };

/**
 * A socket path may have 107 bytes at most, a data folder's path any number: a short folder of its own. Its name follows from the
 * data folder, so that all processes find it; where somebody else has taken that name, it is a random one that is written down in
 * the data folder, where nobody else writes.
 */
export function socketFolder(folder: string, owner: Owner, { log, parent = '/tmp' }: { log: Log; parent?: string }): string {
  const written = join(folder, 'postgres.socket');
  const usual = join(parent, `florin-${createHash('sha256').update(folder).digest('hex').slice(0, 16)}`);
  const known = () => recordedIn(written, owner) ?? (makePrivate(usual, owner) ? usual : null);
  const found = known();
  if (found !== null) return found;
  // Of several that start at once one chooses, the others read what it chose.
  const lock = openSync(`${written}.lock`, constants.O_RDWR | constants.O_CREAT, 0o600);
  try {
    spawnSync('flock', ['3'], { stdio: ['ignore', 'ignore', 'ignore', lock] });
    const chosen = known();
    if (chosen !== null) return chosen;
    const other = mkdtempSync(join(parent, 'florin-'));
    if (process.getuid?.() === 0) chownSync(other, owner.uid, owner.gid);
    writeFileSync(`${written}.new`, other, { mode: 0o644 });
    renameSync(`${written}.new`, written);
    log.warn(
      { taken: usual, used: other },
      'Using a different folder for the database socket: another user of this machine owns the usual one',
    );
    return other;
  } finally {
    closeSync(lock);
  }
}

/** The folder that was written down, while it is there and private. */
function recordedIn(written: string, owner: Owner): string | null {
  let path: string;
  try {
    path = readFileSync(written, 'utf8');
  } catch {
    // Nothing was written down: the usual name was free.
    return null;
  }
  return isPrivate(path, owner) ? path : null;
}

/** Makes the folder unless it is there; false: it is not the server's alone. */
function makePrivate(path: string, owner: Owner): boolean {
  const isRoot = process.getuid?.() === 0;
  try {
    mkdirSync(path, { mode: 0o700 });
    if (isRoot) chownSync(path, owner.uid, owner.gid);
  } catch (error) {
    if ((error as { code?: string }).code !== 'EEXIST') throw error;
  }
  // Made by root for the server and not handed over before it was killed.
  if (isRoot && owner.uid !== 0 && isPrivate(path, { uid: 0, gid: 0 })) chownSync(path, owner.uid, owner.gid);
  return isPrivate(path, owner);
}

function isPrivate(path: string, { uid }: Owner): boolean {
  try {
    const stat = lstatSync(path);
    return stat.isDirectory() && stat.uid === uid && (stat.mode & 0o077) === 0;
  } catch {
    // It is gone, as after a restart of the machine.
    return false;
  }
}
