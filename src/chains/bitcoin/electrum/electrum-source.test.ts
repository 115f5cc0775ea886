/** Lookups by Electrum servers that omit, invent, lag, throttle and break the protocol: exact, or no answer that names what is missing. */
// Invariant: Servers that omit, invent or lag get no wrong figure shown, and learn nothing about payments.

import assert from 'node:assert/strict';
import { after, before, beforeEach, type TestContext, test } from 'node:test';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { eventually } from '../../../../test/kit/app.ts';
import { type TestDatabase, testDatabase } from '../../../../test/kit/database.ts';
import { createElectrumChain, type ElectrumChain, spend, txidOfBytes } from '../../../../test/kit/electrum-chain.ts';
import {
  AUTHORITY,
  CERTIFICATES,
  type ElectrumScript,
  type ElectrumServer,
  signedCertificate,
  startElectrumServer,
  wasAskedAbout,
} from '../../../../test/kit/electrum-server.ts';
import { startSocksProxy } from '../../../../test/kit/socks-proxy.ts';
import { addressOfScript } from '../../../addresses/address.ts';
import { createChainStore, forgetCertificate } from '../../../chain-store/chain-store.ts';
import { readProxy } from '../../../connections/socks5.ts';
import { type Db, openDb } from '../../../db/db.ts';
import { migrate } from '../../../db/migrate.ts';
import { createLog } from '../../../log.ts';
import { ChainError, type ChainSource } from '../../chain-source.ts';
import { workHash } from '../header.ts';
import { regtestProof } from '../p2p/network-peers.ts';
import { sha256d } from '../strict-reader.ts';
import { createElectrumSource, type ElectrumOptions } from './electrum-source.ts';

const log = createLog('silent');
const clock = { now: () => new Date(), monotonicMs: () => performance.now() };
const scriptOf = (n: number): string => `0014${n.toString(16).padStart(2, '0').repeat(20)}`;
const addressOf = (n: number): string => addressOfScript(scriptOf(n), { coin: 'BTC', network: 'regtest' })!;
const COIN = 100_000_000n;

const REGTEST: Pick<ElectrumOptions, 'proof' | 'hashWork' | 'shared'> = {
  proof: regtestProof('BTC'),
  hashWork: async (kind, headers) => headers.map((header) => workHash(kind, header)),
  shared: () => null,
};

let database: TestDatabase;
let db: Db;
before(async () => {
  database = await testDatabase();
  db = await openDb({ url: database.url, log });
  await migrate(db, log);
});
after(async () => {
  await db?.close();
  await database?.drop();
});
beforeEach(async () => {
  await db.sql`truncate electrum_certificates`;
});

/**
 * Address 1 received 50 coins and spent them: 10 to address 2, 39 back to itself, 1 as the fee. 5 more are waiting to go to address 2.
 * Blocks below and above, so that the tree of the block has several levels.
 */
function playedChain(): { chain: ElectrumChain; mined: string; waiting: string } {
  const chain = createElectrumChain();
  const { coinbase } = chain.mine(scriptOf(1));
  const others = [7, 8, 9].map((n) => spend([`${chain.mine(scriptOf(n)).coinbase}:0`], [{ script: scriptOf(n + 10), units: COIN }]));
  const paying = spend(
    [`${coinbase}:0`],
    [
      { script: scriptOf(2), units: 10n * COIN },
      { script: scriptOf(1), units: 39n * COIN },
      { script: '6a0568656c6c6f', units: 0n },
    ],
  );
  chain.mine('51', [others[0]!, paying, others[1]!, others[2]!]);
  const mined = txidOfBytes(paying);
  chain.mine();
  const waiting = chain.addWaiting(
    spend(
      [`${mined}:1`],
      [
        { script: scriptOf(2), units: 5n * COIN },
        { script: scriptOf(1), units: 33n * COIN },
      ],
    ),
  );
  return { chain, mined, waiting };
}
const BALANCE = {
  balanceUnits: 39n * COIN,
  unconfirmedUnits: -6n * COIN,
  receivedUnits: 89n * COIN,
  sentUnits: 50n * COIN,
  transactions: 2,
};

