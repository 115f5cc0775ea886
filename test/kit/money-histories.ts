/**
 * Random schedules of refunds, payouts and sweeps, many at a time on one node and one database: requests and clicks are doubled and
 * repeated, files are made, canceled, kept, signed, uploaded twice and replaced, signed transactions are broadcast again, other wallets
 * spend the same money, blocks fall off the chain, and processes are killed in the middle of all that. What happened is then read from the
 * chain itself. The seed repeats the draws of each schedule, not how processes and schedules interleave.
 */
import assert from 'node:assert/strict';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { HDKey } from '@scure/bip32';
import { p2wpkh, Transaction } from '@scure/btc-signer';
import { signFile } from '../../signer/sign.ts';
import { addressOfScript } from '../../src/chains/address.ts';
import { formatUnits } from '../../src/core/money.ts';
import { eventually } from './app.ts';
import type { SeenOutput, SeenTx } from './money-chain.ts';
import { DEEP, type Desk, hashOf, type Merchant, type MoneyWorld, openMoneyWorld, strangerOf } from './money-world.ts';
import { randomOf } from './schedules.ts';

/** A refund or a payout. */
type Out = {
  kind: 'refund' | 'payout';
  id: string;
  merchantId: string;
  /** The payment of a refund, the reference of a payout. */
  of: string;
  state: string;
  units: bigint;
  address: string;
  txid: string | null;
  sweepId: string | null;
};
type Sweep = { id: string; merchantId: string; state: string };
type Rows = { outs: Out[]; sweeps: Sweep[] };
type Deposit = { index: number; address: string; outpoint: string; units: bigint };
type Schedule = {
  name: string;
  merchant: Merchant;
  /** Whether it is the first one of its merchant. */
  leads: boolean;
  below(n: number): number;
  payments: { id: string; address: string }[];
  deposits: Deposit[];
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
  /** Those in files of which somebody broadcast a kept copy. */
  leaked: Set<string>;
  /** Merchants whose deposits another wallet spent, or whose kept files were broadcast. */
  strayed: Set<string>;
  /** Signed files that were never uploaded. */
  kept: { merchant: Merchant; sweepId: string; raws: string[] }[];
};
export type Report = {
  kills: number;
  reorganizations: number;
  blocks: number;
  /** How many refunds and payouts ended in each state, how many files did, and how often each error was the answer. */
  outs: Map<string, number>;
  sweeps: Map<string, number>;
  refusals: ReadonlyMap<string, number>;
};

const STEPS = 12;
const PRICE = 25;
const PAID_AT_ONCE = 8;
const ELSEWHERE_SCRIPT = `0014${'22'.repeat(20)}`;
const ELSEWHERE = Buffer.from(ELSEWHERE_SCRIPT, 'hex');
const ELSEWHERE_ADDRESS = addressOfScript(ELSEWHERE_SCRIPT, { coin: 'BTC', network: 'regtest' })!;
/** Leaves the money of a deposit to another wallet: more than any file pays. */
const OTHER_FEE = 90_000n;

const count = (into: Map<string, number>, what: string) => into.set(what, (into.get(what) ?? 0) + 1);
const sum = (values: readonly bigint[]): bigint => values.reduce((a, b) => a + b, 0n);

/** Schedules that share a merchant, and so its files. */
const FOR_EACH_MERCHANT = 4;

/** Plays so many schedules in a world of their own. `indexed`: whether the node finds transactions in blocks. */
export async function openAndPlay({ seed, schedules, indexed }: { seed: number; schedules: number; indexed: boolean }): Promise<Report> {
  const world = await openMoneyWorld({ merchants: Math.ceil(schedules / FOR_EACH_MERCHANT), seed, indexed });
  try {
    return await playSchedules(world, { seed, schedules });
  } finally {
    await world.stop();
  }
}

export function reportText({ kills, reorganizations, blocks, outs, sweeps, refusals }: Report): string {
  const listed = (counts: ReadonlyMap<string, number>) => [...counts].map(([what, n]) => `${n} ${what}`).join(', ');
  return [
    `${kills} processes killed, ${reorganizations} reorganizations, ${blocks} blocks`,
    listed(outs),
    `files: ${listed(sweeps)}`,
    `refused: ${listed(refusals)}`,
  ].join('; ');
}

