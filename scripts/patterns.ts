/**
 * Checks that every regular expression which ships takes linear time on any text: in TypeScript, JavaScript and PHP, as a literal, a
 * `RegExp` or the `pattern` of a schema. Most are proven in `scripts/patterns-linear.ts`; `recheck` analyzes the automaton of the others
 * and attacks those that it cannot analyze with texts that grow.
 */
import { globSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import type * as Recheck from 'recheck';
import { parseSync } from 'vite';
import { isProvenLinear } from './patterns-linear.ts';

// Its file for browsers runs in this process; the other one looks for programs for this platform.
const { checkSync } = createRequire(import.meta.url)('recheck/lib/browser.js') as typeof Recheck;

const ROOT = join(import.meta.dirname, '..');
const FILES = ['{src,sdk,signer,dashboard,plugins,examples}/**/*.{ts,tsx,js,mjs,php}', 'scripts/slim.mjs'];
const SKIPPED = /\.test\.ts$|(^|\/)vite\.config\.ts$|(^|\/)node_modules\/|^dashboard\/generated\/|^plugins\/woocommerce\/tests\//;

/** An expression, or the code of one that is put together when it runs. */
export type Expression = { place: string; source: string; flags: string } | { place: string; code: string };
type Literal = { source: string; flags: string };

/** Expressions that take longer than linear, with the bound of the text that they read. An entry that is not needed is reported. */
const EXCEPTIONS: readonly { file: string; expression: string; bound: string }[] = [];
/** Expressions that are put together when the service runs, with what they can become. */
const PUT_TOGETHER: readonly { file: string; code: RegExp; becomes: readonly Literal[] }[] = [
  {
    file: 'src/core/text.ts',
    code: /^new RegExp\(`\(\?:"/,
    becomes: [',', ';', '\t'].map((separator) => ({
      source: `(?:"((?:[^"]|"")*)"|([^"${separator}\\r\\n]*))(${separator}|\\r?\\n|\\r|$)`,
      flags: 'y',
    })),
  },
  {
    file: 'src/http/server.ts',
    code: /^new RegExp\(`\^\$\{path\.replace/,
    becomes: [{ source: '^/v1/payments/[^/]+/events/[^/]+$', flags: '' }],
  },
];

type Node = { type: string; start: number; end: number; [name: string]: unknown };
const isNode = (value: unknown): value is Node => typeof value === 'object' && value !== null && typeof (value as Node).type === 'string';

/** The text of a string or template whose parts are constants of the same file, such as the base of a longer expression. */
function textOf(node: unknown, constants: ReadonlyMap<string, unknown>): string | null {
  if (!isNode(node)) return null;
  if (node.type === 'Literal') return typeof node.value === 'string' ? node.value : null;
  if (node.type === 'Identifier') return textOf(constants.get(node.name as string), new Map());
  if (node.type === 'MemberExpression' && (node.property as Node).name === 'source' && isNode(node.object)) {
    const held = constants.get(node.object.name as string);
    return isNode(held) && held.regex ? (held.regex as { pattern: string }).pattern : null;
  }
  if (node.type !== 'TemplateLiteral') return null;
  const parts = (node.expressions as unknown[]).map((part) => textOf(part, constants));
  if (parts.includes(null)) return null;
  return (node.quasis as { value: { cooked: string } }[]).map(({ value }, i) => value.cooked + (parts[i] ?? '')).join('');
}

const nameOf = (node: unknown): unknown => (isNode(node) ? (node.name ?? node.value) : undefined);

