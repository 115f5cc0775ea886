/**
 * A small Ethereum with its own sync committee, and everything that providers and beacon servers can lie about. Each forgery is answered to
 * the real client: light client, source, proofs and balance audit. All of it happens in memory, so that many thousands can be tried.
 */
import assert from 'node:assert/strict';
import { ChainError, type Matcher, type Sighting } from '../../src/chains/chain-source.ts';
import { createEthereumSource } from '../../src/chains/ethereum/ethereum.ts';
import { Equivocation, type LightState, readUpdate, startFrom, takeUpdate } from '../../src/chains/ethereum/light-client/light-client.ts';
import type { LightService } from '../../src/chains/ethereum/light-client/light-service.ts';
import { syncedSource } from '../../src/chains/ethereum/synced-source.ts';
import type { Outgoing } from '../../src/connections/outgoing.ts';
import { ProofError } from '../../src/evm/rlp.ts';
import { createLog } from '../../src/log.ts';
import { type BeaconChain, createBeaconChain, smallNetwork } from './beacon-chain.ts';
import { accountNamed, type Json, type Made, type MadeBlock, makeBlock, signTransaction } from './ethereum-blocks.ts';
import { type Account, stateOf } from './ethereum-state.ts';

const [US, US_TOO, PAYER, CONTRACT] = ['aa'.repeat(20), 'bb'.repeat(20), accountNamed('payer'), 'c0'.repeat(20)];
const USDC = 'a0b86991c6218b36c1d19d4a2e9eb0ce3606eb48';
const word = (text: string) => `0x${text.padStart(64, '0')}`;
const hex = (value: bigint | number) => `0x${value.toString(16)}`;
const tokenLog = (to: string, units: bigint): Json => ({
  address: `0x${USDC}`,
  topics: ['0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef', word(PAYER), word(to)],
  data: word(units.toString(16)),
});

/** Random numbers that a seed repeats. */
export function createRandom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((state / 2_147_483_648) * below);
  };
}
type Random = ReturnType<typeof createRandom>;

type Block = MadeBlock & { state: ReturnType<typeof stateOf> };
/** The height with payments, the newest signed one, and one above it that a withheld or false payload claims. */
const [PAID, HEAD] = [103, 105];
const FIRST = 100;

/** Blocks from 100 on. `seed`: of another branch from 102 on, which pays the addresses more. */
export function makeBlocks(through: number, isOther = false): Block[] {
  const blocks: Block[] = [];
  for (let height = FIRST; height <= through; height++) {
    const forked = isOther && height >= 102;
    const pays: Made[] = [
      signTransaction('payer', { nonce: '0x1', to: `0x${US}`, value: forked ? '0x500' : '0x5' }),
      { ...signTransaction('payer', { nonce: '0x2', to: `0x${US_TOO}`, value: '0x9' }), ok: forked },
      { ...signTransaction('payer', { nonce: '0x3', to: `0x${USDC}` }), logs: [tokenLog(US, forked ? 70_000n : 700n)] },
      signTransaction('payer', { nonce: '0x4', to: `0x${CONTRACT}`, value: '0x20' }),
    ];
    const paid: Record<string, Account> = forked
      ? { [US]: { balance: 0x500n }, [US_TOO]: { balance: 0x109n } }
      : { [US]: { balance: 5n }, [US_TOO]: { balance: 0x20n } };
    const state = stateOf({ [PAYER]: { balance: 10n ** 18n, nonce: 1n }, ...(height >= (forked ? 102 : PAID) ? paid : {}) });
    const transactions = height === (forked ? 102 : PAID) ? pays : [];
    const parent = blocks.at(-1)?.hash ?? word('1');
    blocks.push({
      ...makeBlock({ height, parent, transactions, fields: { stateRoot: state.root, extraData: forked ? '0x0f' : '0x' } }),
      state,
    });
  }
  return blocks;
}
const TRUTH = ['delta bb 32 ETH', 'direct aa 5 ETH', 'token aa 700 USDC@ethereum'];
const LATER = new Date('2100-01-01');
const matcher: Matcher = {
  has: (key) => key === US || key === US_TOO,
  watchesSpends: false,
  spends: () => false,
  recent: () => [US, US_TOO],
  open: () => ({ listed: [US, US_TOO].map((key) => ({ key, endsAt: LATER, countsUntil: LATER })), othersEnd: null }),
  waiting: [],
};
const named = ({ key, units, coin, kind }: Sighting) => `${kind} ${key.slice(0, 2)} ${units} ${coin ?? 'ETH'}`;

