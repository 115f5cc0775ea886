/** The service that follows the sync committee, with real servers over HTTP and a real database. */

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { eventually } from '../../../../test/kit/app.ts';
import { type BeaconServer, createBeaconChain, smallNetwork, startBeaconServer } from '../../../../test/kit/beacon-chain.ts';
import { type TestDatabase, testDatabase } from '../../../../test/kit/database.ts';
import { createChainStore } from '../../../chain-store/chain-store.ts';
import { createOutgoing } from '../../../connections/http-client.ts';
import { createLog } from '../../../log.ts';
import { createBeaconServers } from './beacon-networks.ts';
import { createLightService, type LightService } from './light-service.ts';

const log = createLog('silent');
const outgoing = createOutgoing({ allow: [], log });
/** Time stands still, 20 periods after the start of the chain, so that no round depends on how fast the machine is. */
const SLOT = 20 * 64 + 30;
const chain = createBeaconChain(smallNetwork({ fulu: 0 }, { secondsPerSlot: 1 }));
const clock = { now: () => new Date(SLOT * 1000), monotonicMs: () => performance.now() };
const hash = (byte: number) => `0x${byte.toString(16).padStart(2, '0').repeat(32)}`;

let database: TestDatabase;
let servers: BeaconServer[];
const opened: LightService[] = [];
before(async () => {
  database = await testDatabase();
  servers = [await startBeaconServer(), await startBeaconServer()];
});
after(async () => {
  for (const service of opened) await service.close();
  for (const server of servers) await server.stop();
  await outgoing.close();
  await database.drop();
});

const open = async (name: string, checkpoint: string | null, at: { now(): Date; monotonicMs(): number } = clock) => {
  const service = createLightService({
    ...{ network: chain.network, checkpoint, store: createChainStore(database.db).light(name), clock: at, log },
    servers: createBeaconServers({ urls: servers.map(({ url }) => url), outgoing }),
  });
  await service.open();
  opened.push(service);
  return service;
};
/** A checkpoint some periods ago, what the chain said since, and its head. */
function story(periodsAgo: number) {
  const first = chain.header(SLOT - periodsAgo * 64, hash(1));
  const updates = Array.from({ length: periodsAgo + 1 }, (_, i) => {
    const slot = SLOT - (periodsAgo - i) * 64;
    const finalized = chain.header(slot - 12, hash(10 + i));
    return chain.update(chain.header(slot - 4, hash(40 + i), { finalized }), { finalized, withNext: true });
  });
  const finalized = chain.header(SLOT - 12, hash(10 + periodsAgo));
  const attested = chain.header(SLOT - 2, hash(3), { finalized });
  const finality = chain.update(attested, { finalized });
  return { first, root: `0x${first.root}`, answers: { bootstrap: chain.bootstrap(first), updates, finality, optimistic: finality } };
}

test('from a checkpoint through the committees of all periods to the head, and on after a restart', async () => {
  const { root, answers } = story(3);
  servers[0]!.serve({});
  servers[1]!.serve(answers);
  const service = await open('restart', root);
  const heads = await eventually(
    async () => service.heads(),
    (found) => found?.optimistic.executionHash === hash(3),
  );
  assert.equal(heads!.finalized.slot, SLOT - 12);
  assert.deepEqual(service.holds(), []);
  const { servers: states, head, trouble } = await service.check();
  assert.deepEqual([states.map(({ reason }) => reason === null), trouble], [[false, true], null]);
  assert.match(head!, new RegExp(`^signed up to slot ${SLOT - 2}, `));
  await service.close();

  servers[1]!.serve({ finality: answers.finality });
  for (const checkpoint of [root, null]) {
    const again = await open('restart', checkpoint);
    assert.deepEqual(again.heads(), heads, 'what was proven is stored');
    await again.close();
  }
  const elsewhere = await open('restart', hash(99));
  assert.equal(elsewhere.heads(), null, 'another checkpoint starts again');
  await elsewhere.close();
});

test('without a checkpoint, or with an old one, nothing is proven and the reason is said', async () => {
  const { root, answers } = story(1);
  for (const server of servers) server.serve(answers);
  const none = await open('none', null);
  await eventually(
    async () => none.trouble(),
    (text) => /ETH_CHECKPOINT is not set/.test(text ?? ''),
  );
  assert.equal(none.heads(), null);
  await none.close();

  const later = { ...clock, now: () => new Date(SLOT * 1000 + 15 * 86_400_000) };
  const old = await open('old', root, later);
  await eventually(
    async () => old.trouble(),
    (text) => /the checkpoint is 15 days old/.test(text ?? ''),
  );
  assert.equal(old.heads(), null);
  await old.close();

  servers.forEach((server) => {
    server.serve({ bootstrap: story(2).answers.bootstrap });
  });
  const other = await open('other', root);
  await eventually(
    async () => other.trouble(),
    (text) => /no beacon server has the checkpoint: .*another checkpoint/.test(text ?? ''),
  );
  await other.close();
});

