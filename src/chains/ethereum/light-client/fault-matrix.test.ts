/** Every question that Florin asks a beacon server, with every way to fail. */
import { after } from 'node:test';
import { createBeaconChain, smallNetwork } from '../../../../test/kit/beacon-chain.ts';
import { speakHttp, startFaultyServer, testFaults, withSmallReplies } from '../../../../test/kit/fault-matrix.ts';
import { createOutgoing } from '../../../connections/http-client.ts';
import { createLog } from '../../../log.ts';
import { ChainError } from '../../chain-source.ts';
import { createBeaconServers } from './beacon-networks.ts';
import { createLightRounds } from './light-service.ts';

const log = createLog('silent');
const outgoing = withSmallReplies(createOutgoing({ allow: [], log }));
after(() => outgoing.close());

/** Time stands still, 20 periods after the start of the chain. */
const SLOT = 20 * 64 + 50;
const clock = { now: () => new Date(SLOT * 1000), monotonicMs: () => performance.now() };
const chain = createBeaconChain(smallNetwork({ fulu: 0 }, { secondsPerSlot: 1 }));
const hash = (byte: number) => `0x${byte.toString(16).padStart(2, '0').repeat(32)}`;
const first = chain.header(SLOT - 40, hash(1));
const settled = chain.header(SLOT - 28, hash(2));
const final = chain.header(SLOT - 12, hash(3));
const updates = [chain.update(chain.header(SLOT - 20, hash(4), { finalized: settled }), { finalized: settled, withNext: true })];
const finality = chain.update(chain.header(SLOT - 4, hash(5), { finalized: final }), { finalized: final });
const optimistic = chain.update(chain.header(SLOT - 1, hash(6)), {});
const checkpoint = `0x${first.root}`;

const ANSWERS: Readonly<Record<string, unknown>> = {
  bootstrap: { version: 'fulu', data: chain.bootstrap(first) },
  updates: updates.map((data) => ({ version: 'fulu', data })),
  finality_update: { version: 'fulu', data: finality },
  optimistic_update: { version: 'fulu', data: optimistic },
};
const server = await startFaultyServer(
  speakHttp((path) => {
    const [, question = ''] = /light_client\/([a-z_]+)/.exec(path)!;
    return { question, reply: { body: JSON.stringify(ANSWERS[question]) } };
  }),
);

let asked: ReadonlySet<string>[] = [];
testFaults({
  name: 'a beacon server',
  isExpected: (error) => error instanceof ChainError,
  asked: () => asked.flatMap((one) => [...one]),
  open: async (cells) => {
    const opened = cells.map((cell) => server.open(cell));
    asked = opened.map((one) => one.asked);
    const servers = createBeaconServers({ urls: opened.map(({ url }) => url), outgoing });
    const rounds = createLightRounds({ network: chain.network, checkpoint, servers, clock, log });
    return {
      round: async () => {
        await rounds.round();
        const known = rounds.known();
        if (!known) throw new ChainError('outage', rounds.trouble() ?? '');
        const { finalized, optimistic: newest, next } = known.state;
        return {
          // An older block is not false, and what is said of it is that it is old.
          head: newest.executionHash === hash(6) ? newest.slot : undefined,
          final: finalized.executionHash === hash(3) ? finalized.slot : undefined,
          committee: next ? 'known' : undefined,
        };
      },
      heal: () => {
        for (const one of opened) one.heal();
      },
    };
  },
});