/** Slots: a store that is final in period 1 and knows the committee of period 2, where the head is signed. */
const [FINAL_SLOT, HEAD_SLOT, NOW_SLOT] = [120, 132, 140];
type Beacon = { chain: BeaconChain; ready: LightState; head: Json; lies: Record<string, readonly Json[]> };
function makeBeacon(blocks: readonly Block[], other: readonly Block[]): Beacon {
  const chain = createBeaconChain(smallNetwork({ electra: 0, fulu: 9, gloas: 30 }));
  const { network } = chain;
  const hashAt = (list: readonly Block[], height: number) => list[height - FIRST]!.hash;
  const first = chain.header(64, hashAt(blocks, FIRST));
  const final = chain.header(FINAL_SLOT, hashAt(blocks, FIRST + 1));
  const take = (state: LightState, update: Json) => takeUpdate(network, state, readUpdate(network, update), NOW_SLOT);
  const handover = chain.update(chain.header(124, hashAt(blocks, FIRST + 1), { finalized: final }), { finalized: final, withNext: true });
  const ready = take(startFrom(network, first.root, chain.bootstrap(first)), handover);
  const head = chain.update(chain.header(HEAD_SLOT, hashAt(blocks, HEAD)));
  const falseHash = hashAt(other, HEAD);
  const falseHead = (slot = HEAD_SLOT + 1, seed = 5) => chain.header(slot, falseHash, { seed });
  const falseFinal = chain.header(FINAL_SLOT, hashAt(other, HEAD), { seed: 5 });
  const trueCommittee = chain.committee(2);
  const moved = (from: Json, to: Json): Json => ({ ...from, attested_header: to });
  const equivocal = chain.header(FINAL_SLOT, hashAt(other, 104));
  return {
    chain,
    ready,
    head,
    lies: {
      'a committee of strangers': [
        chain.update(falseHead(), { seed: 5 }),
        chain.update(chain.header(HEAD_SLOT + 2, falseHash, { finalized: falseFinal, seed: 5 }), {
          finalized: falseFinal,
          withNext: true,
          seed: 5,
        }),
      ],
      'old keys': [
        // The committee that has left, in the new period and in its own, also with a next committee of its choice.
        chain.update(falseHead(), { by: chain.committee(1) }),
        chain.update(falseHead(), { by: chain.committee(0) }),
        chain.update(falseHead(126), { by: chain.committee(0) }),
        chain.update(chain.header(60, falseHash, { seed: 5 }), { by: chain.committee(0), withNext: true, seed: 5 }),
        chain.update(chain.header(200, falseHash, { seed: 5 }), { by: chain.committee(1) }),
      ],
      'a true signature on a false block': [
        moved(head, falseHead().json),
        moved(head, { ...head.attested_header, execution: falseHead().json.execution }),
      ],
      'too few of them': [
        chain.update(falseHead(), { by: trueCommittee, absent: [...Array(11).keys()] }),
        {
          ...chain.update(falseHead(), { by: trueCommittee, absent: [...Array(20).keys()] }),
          sync_aggregate: {
            ...chain.update(falseHead(), { by: trueCommittee, absent: [...Array(20).keys()] }).sync_aggregate,
            sync_committee_bits: '0xffffffff',
          },
        },
      ],
      'another fork or chain': [
        chain.update(falseHead(), { by: trueCommittee, on: { ...network, genesisValidatorsRoot: new Uint8Array(32) } }),
        chain.update(falseHead(), { by: trueCommittee, on: { ...network, forks: network.forks.slice(0, 1) } }),
      ],
      'a block of the future': [chain.update(falseHead(NOW_SLOT + 5), { by: trueCommittee })],
      'equivocating finality': [chain.update(chain.header(HEAD_SLOT + 3, falseHash, { finalized: equivocal }), { finalized: equivocal })],
      'an old update': [handover, chain.update(chain.header(122, hashAt(blocks, FIRST)))],
    },
  };
}

export type Ask = (method: string, params: any[]) => unknown;
type Lie = (truth: Ask, random: Random, flips: typeof flipOne) => Ask;