/** What `RegExp(...)`, a `pattern` of a schema, or a text given to `match` and `search` makes. */
function madeBy(node: Node, constants: ReadonlyMap<string, unknown>): Literal | 'unknown' | null {
  const [first, second] = (node.arguments as unknown[] | undefined) ?? [];
  if (/^(New|Call)Expression$/.test(node.type) && nameOf(node.callee) === 'RegExp') {
    const flags = second === undefined ? '' : textOf(second, constants);
    const held = isNode(first) && first.type === 'Identifier' ? constants.get(first.name as string) : undefined;
    const source = isNode(held) && held.regex ? (held.regex as { pattern: string }).pattern : textOf(first, constants);
    return source === null || flags === null ? 'unknown' : { source, flags };
  }
  const isMatch = node.type === 'CallExpression' && /^(match|matchAll|search)$/.test(String(nameOf((node.callee as Node).property)));
  if (isMatch && isNode(first) && first.type === 'Literal' && typeof first.value === 'string') return { source: first.value, flags: '' };
  if (node.type !== 'Property' || nameOf(node.key) !== 'pattern' || (node.value as Node).regex) return null;
  const source = textOf(node.value, constants);
  return source === null ? null : { source, flags: 'u' };
}

function inScript(path: string, text: string): Expression[] {
  const { program, errors } = parseSync(path, text);
  if (errors.length > 0) throw new Error(`${path} cannot be read: ${errors[0]!.message}`);
  const constants = new Map<string, unknown>();
  const found: Expression[] = [];
  const placeOf = ({ start }: Node): string => `${path}:${text.slice(0, start).split('\n').length}`;
  const visit = (value: unknown, see: (node: Node) => void): void => {
    if (Array.isArray(value)) for (const item of value) visit(item, see);
    else if (isNode(value)) {
      see(value);
      for (const inner of Object.values(value)) visit(inner, see);
    }
  };
  visit(program, ({ type, id, init }) => type === 'VariableDeclarator' && isNode(id) && constants.set(id.name as string, init));
  visit(program, (node) => {
    const literal = node.regex as { pattern: string; flags: string } | undefined;
    const made = literal ? { source: literal.pattern, flags: literal.flags } : madeBy(node, constants);
    if (made === 'unknown') found.push({ place: placeOf(node), code: text.slice(node.start, node.end) });
    else if (made) found.push({ place: placeOf(node), ...made });
  });
  return found;
}

/** Calls of `preg_...`: their first argument is a text with delimiters, or else it is put together. */
function inPhp(path: string, text: string): Expression[] {
  return [...text.matchAll(/\bpreg_(?!quote|last_error)\w+\(\s*/g)].map((call): Expression => {
    const rest = text.slice(call.index + call[0].length, call.index + call[0].length + 2_000);
    const place = `${path}:${text.slice(0, call.index).split('\n').length}`;
    const quoted = /^'((?:[^'\\]|\\.)*)'\s*[,)]/s.exec(rest)?.[1]?.replace(/\\(['\\])/g, '$1');
    const end = quoted?.lastIndexOf(quoted[0]!) ?? 0;
    if (quoted === undefined || end < 1) return { place, code: rest.slice(0, 80) };
    // A character as people see it, which is taken whole: JavaScript has no name for it.
    return { place, source: quoted.slice(1, end).replaceAll('\\X', '.'), flags: quoted.slice(end + 1) };
  });
}

/** Every expression of a file. */
export const expressionsOf = (path: string, text: string): Expression[] =>
  path.endsWith('.php') ? inPhp(path, text) : inScript(path, text);

/** Null if it takes linear time, else how long it takes and on which text. */
export function slownessOf({ source, flags }: Literal): string | null {
  if (isProvenLinear(source, flags)) return null;
  const found = checkSync(source, flags, { timeout: 60_000, incubationTimeout: 2_000, attackTimeout: 5_000 });
  if (found.status === 'safe') return null;
  if (found.status === 'unknown') return `not analyzed: ${found.error.kind}`;
  return `${found.complexity.summary}, such as on ${found.attack.pattern.slice(0, 100)}`;
}

