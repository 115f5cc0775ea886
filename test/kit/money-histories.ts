/**
 * Random schedules of refunds, payouts and sweeps, many at a time on one node and one database: requests and clicks are doubled and
 * repeated, what was canceled is requested again for the same recipient, two members approve and cancel at the same moment and change roles,
 * files are made, canceled, kept, signed, uploaded twice and replaced, signed transactions are broadcast again, transaction IDs are mistyped,
 * other wallets spend the same money, blocks fall off the chain with deposits that come back or were sent elsewhere, and processes are killed
 * in the middle of all that. What happened is then read from the chain itself. The seed repeats the draws of each schedule, not how processes and schedules interleave.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { signFile } from '../../signer/sign.ts';
import { COIN, type Coin, isToken, kindOf } from '../../src/core/coin.ts';
import { formatUnits, parseDecimal } from '../../src/core/money.ts';
import { eventually } from './app.ts';
import {
  type Books,
  DEEP,
  type Deposit,
  type Ground,
  hashOf,
  MEMBERS,
  type Merchant,
  type Out,
  type Paid,
  type Rivals,
  sum,
} from './money-ground.ts';
import { type Desk, type MoneyWorld, openMoneyWorld } from './money-world.ts';
import { randomOf } from './schedules.ts';
import { recordsFor } from './signing.ts';

type Sweep = { id: string; merchantId: string; coin: Coin; state: string };
type Rows = { outs: Out[]; sweeps: Sweep[] };
type Schedule = {
  name: string;
  merchant: Merchant;
  /** Whether it is the first one of its merchant. */
  leads: boolean;
  /** Whether its first files are canceled, and copies of them sent. */
  copies: boolean;
  below(n: number): number;
  deposits: Deposit[];
  /** The customer of the last payment pays it, once. */
  payLast(): Promise<void>;
  step(rows: Rows): Promise<unknown>;
  /** The steps with which it begins, so that most schedules get as far as a signed file. */
  first: ((rows: Rows) => Promise<unknown>)[];
};
/** What the merchants did without telling Florin. */
type Outside = {
  /** Refunds and payouts sent from another wallet. */
  byHand: Set<string>;
  /** Transactions from that wallet by ID, also those that Florin refused. */
  tried: Map<string, string>;
  /** The recipients in files of which somebody broadcast a kept copy. */
  leaked: Set<string>;
  /** Merchants whose deposits another wallet spent, or whose kept files were broadcast. */
  strayed: Set<string>;
  /** Refunds and payouts for which a wrong transaction was entered, and that. */
  mistyped: Map<string, Set<string>>;
  /** Payments that were sent, but whose customers can still send the same money elsewhere. */
  young: Rivals[];
  /** Signed files that were never uploaded. */
  kept: { merchant: Merchant; sweepId: string; raws: string[] }[];
};
export type Report = {
  secondsEach: number;
  kills: number;
  reorganizations: number;
  blocks: number;
  /** How many refunds and payouts ended in each state, how many files did, and how often each error was the answer. */
  outs: Map<string, number>;
  sweeps: Map<string, number>;
  refusals: ReadonlyMap<string, number>;
};

const STEPS = 12;
/** The round in which everything is approved: see `first` of a schedule. */
const APPROVED_IN = 2;
const PRICE = 25;
const OPENED_AT_ONCE = 8;
/** Strangers of each schedule who may send a signed copy. */
const STRANGERS = 6;
/** What members do with each kind. */
const FILES = { refund: 'makeRefundFile', payout: 'makePayoutFile' } as const;

const count = (into: Map<string, number>, what: string) => into.set(what, (into.get(what) ?? 0) + 1);
/** Payments of each schedule. The last one is paid later than the others. */
const PAYMENTS = 3;

/** Schedules that share a merchant, and so its files. */
const FOR_EACH_MERCHANT = 4;

/** Plays so many schedules in a world of their own. */
export async function openAndPlay({ seed, schedules, ground }: { seed: number; schedules: number; ground: Ground }): Promise<Report> {
  const from = performance.now();
  const world = await openMoneyWorld({ merchants: Math.ceil(schedules / FOR_EACH_MERCHANT), seed, ground });
  try {
    const report = await playSchedules(world, { seed, schedules });
    return { ...report, secondsEach: (performance.now() - from) / 1_000 / schedules };
  } finally {
    await world.stop();
  }
}

/** Plays very many, in worlds of their own: two at a time, because each one mostly waits for its chain and its database. */
export async function playMany(
  t: TestContext,
  {
    schedules,
    seed: first,
    atOnce,
    openGround,
  }: { schedules: number; seed: number; atOnce: number; openGround(seed: number): Promise<Ground> },
): Promise<void> {
  let [played, seed, failed] = [0, first, false];
  const playRest = async () => {
    while (played < schedules && !failed) {
      const [here, size] = [seed++, Math.min(atOnce, schedules - played)];
      played += size;
      try {
        const report = await openAndPlay({ seed: here, schedules: size, ground: await openGround(here) });
        t.diagnostic(`seed ${here}: ${size} schedules, ${reportText(report)}`);
      } catch (cause) {
        failed = true;
        throw new Error(`with seed ${here}`, { cause });
      }
    }
  };
  // Both end before an error is reported, so that nothing runs on.
  const ended = await Promise.allSettled([playRest(), playRest()]);
  for (const one of ended) if (one.status === 'rejected') throw one.reason;
}