/** One digit of one text in a value, changed. */
export function flipOne(value: unknown, random: Random): unknown {
  const copy = structuredClone(value);
  const leaves: { of: any; key: string; text: string }[] = [];
  const collect = (of: any) => {
    for (const key of Object.keys(of)) {
      if (typeof of[key] === 'object' && of[key] !== null) collect(of[key]);
      else if (typeof of[key] === 'string' && of[key].length > 2) leaves.push({ of, key, text: of[key] });
    }
  };
  if (typeof copy !== 'object' || copy === null) return copy;
  collect(copy);
  const leaf = leaves[random(leaves.length)];
  if (!leaf) return copy;
  const from = leaf.text.startsWith('0x') ? 2 : 0;
  const at = from + random(leaf.text.length - from);
  const digit =
    from === 2 ? (Number.parseInt(leaf.text[at]!, 16) ^ (1 << random(4))).toString(16) : String((Number(leaf.text[at]) + 1) % 10);
  leaf.of[leaf.key] = leaf.text.slice(0, at) + digit + leaf.text.slice(at + 1);
  return copy;
}

const onList =
  (method: string, change: (list: any[], random: Random) => unknown): Lie =>
  (truth, random) =>
  (asked, params) => {
    const result = truth(asked, params);
    return asked === method && Array.isArray(result) && result.length > 0 ? change(structuredClone(result), random) : result;
  };
const onTransactions =
  (change: (list: Json[], random: Random) => Json[]): Lie =>
  (truth, random) =>
  (asked, params) => {
    const result = truth(asked, params) as Json | null;
    const isWhole = asked === 'eth_getBlockByHash' && params[1] === true && result !== null && result.transactions.length > 0;
    return isWhole ? { ...result, transactions: change(structuredClone(result.transactions), random) } : result;
  };
const without = <T>(list: readonly T[], at: number): T[] => list.filter((_, i) => i !== at);

/** What a provider can say that is not so. `other`: what it would say about a branch that nobody signed. */
const providerLies = (other: Ask): Record<string, Lie> => ({
  'a receipt left out': onList('eth_getBlockReceipts', (list, random) => without(list, random(list.length))),
  'a log left out': onList('eth_getBlockReceipts', (list) => list.map((receipt) => ({ ...receipt, logs: [] }))),
  'a transaction left out': onTransactions((list, random) => without(list, random(list.length))),
  'a transaction and its receipt left out': (truth, random) => {
    const at = random(4);
    return (method, params) => {
      const result = truth(method, params) as any;
      if (method === 'eth_getBlockReceipts' && result?.length > 0) return without(result, at);
      return method === 'eth_getBlockByHash' && result?.transactions?.length > 0
        ? { ...result, transactions: without(result.transactions, at) }
        : result;
    };
  },
  'an invented log': onList('eth_getBlockReceipts', (list, random) => {
    list[random(list.length)].logs.push(tokenLog(random(2) ? US : US_TOO, BigInt(1 + random(1_000_000))));
    return list;
  }),
  'an invented payment': onTransactions((list, random) => {
    list[random(list.length)]!.to = `0x${random(2) ? US : US_TOO}`;
    return list;
  }),
  'a larger amount': onTransactions((list, random) =>
    list.map((tx) => ({ ...tx, value: hex(BigInt(tx.value) + BigInt(1 + random(1_000))) })),
  ),
  'a failed payment that succeeded': onList('eth_getBlockReceipts', (list) => list.map((receipt) => ({ ...receipt, status: '0x1' }))),
  'a payment to oneself': onTransactions((list) => list.map((tx) => ({ ...tx, from: `0x${US}` }))),
  'receipts in another order': onList('eth_getBlockReceipts', (list) => list.toReversed()),
  'old answers': (truth, random) => {
    const back = 1 + random(4);
    return (method, params) => {
      if (method !== 'eth_getBlockByNumber') return truth(method, params);
      const at = params[0] === 'latest' ? HEAD : Number(params[0]);
      return truth(method, [hex(Math.max(FIRST, at - back)), params[1]]);
    };
  },
  'another branch': (truth, random) => {
    const methods = ['eth_getBlockByNumber', 'eth_getBlockByHash', 'eth_getBlockReceipts', 'eth_getProof', 'eth_getBalance'];
    const chosen = new Set(methods.filter(() => random(3) > 0));
    return (method, params) => (chosen.has(method) ? (other(method, params) ?? truth(method, params)) : truth(method, params));
  },
  'a withheld payload that is said to exist': (truth) => (method, params) => {
    const isAbove = method === 'eth_getBlockByNumber' && (params[0] === 'latest' || Number(params[0]) > HEAD);
    return isAbove ? other(method, ['latest', params[1]]) : (truth(method, params) ?? other(method, params));
  },
  'a balance that grew': (truth, random) => (method, params) => {
    const result = truth(method, params);
    return method === 'eth_getBalance' && params[1].blockHash !== undefined
      ? hex(BigInt(result as string) + BigInt(random(1_000)))
      : result;
  },
  'a balance that is hidden': (truth) => (method, params) => (method === 'eth_getBalance' ? '0x0' : truth(method, params)),
  'a proof of another account': (truth) => (method, params) =>
    method === 'eth_getProof' ? truth(method, [`0x${params[0].includes(US) ? US_TOO : US}`, ...params.slice(1)]) : truth(method, params),
  'a proof that is cut off': (truth) => (method, params) => {
    const result = truth(method, params) as Json;
    return method === 'eth_getProof' ? { ...result, accountProof: result.accountProof.slice(0, -1) } : result;
  },
  'a flipped digit': (truth, random, flips) => {
    const methods = ['eth_getBlockByNumber', 'eth_getBlockByHash', 'eth_getBlockReceipts', 'eth_getProof'];
    const chosen = methods[random(methods.length)];
    return (method, params) => (method === chosen ? flips(truth(method, params), random) : truth(method, params));
  },
});

