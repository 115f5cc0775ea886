/** Checks how long functions and lines are, so that every part stays small enough to be read, imported and tested separately. */
import assert from 'node:assert/strict';
import { basename } from 'node:path';
import { test } from 'node:test';
import { files, lineAt, read, visit } from './kit/syntax.ts';

const FUNCTIONS = new Set(['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression']);

/** Functions with more lines than `most`, inner ones included, as `file: name`, so that a file can move between folders. */
export function longFunctions(path: string, text: string, most: number): { name: string; lines: number }[] {
  if (text.split('\n').length <= most) return [];
  const line = lineAt(text);
  const found: { name: string; lines: number }[] = [];
  visit(path, text, (node, name) => {
    const lines = line(node.end) - line(node.start) + 1;
    if (FUNCTIONS.has(node.type) && lines > most) found.push({ name: `${basename(path)}: ${name}`, lines });
  });
  return found;
}

/** Lines of HTML templates with more than 160 characters. */
export function longMarkup(path: string, text: string): number[] {
  const all = text.split('\n');
  if (all.every(({ length }) => length <= MOST_CHARACTERS)) return [];
  const line = lineAt(text);
  const found = new Set<number>();
  visit(path, text, (node) => {
    if (node.type !== 'TaggedTemplateExpression' || (node.tag as { name?: string }).name !== 'html') return;
    for (let at = line(node.start); at <= line(node.end); at++) if (all[at - 1]!.length > MOST_CHARACTERS) found.add(at);
  });
  return [...found];
}

const MOST_CHARACTERS = 160;
const LIMITS = { 'src/**/*.ts': 100, 'dashboard/**/*.{ts,tsx}': 150 } as const;

// Invariant: No function has more than 100 lines.
test('no function has more than 100 lines in src, or 150 in the dashboard', () => {
  const long = Object.entries(LIMITS).flatMap(([pattern, most]) => files(pattern).flatMap((path) => longFunctions(path, read(path), most)));
  assert.deepEqual(long, []);
  const body = '\n  a();'.repeat(3);
  const wrong = `const other = () => 1;\nconst outer = () => {${body}\n  const inner = () => {${body}\n  };\n};\n`;
  assert.deepEqual(longFunctions('a.ts', wrong, 4), [
    { name: 'a.ts: outer', lines: 10 },
    { name: 'a.ts: inner', lines: 5 },
  ]);
  assert.deepEqual(longFunctions('a.ts', wrong, 10), []);
});

test('no line of an HTML template has more than 160 characters', () => {
  const long = files('src/**/*.ts').flatMap((path) => longMarkup(path, read(path)).map((line) => `${path}: line ${line}`));
  assert.deepEqual(long, []);
  const text = 'x'.repeat(MOST_CHARACTERS);
  assert.deepEqual(longMarkup('a.ts', `const a = html\`<p>\n${text}</p>\`;\n`), [2]);
  assert.deepEqual(longMarkup('a.ts', `const a = \`<p>\n${text}</p>\`;\n`), []);
});