/** Plays so many schedules at a time, checks, and says what came of them. */
async function playSchedules(world: MoneyWorld, { seed, schedules: size }: { seed: number; schedules: number }): Promise<Report> {
  const random = randomOf(hashOf(`world ${seed}`).readUInt32LE());
  const below = (n: number): number => Math.floor(random() * n);
  const outside: Outside = { byHand: new Set(), tried: new Map(), leaked: new Set(), strayed: new Set(), kept: [] };
  const report: Report = { kills: 0, reorganizations: 0, blocks: 0, outs: new Map(), sweeps: new Map(), refusals: world.refusals };
  const schedules = await openSchedules(world, { seed, size, outside });
  const mine = async (blocks: number) => {
    await world.chain.mine(blocks);
    report.blocks += blocks;
  };
  let lastMs = 500;
  for (let round = 0; round < STEPS; round++) {
    const rows = await readRows(world);
    const killing = round % 3 === 1 ? sleep(below(lastMs)).then(() => world.kill(below(2) === 0 ? 0 : 1)) : false;
    const from = performance.now();
    await Promise.all(schedules.map((one) => (one.first[round] ?? one.step)(rows)));
    lastMs = Math.max(1, Math.round(performance.now() - from));
    if (await killing) report.kills++;
    if (below(5) === 0) {
      await world.chain.reorganize(1 + below(DEEP - 1), await rivalsOf(world, below));
      report.reorganizations++;
    } else if (below(3) > 0) await mine(1 + below(2));
    await check(world, outside);
  }
  await world.whole();
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
  for (const { state } of rows.sweeps) count(report.sweeps, state);
  await checkMoney(world, { schedules, outside, rows });
  world.noErrors();
  return report;
}

/** Opens the payments of all schedules and pays them. */
async function openSchedules(
  world: MoneyWorld,
  { seed, size, outside }: { seed: number; size: number; outside: Outside },
): Promise<Schedule[]> {
  const { merchants, chain, node, database } = world;
  const desk = world.desk(() => 0);
  const openOne = async (i: number) => {
    const merchant = merchants[(i >> 1) % merchants.length]!;
    const wanted = { crypto: 'BTC', amount: PRICE, currency_fiat: 'USD' };
    const made = await desk.post(merchant, '/v1/transactions/create', wanted, `payment ${seed} ${i}`);
    assert.equal(made?.status, 201, made?.text);
    const { transaction_id: id, payment_address: address, amount } = made!.json;
    return { id: id as string, address: address as string, amount: amount as string };
  };
  // Few at a time: a busy machine refuses hundreds at once with 503.
  const opened: Awaited<ReturnType<typeof openOne>>[] = [];
  for (let i = 0; i < size * 2; i += PAID_AT_ONCE)
    opened.push(...(await Promise.all(Array.from({ length: Math.min(PAID_AT_ONCE, size * 2 - i) }, (_, k) => openOne(i + k)))));
  // Files contain the whole transaction that each deposit is an output of, so those are small.
  for (let i = 0; i < opened.length; i += PAID_AT_ONCE)
    await node.payMany(opened.slice(i, i + PAID_AT_ONCE).map(({ address, amount }) => [address, amount] as const));
  await chain.mine(DEEP);
  const { sql } = database.db;
  await eventually(
    () => sql<{ count: number }[]>`select count(*)::int as count from payments where status = 'completed'`,
    ([row]) => row!.count === opened.length,
    60_000,
  );
  const rows = await sql<{ id: string; index: number }[]>`select payment_id as id, index::int as index from deposit_addresses`;
  const indexes = new Map(rows.map(({ id, index }) => [id, index]));
  const seen = new Map((await chain.read()).mined.flatMap(({ outputs }) => outputs.map((one) => [one.address, one] as const)));
  return Array.from({ length: size }, (_, i) => {
    const payments = opened.slice(2 * i, 2 * i + 2);
    const deposits = payments.map(({ id, address }): Deposit => {
      const { outpoint, units } = seen.get(address)!;
      return { address, outpoint, units, index: indexes.get(id)! };
    });
    const random = randomOf(hashOf(`schedule ${i} of ${seed}`).readUInt32LE());
    const name = `${seed}.${i}`;
    const below = (n: number) => Math.floor(random() * n);
    const schedule = { name, merchant: merchants[i % merchants.length]!, leads: i < merchants.length, below, payments, deposits };
    return { ...schedule, ...stepsOf(world, schedule, outside) };
  });
}

