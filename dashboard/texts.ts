/**
 * Finds the texts that people read in a source file, and puts look-ups in their place. The sources are written in plain English; the
 * build makes `<p>Paid {amount} of {total}.</p>` look up "Paid {0} of {1}." in the words of the language. Elements inside of a text are
 * part of it: `Read <Link>the guide</Link> first.` has the key "Read <0>the guide</0> first."
 */
import { parseSync } from 'vite';

type Node = { type: string; start: number; end: number } & { [field: string]: unknown };
const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && typeof (value as Node).type === 'string' && typeof (value as Node).start === 'number';
const nodesOf = (value: unknown): Node[] => (Array.isArray(value) ? value.filter(isNode) : []);
const nodeOf = (value: unknown): Node => value as Node;
const stringOf = (node: Node | null): string | null => (node?.type === 'Literal' && typeof node.value === 'string' ? node.value : null);
const cooked = ({ value }: Node): string => (value as { cooked: string }).cooked;

/** Files whose texts are looked up. */
export function hasTexts(path: string): boolean {
  const name = path.slice(path.lastIndexOf('/dashboard/') + '/dashboard/'.length);
  return (
    /^(?:main\.tsx|screens\.ts|(?:lib|screens|shell|ui)\/.+\.tsx?)$/.test(name) && !/^lib\/(?:jsx-runtime|language|words)\.ts$/.test(name)
  );
}

/** Attributes and properties that nobody reads. All others are read where they look like words. */
const UNREAD =
  /^(?:className|class|type|key|id|role|href|src|to|rel|target|htmlFor|method|autoComplete|inputMode|scope|d|viewBox|pattern|accept|sandbox|allow|content|lang|dir|style|transform|aria-(?:keyshortcuts|controls|describedby|labelledby|current|live)|data-.*)$/;
/** Those that are read even if they are a single word in lower case. */
const READ = /^(?:aria-label|title|label|hint|lead|text|word|placeholder|note)$/;
/** Functions whose texts are for programs. */
const UNREAD_CALLS =
  /^(?:querySelector(?:All)?|getElementById|addEventListener|removeEventListener|setAttribute|getItem|setItem|startsWith|endsWith|includes|indexOf|has|get|replace|replaceAll|split|test|useApi|useList|useAct|call|buttonClass|lazyRouteComponent|DateTimeFormat|NumberFormat|ListFormat|DisplayNames|RegExp|Set|matchMedia|createElement)$/;

