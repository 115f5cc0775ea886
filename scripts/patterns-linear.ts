/** A fast proof that an expression takes linear time, for most of them; `scripts/patterns.ts` asks a slower analysis about the rest. */
import { type CharSet, JS, type NoParent, type Quantifier, type Element as ReElement } from 'refa';

/** No proof; says nothing about the expression. */
class Unproven extends Error {}

/** One character of the expression, in the automaton of Glushkov: each of its positions matches one set of characters. */
type Position = { set: CharSet; next: number[]; inLoop: boolean };
/** Positions at which a part can begin and end, and whether it can match nothing. */
type Part = { first: number[]; last: number[]; isEmpty: boolean };
type Built = { positions: Position[]; hasLateAssertion: boolean };

const NOTHING: Part = { first: [], last: [], isEmpty: true };
const MOST_POSITIONS = 1_500;
/** More repetitions than this are taken for any number of them. */
const MOST_COPIES = 64;
/** Ways through the parts outside of loops: a constant factor. */
const MOST_WAYS = 1_000;

function connect(built: Built, from: readonly number[], to: readonly number[]): void {
  for (const a of from)
    for (const b of to) {
      // Two ways from one place to another are two ways to match the same text.
      if (built.positions[a]!.next.includes(b)) throw new Unproven();
      built.positions[a]!.next.push(b);
    }
}

function sequence(built: Built, parts: Iterable<Part>): Part {
  let whole = NOTHING;
  for (const part of parts) {
    connect(built, whole.last, part.first);
    whole = {
      first: whole.isEmpty ? [...whole.first, ...part.first] : whole.first,
      last: part.isEmpty ? [...whole.last, ...part.last] : part.last,
      isEmpty: whole.isEmpty && part.isEmpty,
    };
  }
  return whole;
}

function choice(built: Built, alternatives: NoParent<Quantifier>['alternatives'], inLoop: boolean): Part {
  const parts = alternatives.map(({ elements }) => sequence(built, elementsOf(built, elements, inLoop)));
  if (inLoop && parts.filter(({ isEmpty }) => isEmpty).length > 1) throw new Unproven();
  return {
    first: parts.flatMap(({ first }) => first),
    last: parts.flatMap(({ last }) => last),
    isEmpty: parts.some(({ isEmpty }) => isEmpty),
  };
}

function* elementsOf(built: Built, elements: readonly NoParent<ReElement>[], inLoop: boolean): Iterable<Part> {
  for (const element of elements) yield partOf(built, element, inLoop);
}

function repeated(built: Built, { min, max, alternatives }: NoParent<Quantifier>, inLoop: boolean): Part {
  const isLoop = max === Number.POSITIVE_INFINITY || max - min > MOST_COPIES;
  const copy = (loops: boolean): Part => choice(built, alternatives, inLoop || loops);
  const needed = sequence(
    built,
    (function* () {
      for (let i = 0; i < min; i++) yield copy(false);
    })(),
  );
  if (max === min) return needed;
  if (isLoop) {
    const body = copy(true);
    if (body.isEmpty) throw new Unproven();
    connect(built, body.last, body.first);
    return sequence(built, [needed, { ...body, isEmpty: true }]);
  }
  // X{1,3} is X(X(X)?)?: each copy is entered from the one before only.
  let whole = needed;
  let before = needed;
  for (let i = min; i < max; i++) {
    const part = copy(false);
    if (part.isEmpty) throw new Unproven();
    connect(built, before.last, part.first);
    whole = { first: whole.first.length === 0 ? part.first : whole.first, last: [...whole.last, ...part.last], isEmpty: whole.isEmpty };
    before = part;
  }
  return whole;
}

const isEndless = (element: NoParent<ReElement>): boolean =>
  (element.type === 'Quantifier' && element.max - element.min > MOST_COPIES) ||
  ('alternatives' in element && element.alternatives.some(({ elements }) => elements.some(isEndless)));

function partOf(built: Built, element: NoParent<ReElement>, inLoop: boolean): Part {
  switch (element.type) {
    case 'CharacterClass': {
      if (built.positions.push({ set: element.characters, next: [], inLoop }) > MOST_POSITIONS) throw new Unproven();
      const at = built.positions.length - 1;
      return { first: [at], last: [at], isEmpty: false };
    }
    case 'Alternation':
      return choice(built, element.alternatives, inLoop);
    case 'Quantifier':
      return repeated(built, element, inLoop);
    case 'Assertion':
      // A short one costs a constant, and can only refuse what would match without it.
      if (isEndless(element)) throw new Unproven();
      if (built.positions.some((position) => position.inLoop)) built.hasLateAssertion = true;
      return NOTHING;
    case 'Unknown':
      throw new Unproven();
  }
}

/** `^` without the flag `m`: nothing is before it. */
const isStart = (element: NoParent<ReElement> | undefined): boolean => {
  if (element?.type !== 'Assertion' || element.kind !== 'behind' || !element.negate) return false;
  const [only] = element.alternatives[0]?.elements ?? [];
  return only?.type === 'CharacterClass' && only.characters.isAll;
};

/** How many ways there are to continue with one character, at the most. */
const waysOf = ({ positions }: Built, next: readonly number[]): number =>
  Math.max(1, ...next.map((a) => next.filter((b) => !positions[a]!.set.isDisjointWith(positions[b]!.set)).length));

/**
 * True if the expression provably takes linear time on every text. From each place it can go only one way (outside of loops a few), so
 * that it never returns to text that a loop has read. A search that begins everywhere must not read the same text again and again: what
 * its loops read cannot be a beginning, or once in a loop it always succeeds.
 */
export function isProvenLinear(source: string, flags: string): boolean {
  const built: Built = { positions: [], hasLateAssertion: false };
  try {
    const { expression } = JS.Parser.fromLiteral({ source, flags }).parse({
      assertions: 'parse',
      backreferences: 'unknown',
      maxBackreferenceWords: 0,
    });
    const { first, last } = choice(built, expression.alternatives, false);
    let ways = waysOf(built, first);
    for (const { next, inLoop } of built.positions) {
      const here = waysOf(built, next);
      if (here > 1 && inLoop) return false;
      ways *= here;
    }
    if (ways > MOST_WAYS) return false;
    const loops = built.positions.flatMap(({ inLoop }, at) => (inLoop ? [at] : []));
    if (flags.includes('y') || expression.alternatives.every(({ elements }) => isStart(elements[0]))) return true;
    if (!built.hasLateAssertion && loops.every((at) => last.includes(at))) return true;
    return loops.every((at) => first.every((begin) => built.positions[at]!.set.isDisjointWith(built.positions[begin]!.set)));
  } catch (error) {
    if (error instanceof Unproven) return false;
    throw error;
  }
}