export function reportText({ secondsEach, kills, reorganizations, blocks, outs, sweeps, refusals }: Report): string {
  const listed = (counts: ReadonlyMap<string, number>) => [...counts].map(([what, n]) => `${n} ${what}`).join(', ');
  return [
    `${secondsEach.toFixed(2)} s for each; ${kills} processes killed, ${reorganizations} reorganizations, ${blocks} blocks`,
    listed(outs),
    `files: ${listed(sweeps)}`,
    `refused: ${listed(refusals)}`,
  ].join('; ');
}

/** Plays so many schedules at a time, checks, and says what came of them. */
async function playSchedules(
  world: MoneyWorld,
  { seed, schedules: size }: { seed: number; schedules: number },
): Promise<Omit<Report, 'secondsEach'>> {
  const random = randomOf(hashOf(`world ${seed}`).readUInt32LE());
  const below = (n: number): number => Math.floor(random() * n);
  const outside: Outside = {
    byHand: new Set(),
    tried: new Map(),
    leaked: new Set(),
    strayed: new Set(),
    mistyped: new Map(),
    young: [],
    kept: [],
  };
  const report: Omit<Report, 'secondsEach'> = {
    kills: 0,
    reorganizations: 0,
    blocks: 0,
    outs: new Map(),
    sweeps: new Map(),
    refusals: world.refusals,
  };
  const schedules = await openSchedules(world, { seed, size, outside });
  // In half of the worlds blocks disappear when the money in them is about to be returned.
  const sudden = below(2) === 0 ? APPROVED_IN + below(5) : null;
  if (sudden !== null) await payLater(world, schedules);
  const mine = async (blocks: number, draw?: (n: number) => number) => {
    await world.ground.mine(blocks, draw);
    report.blocks += blocks;
  };
  let lastMs = 500;
  for (let round = 0; round < STEPS; round++) {
    // A process that was killed in the middle of a reorganization does not know that the deposits are still confirmed: nothing is approved.
    if (round === APPROVED_IN) await caughtUp(world);
    const rows = await readRows(world);
    const killing = round % 3 === 1 ? sleep(below(lastMs)).then(() => world.kill(below(2) === 0 ? 0 : 1)) : false;
    const from = performance.now();
    await Promise.all(schedules.map((one) => (one.first[round] ?? one.step)(rows)));
    lastMs = Math.max(1, Math.round(performance.now() - from));
    if (await killing) report.kills++;
    const isCalm = sudden !== null && round < sudden;
    if (round === sudden || (below(5) === 0 && !isCalm)) {
      await world.ground.reorganize(1 + below(DEEP - 1), await rivalsOf(world, outside, below));
      report.reorganizations++;
    } else if (below(3) > 0 && !isCalm) await mine(1 + below(2), below);
    if (world.ground.pauseMs > 0) await sleep(below(world.ground.pauseMs));
    await check(world, outside);
  }
  await world.whole();
  await world.ground.payAgain(schedules.flatMap(({ deposits }) => deposits));
  await correctAll(world, outside, below);
  const quiet = () => becomeQuiet(world, { mine, outside });
  await quiet();
  // What is still approved gets a last file, and ends.
  await Promise.all(world.merchants.map((merchant) => finish(world, merchant, below)));
  await quiet();
  await endRest(world, below);
  const rows = await check(world, outside);
  for (const one of rows.outs) {
    assert.ok(
      ['canceled', 'failed', 'confirmed'].includes(one.state) || (one.state === 'sent' && outside.byHand.has(one.id)),
      `${one.id} ends ${one.state}`,
    );
    count(report.outs, `${one.kind}s ${one.state}${outside.byHand.has(one.id) ? ' by hand' : ''}`);
  }
  for (const { length } of Map.groupBy(rows.outs, ({ address }) => address).values())
    for (let again = 1; again < length; again++) count(report.outs, 'requested again');
  for (const { state } of rows.sweeps) count(report.sweeps, state);
  checkOwnMoney(await world.ground.read(), { schedules, outside, rows });
  await checkApprovals(world);
  await checkMoney(world, { schedules, outside, rows });
  world.noErrors();
  for (const kind of world.ground.kinds) assert.ok(report.outs.has(`${kind}s confirmed`), `no ${kind} is confirmed`);
  return report;
}

const inCoin = (coin: Coin) => ({ currency: COIN[coin].asset, ...(isToken(coin) && { network: COIN[coin].chain }) });

