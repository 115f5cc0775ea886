/** Documents about the code that are made from it: the map of `src/`, and the invariants with the tests that prove them. */
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');
const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('<', '&lt;');

/** The first sentence of the comment that a file begins with. */
export function firstSentence(source: string): string {
  const text = /^\/\*\*([\s\S]*?)\*\//.exec(source)?.[1]?.replaceAll(/^\s*\* ?/gm, '') ?? '';
  const flat = text.replaceAll(/\s+/g, ' ').trim();
  return /^.*?[.:](?= [A-Z]|$)/.exec(flat)?.[0] ?? flat;
}

/** Every file of `src/` without its tests, by folder, with its first sentence. */
export function mapPage(): string {
  const files = globSync('src/**/*.ts', { cwd: ROOT })
    .filter((path) => !path.endsWith('.test.ts'))
    .sort();
  const folders = [...new Set(files.map((path) => dirname(path)))].sort();
  const parts = folders.map((folder) => {
    const own = files.filter((path) => dirname(path) === folder);
    const lines = own.map((path) => `- [\`${path.slice(folder.length + 1, -3)}\`](../${path}): ${cell(firstSentence(read(path)))}`);
    return `## \`${folder}/\`\n\n${lines.join('\n')}\n`;
  });
  return `# The files of \`src/\`\n\nOne line for each file, from its first sentence. [ARCHITECTURE.md](../ARCHITECTURE.md) says how they work together.\n\n${parts.join('\n')}`;
}

/** What `// Invariant: ...` in a test file says, with the name of the test below it; null above a whole file. */
export function invariantsOf(source: string): { says: string; test: string | null }[] {
  const firstTest = source.search(/^(test|for|always|describe|before)\b/m);
  return [...source.matchAll(/^ *\/\/ Invariant: (.*)\.$\n(?=((?:.*\n){0,3}))/gm)].map(({ index, 1: says, 2: below }) => {
    const isAboveFile = firstTest === -1 || index < source.search(/^import /m);
    const name = /(['`"])((?:\\.|(?!\1).){8,})\1/.exec(below!)?.[2];
    return { says: says!, test: isAboveFile || name === undefined ? null : name.replaceAll(/\$\{[^}]*\}/g, '…').replaceAll("\\'", "'") };
  });
}

/** Every invariant with the tests that name it. */
export function invariantsPage(): string {
  const proofs = new Map<string, string[]>();
  for (const path of globSync('{src,test}/**/*.ts', { cwd: ROOT }).sort())
    for (const { says, test } of invariantsOf(read(path))) {
      const proof = `[\`${path}\`](../${path})${test === null ? '' : `: ${cell(test)}`}`;
      proofs.set(says, [...(proofs.get(says) ?? []), proof]);
    }
  const rows = [...proofs].map(([says, tests]) => `| ${cell(says)} | ${tests.join('<br>')} |`);
  return `# Invariants\n\nWhat must always be true, and the tests that prove it. A test names its invariant in a comment above it.\n\n| Invariant | Proven by |\n|---|---|\n${rows.join('\n')}\n`;
}
