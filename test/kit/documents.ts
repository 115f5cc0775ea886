/** The code and the commands of the documents, so that tests run them as they are printed. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');
export type Block = { language: string; text: string; heading: string };

/** The fenced blocks of a document, each with its language and the heading above it. What follows the language names a tab. */
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
    } else if (line.startsWith('```')) open = { language: line.slice(3).split(' ')[0]!, text: '', heading };
    else if (/^#+ /.test(line)) heading = line.replace(/^#+ /, '');
  }
  return blocks;
}
