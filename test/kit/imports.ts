/** What a file imports, followed through all files. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

/** The doors of the rooms of `src/`, and what else package.json gives a name that begins with `#`. */
const DOORS = Object.entries(
  (JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8')) as { imports: Record<string, string> }).imports,
);

/** The file, from the root of the repository, that `path` imports as `target`. */
export function importedFile(path: string, target: string): string {
  if (!target.startsWith('#')) return relative('', join(dirname(path), target));
  for (const [name, file] of DOORS) {
    const [start, end] = name.split('*') as [string, string?];
    if (end === undefined ? name === target : target.startsWith(start)) return join(file.replace('*', target.slice(start.length)));
  }
  return target;
}

/** The files that a text imports, now or later, as it names them. */
export const importsOf = (text: string): string[] =>
  [...text.matchAll(/(?:from |import |import\()'([.#][^']+)'/g)].map(([, target]) => target!);

/** The imports that run when a file is loaded: neither types nor what is imported later. */
export const loadedBy = (text: string): string[] =>
  [...text.matchAll(/^(?:import|export) (?!type )(?:[^;'"]* from )?'([.#][^']+)'/gm)].map(([, target]) => target!);

/** The given files and everything that they import, directly or not, by path from the root of the repository. */
export function filesReached(files: readonly string[], read: (text: string) => readonly string[] = importsOf): Set<string> {
  const reached = new Set<string>();
  const rest = files.map((file) => relative('', file));
  for (let file = rest.pop(); file !== undefined; file = rest.pop()) {
    if (reached.has(file) || !/\.tsx?$/.test(file) || !existsSync(file)) continue;
    reached.add(file);
    rest.push(...read(readFileSync(file, 'utf8')).map((target) => importedFile(file!, target)));
  }
  return reached;
}