/** The answers of a node with these blocks. */
export function answersOf(blocks: readonly Block[]): Ask {
  const byHash = new Map(blocks.map((block) => [block.hash, block]));
  const shown = (made: Block | undefined, whole: boolean) =>
    made ? { ...made.header, transactions: whole ? made.transactions : made.transactions.map((tx) => tx.hash) } : null;
  return (method, params) => {
    switch (method) {
      case 'eth_chainId':
        return '0x7a69';
      case 'eth_getBlockByNumber':
        return shown(params[0] === 'latest' ? blocks.at(-1) : blocks[Number(params[0]) - FIRST], params[1]);
      case 'eth_getBlockByHash':
        return shown(byHash.get(params[0]), params[1]);
      case 'eth_getBlockReceipts':
        return byHash.get(params[0])?.receipts ?? null;
      case 'eth_getBalance':
        return hex(byHash.get(params[1].blockHash)?.state.balanceOf(params[0]) ?? 0n);
      case 'eth_getProof':
        return byHash.get(params[2].blockHash)?.state.prove(params[0]) ?? null;
      default:
        return undefined;
    }
  };
}
/** A provider in memory. */
export function outgoingOf(ask: Ask): Outgoing {
  const no = async () => {
    throw new Error('not used');
  };
  const request: Outgoing['request'] = async ({ body }) => {
    const asked = JSON.parse(Buffer.from(body!).toString());
    const answers = [asked].flat().map(({ id, method, params }: { id: number; method: string; params: any[] }) => {
      const result = ask(method, params);
      return result === undefined
        ? { jsonrpc: '2.0', id, error: { code: -32601, message: `the method ${method} does not exist` } }
        : { jsonrpc: '2.0', id, result };
    });
    return { status: 200, headers: {}, body: Buffer.from(JSON.stringify(Array.isArray(asked) ? answers : answers[0])) };
  };
  return { request, requestMerchantUrl: no, openMerchantSocket: no, vetMerchantUrl: no, reachMerchantUrl: no, close: async () => {} };
}

