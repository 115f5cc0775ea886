/** Lookups by servers that answer as each program does, and as each known liar would: exact, or no answer. With real transactions and blocks. */
// Invariant: Servers that omit, invent or lag get no wrong figure shown, and learn nothing about payments.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { type TestDatabase, testDatabase } from '../../../../test/kit/database.ts';
import { createElectrumChain } from '../../../../test/kit/electrum-chain.ts';
import { type ElectrumScript, startElectrumServer } from '../../../../test/kit/electrum-server.ts';
import { addressOfScript } from '../../../addresses/address.ts';
import { createChainStore } from '../../../chain-store/chain-store.ts';
import { type Db, openDb } from '../../../db/db.ts';
import { migrate } from '../../../db/migrate.ts';
import { createLog } from '../../../log.ts';
import { ChainError, type ChainSource } from '../../chain-source.ts';
import { workHash } from '../header.ts';
import { PROOF_PARAMS } from '../proof-params.ts';
import { createElectrumSource } from './electrum-source.ts';

const talk = JSON.parse(readFileSync(join(import.meta.dirname, '../../../../test/fixtures/electrum/conversations.json'), 'utf8'));
type Exchange = { send: { method: string; params: unknown[] }; receive: object; note?: string };
/** Without the number of the recorded request. */
const answerOf = ({ receive }: Exchange): { result: unknown } | { error: unknown } => {
  const { result, error } = receive as { result?: unknown; error?: unknown };
  return error === undefined ? { result } : { error };
};
const keyOf = (method: string, params: readonly unknown[]): string => JSON.stringify([method, params]);
/** What an honest server answers. */
const TRUTH = new Map(
  [...talk.hello, ...talk.address_lookup.exchange, ...talk.transaction_lookup.exchange].map((one: Exchange) => [
    keyOf(one.send.method, one.send.params),
    answerOf(one),
  ]),
);
const HISTORY = 'blockchain.scripthash.get_history';
const TIP: { hex: string; height: number } = talk.hello.find(({ send }: Exchange) => send.method.endsWith('headers.subscribe')).receive
  .result;
const address = addressOfScript(talk.address_lookup.script, { coin: 'BTC', network: 'mainnet' })!;
const { total_received: received, total_sent: sent, transaction_count: transactions } = talk.address_lookup.expect;
const EXACT = {
  balanceUnits: BigInt(received - sent),
  unconfirmedUnits: 0n,
  receivedUnits: BigInt(received),
  sentUnits: BigInt(sent),
  transactions,
};

let database: TestDatabase;
let db: Db;
const log = createLog('silent');
before(async () => {
  database = await testDatabase();
  db = await openDb({ url: database.url, log });
  await migrate(db, log);
});
after(async () => {
  await db?.close();
  await database?.drop();
});

/** Another header than that of the tip, with other transactions. */
const otherHeader = (byte: string): string => `${TIP.hex.slice(0, 72)}${byte.repeat(32)}${TIP.hex.slice(136)}`;
/** Its first block tells the network of a server that does not. */
const FIRST_BLOCK =
  '0100000000000000000000000000000000000000000000000000000000000000000000003ba3edfd7a7b12b27ac72c3e67768f617fc81bc3888a51323a9fb8aa4b1e5e4a29ab5f49ffff001d1dac2b7c';
TRUTH.set(keyOf('blockchain.block.header', [0]), { result: FIRST_BLOCK });

/** Servers that tell the truth, except where a script says otherwise. */
async function open(t: TestContext, scripts: readonly ElectrumScript[], software?: string): Promise<ChainSource> {
  const urls: string[] = [];
  for (const script of scripts) {
    const server = await startElectrumServer({ chain: createElectrumChain(), tls: false, ...(software && { software }) });
    t.after(() => server.close());
    server.behave(
      (method, params, truth) =>
        script(method, params, truth) ??
        // The first message names the program, as the test gave it.
        (method === 'server.version' ? undefined : (TRUTH.get(keyOf(method, params)) ?? NO_SUCH_THING)),
    );
    urls.push(server.url);
  }
  const source = createElectrumSource({
    ...{
      family: 'BTC',
      network: 'mainnet',
      urls,
      proxy: null,
      keptByFollowers: true,
      shared: () => null,
      store: createChainStore(db),
      log,
      pauseMs: 10,
    },
    proof: {
      params: PROOF_PARAMS.BTC.main,
      start: { height: TIP.height, headers: [otherHeader('ab'), TIP.hex].map((hex) => Buffer.from(hex, 'hex')) },
    },
    hashWork: async (kind, headers) => headers.map((header) => workHash(kind, header)),
    clock: { now: () => new Date(), monotonicMs: () => performance.now() },
    ours: { hasTransaction: async () => false, scriptsOf: async () => new Set() },
  });
  t.after(() => source.close());
  return source;
}
const NO_SUCH_THING = { error: { code: 2, message: 'no such thing' } };
const honest: ElectrumScript = () => undefined;