test('a server that withholds the next committee does not keep another one from being asked', async () => {
  const { root, answers } = story(2);
  servers[0]!.serve({ ...answers, updates: [], optimistic: answers.updates[0] });
  servers[1]!.serve(answers);
  const service = await open('withheld', root);
  await eventually(
    async () => service.heads(),
    (heads) => heads?.finalized.slot === SLOT - 12,
  );
  await service.close();
});

test('what was stored more than 14 days ago is not continued', async () => {
  const { root, answers } = story(1);
  for (const server of servers) server.serve(answers);
  const before = await open('weeks', root);
  await eventually(
    async () => before.heads(),
    (heads) => heads !== null,
  );
  await before.close();
  const after = await open('weeks', null, { ...clock, now: () => new Date(SLOT * 1000 + 15 * 86_400_000) });
  assert.equal(after.heads(), null);
  await after.close();
});

test('two signed finalized blocks of one slot stop completion, also after a restart, until the checkpoint is replaced', async () => {
  const { root, answers } = story(1);
  const finalized = chain.header(SLOT - 12, hash(77));
  const other = chain.update(chain.header(SLOT - 2, hash(78), { finalized }), { finalized });
  servers[0]!.serve(answers);
  servers[1]!.serve({ ...answers, finality: other });
  const service = await open('halt', root);
  await eventually(
    async () => service.holds(),
    ([hold]) => /two finalized blocks of slot \d+ are both signed/.test(hold ?? ''),
  );
  await service.close();
  servers[1]!.serve(answers);
  const again = await open('halt', root);
  assert.equal(again.holds().length, 1);
  assert.match((await again.check()).trouble!, /two finalized blocks/);
  await again.close();

  const fresh = story(0);
  for (const server of servers) server.serve(fresh.answers);
  const replaced = await open('halt', fresh.root);
  await eventually(
    async () => replaced.heads(),
    (heads) => heads !== null,
  );
  assert.deepEqual(replaced.holds(), []);
  await replaced.close();
});

test('a chain without finality holds', async () => {
  const { root, answers } = story(0);
  for (const server of servers) server.serve(answers);
  let slots = SLOT;
  const service = await open('unfinal', root, { ...clock, now: () => new Date(slots * 1000) });
  await eventually(
    async () => service.heads(),
    (heads) => heads !== null,
  );
  assert.deepEqual(service.holds(), []);
  slots += 1_300;
  assert.match(service.holds()[1]!, /^no block of Ethereum has become final for/);
  await service.close();
});

test('a stale head, a clock that is behind and an unknown fork hold, each with its reason', async () => {
  const { root, answers } = story(1);
  let slots = SLOT;
  const at = { ...clock, now: () => new Date(slots * 1000) };
  for (const server of servers) server.serve(answers);
  const service = await open('stale', root, at);
  await eventually(
    async () => service.heads()?.optimistic.slot,
    (slot) => slot === SLOT - 2,
  );
  assert.deepEqual(service.holds(), []);
  slots += 300;
  assert.deepEqual(service.holds(), ['the newest block that the sync committee signed is 6 min old']);

  for (const server of servers) server.serve({ ...answers, version: 'heze' });
  await eventually(
    async () => service.holds(),
    ([hold]) =>
      hold ===
      'the newest block that the sync committee signed is 6 min old: beacon servers serve a fork that this version of Florin does not know; upgrade Florin',
  );
  assert.match((await service.check()).servers[0]!.reason!, /: it serves the fork heze, which this version of Florin does not know$/);

  const ahead = chain.update(chain.header(SLOT + 400, hash(4)));
  for (const server of servers) server.serve({ ...answers, optimistic: ahead });
  await eventually(
    async () => service.holds(),
    ([hold]) =>
      hold ===
      'the newest block that the sync committee signed is 6 min old: beacon servers show newer ones, which are ahead of the clock of this machine',
  );

  slots = SLOT - 62;
  assert.deepEqual(service.holds(), ['the clock of this machine is 1 min behind the newest block that the sync committee signed']);
  slots = SLOT;
  for (const server of servers) server.serve(answers);
  assert.deepEqual(service.holds(), []);
  await service.close();
});
