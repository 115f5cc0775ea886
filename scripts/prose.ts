/** Checks what people read, in Markdown, comments, strings and page text: spelling (American English), and phrases that STYLE.md rules out. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { decodeTrie, parseDictionaryLines } from 'cspell-trie-lib';

const ROOT = join(import.meta.dirname, '..');
const WORDS = 'scripts/words.txt';
const FILES = ['*.md', '{docs,examples,dashboard,sdk}/**/*.md', '{src,dashboard,sdk,scripts,examples,test,bench}/**/*.{ts,tsx,js,mjs}'];
/** Translations, generated files, recorded data, and quotations of the documented interface. */
const SKIPPED =
  /node_modules|(^|\/)dist\/|^src\/web\/checkout\/words\/|^dashboard\/generated\/|^sdk\/src\/types\.ts$|^docs\/reference\/interface\.md$|^test\/contract\/sentences\.ts$|^test\/(fixtures\/|kit\/glossary\.ts)/;
/** The places that quote the phrases themselves. */
const EXEMPT: Readonly<Record<string, RegExp>> = {
  'STYLE.md': /^- No inversions.*|"Others are invited from here later"/gm,
  'scripts/prose.ts': /^ {2}\[.*|faultsOf\('a.*/gm,
};

const PHRASES: readonly [phrase: RegExp, instead: string][] = [
  [/\b(is|are|was|were|be|been|being) told\b(?! apart)/i, 'is notified, receives, learns'],
  [/\bwhoever\b/i, 'anyone who, the person who'],
  [/\banew\b/i, 'again'],
  [/\bstands? (here|there|in|on|at|under|beside|behind|above|below|between|for itself)\b/i, 'is in, appears in'],
  [/\bfor want of\b/i, 'without, because there is no'],
  [/\b(an|the) own\b/i, 'its own, a separate'],
  [/\bdecid(e|es|ed|ing) over\b/i, 'review, resolve, decide on'],
  [/\bgoes on\b/i, 'continues'],
  [/\bby (itself|themselves)\b/i, 'automatically, alone'],
  [
    /\b(which|that|who|what|and|it|this) (is|are|was|were) (none|no (?!longer|more|less|larger|smaller|other|later|earlier|worse|better))[a-z]*/i,
    'is not a',
  ],
  [/\bthat which\b/i, 'what'],
  [/\b(makes?|made) known\b/i, 'publish, report'],
  [/\bthat is none\b/i, 'that is not one'],
  [/\be-mails?\b/i, 'email'],
  [/(?<!created )(?<!['"`|._\w+-])cancell(ed|ing)\b(?!['"_|:]|\.\w)/i, 'canceled, canceling; the API value in backticks'],
  [/\b\d+ %/, '20%, without a space'],
];

type Piece = { line: number; text: string; spelled: boolean };
const lineAt = (text: string, at: number): number => text.slice(0, at).split('\n').length;
/** Takes out what is code, and keeps the line breaks. */
const without = (text: string, ...code: RegExp[]): string =>
  code.reduce((rest, pattern) => rest.replaceAll(pattern, (found) => ` ${found.replaceAll(/[^\n]/g, '')} `), text);

/** What people read in a file. A string without a space is a name, so it is not text. */
export function proseOf(path: string, source: string): Piece[] {
  const text = EXEMPT[path] ? without(source, EXEMPT[path]) : source;
  if (path.endsWith('.md'))
    return [
      { line: 1, spelled: true, text: without(text, /^( *)```[\s\S]*?^\1```/gm, /`[^`]*`/g, /\]\([^)]*\)/g, /<[^>]*>/g, /\bhttps?:\S+/g) },
    ];
  const isTest = /^test\/|\.test\.ts$/.test(path);
  const literal = /\/\*[\s\S]*?\*\/|(?<!:)\/\/.*(?:\n[ \t]*\/\/.*)*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`/g;
  const withMarkup = new RegExp(`${literal.source}|(?<=[>}])[^<>{}=;()'"\`]+(?=[<{])`, 'g');
  return [...text.matchAll(path.endsWith('.tsx') ? withMarkup : literal)].flatMap(([found], i, all) => {
    const line = lineAt(text, all[i]!.index);
    const isComment = /^\/[/*]/.test(found);
    if (!isComment && !/\S\s+\S|^['"]?[A-Z][a-z-]+['"]?$/.test(found)) return [];
    if (isTest && found.startsWith('`') && found.includes('\n')) return []; // A program or a page that the test writes.
    const isSql = /^`\s*(select|insert|update|delete|with|create|alter|do)\b/i.test(found);
    const plain = found.replaceAll("\\'", "'").replaceAll(/^[ \t]*(\/\/|\*(?!\/))/gm, '');
    const code = isComment ? [/`[^`]*`/g] : isSql ? [/^.*?(--|$)/gm] : [/\$\{[^}]*\}/g, /(?!^)`[^`]*`(?!$)/g, /<[^>]*>/g, /\\./g];
    // Other strings of a test are its data.
    const spelled = isComment || !isTest || /\b(test|told)\(\s*$/.test(text.slice(0, all[i]!.index));
    return [{ line, spelled, text: without(plain, ...code, /\bhttps?:\S+/g) }];
  });
}

const dictionary = (file: string): string => gunzipSync(readFileSync(join(ROOT, 'node_modules/@cspell', file))).toString('utf8');
const english = decodeTrie(dictionary('dict-en_us/en_US.trie.gz'));
const terms = dictionary('dict-software-terms/dict/softwareTerms.txt.gz');
const ours = readFileSync(join(ROOT, WORDS), 'utf8');
const others = new Set([...parseDictionaryLines(`${terms}\n${ours}`)].map((word) => word.replace(/^[~+*]+|[+*]+$/g, '').toLowerCase()));
const isKnown = (word: string): boolean =>
  english.has(word) || english.has(word.toLowerCase()) || others.has(word.toLowerCase()) || /^[A-Z]{2,}s?$/.test(word);

/** Every fault as `file:line: what is wrong`. Only plain words are spelled: not camelCase, snake_case, paths or words with digits. */
export function faultsOf(path: string, source: string): string[] {
  const ignored = [...source.matchAll(/cspell:ignore (.*)/g)].flatMap(([, words]) => words!.split(/[\s,]+/));
  return proseOf(path, source).flatMap(({ line, text, spelled }) => [
    ...PHRASES.flatMap(([phrase, instead]) =>
      [...text.matchAll(new RegExp(phrase.source.replaceAll(' ', '\\s+'), 'gi'))].map(
        (found) => `${path}:${line + lineAt(text, found.index) - 1}: "${found[0].replaceAll(/\s+/g, ' ')}": write ${instead}`,
      ),
    ),
    ...[...text.matchAll(/(?<![\p{L}\d_@#$%&/.\\:=+-]|\p{L}['’])[A-Za-z][a-z]{2,}(?:['’]t)?(?![\p{L}\d_/\\:=@+-]|\.\p{L}|\()/gu)]
      .filter(([word]) => !isKnown(word.replace('’', "'")) && !ignored.includes(word) && spelled)
      .map((found) => `${path}:${line + lineAt(text, found.index) - 1}: unknown word "${found[0]}"`),
  ]);
}

if (import.meta.main) {
  const wrong = faultsOf('a.ts', "// Whoever pays is\n// told anew.\nconst a = 'A neighbour and a mispeling of camelCase';");
  if (wrong.length !== 5) throw new Error(`the check does not find the faults of its own example: ${wrong.join('; ')}`);
  const paths = globSync(FILES, { cwd: ROOT }).filter((path) => !SKIPPED.test(path));
  const faults = paths.sort().flatMap((path) => faultsOf(path, readFileSync(join(ROOT, path), 'utf8')));
  for (const fault of faults) process.stdout.write(`${fault}\n`);
  if (faults.length > 0) {
    process.stdout.write(
      `${faults.length} faults. Put code in backticks; add a word that is correct to ${WORDS}, one per line. The rule is in STYLE.md.\n`,
    );
    process.exitCode = 1;
  }
}
