/**
 * Names of parameters that a request contains and its route does not accept. Those that were probably meant to have an effect are
 * refused: if dropped silently, a misspelled currency requests another coin and a misspelled filter returns everything.
 */
import type { TSchema } from 'typebox';
import { Problem } from '#core/problem';
import { mistakesBetween } from '#core/text';
import type { JsonValue } from '#transport';
import type { Query } from './read.ts';
import type { ApiRoute } from './route.ts';

/** Names in a request that its route does not accept: what is refused and why, and what is ignored, as `items[].color`. */
export type UnknownParameters = { refused: readonly { param: string; hint: string }[]; ignored: readonly string[] };
/** Null when every name is known, the fast path for most requests. `isStrict` is called otherwise: refuse all of them? */
type CheckNames = (given: { query: Query; body: JsonValue; isStrict: () => Promise<boolean> }) => Promise<UnknownParameters> | null;

/** The names of an object in a body, and those of the objects in it. Objects not in `inside` have names that callers choose. */
/** `inside`: the names of objects and of the rows of lists; `lists`: which of them are lists. */
type Tree = {
  names: ReadonlySet<string>;
  listed: readonly string[];
  inside: ReadonlyMap<string, Tree>;
  lists: ReadonlySet<string>;
};
/** A name where it was found: `param` is its path, `shape` the same for all rows of an array. */
type Stranger = { name: string; param: string; shape: string; place: 'query' | 'body'; names: readonly string[] };

/** Longer names are not typos. */
const LONGEST_NAME = 100;
/** This many names of a request are compared with known ones; further ones are ignored and reported as ignored. */
const MOST_COMPARED = 50;
/** This many of the refused or ignored names are reported. */
const MOST_TOLD = 20;

/** A check for each route, from the schemas that validate. Siblings are all routes given. */
export function createNameChecks(routes: readonly ApiRoute[]): ReadonlyMap<ApiRoute, CheckNames> {
  const elsewhere = { query: new Map<string, string>(), body: new Map<string, string>() };
  for (const route of routes) {
    const takes = `This request does not take it; ${route.method} ${route.path.replace(/:(\w+)/g, '{$1}')} does.`;
    const body = namesWithin(treeOf(route.body));
    for (const name of body) if (!elsewhere.body.has(name)) elsewhere.body.set(name, takes);
    for (const name of namesOf(route.query)) if (!elsewhere.query.has(name)) elsewhere.query.set(name, takes);
  }
  // A query that takes the name is the better hint than a body that does.
  for (const [name, takes] of elsewhere.body) if (!elsewhere.query.has(name)) elsewhere.query.set(name, takes);
  return new Map(routes.map((route) => [route, checkOf(route, elsewhere)]));
}

function checkOf(route: ApiRoute, elsewhere: Record<'query' | 'body', ReadonlyMap<string, string>>): CheckNames {
  const listed = namesOf(route.query);
  const query = new Set(listed);
  const maps = mapsOf(route.query);
  const tree = treeOf(route.body);
  // Closer ones replace more distant ones: a filter by a shown field, a parameter sent in the query, one a level too high.
  const siblings = {
    query: new Map([
      ...elsewhere.query,
      ...rowFieldsOf(route.reply).map((name) => [name, 'This list cannot be filtered by it.'] as const),
      ...tree.listed.map((name) => [name, 'Send it in the body.'] as const),
    ]),
    body: new Map([...elsewhere.body, ...placesOf(tree)]),
  };
  return ({ query: asked, body, isStrict }) => {
    const refusal = async () => (isOurs(route) ? NONE_IGNORED : (await isStrict()) ? STRICT : null);
    const strangers: Stranger[] = [];
    for (const name in asked)
      if (!query.has(name) && !maps.has(/^(\w+)\[.*\]$/s.exec(name)?.[1] ?? ''))
        strangers.push({ name, param: name, shape: name, place: 'query', names: listed });
    findStrangers(body, tree, { path: '', shape: '' }, strangers);
    return strangers.length === 0 ? null : judge(strangers, siblings, refusal);
  };
}

