/** Reads the syntax of source files, for checks of the repository itself. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseSync } from 'vite';

const ROOT = join(import.meta.dirname, '../..');
export const files = (pattern: string): string[] => globSync(pattern, { cwd: ROOT }).filter((path) => !/\.test\.tsx?$/.test(path));
export const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');

export type Node = { type: string; start: number; end: number } & Record<string, unknown>;
export const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && typeof (value as Node).type === 'string';

/** Visits every node of a file. `name` is the nearest name that was given to it: of a variable, property or method. */
export function visit(path: string, text: string, take: (node: Node, name: string) => void): void {
  const { program, errors } = parseSync(path, text);
  assert.deepEqual(errors, [], path);
  const walk = (node: Node, name: string): void => {
    const own = [node.id, node.key].find((id) => isNode(id) && typeof id.name === 'string') as (Node & { name: string }) | undefined;
    const known = own?.name ?? name;
    take(node, known);
    for (const value of Object.values(node)) {
      if (Array.isArray(value)) for (const item of value) if (isNode(item)) walk(item, known);
      if (isNode(value)) walk(value, known);
    }
  };
  walk(program as unknown as Node, '');
}

/** The number of the line at each position of a text. */
export const lineAt = (text: string): ((position: number) => number) => {
  const starts = [0, ...[...text.matchAll(/\n/g)].map(({ index }) => index + 1)];
  return (position) => starts.findLastIndex((start) => start <= position) + 1;
};