type Opened = { source: ChainSource; servers: ElectrumServer[]; mined: string; waiting: string; chain: ElectrumChain };
/** Servers of one chain, each with its own behavior, and the source that asks them. */
async function open(
  t: TestContext,
  scripts: readonly (ElectrumScript | null | Parameters<typeof startElectrumServer>[0])[],
  options: Partial<ElectrumOptions> = {},
): Promise<Opened> {
  // Every chain here is another one, and the headers of the last one would be as good.
  await db.sql`truncate header_pages`;
  const played = playedChain();
  const servers: ElectrumServer[] = [];
  for (const script of scripts) {
    const server = await startElectrumServer(
      script === null || typeof script === 'function' ? { chain: played.chain } : { ...script, chain: script.chain ?? played.chain },
    );
    if (typeof script === 'function') server.behave(script);
    servers.push(server);
  }
  const source = reopen(t, servers, options);
  t.after(async () => {
    for (const server of servers) await server.close();
  });
  return { source, servers, ...played };
}
/** There is no answer, and the reason says what is missing. */
const refused = (work: Promise<unknown>, reason: RegExp, kind: ChainError['kind'] = 'outage') =>
  assert.rejects(work, (error) => {
    assert.ok(error instanceof ChainError, String(error));
    assert.match(error.message, reason);
    assert.equal(error.kind, kind);
    return true;
  });
const only =
  (method: string, script: (params: readonly any[], truth: () => unknown) => ReturnType<ElectrumScript>): ElectrumScript =>
  (asked, params, truth) =>
    asked === method ? script(params, truth) : undefined;
const HISTORY = 'blockchain.scripthash.get_history';
const history = (change: (entries: any[]) => unknown): ElectrumScript =>
  only(HISTORY, (_, truth) => ({ result: change(truth() as any[]) }));

test('two servers of different programs: balance, transactions and fees are exact', async (t) => {
  const { source, mined, waiting, chain } = await open(t, [null, { chain: undefined as never, software: 'Fulcrum 2.1', protocol: '1.6' }]);
  assert.deepEqual(await source.addressSummary(addressOf(1)), BALANCE);
  assert.deepEqual(await source.addressSummary(addressOf(77)), {
    ...{ balanceUnits: 0n, unconfirmedUnits: 0n, receivedUnits: 0n, sentUnits: 0n, transactions: 0 },
  });
  const found = await source.transaction(mined);
  assert.deepEqual(found, {
    ...{ txid: mined, status: 'confirmed', confirmations: 2, blockHeight: 5, amountUnits: 49n * COIN, feeUnits: COIN },
    blockHash: Buffer.from(chain.header(6)!.slice(8, 72), 'hex').reverse().toString('hex'),
    timestamp: new Date((1_700_000_000 + 5 * 600) * 1000),
    inputs: [{ address: addressOf(1), units: 50n * COIN }],
    outputs: [
      { address: addressOf(2), units: 10n * COIN },
      { address: addressOf(1), units: 39n * COIN },
      { address: '', units: 0n, type: 'nulldata' },
    ],
  });
  const pending = await source.transaction(waiting);
  assert.deepEqual([pending.status, pending.confirmations, pending.blockHash, pending.feeUnits], ['pending', 0, null, COIN]);
  const coinbase = await source.transaction(chain.txidAt(1, 0)!);
  assert.deepEqual([coinbase.feeUnits, coinbase.inputs], [0n, [{ address: 'coinbase', units: 50n * COIN }]]);
  await refused(source.transaction('ab'.repeat(32)), /abab/, 'not_found');
  const fees = await source.fees();
  assert.deepEqual(
    fees.map(({ speed, rateE8, source: from }) => [speed, rateE8, from]),
    (['fast', 'normal', 'slow'] as const).map((speed) => [speed, 214_300_000n, 'estimate']),
  );
  assert.equal((await source.health()).tip.height, 6);
});

test('one server proves a transaction in a block, and nothing else: what needs a second one is named', async (t) => {
  const { source, mined, waiting } = await open(t, [null]);
  assert.equal((await source.transaction(mined)).status, 'confirmed');
  await refused(source.addressSummary(addressOf(1)), /a second server that confirms that no transaction of the address is left out/);
  await refused(source.transaction(waiting), /not in a block, and no second server shows it/);
  await refused(source.transaction('ab'.repeat(32)), /no second one confirms that/);
  await refused(source.fees(), /estimates of two servers/);
});

for (const [what, script, reason] of [
  ['leaves out a spend', history((all) => all.filter(({ height }) => height !== 5)), /left out transactions of an address/],
  ['leaves out a receipt', history((all) => all.slice(1)), /left out transactions of an address/],
  ['says there is no history', history(() => []), /left out transactions of an address/],
  ['hides what is waiting', history((all) => all.filter(({ height }) => height > 0)), /two servers with the same history/],
  [
    'invents a waiting payment',
    history((all) => [...all, { tx_hash: '11'.repeat(32), height: 0, fee: 500 }]),
    /two servers with the same history/,
  ],
  ['names a wrong height', history((all) => all.map((one) => ({ ...one, height: one.height === 5 ? 4 : one.height }))), /same history/],
  ['answers with nonsense', history(() => ({ a: 1 })), /history of another form/],
  ['names a transaction twice', history((all) => [...all, all[0]]), /history of another form/],
] as const) {
  test(`a server that ${what}: no figure from two servers, the exact one from three`, async (t) => {
    const two = await open(t, [null, script]);
    await refused(two.source.addressSummary(addressOf(1)), reason);
    const three = await open(t, [script, null, null]);
    assert.deepEqual(await three.source.addressSummary(addressOf(1)), BALANCE);
  });
}