function stepsOf(world: MoneyWorld, schedule: Omit<Schedule, 'step' | 'first'>, outside: Outside): Pick<Schedule, 'step' | 'first'> {
  const { name, merchant, leads, below, payments, deposits } = schedule;
  const { node } = world;
  const merchantId = merchant.id;
  const own = new Set(payments.map(({ id }) => id));
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
    const n = below(3);
    const key = `${name} ${kind} ${n}`;
    const address = strangerOf(key);
    const draw = hashOf(key)[0]! % 3;
    const [path, body] =
      kind === 'refund'
        ? [
            '/v1/refunds',
            {
              payment_id: payments[n % 2]!.id,
              address,
              ...(draw > 0 && { amount: formatUnits('BTC', deposits[0]!.units / BigInt(draw + 1)) }),
            },
          ]
        : ['/v1/payouts', { currency: 'BTC', amount: ['0.005', '0.012', '0.03'][draw], address, payout_reference: key }];
    await twice(async (at) => {
      const reply = await at.post(merchant, path as string, body as object, key);
      if (reply?.status !== 201) return;
      assert.equal(asked.get(key) ?? reply.json.id, reply.json.id, 'the same key is the same payout');
      asked.set(key, reply.json.id);
    });
  };
  const approve = async (rows: Rows) => {
    const one = pick(outsIn(rows, 'requested'));
    if (one) await twice((at) => at.ask(one.kind === 'refund' ? 'approveRefund' : 'approvePayout', { merchantId, id: one.id }));
  };
  const approveAll = async (rows: Rows) => {
    for (const one of outsIn(rows, 'requested'))
      await desk().ask(one.kind === 'refund' ? 'approveRefund' : 'approvePayout', { merchantId, id: one.id });
  };
  const make = async () => {
    const act = pick(['makeRefundFile', 'makePayoutFile'] as const)!;
    await (below(2) ? twice((at) => at.ask(act, { merchantId })) : desk().ask(act, { merchantId }));
  };
  const upload = async (id: string) => {
    const content = await signedFile(world, merchant, desk(), id);
    if (content) await twice((at) => at.ask('upload', { merchantId, content }));
  };
  const sign = async (rows: Rows) => {
    const one = pick(sweepsIn(rows, 'made'));
    if (one) await upload(one.id);
  };
  const keep = async (rows: Rows) => {
    const one = pick(sweepsIn(rows, 'made'));
    const content = one && (await signedFile(world, merchant, desk(), one.id));
    if (content) outside.kept.push({ merchant, sweepId: one.id, raws: JSON.parse(content).transactions });
  };
  const leak = async () => {
    const one = pick(outside.kept.filter((kept) => kept.merchant === merchant));
    if (!one || below(2)) return;
    // The person who sends a copy knows what the merchant sent in another way.
    const addresses = await addressesOf(world, one.raws);
    const paid = (await readOuts(world)).filter(({ address }) => addresses.includes(address));
    if (paid.some(({ id }) => outside.byHand.has(id))) return;
    for (const { id } of paid) outside.leaked.add(id);
    outside.strayed.add(merchantId);
    for (const raw of one.raws) await tryToSend(world, raw);
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
    const one = pick(outsIn(rows, 'approved', 'signed', 'sent'));
    if (!one || outside.leaked.has(one.id) || outside.byHand.has(one.id)) return;
    // Paid once Florin recorded that no file does.
    const { hex } = await node.rpc(
      'fundrawtransaction',
      await node.rpc('createrawtransaction', [], [{ [one.address]: formatUnits('BTC', one.units) }]),
      { lockUnspents: true },
    );
    const signed = await node.rpc('signrawtransactionwithwallet', hex);
    const { txid } = await node.rpc('decoderawtransaction', signed.hex);
    if (outside.leaked.has(one.id)) return;
    outside.byHand.add(one.id);
    outside.tried.set(txid, signed.hex);
    await twice((at) => at.ask(one.kind === 'refund' ? 'markRefundSent' : 'markPayoutSent', { merchantId, id: one.id, txid }));
    const [row] = await readOuts(world, one.id);
    if (row?.txid === txid) await node.rpc('sendrawtransaction', signed.hex);
    else outside.byHand.delete(one.id);
  };
  const cancel = async (rows: Rows) => {
    const one = pick(outsIn(rows, 'requested', 'approved', 'signed', 'sent'));
    if (one && !outside.leaked.has(one.id))
      await desk().ask(one.kind === 'refund' ? 'cancelRefund' : 'cancelPayout', { merchantId, id: one.id });
  };
  const broadcast = async (rows: Rows) => {
    const one = pick(sweepsIn(rows, 'signed', 'sent', 'confirmed', 'failed'));
    if (!one) return;
    const sent = await world.database.db.sql<{ raw: Uint8Array }[]>`select raw from sweep_transactions where sweep_id = ${one.id}`;
    const raw = pick(sent)?.raw;
    if (raw) await tryToSend(world, Buffer.from(raw).toString('hex'));
  };
  const spendElsewhere = async () => {
    if (below(5) > 0) return;
    outside.strayed.add(merchantId);
    await tryToSend(world, otherSpend(merchant, pick(deposits)!));
  };
  const steps: ((rows: Rows) => Promise<unknown>)[] = [
    ...[() => request('refund'), () => request('payout')],
    ...[approve, approve, make, make, sign, sign, sign, keep, leak, cancelFile, replace, replace],
    ...[sendByHand, cancel, broadcast, broadcast, spendElsewhere],
    () => desk().ask('makeSweep', { merchantId }),
  ];
  return {
    first: [() => request('refund'), () => request('payout'), approveAll, ...(leads ? [make, sign] : [])],
    step: (rows) => pick(steps)!(rows),
  };
}