/** Opens the payments of all schedules and pays them. */
async function openSchedules(
  world: MoneyWorld,
  { seed, size, outside }: { seed: number; size: number; outside: Outside },
): Promise<Schedule[]> {
  const { merchants, ground, database } = world;
  const desk = world.desk(() => 0);
  const nameOf = (i: number) => `${seed}.${i}`;
  const customers = Array.from({ length: size }, (_, i) =>
    ground.kinds.flatMap((kind) => Array.from({ length: ground.requests }, (_, n) => ground.strangerOf(`${nameOf(i)} ${kind} ${n}`))),
  ).flat();
  await ground.prepare({ merchants, customers, strangers: size * STRANGERS, payers: size });
  const openOne = async (i: number) => {
    const merchant = merchants[Math.floor(i / PAYMENTS) % merchants.length]!;
    const coin = ground.coins[i % ground.coins.length]!;
    const { asset, chain } = COIN[coin];
    const wanted = { crypto: asset, ...(isToken(coin) && { network: chain }), amount: PRICE, currency_fiat: 'USD' };
    const made = await desk.post(merchant, '/v1/transactions/create', wanted, `payment ${seed} ${i}`);
    assert.equal(made?.status, 201, made?.text);
    const { transaction_id: id, payment_address: address, amount } = made!.json;
    return { coin, id: id as string, address: address as string, amount: amount as string };
  };
  // Few at a time: a busy machine refuses hundreds at once with 503.
  const opened: Awaited<ReturnType<typeof openOne>>[] = [];
  const total = size * PAYMENTS;
  for (let i = 0; i < total; i += OPENED_AT_ONCE)
    opened.push(...(await Promise.all(Array.from({ length: Math.min(OPENED_AT_ONCE, total - i) }, (_, k) => openOne(i + k)))));
  const paid = opened.filter((_, i) => (i + 1) % PAYMENTS > 0);
  await ground.pay(paid);
  await ground.mine(DEEP);
  await completed(world, paid.length);
  const rows = await database.db.sql<{ id: string; index: number }[]>`select payment_id as id, index::int as index from deposit_addresses`;
  const indexes = new Map(rows.map(({ id, index }) => [id, index]));
  const deposits = opened.map(
    ({ amount, ...one }): Deposit => ({ ...one, index: indexes.get(one.id)!, units: parseDecimal(amount, COIN[one.coin].decimals)! }),
  );
  return Array.from({ length: size }, (_, i) => {
    const own = deposits.slice(PAYMENTS * i, PAYMENTS * (i + 1));
    const random = randomOf(hashOf(`schedule ${i} of ${seed}`).readUInt32LE());
    const below = (n: number) => Math.floor(random() * n);
    const merchant = merchants[i % merchants.length]!;
    const schedule = { name: nameOf(i), merchant, leads: i < merchants.length, copies: ground.copies && i % 2 === 0, below, deposits: own };
    let isPaid = false;
    const payLast = async () => {
      if (isPaid) return;
      isPaid = true;
      const rivals = await ground.payAs(i, own.at(-1)!);
      outside.young.push(rivals);
      await ground.send(rivals.pays);
    };
    return { ...schedule, payLast, ...stepsOf(world, { ...schedule, payLast }, outside) };
  });
}

const completed = ({ database }: MoneyWorld, count: number) =>
  eventually(
    () => database.db.sql<{ count: number }[]>`select count(*)::int as count from payments where status = 'completed'`,
    ([row]) => row!.count === count,
    60_000,
  );

/** Pays the last payment of each schedule, in one block. */
async function payLater(world: MoneyWorld, schedules: readonly Schedule[]): Promise<void> {
  for (const { payLast } of schedules) await payLast();
  await world.ground.mine(1);
  await completed(world, schedules.length * PAYMENTS);
}

