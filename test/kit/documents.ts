/** Reads the code and commands in the documents, so that tests can run them as printed. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');
export type Block = { language: string; tab: string; text: string; heading: string };

/**
 * The fenced blocks of a document, each with its language, the name of its tab (the text after the language) and the heading above it.
 */
export function codeBlocks(path: string): Block[] {
  const blocks: Block[] = [];
  let heading = '';
  let open: Block | null = null;
  for (const line of readFileSync(join(ROOT, path), 'utf8').split('\n')) {
    if (open) {
      if (line === '```') {
        blocks.push(open);
        open = null;
      } else open.text += `${line}\n`;
    } else if (line.startsWith('```')) {
      const [language, ...tab] = line.slice(3).split(' ');
      open = { language: language!, tab: tab.join(' '), text: '', heading };
    } else if (/^#+ /.test(line)) heading = line.replace(/^#+ /, '');
  }
  return blocks;
}