/** Null: the process died before it answered. */
async function signedFile(world: MoneyWorld, merchant: Merchant, desk: Desk, id: string): Promise<string | null> {
  const content = await desk.ask('readFile', { merchantId: merchant.id, id });
  if (content === null) return null;
  const { sql } = world.database.db;
  const known = await sql<{ address: string }[]>`
    select address from refunds where merchant_id = ${merchant.id} union select address from payouts where merchant_id = ${merchant.id}`;
  const recipients = known.map(({ address }) => address).join(' ');
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

/** Nodes refuse what was replaced, what is mined and what is spent. */
const tryToSend = ({ node }: MoneyWorld, raw: string): Promise<unknown> => node.rpc('sendrawtransaction', raw).catch(() => null);

async function addressesOf({ node }: MoneyWorld, raws: readonly string[]): Promise<string[]> {
  const decoded = await Promise.all(raws.map((raw) => node.rpc('decoderawtransaction', raw)));
  return decoded.flatMap(({ vout }) => vout.map((one: any) => one.scriptPubKey.address as string));
}

/** The merchant's own wallet moves a deposit. */
function otherSpend({ secret }: Merchant, { outpoint, units, index }: Deposit): string {
  const key = HDKey.fromExtendedKey(secret).deriveChild(0).deriveChild(index);
  const tx = new Transaction({ allowUnknownOutputs: true });
  const [txid, n] = outpoint.split(':') as [string, string];
  tx.addInput({ txid, index: Number(n), sequence: 0xfffffffd, witnessUtxo: { script: p2wpkh(key.publicKey!).script, amount: units } });
  tx.addOutput({ script: ELSEWHERE, amount: units - OTHER_FEE });
  tx.sign(key.privateKey!);
  tx.finalize();
  return tx.hex;
}

/** Some of the transactions that were signed: in the branch of a reorganization, they compete with what replaced them. */
async function rivalsOf({ database }: MoneyWorld, below: (n: number) => number): Promise<string[]> {
  const rows = await database.db.sql<{ raw: Uint8Array }[]>`
    select t.raw from sweep_transactions t join sweeps s on s.id = t.sweep_id where s.state in ('signed', 'sent') order by s.number, t.round`;
  return rows.filter(() => below(4) === 0).map(({ raw }) => Buffer.from(raw).toString('hex'));
}

const readOuts = ({ database }: MoneyWorld, id: string | null = null) =>
  database.db.sql<Out[]>`
    select 'refund' as kind, id, merchant_id as "merchantId", payment_id as of, state, units, address, txid, sweep_id as "sweepId" from refunds
      where ${id}::text is null or id = ${id}
    union all select 'payout', id, merchant_id, reference, state, units, address, txid, sweep_id from payouts
      where ${id}::text is null or id = ${id}`;
async function readRows(world: MoneyWorld): Promise<Rows> {
  const sweeps = await world.database.db.sql<Sweep[]>`select id, merchant_id as "merchantId", state from sweeps order by number`;
  return { outs: [...(await readOuts(world))], sweeps: [...sweeps] };
}

/** Nobody is paid twice, or anything but what was asked, on the chain and in what waits for it; no money is in two files. */
async function check(world: MoneyWorld, { byHand, leaked }: Outside): Promise<Rows> {
  const { mined, waiting } = await world.chain.read();
  const rows = await readRows(world);
  const paid = (txs: readonly SeenTx[]) =>
    Map.groupBy(
      txs.flatMap(({ outputs }) => outputs),
      ({ address }) => address,
    );
  const [everywhere, inBlocks] = [paid([...mined, ...waiting]), paid(mined)];
  assert.equal(new Set(rows.outs.map(({ address }) => address)).size, rows.outs.length, 'a repeated request is not another one');
  for (const { id, kind, state, units, address, txid } of rows.outs) {
    const got: SeenOutput[] = everywhere.get(address) ?? [];
    assert.ok(got.length <= 1, `${kind} ${id} is paid ${got.length} times`);
    for (const one of got) assert.equal(one.units, units, `${kind} ${id} is paid in full`);
    if (state === 'confirmed') assert.equal(inBlocks.get(address)?.[0]?.txid, txid, `${kind} ${id} is confirmed and not paid`);
    const unpaid = ['requested', 'canceled', 'failed'].includes(state) && !leaked.has(id) && !byHand.has(id);
    if (unpaid) assert.equal(got.length, 0, `${kind} ${id} is ${state} and paid`);
  }
  const { sql } = world.database.db;
  const held = await sql`select input from sweep_inputs where released_at is null group by chain, input having count(*) > 1`;
  assert.deepEqual([...held], [], 'an input is in two files');
  return rows;
}

type Ending = { mine(blocks: number): Promise<void>; outside: Outside };
/** Nobody changes anything, and blocks are mined until everything is final. */
async function becomeQuiet(world: MoneyWorld, { mine, outside }: Ending): Promise<void> {
  const { sql } = world.database.db;
  // A process may have committed after the test saw it die.
  for (const { id, state, txid } of await readOuts(world)) {
    const raw = outside.tried.get(txid ?? '');
    if (state !== 'sent' || raw === undefined || outside.byHand.has(id)) continue;
    outside.byHand.add(id);
    await tryToSend(world, raw);
  }
  const byHand = [...outside.byHand];
  for (let tries = 0; tries < 20; tries++) {
    const { sweeps } = await readRows(world);
    for (const { id, merchantId, state } of sweeps) if (state === 'made') await world.desk(() => 0).ask('cancelSweep', { merchantId, id });
    // What waited for a minute is due again.
    await sql`update sweep_transactions set sent_at = sent_at - interval '61 seconds'`;
    await mine(DEEP);
    for (let looks = 0; looks < 60; looks++) {
      const [row] = await sql<{ open: boolean }[]>`
        select exists (select 1 from sweeps where state in ('made', 'signed', 'sent'))
          or exists (select 1 from (select id, state, sweep_id from refunds union all select id, state, sweep_id from payouts) o
            where (state in ('signed', 'sent') or (state = 'approved' and sweep_id is not null)) and id <> all(${byHand}::text[])) as open`;
      if (!row!.open) return void (await check(world, outside));
      await sleep(50);
    }
  }
  const { sweeps, outs } = await readRows(world);
  const open = sweeps.filter(({ state }) => ['made', 'signed', 'sent'].includes(state)).map(({ id }) => id);
  const waiting = await sql`
    select s.id, s.state, s.purpose, s.failure, t.round, t.number, t.txid, t.sent_at, t.refusal, t.block_height, t.conflict_height, t.failed_at
    from sweeps s left join sweep_transactions t on t.sweep_id = s.id where s.id = any(${open}::text[]) order by s.number, t.number, t.round`;
  assert.deepEqual(
    [...waiting, ...outs.filter(({ id, state }) => ['signed', 'sent'].includes(state) && !outside.byHand.has(id))],
    [],
    'not everything ends',
  );
}

/** The last files of a merchant, signed and sent. */
async function finish(world: MoneyWorld, merchant: Merchant, below: (n: number) => number): Promise<void> {
  const merchantId = merchant.id;
  for (const act of ['makeRefundFile', 'makePayoutFile'] as const) {
    const id = await world.desk(below).ask(act, { merchantId });
    const content = id && (await signedFile(world, merchant, world.desk(below), id));
    if (content) await world.desk(below).ask('upload', { merchantId, content });
  }
}
async function endRest(world: MoneyWorld, below: (n: number) => number): Promise<void> {
  const { outs } = await readRows(world);
  const open = outs.filter(({ state }) => state === 'requested' || state === 'approved');
  await Promise.all(
    open.map(({ kind, id, merchantId }) => world.desk(below).ask(kind === 'refund' ? 'cancelRefund' : 'cancelPayout', { merchantId, id })),
  );
}

/** Where all money of the merchants is, read from the chain, and whether Florin says the same. */
async function checkMoney(
  world: MoneyWorld,
  { schedules, outside, rows }: { schedules: readonly Schedule[]; outside: Outside; rows: Rows },
): Promise<void> {
  const { mined } = await world.chain.read();
  const spent = new Set(mined.flatMap(({ spends }) => spends));
  const arrived = new Map(mined.flatMap(({ outputs }) => outputs.map((one) => [one.outpoint, one] as const)));
  await Promise.all(
    world.merchants.map(async (merchant, i) => {
      const own = schedules.filter((one) => one.merchant === merchant);
      const addresses = new Set(own.flatMap(({ payments }) => payments.map(({ address }) => address)));
      const deposits = [...arrived.values()].filter(({ address }) => addresses.has(address));
      const outs = rows.outs.filter(({ merchantId }) => merchantId === merchant.id);
      const customers = new Set(outs.map(({ address }) => address));
      const outpoints = new Set(deposits.map(({ outpoint }) => outpoint));
      const spending = mined.filter(({ spends }) => spends.some((one) => outpoints.has(one)));
      let [fees, home, paid] = [0n, 0n, 0n];
      for (const { txid, spends, outputs } of spending) {
        assert.ok(
          spends.every((one) => outpoints.has(one)),
          `${txid} spends the money of others`,
        );
        fees += sum(spends.map((one) => arrived.get(one)!.units)) - sum(outputs.map(({ units }) => units));
        for (const { address, units } of outputs) {
          if (address === merchant.destination) home += units;
          else if (customers.has(address)) paid += units;
          else assert.ok(outside.strayed.has(merchant.id) && address === ELSEWHERE_ADDRESS, `${txid} pays ${address}`);
        }
      }
      const left = deposits.filter(({ outpoint }) => !spent.has(outpoint));
      const books = await world.desk(() => i % 2).ask('readBooks', { merchantId: merchant.id });
      for (const { outpoint } of left) assert.ok(books!.listed.includes(outpoint), `${outpoint} is unspent and cannot be swept`);
      if (outside.strayed.has(merchant.id)) return;
      assert.deepEqual(books!.listed.toSorted(), left.map(({ outpoint }) => outpoint).toSorted());
      const byHand = sum(outs.flatMap(({ id, units }) => (outside.byHand.has(id) ? [units] : [])));
      assert.deepEqual(books!.balances, {
        ...{ deposit_addresses: sum(left.map(({ units }) => units)).toString(), network_fees: fees.toString() },
        destination_wallet: (home - byHand).toString(),
        out: (paid + byHand).toString(),
      });
    }),
  );
}
