/**
 * Boundaries that a payment may cross while it is open: the next sync committee, the forks of the beacon chain, and Amsterdam for execution
 * blocks. Every transfer is read exactly once, proven, and nothing that a provider hid before a boundary stays hidden.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createBeaconChain, type MadeHeader, smallNetwork } from '../../../test/kit/beacon-chain.ts';
import { answersOf, outgoingOf } from '../../../test/kit/eth-forgeries.ts';
import { AMSTERDAM, accountNamed, type Made, makeBlock, signTransaction } from '../../../test/kit/ethereum-blocks.ts';
import { stateOf } from '../../../test/kit/ethereum-state.ts';
import { firstOf } from '../../../test/kit/long.ts';
import { createLog } from '../../log.ts';
import type { Matcher } from '../chain-source.ts';
import { createEthereumSource } from './ethereum.ts';
import { type LightState, readUpdate, startFrom, takeUpdate } from './light-client/light-client.ts';
import type { LightService } from './light-client/light-service.ts';
import { syncedSource } from './synced-source.ts';

const [US, US_TOO, PAYER, CONTRACT] = ['aa'.repeat(20), 'bb'.repeat(20), accountNamed('payer'), 'c0'.repeat(20)];
const word = (text: string) => `0x${text.padStart(64, '0')}`;
const TRANSFER = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef';
const valueLog = (from: string, to: string, units: bigint) => ({
  address: '0xfffffffffffffffffffffffffffffffffffffffe',
  topics: [TRANSFER, word(from), word(to)],
  data: word(units.toString(16)),
});
const FIRST = 100;
const BLOCKS = 17;
/** The first block after the boundary. */
const AT = FIRST + 8;

/** Blocks of which some pay: directly in the last one before the boundary and the first one after it, and through a contract before it. */
function makeChain(amsterdamFrom: number) {
  const blocks: (ReturnType<typeof makeBlock> & { state: ReturnType<typeof stateOf> })[] = [];
  for (let height = FIRST; height < FIRST + BLOCKS; height++) {
    const isNew = height >= amsterdamFrom;
    const paysDirectly = [AT - 1, AT, AT + 5].includes(height);
    const throughContract = height === AT - 2 || height === AT + 6;
    const transactions: Made[] = [
      ...(paysDirectly
        ? [
            {
              ...signTransaction('payer', { nonce: '0x1', to: `0x${US}`, value: '0x5' }),
              ...(isNew && { logs: [valueLog(PAYER, US, 5n)] }),
            },
          ]
        : []),
      ...(throughContract
        ? [
            {
              ...signTransaction('payer', { nonce: '0x2', to: `0x${CONTRACT}`, value: '0x0' }),
              ...(isNew && { logs: [valueLog(CONTRACT, US_TOO, 7n)] }),
            },
          ]
        : []),
    ];
    const times = [AT - 1, AT, AT + 5].filter((one) => one <= height).length;
    const inner = [AT - 2, AT + 6].filter((one) => one <= height).length;
    const state = stateOf({ [PAYER]: { balance: 1n }, [US]: { balance: 5n * BigInt(times) }, [US_TOO]: { balance: 7n * BigInt(inner) } });
    const fields = { stateRoot: state.root, ...(isNew && { ...AMSTERDAM, slotNumber: `0x${height.toString(16)}` }) };
    blocks.push({ ...makeBlock({ height, parent: blocks.at(-1)?.hash ?? word('1'), transactions, fields }), state });
  }
  return blocks;
}

