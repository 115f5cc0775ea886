/**
 * The table question x fault x outcome of one kind of source. The questions are those that a healthy round asks. In each cell the source
 * fails in one question: alone it says what it knows or why it waits, beside good ones everything is read, and so it is when the fault is
 * over. No cell is stuck, ends a follower, or shows what is not true.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect, isDeepStrictEqual } from 'node:util';
import type { Outgoing } from '../../src/connections/outgoing.ts';
import { isLongRun } from './long.ts';
import { serve } from './serve.ts';

export const FAULTS = [
  ...(['refused', 'timeout', '429', 'unknown error', 'wrong type', 'old state', 'HTML', 'half an answer'] as const),
  // More than is ever read: over HTTP the right answer, behind more space than there is room for.
  'above a limit',
] as const;
export type Fault = (typeof FAULTS)[number];
/** What fails, and how. */
export type Cell = { question: string; fault: Fault };
/** What a round found out. Undefined: no source can say it now. */
export type Facts = Readonly<Record<string, unknown>>;
/** Sources, some of which fail. */
export type Opened = {
  /** Errors: those that say why nothing can be read now, and no others. */
  round(): Promise<Facts>;
  /** Ends the fault. */
  heal(): void;
  close?(): Promise<void> | void;
};
export type Subject = {
  name: string;
  /** `FAULTS` by default. */
  faults?: readonly Fault[];
  /** How many good sources there are beside the failing one; one by default. */
  besides?: number;
  /** Facts that only the source tells that is read, so that another one beside it does not help. */
  optional?: readonly string[];
  /** The questions of the sources that were opened last. */
  asked(): Iterable<string>;
  /** A source for each, which fails in its cell, or not at all. */
  open(cells: readonly (Cell | null)[]): Promise<Opened>;
  /** Whether an error means that a source cannot answer. Anything else would end a follower. */
  isExpected(error: unknown): boolean;
};

/** What a source says; undefined when it cannot say it. */
export async function factOf(subject: Pick<Subject, 'isExpected'>, work: Promise<unknown>): Promise<unknown> {
  try {
    return await work;
  } catch (error) {
    assert.ok(subject.isExpected(error), String((error as Error).stack));
    return undefined;
  }
}

/** A busy machine may need more than one. */
const ROUNDS = 20;
/** Cells that are tried at once. */
const AT_ONCE = 12;

/** What rounds come to: `read`, the reason why nothing is, or what is false. */
async function tryRounds(subject: Subject, opened: Opened, { truth, rounds }: { truth: Facts; rounds: number }): Promise<string> {
  let outcome = 'STUCK';
  for (let i = 0; i < rounds; i++) {
    try {
      const facts = await opened.round();
      const differs = Object.keys(truth).filter((name) => !isDeepStrictEqual(facts[name], truth[name]));
      const untrue = differs.filter((name) => facts[name] !== undefined);
      if (untrue.length > 0) return `FALSE: ${untrue.map((name) => `${name} ${inspect(facts[name])}`).join(', ')}`;
      if (differs.length === 0) return 'read';
      outcome = `read, without ${differs.join(', ')}`;
    } catch (error) {
      assert.ok(subject.isExpected(error), String((error as Error).stack));
      const reason = (error as Error).message;
      outcome = reason === '' ? 'STUCK' : `waits: ${reason}`;
    }
  }
  return outcome;
}

type Row = Cell & { alone: string; beside: string; healed: string };
async function fill(subject: Subject, cell: Cell, truth: Facts): Promise<Row> {
  const good = Array.from({ length: subject.besides ?? 1 }, () => null);
  const [lone, many] = [await subject.open([cell]), await subject.open([cell, ...good])];
  try {
    const beside = await tryRounds(subject, many, { truth, rounds: ROUNDS });
    const alone = await tryRounds(subject, lone, { truth, rounds: 1 });
    lone.heal();
    return { ...cell, alone, beside, healed: await tryRounds(subject, lone, { truth, rounds: ROUNDS }) };
  } finally {
    await lone.close?.();
    await many.close?.();
  }
}

const shown = ({ question, fault, alone, beside, healed }: Row): string =>
  [question.padEnd(34), fault.padEnd(15), [alone.slice(0, 70), beside, healed].join(' -> ')].join(' ');

/** Declares the test of one kind of source. `aloneIs`: what one good source alone comes to, where it takes more to read everything.
 * `isAnother`: which questions are not asked as in another table. */
