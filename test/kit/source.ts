/** A reader of one node, without a service around it. */
import { createCoreSource } from '../../src/chains/bitcoin/core-rpc.ts';
import type { Matcher } from '../../src/chains/chain-source.ts';
import { createOutgoing } from '../../src/connections/http-client.ts';
import { createLog } from '../../src/log.ts';

export function openSource(coin: 'BTC' | 'LTC' | 'DASH' | 'DOGE', url: string) {
  const log = createLog('error');
  const outgoing = createOutgoing({ allow: [], log });
  const clock = { now: () => new Date(), monotonicMs: () => performance.now() };
  const source = createCoreSource({ coin, network: 'regtest', url, outgoing, log, clock });
  return {
    ...source,
    close: async () => {
      source.close();
      await outgoing.close();
    },
  };
}

/** Searches for one output script. */
export const lookFor = (script: string): Matcher => ({
  has: (key) => key === script,
  watchesSpends: false,
  spends: () => false,
  recent: () => [],
  waiting: [],
});