const refused = (work: Promise<unknown>, reason: RegExp) =>
  assert.rejects(work, (error) => {
    assert.ok(error instanceof ChainError && error.kind === 'outage', String(error));
    assert.match(error.message, reason);
    return true;
  });

test('honest servers: both lookups are exact', async (t) => {
  const source = await open(t, [honest, honest]);
  assert.deepEqual(await source.addressSummary(address), EXACT);
  const { expect, tx_hash: txid } = talk.transaction_lookup;
  const found = await source.transaction(txid);
  assert.deepEqual(
    [found.blockHash, found.blockHeight, found.timestamp!.getTime() / 1000, found.feeUnits, found.confirmations],
    [expect.block_hash, expect.block_height, expect.timestamp, BigInt(expect.fee), 1],
  );
  assert.deepEqual(
    found.outputs.map(({ units }) => Number(units)),
    expect.outputs.map(({ value }: { value: number }) => value),
  );
});

type Lie = {
  what: string;
  receive_history?: unknown[];
  balance_would_be?: number;
  asked?: string;
  receive_raw?: string;
  receive_tip?: { height: number };
};
const scriptOfLie =
  ({ receive_history: history, balance_would_be: balance, asked, receive_raw: raw, receive_tip: tip }: Lie): ElectrumScript =>
  (method, params) => {
    if (history && method === HISTORY) return { result: history };
    if (balance !== undefined && method.endsWith('get_balance')) return { result: { confirmed: balance, unconfirmed: 0 } };
    if (raw && method.endsWith('transaction.get') && params[0] === asked) return { result: raw };
    if (tip && method.endsWith('headers.subscribe')) return { result: { height: tip.height, hex: otherHeader('cd') } };
    // The branch of the right block, for whatever height.
    if (method.endsWith('get_merkle')) return TRUTH.get(keyOf(method, [params[0], TIP.height]));
    return undefined;
  };
/** What is said beside an honest server, and what two such servers are refused for; null: only another server can know. */
const REASONS: Record<string, readonly [beside: RegExp, alone: RegExp | null]> = {
  'spend left out': [/left out transactions/, null],
  'funding left out': [/left out transactions/, /transaction of others/],
  'transaction that does not touch the script': [/does not prove the history/, /with error 2/],
  'wrong height': [/two servers with the same history/, /does not lead to the block/],
  'made up unconfirmed payment': [/two servers with the same history/, /no longer has a transaction/],
  'other raw transaction': [/^$/, /another transaction than the one asked for/],
  'old tip': [/a second server.*less work/, /less work/],
  'tip above ours on a branch we do not have': [/a second server.*does not show its headers/, /does not show its headers/],
  'no history at all': [/left out transactions/, null],
};
assert.deepEqual(
  talk.lies.map(({ what }: Lie) => what),
  Object.keys(REASONS),
);
for (const lie of talk.lies as Lie[]) {
  test(`a lie beside the truth: ${lie.what}`, async (t) => {
    const liar = scriptOfLie(lie);
    const [beside, alone] = REASONS[lie.what]!;
    const two = await open(t, [honest, liar]);
    // Bytes that another server has sent already are not asked for.
    if (lie.receive_raw) assert.deepEqual(await two.addressSummary(address), EXACT);
    else await refused(two.addressSummary(address), beside);
    assert.deepEqual(await (await open(t, [liar, honest, honest])).addressSummary(address), EXACT);
    if (alone) await refused((await open(t, [liar, liar])).addressSummary(address), alone);
  });
}

for (const error of talk.errors as Exchange[]) {
  const { send, note } = error;
  const what = note ?? send.method;
  const isFulcrum = note?.startsWith('Fulcrum') === true;
  test(`an error as servers send it, to ${send.method}: ${what}`, async (t) => {
    const isVerbose = send.params[1] === true;
    const failing: ElectrumScript = (method, params) =>
      method === send.method && (params[1] === true) === isVerbose ? answerOf(error) : undefined;
    // Fulcrum tells apart an address without a history from one with too much of it.
    const firstUse: ElectrumScript = (method, params, truth) =>
      method.endsWith('get_first_use') ? { result: { tx_hash: 'ab'.repeat(32), height: 5 } } : failing(method, params, truth);
    const source = await open(t, [isFulcrum ? firstUse : failing, honest, honest], isFulcrum ? 'Fulcrum 2.1' : undefined);
    assert.deepEqual(await source.addressSummary(address), EXACT);
    const { tx_hash: txid, expect } = talk.transaction_lookup;
    assert.equal((await source.transaction(txid)).blockHash, expect.block_hash);
    const two = await open(t, [isFulcrum ? firstUse : failing, honest], isFulcrum ? 'Fulcrum 2.1' : undefined);
    if (send.method === HISTORY) await refused(two.addressSummary(address), /a second server/);
    else assert.deepEqual(await two.addressSummary(address), EXACT);
  });
}