function findStrangers(value: JsonValue, tree: Tree, at: { path: string; shape: string }, found: Stranger[]): void {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return;
  for (const name in value) {
    if (!tree.names.has(name)) {
      found.push({ name, param: at.path + name, shape: at.shape + name, place: 'body', names: tree.listed });
      continue;
    }
    const inside = tree.inside.get(name);
    if (!inside) continue;
    const held = value[name]!;
    const rows = Array.isArray(held) ? held : [held];
    const place = (i: number) => (Array.isArray(held) ? `${at.path}${name}[${i}].` : `${at.path}${name}.`);
    const shape = `${at.shape}${name}${Array.isArray(held) ? '[]' : ''}.`;
    for (const [i, row] of rows.entries()) findStrangers(row, inside, { path: place(i), shape }, found);
  }
}

async function judge(
  strangers: readonly Stranger[],
  siblings: Record<'query' | 'body', ReadonlyMap<string, string>>,
  refusal: () => Promise<string | null>,
): Promise<UnknownParameters> {
  const hints = new Map<string, string | null>();
  const keyOf = ({ place, shape }: Stranger) => `${place} ${shape}`;
  for (const stranger of strangers) {
    const { name, names, place } = stranger;
    if (hints.has(keyOf(stranger))) continue;
    hints.set(keyOf(stranger), hints.size < MOST_COMPARED ? hintFor(name, names, siblings[place]) : null);
  }
  const rest = [...hints.values()].includes(null) ? await refusal() : null;
  const refused: { param: string; hint: string }[] = [];
  const ignored = new Set<string>();
  for (const stranger of strangers) {
    const hint = hints.get(keyOf(stranger)) ?? (rest && (usualHint(stranger) ?? rest));
    if (hint === null) ignored.add(cut(stranger.shape));
    else refused.push({ param: cut(stranger.param), hint });
  }
  return { refused, ignored: [...ignored] };
}
const STRICT = 'Your settings refuse parameters that a request does not take.';
const NONE_IGNORED = 'This request does not take it.';
/** The documented interface leaves open what unknown names do, so its own paths ignore them; none of ours does. */
const isOurs = ({ path }: ApiRoute): boolean => path.startsWith('/v1/') && path !== '/v1/transactions/create';

/** What lists elsewhere are asked for, and how it is asked for here. */
const USUAL: readonly [elsewhere: RegExp, here: string, hint: string][] = [
  [/^(page|offset|cursor|after|skip)$/, 'starting_after', 'Lists go on after a row: pass the `id` of the last one as starting_after.'],
  [/^(page_?size|per_page|count|size)$/, 'limit', 'Did you mean limit?'],
  [/^created(\[\w*\])?$/, 'created_after', 'Use created_after and created_before.'],
];
const usualHint = ({ name, names }: Stranger): string | null =>
  USUAL.find(([elsewhere, here]) => elsewhere.test(name) && names.includes(here))?.[2] ?? null;

/** A problem for each refused name. */
export const unknownProblems = (refused: UnknownParameters['refused']): Problem[] =>
  refused.slice(0, MOST_TOLD).map(({ param, hint }) => new Problem('parameter_unknown', { hint }, { param }));

/** Names in a header: separated by commas, with other characters escaped as in a URL. */
export function ignoredHeader(names: readonly string[]): string {
  const escaped = names
    .slice(0, MOST_TOLD)
    .map((name) => name.toWellFormed().replace(/[^\x21-\x24\x26-\x2b\x2d-\x7e]/gu, encodeURIComponent));
  return [...escaped, ...(names.length > MOST_TOLD ? ['...'] : [])].join(', ');
}
const cut = (name: string): string => (name.length <= LONGEST_NAME ? name : `${name.slice(0, LONGEST_NAME)}…`);