test('a history with a transaction of others is refused, even when two servers show it', async (t) => {
  const { source, servers, chain } = await open(t, [null, null]);
  const foreign = { tx_hash: chain.txidAt(2, 0), height: 2 };
  for (const server of servers) server.behave(history((all) => [foreign, ...all]));
  await refused(source.addressSummary(addressOf(1)), /sent a history with a transaction of others/);
});

test('two servers that leave out the same are found out by a third that proves it', async (t) => {
  const omit = history((all) => all.filter(({ height }) => height !== 5 && height !== 0));
  // Their balances give them away.
  const { source } = await open(t, [omit, omit]);
  await refused(source.addressSummary(addressOf(1)), /another balance than its history has/);
  const careful: ElectrumScript = (method, params, truth) =>
    method === 'blockchain.scripthash.get_balance' ? { result: { confirmed: 5e9, unconfirmed: 0 } } : omit(method, params, truth);
  const asked = await open(t, [careful, null, careful]);
  await refused(asked.source.addressSummary(addressOf(1)), /left out transactions of an address/);
});

for (const [what, script, reason] of [
  [
    'sends other bytes for a transaction',
    only('blockchain.transaction.get', () => ({
      result: spend([`${'cd'.repeat(32)}:0`], [{ script: scriptOf(1), units: 9n }]).toString('hex'),
    })),
    /another transaction than the one asked for/,
  ],
  [
    'sends a branch to another block',
    only('blockchain.transaction.get_merkle', (_, truth) => ({ result: { ...(truth() as object), merkle: ['ab'.repeat(32)], pos: 1 } })),
    /does not lead to the block/,
  ],
  [
    'sends a branch of another form',
    only('blockchain.transaction.get_merkle', () => ({ result: { merkle: 'x', pos: -1 } })),
    /another form/,
  ],
  ['has no branch', only('blockchain.transaction.get_merkle', () => ({ error: { code: 1, message: 'no' } })), /with error 1/],
  [
    'shows a block that does not exist',
    history((all) => all.map((one) => ({ ...one, height: 4_000 }))),
    /names block 4000, which is not known yet/,
  ],
] as const) {
  test(`a server that ${what}: its transaction is not shown, that of the next server is`, async (t) => {
    const alone = await open(t, [script]);
    await refused(alone.source.transaction(alone.mined), reason);
    const { source, mined } = await open(t, [script, null]);
    assert.equal((await source.transaction(mined)).confirmations, 2);
  });
}

test('a server that lags is no witness until it has caught up', async (t) => {
  const { source, servers, chain, waiting } = await open(t, [null, null]);
  servers[1]!.show(chain.copy(5));
  await refused(source.addressSummary(addressOf(1)), /is behind: it shows block 5 of 6/);
  await refused(source.transaction(waiting), /no second server shows it.*is behind/);
  servers[1]!.show(chain);
  assert.deepEqual(await source.addressSummary(addressOf(1)), BALANCE);
});

test('a reorganization moves a transaction: the next lookup shows its new block', async (t) => {
  const { source, servers, chain, mined } = await open(t, [null, null]);
  assert.equal((await source.transaction(mined)).blockHeight, 5);
  const other = chain.copy(4);
  other.mine();
  other.mine('51', [Buffer.from(chain.transaction(mined)!.hex, 'hex')]);
  other.mine();
  for (const server of servers) server.show(other);
  await eventually(
    async () => source.servers!.states(),
    ([first]) => first!.height === 7,
  );
  const found = await source.transaction(mined);
  assert.deepEqual([found.blockHeight, found.confirmations], [6, 2]);
  assert.equal((await source.addressSummary(addressOf(1))).balanceUnits, 39n * COIN);
});