function stepsOf(world: MoneyWorld, schedule: Omit<Schedule, 'step' | 'first'>, outside: Outside): Pick<Schedule, 'step' | 'first'> {
  const { name, merchant, leads, copies, below, deposits, payLast } = schedule;
  const { ground } = world;
  const merchantId = merchant.id;
  const own = new Set(deposits.map(({ id }) => id));
  const pick = <T>(all: readonly T[]): T | undefined => all[below(all.length)];
  const desk = (): Desk => world.desk(below);
  /** A double click, which may reach two processes. */
  const twice = (work: (desk: Desk) => Promise<unknown>) => Promise.all([work(desk()), work(desk())]);
  const outsIn = ({ outs }: Rows, ...states: string[]) =>
    outs.filter((one) => states.includes(one.state) && (own.has(one.of) || one.of.startsWith(`${name} `)));
  const sweepsIn = ({ sweeps }: Rows, ...states: string[]) =>
    sweeps.filter((one) => one.merchantId === merchantId && states.includes(one.state));

  const asked = new Map<string, string>();
  const request = async (kind: Out['kind']) => {
    const n = below(ground.requests);
    const key = `${name} ${kind} ${n}`;
    const address = ground.strangerOf(key);
    // What was canceled is requested again, for the same recipient.
    const before = (await readOuts(world)).filter((out) => out.address === address);
    const turn = before.every(({ state }) => state === 'canceled') ? before.length : before.length - 1;
    const draw = hashOf(key)[0]! % 3;
    const { id, coin, units } = deposits[n % PAYMENTS]!;
    const [path, body] =
      kind === 'refund'
        ? ['/v1/refunds', { payment_id: id, address, ...(draw > 0 && { amount: formatUnits(coin, units / BigInt(draw + 1)) }) }]
        : ['/v1/payouts', { ...inCoin(coin), amount: ground.amounts(coin)[draw], address, payout_reference: key }];
    await twice(async (at) => {
      const reply = await at.post(merchant, path as string, body as object, `${key} ${turn}`);
      if (reply?.status !== 201) return;
      assert.equal(asked.get(`${key} ${turn}`) ?? reply.json.id, reply.json.id, 'the same key is the same payout');
      asked.set(`${key} ${turn}`, reply.json.id);
    });
  };
  const approveBy = (at: Desk, { kind, id }: Out, by: number) => at.ask('approve', { kind, merchantId, id, by });
  const approve = async (rows: Rows) => {
    const one = pick(outsIn(rows, 'requested'));
    if (one) await Promise.all([approveBy(desk(), one, below(MEMBERS)), approveBy(desk(), one, below(MEMBERS))]);
  };
  const approveAll = async (rows: Rows) => {
    for (const one of outsIn(rows, 'requested')) for (const by of [0, 1]) await approveBy(desk(), one, by);
  };
  /** One member approves, or makes the file, while another one cancels. */
  const disagree = async (rows: Rows) => {
    const one = pick(outsIn(rows, 'requested', 'approved'));
    if (!one) return;
    const { kind, id, coin, state } = one;
    const goOn = state === 'requested' ? approveBy(desk(), one, 1) : desk().ask(FILES[kind], { merchantId, coin });
    await Promise.all([goOn, desk().ask('cancel', { kind, merchantId, id, by: 0 })]);
  };
  /** While they approve, members get other roles. Then a day passes for half of them. */
  const changeRoles = async (rows: Rows) => {
    const member = below(MEMBERS - 1);
    const role = pick(['finance', 'finance', 'viewer', 'admin'] as const)!;
    const one = pick(outsIn(rows, 'requested'));
    await Promise.all([desk().ask('changeRole', { merchantId, member, role }), one && approveBy(desk(), one, member)]);
    if (below(2))
      await world.database.db.begin(
        (tx) => tx`update members set role_since = role_since - interval '25 hours' where merchant_id = ${merchantId}`,
      );
  };
  const acts = ground.kinds.flatMap((kind) => ground.coins.map((coin) => [FILES[kind], coin] as const));
  const makeOf = async ([act, coin]: (typeof acts)[number]) => {
    await (below(2) ? twice((at) => at.ask(act, { merchantId, coin })) : desk().ask(act, { merchantId, coin }));
  };
  const make = () => makeOf(pick(acts)!);
  const upload = async (id: string) => {
    const content = await signedFile(world, merchant, desk(), id);
    if (content) await twice((at) => at.ask('upload', { merchantId, content }));
  };
  const sign = async (rows: Rows) => {
    const one = pick(sweepsIn(rows, 'made'));
    if (one) await upload(one.id);
  };
  const keepOne = async ({ id }: Sweep) => {
    const content = await signedFile(world, merchant, desk(), id);
    if (content) outside.kept.push({ merchant, sweepId: id, raws: JSON.parse(content).transactions });
  };
  const keep = async (rows: Rows) => {
    const one = pick(sweepsIn(rows, 'made'));
    if (one) await keepOne(one);
  };
  const keepAndCancel = async (rows: Rows) => {
    for (const one of sweepsIn(rows, 'made')) {
      await keepOne(one);
      await desk().ask('cancelSweep', { merchantId, id: one.id });
    }
  };
  const leak = async () => {
    const one = pick(outside.kept.filter((kept) => kept.merchant === merchant));
    if (!one || below(2)) return;
    await sendCopy(one);
  };
  const sendCopy = async (one: Outside['kept'][number]) => {
    // The person who sends a copy knows what the merchant sent in another way.
    const addresses = await ground.addressesIn(one.raws);
    const paid = (await readOuts(world)).filter(({ address }) => addresses.includes(address));
    if (paid.some(({ id }) => outside.byHand.has(id) || outside.mistyped.has(id))) return;
    for (const address of addresses) outside.leaked.add(address);
    outside.strayed.add(merchantId);
    await ground.leak(one.raws, below);
  };
  const leakAll = async () => {
    for (const one of outside.kept) if (one.merchant === merchant) await sendCopy(one);
  };
  const cancelFile = async (rows: Rows) => {
    const one = pick(sweepsIn(rows, 'made'));
    if (one) await desk().ask('cancelSweep', { merchantId, id: one.id });
  };
  const replace = async (rows: Rows) => {
    const one = pick(sweepsIn(rows, 'signed', 'sent'));
    if (!one) return;
    await desk().ask('replaceSweep', { merchantId, id: one.id });
    await upload(one.id);
  };
  const sendByHand = async (rows: Rows) => {
    const one = pick(outsIn(rows, 'approved', 'signed', 'sent', 'failed'));
    const isPaid = ({ outs }: Rows, { address }: Out) => outs.some((other) => other.address === address && outside.byHand.has(other.id));
    if (!one || outside.leaked.has(one.address) || isPaid(rows, one)) return;
    // Paid once Florin recorded that no file does.
    const { txid, raw } = await ground.payByHand(one);
    if (outside.leaked.has(one.address)) return;
    outside.byHand.add(one.id);
    outside.tried.set(txid, raw);
    await twice((at) => at.ask('markSent', { kind: one.kind, merchantId, id: one.id, txid }));
    const [row] = await readOuts(world, one.id);
    if (row?.txid === txid) await ground.send(raw);
    else outside.byHand.delete(one.id);
  };
  /** A member enters a transaction that is not there, or one that pays somebody else. */
  const mistype = async (rows: Rows) => {
    const one = pick(outsIn(rows, 'approved'));
    if (!one || outside.leaked.has(one.address)) return;
    const wrong = hashOf(`mistyped ${one.id}`).toString('hex');
    const made = kindOf(one.coin) === 'ethereum' ? `0x${wrong}` : wrong;
    const [other, raw] = pick([...outside.tried]) ?? [];
    const isOther = raw !== undefined && below(2) === 0 && !(await ground.addressesIn([raw])).includes(one.address);
    const txid = isOther ? other! : made;
    outside.mistyped.set(one.id, (outside.mistyped.get(one.id) ?? new Set()).add(txid));
    await twice((at) => at.ask('markSent', { kind: one.kind, merchantId, id: one.id, txid }));
    await desk().ask(FILES[one.kind], { merchantId, coin: one.coin });
  };
  const correct = async (rows: Rows) => {
    const one = pick(outsIn(rows, 'sent').filter(({ id, txid }) => isMistyped(outside, id, txid)));
    if (one && !outside.leaked.has(one.address)) await correctOne(world, outside, desk(), one);
  };
  const cancel = async (rows: Rows) => {
    const one = pick(outsIn(rows, 'requested', 'approved', 'signed', 'sent', 'failed'));
    if (one && (below(2) || !outside.leaked.has(one.address)))
      await desk().ask('cancel', { kind: one.kind, merchantId, id: one.id, by: below(MEMBERS) });
  };
  const broadcast = async (rows: Rows) => {
    const one = pick(sweepsIn(rows, 'signed', 'sent', 'confirmed', 'failed'));
    if (!one) return;
    const sent = await world.database.db.sql<{ raw: Uint8Array }[]>`select raw from signed_transactions where file_id = ${one.id}`;
    const raw = pick(sent)?.raw;
    if (raw) await ground.send(Buffer.from(raw).toString('hex'));
  };
  const waitAMinute = async () => {
    await laterInTurn(world, merchantId);
  };
  const spendElsewhere = async () => {
    if (below(5) > 0) return;
    outside.strayed.add(merchantId);
    await ground.spendElsewhere(merchant, pick(deposits)!, below);
  };
  const steps: ((rows: Rows) => Promise<unknown>)[] = [
    ...[() => request('refund'), () => request(ground.kinds.at(-1)!)],
    ...[approve, approve, make, make, sign, sign, sign, keep, leak, cancelFile, replace, replace],
    ...[sendByHand, mistype, correct, cancel, disagree, changeRoles, payLast, broadcast, broadcast, spendElsewhere, waitAMinute],
    () => desk().ask('makeSweep', { merchantId, coin: pick(ground.coins)! }),
  ];
  const signAll = async () => {
    for (const one of sweepsIn(await readRows(world), 'made')) await upload(one.id);
  };
  const step = (rows: Rows) => pick(steps)!(rows);
  // What was canceled is free for another file after the next look at it.
  const copied = () => {
    const what = pick(acts)!;
    return [() => makeOf(what), keepAndCancel, step, () => makeOf(what), signAll, leakAll];
  };
  return {
    first: [
      ...[() => request('refund'), () => request(ground.kinds.at(-1)!), approveAll],
      ...(!leads ? [] : copies ? copied() : [make, sign]),
    ],
    step,
  };
}

