/**
 * The light client beside a second one, Helios: both read what a beacon server of mainnet answered, as it was and with changed digits. They
 * come to the same head, and nothing that Helios refuses is accepted.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createRandom } from '../../../../test/kit/eth-forgeries.ts';
import { readEthereum } from '../../../../test/kit/ethereum-data.ts';
import { serve } from '../../../../test/kit/serve.ts';
import { ProofError } from '../../../evm/rlp.ts';
import { MAINNET } from './beacon-networks.ts';
import { readUpdate, startFrom, takeUpdate } from './light-client.ts';

const FLIPS = process.env.FLORIN_LONG ? 300 : 5;
const ROOT = '0x9bcb90ec3a294591b77dd2a58e973578715cdc0e6eeeb286bc06dd120057f18b';
type Answers = { bootstrap: any; updates: any[]; finality_update: any };
const recorded: Answers = {
  bootstrap: readEthereum('light-fulu-bootstrap'),
  updates: readEthereum('light-fulu-updates'),
  finality_update: readEthereum('light-fulu-finality_update'),
};
/** The slot in which the newest recorded head was signed. */
const SIGNED = Number(recorded.finality_update.data.signature_slot);

/** Serves the answers to Helios, which says what it asks for. */
let answers = recorded;
let asked: string[] = [];
const { url, stop } = await serve((request, reply) => {
  const path = new URL(request.url!, 'http://localhost').pathname;
  asked.push(path);
  const [, name] = /\/light_client\/(bootstrap|updates|finality_update)/.exec(path) ?? [];
  reply.writeHead(name ? 200 : 404, { 'content-type': 'application/json' });
  reply.end(JSON.stringify(name ? answers[name as keyof Answers] : {}));
});
const { Date: RealDate } = globalThis;
before(() => {
  // Helios compares slots with the clock.
  const shift = (MAINNET.genesisTime + SIGNED * MAINNET.secondsPerSlot + 4) * 1000 - RealDate.now();
  globalThis.Date = class extends RealDate {
    constructor(...given: [] | [number]) {
      super(given.length === 0 ? RealDate.now() + shift : given[0]);
    }
    static override now = () => RealDate.now() + shift;
  } as DateConstructor;
});
after(() => {
  globalThis.Date = RealDate;
  return stop();
});

/** The slot of the head that Helios accepts: it asks for its block. Null when it refuses. */
async function askHelios(given: Answers): Promise<number | null> {
  [answers, asked] = [given, []];
  const { createHeliosProvider } = await import('@a16z/helios');
  const config = { executionRpc: url, consensusRpc: url, checkpoint: ROOT, network: 'mainnet', dbType: 'config' } as const;
  const helios = await createHeliosProvider(config, 'ethereum');
  try {
    await helios.waitSynced();
  } catch {
    return null;
  } finally {
    await helios.shutdown();
  }
  const block = asked.map((path) => /^\/eth\/v2\/beacon\/blocks\/(\d+)$/.exec(path)).find((found) => found !== null);
  assert.ok(block, `no head was asked for: ${asked.join(' ')}`);
  return Number(block[1]);
}
/** The slot of the head that Florin accepts. Null when it refuses. */
function readHead({ bootstrap, updates, finality_update }: Answers): number | null {
  try {
    let state = startFrom(MAINNET, ROOT, bootstrap.data);
    for (const { data } of [...updates, finality_update]) state = takeUpdate(MAINNET, state, readUpdate(MAINNET, data), SIGNED);
    return state.optimistic.slot;
  } catch (error) {
    if (error instanceof ProofError) return null;
    throw error;
  }
}

/** A copy with one changed digit. Each level of the answer is as likely as its siblings, so that long lists do not hide the rest. */
function flip(value: Answers, random: (below: number) => number): { changed: Answers; path: string } {
  const changed = structuredClone(value);
  let at: any = changed;
  const path: string[] = [];
  for (;;) {
    const keys = Object.keys(at).filter((key) => key !== 'version');
    const key = keys[random(keys.length)]!;
    path.push(key);
    if (typeof at[key] === 'object') {
      at = at[key];
      continue;
    }
    const text: string = at[key];
    const isHex = text.startsWith('0x');
    const place = (isHex ? 2 : 0) + random(text.length - (isHex ? 2 : 0));
    const digit = isHex ? (Number.parseInt(text[place]!, 16) ^ (1 << random(4))).toString(16) : String((Number(text[place]) + 1) % 10);
    at[key] = text.slice(0, place) + digit + text.slice(place + 1);
    return { changed, path: path.join('.') };
  }
}

const HEAD = Number(recorded.finality_update.data.attested_header.beacon.slot);
test('both come to the head that the committee of mainnet signed', async () => {
  assert.deepEqual([readHead(recorded), await askHelios(recorded)], [HEAD, HEAD]);
});

test(`of ${FLIPS} answers with a changed digit, none that Helios refuses is accepted`, async (t) => {
  const seed = Number(process.env.FLORIN_SEED ?? Math.floor(Math.random() * 2 ** 31));
  const random = createRandom(seed);
  const counts = { 'both refuse': 0, 'both accept': 0, 'only Helios accepts': 0 };
  for (let i = 0; i < FLIPS; i++) {
    const { changed, path } = flip(recorded, random);
    const [own, helios] = [readHead(changed), await askHelios(changed)];
    // Helios may stay at the final block, which is as true.
    assert.ok(own === null || (own === HEAD && helios !== null), `${path} (seed ${seed}, ${i}): Florin ${own}, Helios ${helios}`);
    counts[own !== null ? 'both accept' : helios === null ? 'both refuse' : 'only Helios accepts']++;
    if ((own === null) !== (helios === null)) t.diagnostic(`only Helios accepts: ${path}`);
  }
  t.diagnostic(`seed ${seed}: ${JSON.stringify(counts)}`);
});