test('headers without work, of another network or that cannot be linked leave a server out', async (t) => {
  // The parent of the newest header is right, its work is not.
  const weaken = (hex: string): string => {
    const weak = Buffer.from(hex, 'hex');
    do weak.writeUInt32LE(weak.readUInt32LE(76) + 1, 76);
    while (sha256d(weak)[31]! < 0x80);
    return weak.toString('hex');
  };
  const forge: ElectrumScript = (method, _, truth) => {
    const { hex } = truth() as { hex: string };
    if (method === 'blockchain.headers.subscribe') return { result: { height: 6, hex: weaken(hex) } };
    return method === 'blockchain.block.headers' ? { result: { hex: hex.slice(0, -160) + weaken(hex.slice(-160)) } } : undefined;
  };
  await refused((await open(t, [forge])).source.health(), /not valid: block 6 does not have the work/);
  const elsewhere = only('server.features', () => ({ result: { genesis_hash: 'ab'.repeat(32) } }));
  await refused((await open(t, [elsewhere])).source.health(), /is not a server of BTC regtest/);
  const nothing = only('blockchain.block.headers', () => ({ result: { count: 0, hex: '' } }));
  await refused((await open(t, [nothing])).source.health(), /branch with less work/);
  const torn = only('blockchain.block.headers', (_, truth) => ({ result: { hex: (truth() as { hex: string }).hex.slice(0, -2) } }));
  await refused((await open(t, [torn])).source.health(), /headers that end too early/);
  // A server that does not tell its network has the first header.
  const { source } = await open(t, [only('server.features', () => ({ error: 'unknown method' }))]);
  assert.equal((await source.health()).tip.height, 6);
});

for (const code of [-101, -102]) {
  test(`a server that asks for fewer requests (${code}) is not asked again for a minute`, async (t) => {
    const { source, servers, mined } = await open(t, [only('blockchain.transaction.get', () => ({ error: { code, message: 'x' } })), null]);
    assert.equal((await source.transaction(mined)).status, 'confirmed');
    const before = servers[0]!.asked.length;
    assert.equal((await source.transaction(mined)).status, 'confirmed');
    await refused(source.fees(), /asks for fewer requests/);
    assert.equal(servers[0]!.asked.length, before);
    assert.equal(servers[0]!.connections(), 1);
    assert.deepEqual(
      source.servers!.states().map(({ state, reason }) => [state, reason]),
      [
        ['down', 'asks for fewer requests'],
        ['ok', null],
      ],
    );
  });
}

const MEGABYTE = 'x'.repeat(1 << 20);
for (const [what, script, reason] of [
  ['closes the connection', () => 'close' as const, /closed the connection/],
  ['sends bytes that are not JSON', () => ({ bytes: 'hello\n' }), /not JSON/],
  ['sends a line without end', () => ({ bytes: MEGABYTE.repeat(10) }), /too long|more than was asked for/],
  [
    'floods with notifications',
    () => ({ bytes: `{"method":"a","params":["${'x'.repeat(9_999)}"]}\n`.repeat(2_000) }),
    /more than was asked for/,
  ],
] as const) {
  test(`a server that ${what} is left, and the next one answers`, async (t) => {
    const { source, mined } = await open(t, [only('blockchain.transaction.get', script), null]);
    assert.equal((await source.transaction(mined)).status, 'confirmed');
    assert.match(source.servers!.states()[0]!.reason!, reason);
  });
}

for (const [what, notice] of [
  ['a header of another form', { method: 'blockchain.headers.subscribe', params: [{ hex: 'zz', height: -1 }] }],
  ['nothing', { method: 'blockchain.headers.subscribe', params: [] }],
  ['null', { method: 'blockchain.headers.subscribe', params: [null] }],
] as const) {
  test(`a server that notifies of ${what} is left, before and after the handshake`, async (t) => {
    const line = `${JSON.stringify(notice)}\n`;
    const early = await open(t, [null]);
    early.servers[0]!.behave((method) => {
      if (method === 'server.version') early.servers[0]!.trickle(line);
      return undefined;
    });
    // Nobody listens yet.
    assert.equal((await early.source.transaction(early.mined)).status, 'confirmed');
    early.servers[0]!.trickle(line);
    await eventually(
      async () => early.source.servers!.states()[0]!,
      ({ state, reason }) => state === 'down' && /does not show its newest block/.test(reason!),
    );
  });
}

for (const [what, script, drips] of [
  ['does not answer', () => 'silent' as const, false],
  ['answers what was never asked', () => ({ bytes: '{"id":99999,"result":1}\n' }), false],
  ['sends byte by byte', () => ({ bytes: '{' }), true],
] as const) {
  test(`a server that ${what} is left when its time is up`, async (t) => {
    const waits = { connectMs: 10_000, answerMs: 300, idleMs: 60_000 };
    const { source, servers, mined } = await open(t, [only('blockchain.transaction.get', script)], { waits });
    const drip = setInterval(() => drips && servers[0]!.trickle(' '), 20);
    t.after(() => clearInterval(drip));
    await refused(source.transaction(mined), /does not answer .* within 0.3 s/);
    assert.equal(source.servers!.states()[0]!.state, 'down');
  });
}