/** Null: the process died before it answered. */
async function signedFile(world: MoneyWorld, merchant: Merchant, desk: Desk, id: string): Promise<string | null> {
  const content = await desk.ask('readFile', { merchantId: merchant.id, id });
  if (content === null) return null;
  const { sql } = world.database.db;
  const known = await sql<{ address: string }[]>`
    select address from outgoing_payments where merchant_id = ${merchant.id}`;
  const recipients = recordsFor(
    content,
    known.map(({ address }) => address),
  );
  const { secret, destination } = merchant;
  const made = inTurn.then(() => signFile({ content, secret, destination, recipients }).text);
  inTurn = made.then(
    () => nextTurn(),
    () => nextTurn(),
  );
  return made;
}
/** Signing takes all of the thread. Answers of the processes are read between two files. */
let inTurn: Promise<unknown> = Promise.resolve();

/** Enters the right transaction instead of a wrong one, and sends it. */
async function correctOne(
  { ground, database }: MoneyWorld,
  outside: Outside,
  desk: Desk,
  { kind, id, merchantId, ...out }: Out,
): Promise<void> {
  const { sql } = database.db;
  const [may] = await sql`
    select 1 from outgoing_payments
    where id = ${id} and (missed >= 3 or failure is not null)`;
  if (!may) return;
  const { txid, raw } = await ground.payByHand(out);
  outside.byHand.add(id);
  outside.tried.set(txid, raw);
  await desk.ask('markSent', { kind, merchantId, id, txid });
  const [row] = await sql<{ txid: string }[]>`
    select txid from outgoing_payments where id = ${id}`;
  if (row?.txid === txid) await ground.send(raw);
  else outside.byHand.delete(id);
}
/** Schedules share rows, and one statement at a time changes many of them: two would wait for each other. */
function laterInTurn(world: MoneyWorld, merchantId: string): Promise<void> {
  later = later.then(async () => {
    await world.database.db.sql`
      update signed_transactions t set sent_at = t.sent_at - interval '61 seconds' from signing_files s where s.id = t.file_id and s.merchant_id = ${merchantId}`;
    await lookOften(world);
  });
  return later;
}
let later: Promise<void> = Promise.resolve();
/** As if what members entered had been looked for so often that it may be corrected, and were due again: also what waited in a block. */
async function lookOften({ database }: MoneyWorld): Promise<void> {
  const { sql } = database.db;
  await sql`
    update outgoing_payments set missed = case when missed > 0 then missed + 3 else missed end, looked_at = looked_at - interval '61 seconds'
    where state = 'sent'`;
}
/** A request that was refused because a killed process had stored the one before it leaves that one's transaction. */
const isMistyped = ({ mistyped }: Outside, id: string, txid: string | null): boolean =>
  txid !== null && mistyped.get(id)?.has(txid) === true;