const LETTER = /\p{L}/u;
const WORD = /^[“‘("]?\p{L}[\p{L}’'-]*\p{L}[.,:;?!…)”’"]*$/u;
const ADDRESS = /^(?:GET|POST|PUT|PATCH|DELETE) \/|^(?:[a-z]+:\/\/|[./#])\S*$/;
/** A class of the style sheet. */
const isStyle = (token: string): boolean => /^-?[a-z]+(?:-[a-z0-9[\]().%/]+)+$|[[\]]|^[a-z-]+:[a-z-]/.test(token);
/** Whether a text looks like words and not like a name or a value of the program. `known`: it is in a place where people read it. */
function looksRead(text: string, known: boolean): boolean {
  const tokens = text.trim().split(/\s+/);
  // Only programs that are shown as an example have lines.
  if (!LETTER.test(text) || text.includes('\n') || ADDRESS.test(text)) return false;
  const startsAsSentence = /^[“‘(]?\p{Lu}/u.test(tokens[0]!);
  if (!startsAsSentence && tokens.some(isStyle)) return false;
  if (known) return true;
  if (tokens.length === 1) return /^[“‘]?\p{Lu}[\p{Ll}’]+(?:-\p{Ll}+)?[.:…?!]?$/u.test(tokens[0]!);
  return tokens.some((token) => WORD.test(token));
}

/** JSX leaves out line breaks and the indentation around them. */
function jsxText(raw: string): string {
  if (!raw.includes('\n')) return raw;
  const lines = raw.split('\n');
  return lines
    .map((line, i) => {
      const start = i === 0 ? line : line.trimStart();
      return i === lines.length - 1 ? start : start.trimEnd();
    })
    .filter((line) => line !== '')
    .join(' ');
}
const nameOf = (element: Node): string => String(nodeOf(nodeOf(element.openingElement).name).name ?? '');
const expressionIn = (child: Node): Node | null => (child.type === 'JSXExpressionContainer' ? nodeOf(child.expression) : null);
/** The text of a child, its blanks left out; null if it is not a text. */
function textIn(child: Node): string | null {
  if (child.type === 'JSXText') return jsxText(String(child.value));
  const expression = expressionIn(child);
  return expression?.type === 'TemplateLiteral' ? nodesOf(expression.quasis).map(cooked).join(' ') : stringOf(expression);
}
const hasText = (children: readonly Node[]): boolean => children.some((child) => LETTER.test(textIn(child) ?? ''));
const isAsWritten = (element: Node): boolean => element.type === 'JSXElement' && /^(?:code|kbd|pre)$/.test(nameOf(element));
const isIcon = (child: Node): boolean => child.type === 'JSXElement' && nameOf(child).endsWith('Icon');

/** `compared`: texts that the program compares. One that is also a key would be compared with its translation. */
export type Texts = { code: string; keys: string[]; compared: string[] };
type Work = { source: string; keys: string[]; compared: string[] };

/** The code of a file with its texts looked up, and their keys in order. */
export function findTexts(source: string, file: string): Texts {
  const { program, errors } = parseSync(file, source);
  if (errors.length > 0) throw new Error(`${file}: ${errors[0]!.message}`);
  const work: Work = { source, keys: [], compared: [] };
  const { start, end } = program;
  const code = source.slice(0, start) + emit(work, program as unknown as Node) + source.slice(end);
  return { code, keys: work.keys, compared: work.compared };
}

const asIs = ({ source }: Work, node: Node): string => source.slice(node.start, node.end);

/** The source of a node, `each` in place of its children. */
function within({ source }: Work, node: Node, each: (child: Node) => string): string {
  const children = Object.values(node)
    .flatMap((value) => (isNode(value) ? [value] : nodesOf(value)))
    .sort((a, b) => a.start - b.start);
  let text = '';
  let at = node.start;
  for (const child of children) {
    // In `{ name }`, key and value are the same place.
    if (child.start < at) continue;
    text += source.slice(at, child.start) + each(child);
    at = child.end;
  }
  return text + source.slice(at, node.end);
}

/** A look-up, and the spaces around the text, which are not part of the key. */
function lookUp({ keys }: Work, how: '$text' | '$nodes', text: string, args: readonly string[]) {
  const key = text.trim();
  const at = text.indexOf(key);
  keys.push(key);
  return { before: text.slice(0, at), call: `${how}(${[JSON.stringify(key), ...args].join(', ')})`, after: text.slice(at + key.length) };
}
function asString(work: Work, text: string, args: readonly string[] = []): string {
  const { before, call, after } = lookUp(work, '$text', text, args);
  const parts = [before && JSON.stringify(before), call, after && JSON.stringify(after)].filter((part) => part !== '');
  return parts.length === 1 ? call : `(${parts.join(' + ')})`;
}

/** The source of a node with its texts looked up. `read`: people read its value. */
function emit(work: Work, node: Node, read = false): string {
  switch (node.type) {
    case 'ImportDeclaration':
    case 'ExportAllDeclaration':
    case 'ImportExpression':
    case 'TaggedTemplateExpression':
      return asIs(work, node);
    case 'Literal': {
      const text = stringOf(node);
      return text !== null && looksRead(text, read) ? asString(work, text) : asIs(work, node);
    }
    case 'TemplateLiteral':
      return emitTemplate(work, node, read);
    case 'ConditionalExpression':
      return within(work, node, (child) => emit(work, child, read && child !== node.test));
    case 'LogicalExpression':
      return within(work, node, (child) => emit(work, child, read && (child === node.right || node.operator !== '&&')));
    case 'ParenthesizedExpression':
    case 'TSAsExpression':
    case 'TSSatisfiesExpression':
    case 'TSNonNullExpression':
      return within(work, node, (child) => (child === node.expression ? emit(work, child, read) : asIs(work, child)));
    case 'BinaryExpression':
      return within(work, node, (child) => (node.operator === '+' ? emit(work, child) : emitCompared(work, child)));
    case 'SwitchCase':
      return within(work, node, (child) => (child === node.test ? emitCompared(work, child) : emit(work, child)));
    case 'Property':
      return emitProperty(work, node);
    case 'MemberExpression':
      return within(work, node, (child) => (child === node.property && stringOf(child) !== null ? asIs(work, child) : emit(work, child)));
    case 'CallExpression':
    case 'NewExpression':
      return emitCall(work, node);
    case 'JSXAttribute':
      return emitAttribute(work, node);
    case 'JSXElement':
    case 'JSXFragment':
      return emitElement(work, node);
    default:
      return node.type.startsWith('TS') ? asIs(work, node) : within(work, node, (child) => emit(work, child));
  }
}

function emitCompared(work: Work, node: Node): string {
  const text = stringOf(node);
  if (text === null) return emit(work, node);
  work.compared.push(text);
  return asIs(work, node);
}

function emitTemplate(work: Work, node: Node, read: boolean): string {
  const quasis = nodesOf(node.quasis).map(cooked);
  const expressions = nodesOf(node.expressions);
  const isSpaced = expressions.length === 0 || quasis.some((quasi) => /\s/.test(quasi));
  const isText = read
    ? looksRead(quasis.join(' 0 '), true)
    : isSpaced && looksRead(quasis.join(' 0 '), false) && !/^[\w-]*[/?=&]/.test(quasis[0]!);
  if (!isText) return within(work, node, (child) => emit(work, child, read));
  const text = quasis.map((quasi, i) => (i < expressions.length ? `${quasi}{${i}}` : quasi)).join('');
  return asString(
    work,
    text,
    expressions.map((expression) => emit(work, expression, true)),
  );
}

function emitProperty(work: Work, node: Node): string {
  const { source } = work;
  const { key, value, shorthand, computed } = node as Node & { key: Node; value: Node; shorthand: boolean; computed: boolean };
  // `{ name = 'default' }` in a pattern.
  if (shorthand) return emit(work, value);
  const name = String(key.name ?? key.value);
  const before = source.slice(node.start, key.start) + (computed ? emit(work, key) : asIs(work, key));
  const isUnread = UNREAD.test(name) && stringOf(value) !== null;
  const after = isUnread ? asIs(work, value) : emit(work, value, READ.test(name));
  return before + source.slice(key.end, value.start) + after + source.slice(value.end, node.end);
}

function emitCall(work: Work, node: Node): string {
  const callee = nodeOf(node.callee);
  const name = String((callee.type === 'MemberExpression' ? nodeOf(callee.property).name : callee.name) ?? '');
  return within(work, node, (child) => (UNREAD_CALLS.test(name) && child !== callee ? emitCompared(work, child) : emit(work, child)));
}

function emitAttribute(work: Work, node: Node): string {
  const name = String(nodeOf(node.name).name);
  if (!isNode(node.value) || UNREAD.test(name)) return asIs(work, node);
  const { value } = node;
  const before = work.source.slice(node.start, value.start);
  const text = stringOf(value);
  if (text === null) return before + within(work, value, (child) => emit(work, child, READ.test(name)));
  return looksRead(text, READ.test(name)) ? `${before}{${asString(work, text)}}` : asIs(work, node);
}

function emitElement(work: Work, node: Node): string {
  const children = nodesOf(node.children);
  const last = children.at(-1);
  if (!last || isAsWritten(node) || !hasText(children))
    return within(work, node, (child) =>
      child.type === 'JSXExpressionContainer' ? within(work, child, (inner) => emit(work, inner, !isAsWritten(node))) : emit(work, child),
    );
  const open = within(work, nodeOf(node.openingElement ?? node.openingFragment), (child) => emit(work, child));
  // Icons before a text are not part of it.
  const first = children.findIndex((child) => !isIcon(child) && textIn(child)?.trim() !== '');
  const icons = children.slice(0, first).map((child) => emit(work, child));
  const args: string[] = [];
  const { before, call, after } = lookUp(work, '$nodes', messageOf(work, children.slice(first), args), args);
  const space = (text: string): string => text && `{${JSON.stringify(text)}}`;
  return `${open}${icons.join('')}${space(before)}{${call}}${space(after)}${work.source.slice(last.end, node.end)}`;
}

/** The text of children with a blank for everything else, whose code is added to the arguments. */
function messageOf(work: Work, children: readonly Node[], args: string[]): string {
  const blank = (code: string): string => `{${args.push(code) - 1}}`;
  return children
    .map((child) => {
      if (child.type === 'JSXText') return jsxText(String(child.value));
      const inner = child.type === 'JSXElement' ? nodesOf(child.children) : [];
      if (hasText(inner)) {
        const tag = within(work, nodeOf(child.openingElement), (part) => emit(work, part));
        const index = args.push(tag + work.source.slice(inner.at(-1)!.end, child.end)) - 1;
        return `<${index}>${messageOf(work, inner, args)}</${index}>`;
      }
      const expression = expressionIn(child);
      if (expression === null) return blank(emit(work, child));
      if (expression.type === 'JSXEmptyExpression') return '';
      if (expression.type !== 'TemplateLiteral') return stringOf(expression) ?? blank(emit(work, expression, true));
      const expressions = nodesOf(expression.expressions);
      return nodesOf(expression.quasis)
        .map((quasi, i) => cooked(quasi) + (expressions[i] ? blank(emit(work, expressions[i], true)) : ''))
        .join('');
    })
    .join('');
}