test('a certificate is kept: another one is refused before a byte is sent, until an operator accepts it', async (t) => {
  const { source, servers, mined } = await open(t, [null]);
  assert.equal((await source.transaction(mined)).status, 'confirmed');
  servers[0]!.presentCertificate(CERTIFICATES[1]);
  const before = servers[0]!.received().length;
  const later = reopen(t, servers);
  await refused(
    later.transaction(mined),
    /shows another certificate than before.*florin chain accept-certificate --server 127\.0\.0\.1:\d+/,
  );
  assert.equal(servers[0]!.received().length, before);
  assert.equal(await forgetCertificate(db, { server: servers[0]!.name }), true);
  assert.equal((await reopen(t, servers).transaction(mined)).status, 'confirmed');
  // From an authority once, never with less.
  await db.sql`update electrum_certificates set identity = 'authority'`;
  await refused(reopen(t, servers).transaction(mined), /another certificate/);
});

test('a certificate of an authority may be renewed; less than that is never accepted again', async (t) => {
  const authorities = getCACertificates('default');
  setDefaultCACertificates([...authorities, AUTHORITY]);
  t.after(() => setDefaultCACertificates(authorities));
  const { servers, mined } = await open(t, [null]);
  const [server] = servers as [ElectrumServer];
  const proxy = await startSocksProxy({ where: () => Number(server.name.split(':')[1]) });
  t.after(() => proxy.close());
  const name = 'electrum.example:50002';
  const lookUp = async () => (await reopen(t, [], { urls: [`tls://${name}`], proxy: readProxy(proxy.url) }).transaction(mined)).status;
  const identity = async () =>
    (await db.sql<{ identity: string }[]>`select identity from electrum_certificates where server = ${name}`)[0]?.identity;

  // It signed its own certificate at first, and got one of an authority later.
  assert.equal(await lookUp(), 'confirmed');
  assert.match((await identity())!, /^[0-9A-F:]{95}$/);
  for (const renewal of ['first', 'renewed', 'first'] as const) {
    server.presentCertificate(signedCertificate(renewal));
    assert.equal(await lookUp(), 'confirmed', renewal);
    assert.equal(await identity(), 'authority');
  }
  for (const [pem, reason] of [
    [CERTIFICATES[0], /another certificate than before; if its operator/],
    [signedCertificate('expired'), /another certificate than before, which has expired/],
    [signedCertificate('elsewhere'), /another certificate than before, which is for another name/],
  ] as const) {
    server.presentCertificate(pem);
    const before = server.received().length;
    await refused(lookUp(), reason);
    assert.equal(server.received().length, before);
  }
  server.presentCertificate(signedCertificate('renewed'));
  assert.equal(await lookUp(), 'confirmed');
  // Without the authority, it is a certificate like any other.
  assert.equal(await forgetCertificate(db, { server: name }), true);
  setDefaultCACertificates(authorities);
  assert.equal(await lookUp(), 'confirmed');
  assert.notEqual(await identity(), 'authority');
});

function reopen(t: TestContext, servers: readonly ElectrumServer[], options: Partial<ElectrumOptions> = {}): ChainSource {
  const source = createElectrumSource({
    ...{
      family: 'BTC',
      network: 'regtest',
      urls: servers.map(({ url }) => url),
      proxy: null,
      keptByFollowers: false,
      store: createChainStore(db),
      clock,
      log,
      ...REGTEST,
    },
    ...{ ours: { hasTransaction: async () => false, scriptsOf: async () => new Set() }, pauseMs: 20, ...options },
  });
  t.after(() => source.close());
  return source;
}

test('through a SOCKS proxy, names are resolved there; without one, onion services are not tried', async (t) => {
  const { servers, mined } = await open(t, [null, { chain: undefined as never, tls: false }]);
  const ports = servers.map(({ name }) => Number(name.split(':')[1]));
  const proxy = await startSocksProxy({ where: (host) => (host.endsWith('.onion') ? ports[1]! : ports[0]!) });
  t.after(() => proxy.close());
  const urls = ['tls://electrum.example:50002', 'tcp://abcdef.onion:50001'];
  const source = reopen(t, [], { urls, proxy: readProxy(proxy.url) });
  assert.equal((await source.transaction(mined)).status, 'confirmed');
  assert.deepEqual(await source.addressSummary(addressOf(1)), BALANCE);
  assert.deepEqual(proxy.asked.toSorted(), ['abcdef.onion:50001', 'electrum.example:50002']);
  const direct = reopen(t, [], { urls: urls.slice(1) });
  await refused(direct.health(), /can only be reached through Tor; set P2P_PROXY/);
});