/** Corrects all transactions that were mistyped. */
async function correctAll(world: MoneyWorld, outside: Outside, below: (n: number) => number): Promise<void> {
  const wrong = async () => (await readOuts(world)).filter(({ id, state, txid }) => state === 'sent' && isMistyped(outside, id, txid));
  await eventually(
    async () => {
      await world.ground.mine(1);
      await lookOften(world);
      for (const one of await wrong()) await correctOne(world, outside, world.desk(below), one);
      return wrong();
    },
    (left) => left.length === 0,
    60_000,
  );
}

/**
 * Some of the transactions that were signed, and of payments that customers send elsewhere: in the branch of a reorganization, they compete
 * with what replaced them.
 */
async function rivalsOf({ database }: MoneyWorld, { young }: Outside, below: (n: number) => number): Promise<string[]> {
  const rows = await database.db.sql<{ raw: Uint8Array }[]>`
    select t.raw from signed_transactions t join signing_files s on s.id = t.file_id where s.state in ('signed', 'sent') order by s.number, t.round`;
  const signed = rows.filter(() => below(4) === 0).map(({ raw }) => Buffer.from(raw).toString('hex'));
  const customers = young.flatMap(({ pays, other }) => [[other], [pays], []][below(3)]!);
  return [...customers, ...signed];
}

const readOuts = ({ database }: MoneyWorld, id: string | null = null) =>
  database.db.sql<Out[]>`
    select kind, id, merchant_id as "merchantId", coalesce(payment_id, reference) as of, coin, state, units, address, txid, file_id as "sweepId"
    from outgoing_payments where ${id}::text is null or id = ${id} order by kind desc, number`;
async function readRows(world: MoneyWorld): Promise<Rows> {
  const sweeps = await world.database.db.sql<
    Sweep[]
  >`select id, merchant_id as "merchantId", coin, state from signing_files order by number`;
  return { outs: [...(await readOuts(world))], sweeps: [...sweeps] };
}

/** Nobody is paid twice, or anything but what was asked, on the chain and in what waits for it; no money is in two files. */
async function check(world: MoneyWorld, { byHand, leaked }: Outside): Promise<Rows> {
  const { mined, waiting } = await world.ground.read();
  const rows = await readRows(world);
  const paid = (all: readonly Paid[]) => Map.groupBy(all, ({ address }) => address);
  const [everywhere, inBlocks] = [paid([...mined, ...waiting]), paid(mined)];
  const { sql } = world.database.db;
  const signed = new Set((await sql<{ txid: string }[]>`select txid from signed_transactions`).map(({ txid }) => txid));
  const recipients = Map.groupBy(rows.outs, ({ address }) => address);
  for (const [address, outs] of recipients)
    assert.ok(outs.filter(({ state }) => state !== 'canceled').length <= 1, `a repeated request is not another one: ${address}`);
  const isUnpaid = ({ state, id }: Out): boolean => ['requested', 'canceled', 'failed'].includes(state) && !byHand.has(id);
  const checkOne = ({ id, kind, state, units, address, txid }: Out, got: readonly Paid[]): void => {
    assert.ok(got.length <= 1, `${kind} ${id} is paid ${got.length} times`);
    for (const one of got) assert.equal(one.units, units, `${kind} ${id} is paid in full`);
    const [paying] = inBlocks.get(address) ?? [];
    if (state === 'confirmed') assert.ok(paying, `${kind} ${id} is confirmed and not paid`);
    if (state === 'confirmed' && paying && !(paying.isPublic && !signed.has(paying.txid))) assert.equal(paying.txid, txid, `${kind} ${id}`);
    const unpaid = !leaked.has(address) && recipients.get(address)!.every(isUnpaid);
    if (unpaid) assert.equal(got.length, 0, `${kind} ${id} is ${state} and paid`);
  };
  for (const one of rows.outs) {
    const got = everywhere.get(one.address) ?? [];
    try {
      checkOne(one, got);
    } catch (cause) {
      throw new Error(await recordedOf(world, one, got), { cause });
    }
  }
  const held = await sql`select input from signing_inputs where released_at is null group by chain, input having count(*) > 1`;
  assert.deepEqual([...held], [], 'an input is in two files');
  return rows;
}

