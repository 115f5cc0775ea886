/** The socket folder of the embedded server: a private folder that other users of the machine cannot create in advance. */
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
 * A socket path may have at most 107 bytes, but data folder paths can be longer, so the socket gets a short folder of its own. Its
 * name is derived from the data folder, so that all processes find it. If another user has taken that name, a random one is used and
 * stored in the data folder.
 */
export function socketFolder(folder: string, owner: Owner, { log, parent = '/tmp' }: { log: Log; parent?: string }): string {
  const written = join(folder, 'postgres.socket');
  const usual = join(parent, `florin-${createHash('sha256').update(folder).digest('hex').slice(0, 16)}`);
  const known = () => recordedIn(written, owner) ?? (makePrivate(usual, owner) ? usual : null);
  const found = known();
  if (found !== null) return found;
  // Of several concurrent starts one chooses the name, and the others read it.
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

/** The stored folder, if it exists and is private. */
function recordedIn(written: string, owner: Owner): string | null {
  let path: string;
  try {
    path = readFileSync(written, 'utf8');
  } catch {
    // No name is stored: the usual one was free.
    return null;
  }
  return isPrivate(path, owner) ? path : null;
}

/** Creates the folder if missing; false when it does not belong to the server alone. */
function makePrivate(path: string, owner: Owner): boolean {
  const isRoot = process.getuid?.() === 0;
  try {
    mkdirSync(path, { mode: 0o700 });
    if (isRoot) chownSync(path, owner.uid, owner.gid);
  } catch (error) {
    if ((error as { code?: string }).code !== 'EEXIST') throw error;
  }
  // Created by root for the server, which was killed before it changed the owner.
  if (isRoot && owner.uid !== 0 && isPrivate(path, { uid: 0, gid: 0 })) chownSync(path, owner.uid, owner.gid);
  return isPrivate(path, owner);
}

function isPrivate(path: string, { uid }: Owner): boolean {
  try {
    const stat = lstatSync(path);
    return stat.isDirectory() && stat.uid === uid && (stat.mode & 0o077) === 0;
  } catch {
    // It is gone, for example after a restart of the machine.
    return false;
  }
}