test('servers of one operator are one witness', async (t) => {
  const { servers } = await open(t, [null, null]);
  const ports = servers.map(({ name }) => Number(name.split(':')[1]));
  const proxy = await startSocksProxy({ where: (host) => (host.startsWith('a.') ? ports[0]! : ports[1]!) });
  t.after(() => proxy.close());
  const at = (...hosts: string[]) => reopen(t, [], { urls: hosts.map((host) => `tls://${host}:50002`), proxy: readProxy(proxy.url) });
  await refused(at('a.one.example', 'b.one.example').addressSummary(addressOf(1)), /a second server/);
  assert.deepEqual(await at('a.one.example', 'b.two.example').addressSummary(addressOf(1)), BALANCE);
});

test('nothing about payments is sent: not their addresses, not their transactions, not even to find a block', async (t) => {
  let waiting = '';
  let mined = '';
  const ours = {
    hasTransaction: async (txid: string) => txid === waiting,
    scriptsOf: async (scripts: readonly string[]) => new Set(scripts.filter((script) => script === scriptOf(2))),
  };
  const opened = await open(t, [null, null], { ours });
  ({ waiting, mined } = opened);
  const { source, servers } = opened;
  await refused(source.addressSummary(addressOf(2)), /may be asked/, 'unsupported');
  await refused(source.transaction(waiting), /not asked about transactions of payments/, 'unsupported');
  // A transaction that pays one of our addresses and another one: only the other one is asked about.
  const found = await source.transaction(mined);
  assert.equal(found.status, 'confirmed');
  for (const server of servers) {
    assert.equal(wasAskedAbout(server, scriptOf(2)), false);
    assert.ok(!server.received().includes(waiting));
  }
  assert.ok(servers.some((server) => wasAskedAbout(server, scriptOf(1))));
});

test('the same question is asked once, however many wait for the answer', async (t) => {
  const { source, servers } = await open(t, [null, null]);
  await source.health();
  const found = await Promise.all(Array.from({ length: 20 }, () => source.addressSummary(addressOf(1))));
  for (const one of found) assert.deepEqual(one, BALANCE);
  assert.equal(servers[0]!.count(HISTORY), 1);
  assert.equal(servers[0]!.connections(), 1);
});

test('headers that followers keep in the database are used and never overwritten', async (t) => {
  const { servers, mined } = await open(t, [null]);
  const first = reopen(t, servers);
  await first.health();
  const stored = async () => (await db.sql<{ n: number }[]>`select sum(length(headers) / 80)::int as n from header_pages`)[0]!.n;
  assert.equal(await stored(), 6);
  const asked = servers[0]!.count('blockchain.block.headers');
  const reader = reopen(t, servers, { keptByFollowers: true });
  assert.equal((await reader.transaction(mined)).blockHeight, 5);
  assert.equal(servers[0]!.count('blockchain.block.headers'), asked);
  servers[0]!.chain.mine();
  servers[0]!.show(servers[0]!.chain);
  assert.equal((await reopen(t, servers, { keptByFollowers: true }).health()).tip.height, 7);
  assert.equal(await stored(), 6);
});

/** An address with this many transactions, 220 in each block: each pays it 1,000 units, and every tenth spends what the one before it paid. */
function payOften(chain: ElectrumChain, script: string, count: number): void {
  const { coinbase } = chain.mine('51');
  const fan = Array.from({ length: Math.ceil(count / 250) }, () => ({ script: '52', units: COIN }));
  const first = spend([`${coinbase}:0`], fan);
  const seconds = fan.map((_, i) =>
    spend(
      [`${txidOfBytes(first)}:${i}`],
      Array.from({ length: 250 }, () => ({ script: '53', units: 100_000n })),
    ),
  );
  chain.mine('51', [first, ...seconds]);
  const payments: Buffer[] = [];
  for (let i = 0; i < count; i++) {
    const from = [`${txidOfBytes(seconds[Math.floor(i / 250)]!)}:${i % 250}`];
    if (i % 10 === 9) from.push(`${txidOfBytes(payments[i - 1]!)}:0`);
    payments.push(spend(from, [{ script, units: 1_000n }]));
  }
  for (let at = 0; at < count; at += 220) chain.mine('51', payments.slice(at, at + 220));
}
const LONG = {
  ...{ balanceUnits: 990_000n, unconfirmedUnits: 0n, receivedUnits: 1_100_000n, sentUnits: 110_000n },
  transactions: 1_100,
};
const MERKLE = 'blockchain.transaction.get_merkle';