/** All that is recorded about a refund or payout, and what paid it, to find out why a schedule failed. */
async function recordedOf({ database }: MoneyWorld, { kind, id, merchantId, of, address }: Out, got: readonly Paid[]): Promise<string> {
  const { sql } = database.db;
  const inFiles = sql`
    select id from signing_files where merchant_id = ${merchantId} and (file::text like ${`%${address.toLowerCase()}%`}
      or file::text like ${`%${address}%`} or id in (select file_id from signing_inputs where payment_id = ${of}))`;
  const rows = {
    paid: got,
    outs: await sql`select to_jsonb(o) as row from outgoing_payments o where kind = ${kind} and merchant_id = ${merchantId} and address = ${address}`,
    audit: await sql`select at, action, before, after from audit_log where object = ${id} order by id`,
    files: await sql`select to_jsonb(f) - 'file' as row from signing_files f where id in (${inFiles}) order by number`,
    transactions:
      await sql`select to_jsonb(t) - 'raw' as row from signed_transactions t where file_id in (${inFiles}) order by file_id, round, number`,
    inputs: await sql`select to_jsonb(i) as row from signing_inputs i where file_id in (${inFiles}) order by file_id, number`,
    transfers: await sql`select to_jsonb(t) - 'values' as row from transfers t where payment_id = ${of}`,
  };
  return `${kind} ${id}: ${JSON.stringify(rows, (_, value) => (typeof value === 'bigint' ? String(value) : value), 1)}`;
}

/** Waits until Florin has read the newest block: after a process was killed, that can take longer than all of the rounds. */
async function caughtUp({ ground, database }: MoneyWorld): Promise<void> {
  const newest = await ground.newest();
  await eventually(
    () => database.db.sql<{ hash: string }[]>`select hash from tips`,
    ([tip]) => tip?.hash === newest,
    60_000,
  );
}

type Ending = { mine(blocks: number): Promise<void>; outside: Outside };

/** Nobody changes anything, and blocks are mined until everything is final. */
async function becomeQuiet(world: MoneyWorld, { mine, outside }: Ending): Promise<void> {
  const { sql } = world.database.db;
  // A process may have committed after the test saw it die.
  for (const { id, state, txid } of await readOuts(world)) {
    const raw = outside.tried.get(txid ?? '');
    if (state !== 'sent' || raw === undefined || outside.byHand.has(id) || isMistyped(outside, id, txid)) continue;
    outside.byHand.add(id);
    await world.ground.send(raw);
  }
  const byHand = [...outside.byHand];
  for (let tries = 0; tries < 20; tries++) {
    const { sweeps } = await readRows(world);
    for (const { id, merchantId, state } of sweeps) if (state === 'made') await world.desk(() => 0).ask('cancelSweep', { merchantId, id });
    // What waited for a minute is due again.
    await sql`update signed_transactions set sent_at = sent_at - interval '61 seconds'`;
    await raiseRefused(world);
    await mine(DEEP);
    await caughtUp(world);
    // What was published and did nothing is not sent any more.
    await sql`
      update signing_files set file = jsonb_set(file::jsonb, '{requests,0,validBefore}', '1')
      where state in ('confirmed', 'failed') and purpose in ('refund', 'payout') and file::jsonb #> '{requests,0,validBefore}' is not null`;
    await sql`update outgoing_payments set published_until = 1 where published_until is not null`;
    for (let looks = 0; looks < 60; looks++) {
      const [row] = await sql<{ open: boolean }[]>`
        select exists (select 1 from signing_files where state in ('made', 'signed', 'sent'))
          or exists (select 1 from outgoing_payments
            where (state in ('signed', 'sent') or (state = 'approved' and file_id is not null)) and id <> all(${byHand}::text[])) as open`;
      if (!row!.open) return void (await check(world, outside));
      await sleep(50);
    }
  }
  const { sweeps, outs } = await readRows(world);
  const open = sweeps.filter(({ state }) => ['made', 'signed', 'sent'].includes(state)).map(({ id }) => id);
  const waiting = await sql`
    select s.id, s.state, s.purpose, s.failure, t.round, t.number, t.txid, t.sent_at, t.refusal, t.block_height, t.conflict_height, t.failed_at
    from signing_files s left join signed_transactions t on t.file_id = s.id where s.id = any(${open}::text[]) order by s.number, t.number, t.round`;
  const deposits = await sql`
    select i.file_id, i.input, i.units, i.released_at, i.lost_at, t.units as arrived, t.txid, t.address, t.block_height, t.unmined_since,
      t.absent_since, t.conflict_height, t.conflict_txid
    from signing_inputs i left join transfers t on t.payment_id = i.payment_id and t.coin = i.coin and t.ref = i.ref
    where i.file_id = any(${open}::text[]) order by i.file_id, i.number`;
  assert.deepEqual(
    [...waiting, ...deposits, ...outs.filter(({ id, state }) => ['signed', 'sent'].includes(state) && !outside.byHand.has(id))],
    [],
    'not everything ends',
  );
}

