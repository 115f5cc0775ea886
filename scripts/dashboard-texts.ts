/** The list of all texts of the dashboard, by which languages are translated. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { findTexts, hasTexts } from '../dashboard/texts.ts';

const ROOT = join(import.meta.dirname, '..');

/** The keys of all texts in the order of the files, each once, and the texts that the code compares with something. */
export function dashboardTexts(): { keys: string[]; compared: Set<string> } {
  const found = globSync('dashboard/**/*.{ts,tsx}', { cwd: ROOT })
    .sort()
    .filter((path) => hasTexts(`/${path}`))
    .map((path) => findTexts(readFileSync(join(ROOT, path), 'utf8'), path));
  return { keys: [...new Set(found.flatMap(({ keys }) => keys))], compared: new Set(found.flatMap(({ compared }) => compared)) };
}