test('a long history: servers of others prove it within their limits, lookup after lookup; one more transaction costs one more proof', async (t) => {
  const chain = playedChain().chain;
  payOften(chain, scriptOf(5), 1_100);
  const { servers } = await open(t, [{ chain } as never, { chain, software: 'Fulcrum 2.1', protocol: '1.6' }, { chain } as never]);
  const ports = servers.map(({ name }) => Number(name.split(':')[1]));
  const hosts = ['one.example', 'two.example2', 'three.example3'];
  const proxy = await startSocksProxy({ where: (host) => ports[hosts.indexOf(host)]! });
  t.after(() => proxy.close());
  let laterMs = 0;
  const source = reopen(t, [], {
    urls: hosts.map((host) => `tls://${host}:50002`),
    proxy: readProxy(proxy.url),
    clock: { now: clock.now, monotonicMs: () => clock.monotonicMs() + laterMs },
  });
  await refused(
    source.addressSummary(addressOf(5)),
    /\d+ of 1100 transactions of the address are proven so far.*was asked as much as it allows/,
  );
  // What ElectrumX slows down at; the third server was not told about the address.
  for (const server of servers.slice(0, 2)) assert.ok(server.asked.length > 500 && server.asked.length < 1_000, `${server.asked.length}`);
  assert.equal(servers[2]!.count(HISTORY), 0);
  const histories = servers[0]!.count(HISTORY);
  laterMs = 60_000;
  await refused(source.addressSummary(addressOf(5)), /of 1100 transactions/);
  assert.equal(servers[0]!.count(HISTORY), histories);
  laterMs = 1_200_000;
  assert.deepEqual(await source.addressSummary(addressOf(5)), LONG);
  assert.equal(servers[2]!.count(HISTORY), 0);
  const proofs = () => servers.reduce((sum, server) => sum + server.count(MERKLE), 0);
  // Each was asked for once, but for those that were open when a limit was reached.
  assert.ok(proofs() >= 1_100 && proofs() < 1_150, `${proofs()}`);

  const before = proofs();
  laterMs = 2_400_000;
  const { coinbase } = chain.mine(scriptOf(5));
  for (const server of servers) server.show(chain);
  await eventually(
    async () => source.servers!.states(),
    ([one, two]) => one!.height === chain.tip().height && two!.height === chain.tip().height,
  );
  assert.equal((await source.addressSummary(addressOf(5))).balanceUnits, LONG.balanceUnits + 50n * COIN);
  assert.equal(proofs(), before + 1);
  assert.ok(servers.some(({ asked }) => asked.some(({ method, params }) => method === MERKLE && params[0] === coinbase)));
});

test('a long history at servers of your own is proven at once; after a reorganization it is that of the new chain', async (t) => {
  const { source, servers, chain } = await open(t, [null, null]);
  payOften(chain, scriptOf(5), 1_100);
  for (const server of servers) server.show(chain);
  assert.deepEqual(await source.addressSummary(addressOf(5)), LONG);
  // The last 220 are in no block any more.
  const other = chain.copy(chain.tip().height - 1);
  other.mine();
  other.mine(scriptOf(5));
  for (const server of servers) server.show(other);
  await eventually(
    async () => source.servers!.states(),
    ([one, two]) => one!.height === other.tip().height && two!.height === other.tip().height,
  );
  assert.deepEqual(await source.addressSummary(addressOf(5)), {
    ...{ balanceUnits: 792_000n + 50n * COIN, unconfirmedUnits: 0n, receivedUnits: 880_000n + 50n * COIN, sentUnits: 88_000n },
    transactions: 881,
  });
});

test('a history above the limit needs two servers that show it; a single one is not believed', async (t) => {
  const longer = history((all) => [
    ...all,
    ...Array.from({ length: 10_000 }, (_, i) => ({ tx_hash: i.toString(16).padStart(64, '0'), height: 5 })),
  ]);
  const { source, servers } = await open(t, [longer, null, null]);
  assert.deepEqual(await source.addressSummary(addressOf(1)), BALANCE);
  for (const server of servers) server.behave(longer);
  await refused(source.addressSummary(addressOf(1)), /more than 10000 transactions/, 'unsupported');
});

test('long answers count toward what a server of others is asked for', async (t) => {
  const megabyte = history(() => Array.from({ length: 10_001 }, (_, i) => ({ tx_hash: `${i}`.padStart(64, '0'), height: 5 })));
  const { servers } = await open(t, [megabyte, null]);
  const ports = servers.map(({ name }) => Number(name.split(':')[1]));
  const proxy = await startSocksProxy({ where: (host) => (host.startsWith('one') ? ports[0]! : ports[1]!) });
  t.after(() => proxy.close());
  const source = reopen(t, [], { urls: ['tls://one.example:50002', 'tls://two.example2:50002'], proxy: readProxy(proxy.url) });
  for (let i = 0; i < 6; i++) await refused(source.addressSummary(addressOf(1)), /a second server/);
  await refused(source.addressSummary(addressOf(1)), /one\.example:50002 was asked as much as it allows/);
  assert.ok(servers[0]!.count(HISTORY) >= 3 && servers[0]!.count(HISTORY) <= 6, `${servers[0]!.count(HISTORY)}`);
});