/** A deposit that came back without the money for its fee waits until the merchant lets the gas address pay. */
async function raiseRefused(world: MoneyWorld): Promise<void> {
  const refused = await world.database.db.sql<{ id: string; merchantId: string }[]>`
    select distinct s.id, s.merchant_id as "merchantId" from signing_files s join signed_transactions t on t.file_id = s.id and t.round = s.round
    where s.state in ('signed', 'sent') and t.refusal like '%if it holds the amount%'`;
  const desk = world.desk(() => 0);
  for (const { id, merchantId } of refused) {
    await desk.ask('replaceSweep', { merchantId, id });
    const content = await signedFile(world, world.merchants.find((one) => one.id === merchantId)!, desk, id);
    if (content) await desk.ask('upload', { merchantId, content });
  }
}

/** The last files of a merchant, signed and sent. */
async function finish(world: MoneyWorld, merchant: Merchant, below: (n: number) => number): Promise<void> {
  const merchantId = merchant.id;
  for (const kind of world.ground.kinds)
    for (const coin of world.ground.coins) {
      const id = await world.desk(below).ask(FILES[kind], { merchantId, coin });
      const content = id && (await signedFile(world, merchant, world.desk(below), id));
      if (content) await world.desk(below).ask('upload', { merchantId, content });
    }
}
async function endRest(world: MoneyWorld, below: (n: number) => number): Promise<void> {
  const { outs } = await readRows(world);
  const open = outs.filter(({ state }) => state === 'requested' || state === 'approved');
  await Promise.all(open.map(({ kind, id, merchantId }) => world.desk(below).ask('cancel', { kind, merchantId, id, by: MEMBERS - 1 })));
}

/** No refund is paid with the deposits of others: files return no more of a payment than it received. */
function checkOwnMoney(
  { mined }: { mined: readonly Paid[] },
  { schedules, outside, rows }: { schedules: readonly Schedule[]; outside: Outside; rows: Rows },
): void {
  const paidTo = (address: string) => sum(mined.flatMap((one) => (one.address === address ? [one.units] : [])));
  for (const { id, address } of schedules.flatMap(({ deposits }) => deposits)) {
    const refunds = rows.outs.filter((one) => one.of === id && !outside.byHand.has(one.id));
    const returned = sum([...new Set(refunds.map((one) => one.address))].map(paidTo));
    assert.ok(returned <= paidTo(address), `${returned} of ${id} were returned, which received ${paidTo(address)}`);
  }
}

/** What a member approved without a second one stays below the limit of their merchant. */
async function checkApprovals({ merchants, database: { db } }: MoneyWorld): Promise<void> {
  for (const { id, limit } of merchants) {
    if (limit === null) continue;
    const above = await db.sql`
      select approved_by_user from outgoing_payments
      where merchant_id = ${id} and approved_by_user is not null and (backed_by is null or backed_by = approved_by_user) and state <> 'canceled'
      group by approved_by_user having sum(approved_usd_cents) > ${limit}`;
    assert.deepEqual([...above], [], `a member of ${id} approved more than the limit alone`);
  }
}

/** Whether the chain and the books agree where all money of the merchants is. */
async function checkMoney(
  world: MoneyWorld,
  { schedules, outside, rows }: { schedules: readonly Schedule[]; outside: Outside; rows: Rows },
): Promise<void> {
  const { merchants, ground } = world;
  // At once, because each of the two processes reads while the other one waits for the database.
  const read = await Promise.all(
    merchants.map(({ id }, i) => world.desk(() => i % 2).ask('readBooks', { merchantId: id, coins: ground.coins })),
  );
  for (const [i, merchant] of merchants.entries()) {
    const books: ReadonlyMap<Coin, Books> = new Map(read[i]!);
    for (const [coin, { accounts }] of books)
      assert.equal(sum(Object.values(accounts).map(BigInt)), 0n, `${coin}: the trial balance is zero`);
    const deposits = schedules.flatMap((one) => (one.merchant === merchant ? one.deposits : []));
    const outs = rows.outs.filter(({ merchantId }) => merchantId === merchant.id);
    await ground.checkMoney({ merchant, deposits, outs, byHand: outside.byHand, strayed: outside.strayed.has(merchant.id), books });
  }
}
