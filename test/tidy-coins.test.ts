/** Checks that no code decides by the name of a coin: what differs is a row of a table or belongs to the folder of its family. */
// Invariant: No code decides by the name of a coin.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ASSETS, CHAIN_KINDS, CHAINS, COINS, FAMILIES } from '../src/core/coin.ts';
import { files, isNode, lineAt, type Node, read, visit } from './kit/syntax.ts';

const NAMES: ReadonlySet<unknown> = new Set(
  [...ASSETS, ...FAMILIES, ...COINS, ...CHAINS].filter((name) => !(CHAIN_KINDS as readonly string[]).includes(name)),
);
/** The tables, and the folders of families. */
const HOMES = /^src\/(core\/coin\.ts$|chains\/(bitcoin|ethereum)\/)/;
const TABLES = new Set(['ASSET', 'FAMILY', 'CHAIN', 'COIN', 'PARAMS']);

const unwrapped = (node: unknown): Node | null => {
  let inner = isNode(node) ? node : null;
  while (inner && /^(TSAsExpression|TSSatisfiesExpression|TSNonNullExpression|ParenthesizedExpression)$/.test(inner.type))
    inner = isNode(inner.expression) ? inner.expression : null;
  return inner;
};
const isName = (node: unknown): boolean => {
  const literal = unwrapped(node);
  return literal?.type === 'Literal' && NAMES.has(literal.value);
};
const nodes = (value: unknown): Node[] => (Array.isArray(value) ? value.filter(isNode) : []);
/** A list of names, or a set of them. */
const isNames = (node: unknown): boolean => {
  const list = unwrapped(node);
  if (list?.type === 'NewExpression') return nodes(list.arguments).some(isNames);
  return list?.type === 'ArrayExpression' && nodes(list.elements).some(isName);
};

const CHECKS: Readonly<Record<string, (node: Node) => boolean>> = {
  BinaryExpression: ({ operator, left, right }) => /^[!=]==?$/.test(String(operator)) && (isName(left) || isName(right)),
  SwitchCase: ({ test }) => isName(test),
  // `['A', 'B'].includes(coin)`
  CallExpression: ({ callee }) => {
    const called = unwrapped(callee);
    const property = called?.property as { name?: string } | undefined;
    return called?.type === 'MemberExpression' && /^(includes|indexOf|has)$/.test(property?.name ?? '') && isNames(called.object);
  },
  // `COIN.A`
  MemberExpression: ({ object, property }) => {
    const [table, row] = [object, property] as { type: string; name?: string; value?: unknown }[];
    return table?.type === 'Identifier' && TABLES.has(table.name ?? '') && (NAMES.has(row?.name) || NAMES.has(row?.value));
  },
  // `Exclude<Coin, 'A'>`
  TSTypeReference: ({ typeName, typeArguments }) => {
    const { name } = typeName as { name?: string };
    const given = nodes((typeArguments as { params?: unknown } | null)?.params);
    return /^(Exclude|Extract)$/.test(name ?? '') && given.some(({ literal }) => isName(literal));
  },
};

/** Places where code decides by the name of a coin, chain or family. */
export function decisionsByName(path: string, text: string): string[] {
  if (HOMES.test(path)) return [];
  const line = lineAt(text);
  const found: string[] = [];
  visit(path, text, (node) => {
    if (CHECKS[node.type]?.(node)) found.push(`${path}:${line(node.start)}: ${text.slice(node.start, node.end).split('\n')[0]}`);
  });
  return found;
}

test('no code decides by the name of a coin', () => {
  assert.deepEqual(
    [...files('src/**/*.ts'), ...files('dashboard/**/*.{ts,tsx}')].flatMap((path) => decisionsByName(path, read(path))),
    [],
  );
  const wrong = [
    "const a = coin === 'ETH';",
    "const a = 'DASH' !== coin;",
    "switch (coin) { case 'BTC': a(); }",
    "const a = ['LTC', 'DOGE'].includes(coin);",
    "const a = (['LTC', 'DOGE'] as const).includes(coin);",
    "const a = new Set(['LTC']).has(coin);",
    'const a = COIN.ETH.typicalSize;',
    "const a = COIN['ETH'].typicalSize;",
    "type A = Exclude<Coin, 'ETH'>;",
    "const a = chain === 'litecoin';",
  ];
  for (const text of wrong) assert.equal(decisionsByName('src/a.ts', text).length, 1, text);
  assert.deepEqual(decisionsByName('src/chains/bitcoin/a.ts', wrong[0]!), []);
  for (const text of ["const a = kindOf(coin) === 'ethereum';", 'const a = { ETH: 1 };', "const a = 'BTC';"])
    assert.deepEqual(decisionsByName('src/a.ts', text), [], text);
});