test('blocks a few below the checkpoint are proven by the headers in between; those further below need two operators', async (t) => {
  const { servers, chain } = await open(t, [null]);
  const startAt = (height: number): Partial<ElectrumOptions> => ({
    keptByFollowers: true,
    proof: { params: REGTEST.proof.params, start: { height, headers: [Buffer.from(chain.header(height)!, 'hex')] } },
  });
  await db.sql`truncate header_pages`;
  const [server] = servers as [ElectrumServer];
  const low = chain.txidAt(1, 0)!;
  const source = reopen(t, servers, startAt(4));
  assert.deepEqual([(await source.transaction(low)).blockHeight, (await source.transaction(low)).confirmations], [1, 6]);
  const asked = server.count('blockchain.block.headers');
  assert.equal((await source.transaction(chain.txidAt(2, 0)!)).blockHeight, 2);
  assert.equal(server.count('blockchain.block.headers'), asked);

  // Headers of other blocks, however well they are linked to each other.
  const other = createElectrumChain();
  for (let i = 0; i < 3; i++) other.mine(scriptOf(40 + i));
  const lie: ElectrumScript = (method, params) =>
    method === 'blockchain.block.headers' && params[0] < 4
      ? { result: { count: 3, hex: [1, 2, 3].map((height) => other.header(height)).join('') } }
      : undefined;
  server.behave(lie);
  await refused(reopen(t, servers, startAt(4)).transaction(low), /headers that do not lead to the checkpoint/);
  // It shows none of them: a second operator must show the same header.
  server.behave((method, params) =>
    method === 'blockchain.block.headers' && params[0] < 4 ? { result: { count: 0, hex: '' } } : undefined,
  );
  await refused(reopen(t, servers, startAt(4)).transaction(low), /block 1 is below the checkpoint of this release, and no two servers/);
  const second = await startElectrumServer({ chain });
  t.after(() => second.close());
  assert.equal((await reopen(t, [server, second], startAt(4)).transaction(low)).blockHeight, 1);
});

test('a transaction is sent by the first server that takes it, and refused when none does', async (t) => {
  const bytes = spend([`${'ab'.repeat(32)}:0`], [{ script: scriptOf(2), units: 5n * COIN }]);
  const wrong: ElectrumScript = only('blockchain.transaction.broadcast', () => ({ error: { code: 1, message: 'no' } }));
  const { source, servers } = await open(t, [null, null, wrong]);
  servers[0]!.behave(wrong);
  await source.outlet!.send!(bytes);
  const sent = servers[1]!.asked.filter(({ method }) => method === 'blockchain.transaction.broadcast');
  assert.deepEqual(
    sent.map(({ params }) => params),
    [[Buffer.from(bytes).toString('hex')]],
  );
  servers[1]!.behave(wrong);
  await assert.rejects(source.outlet!.send!(bytes), { kind: 'refused' });
  servers[1]!.behave(only('blockchain.transaction.broadcast', () => ({ result: 42 })));
  await assert.rejects(source.outlet!.send!(bytes), { kind: 'refused' }, 'another answer is not that it was taken');
  assert.equal(source.outlet!.areUnspent, undefined, 'no server is asked about outputs of payments');
});

test('a newest header with a long proof of merged mining, as a miner may make it, closes no server', async (t) => {
  // The proof follows the 80 bytes, and is not read: a block of Dogecoin has at most 1,000,000 bytes with it.
  const proof = 'ab'.repeat(1_000_000 - 80);
  const { source, servers, mined, chain } = await open(t, [
    only('blockchain.headers.subscribe', (_, truth) => {
      const { height, hex } = truth() as { height: number; hex: string };
      return { result: { height, hex: hex + proof } };
    }),
    null,
  ]);
  const [first] = servers;
  assert.equal((await source.transaction(mined)).status, 'confirmed');
  const { height, hex } = chain.tip();
  const notice = { jsonrpc: '2.0', method: 'blockchain.headers.subscribe', params: [{ height, hex: hex + proof }] };
  for (let i = 0; i < 3; i++) first!.trickle(`${JSON.stringify(notice)}\n`);
  // Its answer follows the notices.
  await source.fees();
  assert.deepEqual(
    source.servers!.states().map(({ state }) => state),
    ['ok', 'ok'],
  );
  assert.equal(first!.connections(), 1);
});
