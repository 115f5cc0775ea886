/** Which test files share a process: to start one and to load the service takes longer than the tests of most files. */
import { readFileSync, statSync } from 'node:fs';
import { relative } from 'node:path';
import { filesReached } from './imports.ts';

/** The files of one process take no longer than the largest file does. */
const MOST_BYTES = 60_000;
/** Measures the process, changes it for those that come later, or declares tests in a way that `together.ts` does not know. */
const CHANGES =
  /\bdescribe\(|\bmemoryUsage\b|\bmock\.|\bglobalThis\b|\bprocess\.(?:chdir|on|once|exitCode|umask)\b|\bprocess\.env[.[][\w'\]]* = |delete process|Object\.assign\((?:process|crypto)/;
/** Parts of the kit that do so: more coins, and a library whose objects hang the process when they are collected after their node. */
const CHANGING = ['test/kit/more-rows.ts', 'test/kit/lightning-node.ts'];

const folderOf = (file: string): string => file.split('/').slice(0, 2).join('/');
function isAlone(file: string): boolean {
  const reached = filesReached([file]);
  return file.endsWith('.long.test.ts') || CHANGES.test(readFileSync(file, 'utf8')) || CHANGING.some((part) => reached.has(part));
}

/** In groups of one folder each, or alone; by path from the root of the repository. */
export function groupFiles(given: readonly string[]): string[][] {
  const files = given.map((file) => relative('', file));
  const alone = files.filter(isAlone);
  const groups = alone.map((file) => [file]);
  let room = 0;
  let last = '';
  for (const file of files.filter((each) => !alone.includes(each)).toSorted()) {
    room -= statSync(file).size;
    if (folderOf(file) === last && room >= 0) groups.at(-1)!.push(file);
    else {
      groups.push([file]);
      room = MOST_BYTES - statSync(file).size;
    }
    last = folderOf(file);
  }
  return groups;
}