export function testFaults(
  subject: Subject,
  { aloneIs = 'read', questions: least = 4, isAnother = (_question: string): boolean => true } = {},
): void {
  test(`no fault of ${subject.name} in any question stops it for good, and none becomes a fact`, async () => {
    const good = Array.from({ length: 1 + (subject.besides ?? 1) }, () => null);
    const healthy = await subject.open(good);
    const truth = await healthy.round();
    await healthy.close?.();
    assert.deepEqual(
      Object.keys(truth).filter((name) => truth[name] === undefined),
      [],
      'a healthy source says everything',
    );
    const questions = [...new Set(subject.asked())].filter(isAnother).sort();
    assert.ok(questions.length >= least, questions.join());
    // The usual run tries a quarter of them, every fault and every question among them.
    const cells = questions.flatMap((question, q) =>
      (subject.faults ?? FAULTS).filter((_, f) => isLongRun || (q + f) % 4 === 0).map((fault) => ({ question, fault })),
    );
    const without = subject.optional?.map((name) => `read, without ${name}`) ?? [];
    const isRead = (outcome: string) => outcome === 'read' || without.includes(outcome);
    const table: Row[] = [];
    for (let n = 0; n < cells.length; n += AT_ONCE)
      table.push(...(await Promise.all(cells.slice(n, n + AT_ONCE).map((cell) => fill(subject, cell, truth)))));
    console.log(`\n${subject.name}: question, fault: alone -> beside a good one -> after the fault`);
    for (const row of table) console.log(shown(row));
    for (const row of table) {
      assert.doesNotMatch([row.alone, row.beside, row.healed].join(), /STUCK|FALSE/, shown(row));
      assert.ok(isRead(row.beside), `beside a good source: ${shown(row)}`);
      assert.equal(row.healed, aloneIs, `once the fault is over: ${shown(row)}`);
    }
  });
}

/** What a source may send over HTTP in these tests. The service allows more, up to 128 MB. */
const MOST_BYTES = 65_536;
/** The same client with the limit of these tests. */
export const withSmallReplies = (outgoing: Outgoing): Outgoing => ({
  ...outgoing,
  request: (request) => outgoing.request({ ...request, maxReplyBytes: Math.min(request.maxReplyBytes, MOST_BYTES) }),
});

/** How long a connection is held that never answers. */
const HELD_MS = 100;
type Reply = { status?: number; body: string };
/** One request as a server reads it: which questions it asks, and the answer, with a part of it replaced in a cell. */
export type Spoken = { questions: readonly string[]; reply(cell: Cell | null): Reply };
type Speak = (path: string, body: string) => Spoken;
export type FaultyServer = {
  /** Another URL of the server, at which it fails in this cell. */
  open(cell: Cell | null): { url: string; asked: ReadonlySet<string>; heal(): void };
};

/** Starts an HTTP server for the tests of this file. */
export async function startFaultyServer(speak: Speak): Promise<FaultyServer> {
  const opened = new Map<string, { cell: Cell | null; asked: Set<string> }>();
  const { port, stop } = await serve((request, reply, body) => {
    const [, id = '', path = ''] = /^\/(\d+)(.*)$/.exec(request.url!)!;
    const here = opened.get(id)!;
    const { questions, reply: say } = speak(path, body.toString());
    for (const question of questions) here.asked.add(question);
    const hit = here.cell && questions.includes(here.cell.question) ? here.cell : null;
    const { status = 200, body: said } = say(hit);
    if (hit?.fault === 'refused') return void request.socket.destroy();
    if (hit?.fault === 'timeout') return void sleep(HELD_MS).then(() => request.socket.destroy());
    if (hit?.fault === '429') return void reply.writeHead(429, { 'retry-after': '0' }).end('slow down');
    if (hit?.fault === 'HTML')
      return void reply.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>Sign in</title>');
    const whole = hit?.fault === 'above a limit' ? ' '.repeat(MOST_BYTES) + said : said;
    reply
      .writeHead(status, { 'content-type': 'application/json' })
      .end(hit?.fault === 'half an answer' ? whole.slice(0, whole.length >> 1) : whole);
  });
  after(stop);
  return {
    open: (cell) => {
      const here = { cell, asked: new Set<string>() };
      const id = String(opened.size);
      opened.set(id, here);
      return {
        url: `http://florin:test@127.0.0.1:${port}/${id}`,
        asked: here.asked,
        heal: () => {
          here.cell = null;
        },
      };
    },
  };
}

/** Parts of an answer in JSON-RPC that are replaced. */
const RPC_VALUES: Partial<Record<Fault, object>> = {
  'unknown error': { error: { code: 777, message: 'wug' } },
  'wrong type': { result: 42 },
  'old state': { error: { code: -32_000, message: 'requested block is too old' } },
};
/** A request of one or more calls. `answer` gives the result, or an object with an error. */
export function speakRpc(answer: (method: string, params: any[]) => { result: unknown } | { error: object }): Speak {
  return (_, body) => {
    const parsed = JSON.parse(body);
    const calls = [parsed].flat() as { id: number; method: string; params: any[] }[];
    return {
      questions: calls.map(({ method }) => method),
      reply: (cell) => {
        const answers = calls.map(({ id, method, params }) => ({
          ...{ jsonrpc: '2.0', id },
          ...((cell && method === cell.question && RPC_VALUES[cell.fault]) || answer(method, params)),
        }));
        return { body: JSON.stringify(Array.isArray(parsed) ? answers : answers[0]) };
      },
    };
  };
}

/** An answer over plain HTTP that is replaced as a whole. */
const HTTP_VALUES: Partial<Record<Fault, Reply>> = {
  'unknown error': { status: 500, body: '{"code":777,"message":"wug"}' },
  'wrong type': { body: '42' },
  'old state': { status: 404, body: '{"code":404,"message":"not available any more"}' },
};
/** A request for one thing. */
export const speakHttp =
  (answer: (path: string) => { question: string; reply: Reply }): Speak =>
  (path) => {
    const { question, reply } = answer(path);
    return { questions: [question], reply: (cell) => (cell && HTTP_VALUES[cell.fault]) || reply };
  };