/** The boundary lies at slot 128, where period 2 begins unless periods are longer. The withheld slot has no payload in Gloas. */
const SLOT = 128;
const [WITHHELD, NEVER] = [SLOT + 3, 1_000_000];
async function follow({
  forks,
  epochsPerPeriod = 1_000,
  amsterdamFrom = NEVER,
  hides = false,
}: {
  forks: Parameters<typeof smallNetwork>[0];
  epochsPerPeriod?: number;
  amsterdamFrom?: number;
  hides?: boolean;
}) {
  const chain = createBeaconChain(smallNetwork(forks, { epochsPerPeriod }));
  const { network } = chain;
  const blocks = makeChain(amsterdamFrom);
  let state!: LightState;
  let published = FIRST - 1;
  let finalized: MadeHeader | null = null;
  const truth = answersOf(blocks);
  const ask: typeof truth = (method, params) => (hides && method === 'eth_getBalance' ? '0x0' : truth(method, params));
  const log = createLog('silent');
  const plain = createEthereumSource({
    ...{ network: 'regtest', chainId: 31337, url: 'http://in.memory', isOwn: false, outgoing: outgoingOf(ask), log },
  });
  const light = { open: async () => {}, heads: () => state, trouble: () => null, onHead: () => () => {} } as unknown as LightService;
  const source = syncedSource({ source: plain, name: 'provider', light });
  await source.requireProof!();
  // The payment is open until the last block.
  const listed = [US, US_TOO].map((key) => ({
    key,
    endsAt: new Date(1_700_000_000_000 + 115_500),
    countsUntil: new Date(1_700_000_000_000 + 115_500),
  }));
  const matcher: Matcher = {
    ...{ has: (key) => key === US || key === US_TOO, watchesSpends: false, spends: () => false, recent: () => [US, US_TOO], waiting: [] },
    open: () => ({ listed, othersEnd: null }),
  };
  const found: string[] = [];
  let read = FIRST;
  for (let slot = SLOT - 8; slot <= SLOT + 9; slot++) {
    const fork = network.forks.findLast(({ epoch }) => epoch * 8 <= slot)!.fork;
    const before = published;
    if (!(fork === 'gloas' && slot === WITHHELD) && published < FIRST + BLOCKS - 1) published++;
    // Gloas names the block before, because the payload of this slot may be missing.
    const named = fork === 'gloas' ? Math.max(FIRST, before) : published;
    const attested = chain.header(slot, blocks[named - FIRST]!.hash, { ...(finalized && { finalized }) });
    if (slot === SLOT - 8) {
      state = startFrom(network, attested.root, chain.bootstrap(attested));
      finalized = attested;
    } else {
      const update = chain.update(attested, { finalized: finalized!, withNext: state.next === null });
      state = takeUpdate(network, state, readUpdate(network, update), slot + 1);
      assert.equal(state.optimistic.slot, slot);
      if (slot % 3 === 0) finalized = attested;
    }
    for (const tip = await source.tip(); read < tip.height; read++) {
      const ref = await source.blockAt(read + 1);
      const fetched = await source.fetchBlock(ref!.hash);
      assert.equal(fetched.verifiedBy, 'sync_committee');
      const { sightings } = await fetched.scan(matcher);
      found.push(...sightings.map(({ kind, units, key }) => `${read + 1 - AT}: ${kind} ${key.slice(0, 2)} ${units}`));
    }
  }
  const { provenThrough } = await (await source.fetchMempool(null)).scan(matcher);
  plain.close();
  return { found, read, committee: state.current, provenThrough, first: chain.committee(1) };
}
const DIRECT = ['-1: direct aa 5', '0: direct aa 5', '5: direct aa 5'];
const OPEN_TO_THE_END = [...DIRECT, '-2: delta bb 7', '6: delta bb 7'].sort();

for (const [what, forks, epochsPerPeriod] of firstOf([
  ['Electra, Fulu and Gloas one after another, with a period', { deneb: 0, electra: 15, fulu: 16, gloas: 17 }, 8],
  ['a period', { fulu: 0 }, 8],
  ['Electra', { deneb: 0, electra: 16 }, 1_000],
  ['Fulu', { electra: 0, fulu: 16 }, 1_000],
  ['Gloas', { fulu: 0, gloas: 16 }, 1_000],
] as const))
  test(`a payment that is open while these begin: ${what}`, async () => {
    const { found, committee, first } = await follow({ forks, epochsPerPeriod });
    assert.deepEqual(found.sort(), OPEN_TO_THE_END);
    const isFirst = Buffer.from(committee.aggregate).toString('hex') === first.json.aggregate_pubkey.slice(2);
    if (epochsPerPeriod === 8) assert.equal(isFirst, false, 'the next committee took over');
  });

test('a payment that is open while Amsterdam begins: what was hidden before it is found in its first block', async () => {
  for (const forks of [{ fulu: 0, gloas: 16 }]) {
    const { found, provenThrough } = await follow({ forks, amsterdamFrom: AT, hides: true });
    assert.deepEqual(found.sort(), [...DIRECT, '0: delta bb 7', '6: internal bb 7'].sort());
    assert.ok(provenThrough!.getTime() > 8e15, 'from then on its logs show everything');
  }
});

test('what a provider hides at a boundary is found at the deadline of the payment', async () => {
  const { found, provenThrough } = await follow({ forks: { electra: 0, fulu: 16 }, epochsPerPeriod: 8, hides: true });
  assert.deepEqual(found.sort(), [...DIRECT, '8: delta bb 14'].sort());
  assert.equal(provenThrough!.getTime(), (1_700_000_000 + FIRST + BLOCKS - 1) * 1000 - 1);
});