/** What must be found, or the check itself is wrong. */
const WRONG: readonly string[] = [
  String.raw`const a = /([?&](?:[^=&#"\s]*(?:secret|token)[^=&#"\s]*)=)/gi;`,
  String.raw`const a = /^\s*(?:<!--[\s\S]*?-->\s*)*<svg[\s>]/.test(b);`,
  String.raw`a.split(/\s+(?=cHNidP)/)`,
  'const part = /x+/; const a = new RegExp(`^(?:$' + '{part.source})*y`);',
  "const a = { pattern: '^(a|a)+$' };",
];

function examine(): void {
  for (const example of WRONG) {
    const found = expressionsOf('a.ts', example).filter((it) => 'code' in it || slownessOf(it) !== null);
    if (found.length === 0) throw new Error(`the check does not find the slow expression of its own example: ${example}`);
  }
}

const textFor = (it: Expression): string => ('code' in it ? it.code : `/${it.source}/${it.flags}`);

/** What the other threads found out, by the text of the expression. */
async function slowAmong(literals: readonly Literal[]): Promise<Map<string, string>> {
  const slow = new Map<string, string>();
  const waiting = [...literals];
  const work = (worker: Worker): Promise<void> =>
    new Promise((resolve, reject) => {
      const next = (): void => {
        const literal = waiting.shift();
        if (literal) worker.postMessage(literal);
        else void worker.terminate().then(() => resolve());
      };
      worker.on('error', reject);
      worker.on('message', ({ literal, slowness }: { literal: Literal; slowness: string | null }) => {
        if (slowness !== null) slow.set(textFor({ place: '', ...literal }), slowness);
        next();
      });
      next();
    });
  const workers = [1, 2].map(() => new Worker(new URL(import.meta.url), { workerData: 'patterns', execArgv: process.execArgv }));
  await Promise.all(workers.map(work));
  return slow;
}

async function main(): Promise<void> {
  examine();
  const paths = globSync(FILES, { cwd: ROOT }).filter((path) => !SKIPPED.test(path));
  const all = paths.sort().flatMap((path) => expressionsOf(path, readFileSync(join(ROOT, path), 'utf8')));
  const candidates = [...all, ...PUT_TOGETHER.flatMap(({ becomes }) => becomes.map((it) => ({ place: '', ...it })))];
  const open = new Map(
    candidates.flatMap((it) => ('code' in it || isProvenLinear(it.source, it.flags) ? [] : [[textFor(it), it] as const])),
  );
  const slow = await slowAmong([...open.values()]);
  const used = new Set<object>();
  const faults = all.flatMap((it) => {
    const expression = textFor(it);
    const slowness = 'code' in it ? 'put together when it runs' : slow.get(expression);
    if (slowness === undefined) return [];
    const exception =
      'code' in it
        ? PUT_TOGETHER.find(({ file, code }) => it.place.startsWith(`${file}:`) && code.test(expression))
        : EXCEPTIONS.find((one) => it.place.startsWith(`${one.file}:`) && one.expression === expression);
    if (exception) used.add(exception);
    return exception ? [] : [`${it.place}: ${slowness}: ${expression}`];
  });
  for (const { file, becomes } of PUT_TOGETHER)
    for (const it of becomes) if (slow.has(textFor({ place: '', ...it }))) faults.push(`${file}: ${textFor({ place: '', ...it })}`);
  for (const it of [...EXCEPTIONS, ...PUT_TOGETHER]) if (!used.has(it)) faults.push(`${it.file}: remove an exception that is not needed`);
  for (const fault of faults) process.stdout.write(`${fault}\n`);
  if (faults.length === 0) return;
  process.stdout.write(
    'Text from others must cost linear time. Change the expression, or use indexOf or a parser. The rule is in STYLE.md.\n',
  );
  process.exitCode = 1;
}

if (!isMainThread && workerData === 'patterns')
  parentPort!.on('message', (literal: Literal) => parentPort!.postMessage({ literal, slowness: slownessOf(literal) }));
else if (import.meta.main) await main();