export type Outcome = 'refused' | 'true' | 'forged' | 'incomplete';
export function createForger(seed: number) {
  const random = createRandom(seed);
  const [blocks, other] = [makeBlocks(HEAD), makeBlocks(HEAD + 2, true)];
  const [truth, falsehood] = [answersOf(blocks), answersOf(other)];
  const beacon = makeBeacon(blocks, other);
  const log = createLog('silent');
  const { network } = beacon.chain;
  const honest = takeUpdate(network, beacon.ready, readUpdate(network, beacon.head), NOW_SLOT);
  const lies = providerLies(falsehood);

  /** What the light client takes from a server; null: it stops everything. */
  const heads = (update: Json): LightState | null => {
    try {
      return takeUpdate(network, honest, readUpdate(network, update), NOW_SLOT);
    } catch (error) {
      if (error instanceof Equivocation) return null;
      if (error instanceof ProofError) return honest;
      throw error;
    }
  };
  /** Which payments complete: what the source shows of the blocks at these heights, and of blocks that the provider names itself. */
  const complete = async (state: LightState, ask: Ask): Promise<Outcome> => {
    const light = { open: async () => {}, heads: () => state, trouble: () => null, onHead: () => () => {} } as unknown as LightService;
    const plain = createEthereumSource({
      network: 'regtest',
      chainId: 31337,
      url: 'http://in.memory',
      isOwn: false,
      outgoing: outgoingOf(ask),
      log,
      retryMs: 1,
    });
    const source = syncedSource({ source: plain, name: 'provider', light });
    await source.requireProof!();
    let outcome: Outcome = 'refused';
    const read = async (hash: () => Promise<string | null>): Promise<void> => {
      try {
        const wanted = await hash();
        if (wanted === null) return;
        const fetched = await source.fetchBlock(wanted);
        const found = (await fetched.scan(matcher)).sightings.map(named).sort();
        if (fetched.verifiedBy !== 'sync_committee') outcome = 'forged';
        if (found.length === 0 && fetched.ref.height !== PAID) return;
        const isTrue = fetched.ref.height === PAID && found.join() === TRUTH.join();
        if (!isTrue) outcome = found.every((one) => TRUTH.includes(one)) ? 'incomplete' : 'forged';
        else if (outcome === 'refused') outcome = 'true';
      } catch (error) {
        assert.ok(error instanceof ChainError, String((error as Error).stack));
      }
    };
    await read(async () => (await source.tip()).hash);
    await read(async () => (await source.blockAt(PAID))?.hash ?? null);
    await read(async () => (await source.blockAt(HEAD + 1))?.hash ?? null);
    await read(async () => other[random(other.length)]!.hash);
    plain.close();
    return outcome;
  };
  const beaconKinds = Object.entries(beacon.lies);
  /** The same update always ends the same, and its signature takes long to check. */
  const judged = new Map(beaconKinds.flatMap(([, updates]) => updates.map((update) => [update, heads(update)] as const)));
  const kinds = Object.keys(lies);
  return {
    kinds: [...kinds, ...beaconKinds.map(([kind]) => kind), 'a flipped digit of an update'],
    /** What is true completes. */
    honest: () => complete(honest, truth),
    /** One forgery by chance: a provider's, or both a provider's and a beacon server's. Few updates, because a signature takes long to check. */
    attempt: async (): Promise<{ kind: string; outcome: Outcome }> => {
      let state: LightState | null = honest;
      const kind: string[] = [];
      const chance = random(40);
      if (chance < 4) {
        const [name, updates] = beaconKinds[random(beaconKinds.length)]!;
        state = judged.get(updates[random(updates.length)]!) ?? null;
        kind.push(name);
      } else if (chance === 4) {
        const all = [beacon.head, ...beaconKinds.flatMap(([, updates]) => updates)];
        state = heads(flipOne(all[random(all.length)], random) as Json);
        kind.push('a flipped digit of an update');
      }
      if (state === null) return { kind: kind.join(), outcome: 'refused' };
      // Often both lie for each other: the provider shows the branch that the forged head is on.
      let ask = chance <= 4 && random(3) > 0 ? falsehood : truth;
      // An accomplice tells nothing else.
      for (let count = ask === falsehood ? 0 : random(4) === 0 ? 2 : 1; count > 0; count--) {
        const name = kinds[random(kinds.length)]!;
        ask = lies[name]!(ask, random, flipOne);
        kind.push(name);
      }
      return { kind: kind.join(), outcome: await complete(state, ask) };
    },
  };
}

/** Tries so many forgeries, and fails at the first one that completes a payment or hides one. */
export async function forge({ seed, attempts }: { seed: number; attempts: number }) {
  const forger = createForger(seed);
  assert.equal(await forger.honest(), 'true', 'what is true completes');
  const tried = new Map<string, Record<Outcome, number>>();
  for (let i = 0; i < attempts; i++) {
    const { kind, outcome } = await forger.attempt();
    assert.ok(outcome === 'refused' || outcome === 'true', `${outcome}: ${kind}, attempt ${i} of seed ${seed}`);
    for (const one of kind.split(',')) {
      const counts = tried.get(one) ?? { refused: 0, true: 0, forged: 0, incomplete: 0 };
      counts[outcome]++;
      tried.set(one, counts);
    }
  }
  return { kinds: forger.kinds, tried };
}