/** What was probably meant, as a sentence; null when the name resembles nothing. */
function hintFor(given: string, names: readonly string[], siblings: ReadonlyMap<string, string>): string | null {
  if (given.length > LONGEST_NAME) return null;
  // Other services write `status[]` and `metadata.order` for `status` and `metadata`.
  const name = given.split(/[[.]/, 1)[0]!;
  const meant = nearest(name, names, mistakesAllowed);
  if (meant !== null) return `Did you mean ${meant}?`;
  const told = siblings.get(given) ?? siblings.get(name);
  if (told !== undefined) {
    // `address` where the request itself takes `payment_address`.
    const longer = names.find((known) => known.endsWith(`_${name}`));
    return longer === undefined ? told : `Did you mean ${longer}?`;
  }
  // For names of other routes, only a typo of one letter: there are many of them.
  const sibling = nearest(name, [...siblings.keys()], (known) => Math.min(1, mistakesAllowed(known)));
  return sibling === null ? null : `Did you mean ${sibling}? ${siblings.get(sibling)}`;
}

/** Ignores the naming convention: amountUsd, amount-usd and AMOUNT_USD are amount_usd. */
const plain = (name: string): string => name.replace(/[_\-\s]/g, '').toLowerCase();
/** Short names have too many neighbors: `tax` and `fax`, `name` and `note`. */
const mistakesAllowed = (known: string): number => (known.length <= 3 ? 0 : known.length <= 5 ? 1 : 2);

function nearest(given: string, names: readonly string[], allowed: (known: string) => number): string | null {
  const word = plain(given);
  const same = names.find((name) => plain(name) === word);
  if (same !== undefined) return same;
  const lower = given.toLowerCase();
  let best: { name: string; mistakes: number } | null = null;
  for (const name of names) {
    const most = Math.min(allowed(name), best === null ? 2 : best.mistakes - 1);
    if (most < 1 || Math.abs(name.length - lower.length) > most) continue;
    const mistakes = mistakesBetween(lower, name, most);
    if (mistakes <= most) best = { name, mistakes };
  }
  return best?.name ?? null;
}

type Described = { type?: string; properties?: Record<string, TSchema>; items?: TSchema; anyOf?: TSchema[] };
const namesOf = (schema: TSchema | undefined): string[] => Object.keys((schema as Described | undefined)?.properties ?? {});

/** Query parameters written as `name[key]=value` or `name[]=value`; callers choose the keys. */
const mapsOf = (schema: TSchema | undefined): ReadonlySet<string> =>
  new Set(
    Object.entries((schema as Described | undefined)?.properties ?? {}).flatMap(([name, held]) =>
      'patternProperties' in held || (held as Described).type === 'array' ? [name] : [],
    ),
  );

function treeOf(schema: TSchema | undefined): Tree {
  const properties = (schema as Described | undefined)?.properties ?? {};
  const inside = new Map<string, Tree>();
  const lists = new Set<string>();
  for (const [name, held] of Object.entries(properties)) {
    const { items } = held as Described;
    if (items) lists.add(name);
    const row = items ?? held;
    if ((row as Described).properties) inside.set(name, treeOf(row));
  }
  const listed = Object.keys(properties);
  return { names: new Set(listed), listed, inside, lists };
}
const rowsOf = (tree: Tree): [string, Tree][] => [...tree.inside].filter(([name]) => tree.lists.has(name));
const namesWithin = (tree: Tree): string[] => [...tree.names, ...rowsOf(tree).flatMap(([, rows]) => namesWithin(rows))];

/** The names of one body and of the rows of its lists, each with where it belongs. Other objects have names that say little, such as `name`. */
function placesOf(tree: Tree, path = ''): [string, string][] {
  return [
    ...rowsOf(tree).flatMap(([name, rows]) => placesOf(rows, `${path}${name}[]`)),
    ...tree.listed.map((name): [string, string] => [
      name,
      path === '' ? 'It belongs in the body itself, next to the list.' : `It belongs in ${path}.`,
    ]),
  ];
}

/** Fields of the rows of a list. */
function rowFieldsOf(reply: TSchema): string[] {
  const data = (reply as Described).properties?.data as Described | undefined;
  return namesOf(data?.items);
}
