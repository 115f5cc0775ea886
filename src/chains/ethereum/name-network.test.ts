import assert from 'node:assert/strict';
import { test } from 'node:test';
import { outgoingOf } from '../../../test/kit/eth-forgeries.ts';
import { chainOf, leadingCoins } from '../../core/coin.ts';
import { createLog } from '../../log.ts';
import { ChainError, type ChainSource } from '../chain-source.ts';
import { createTokenNetworkSource } from './token-network.ts';

const HASH = `0x${'11'.repeat(32)}`;
const ACCOUNT = '22'.repeat(20);
const asks: Record<string, (source: ChainSource) => unknown> = {
  genesis: (source) => source.genesis(),
  health: (source) => source.health(),
  tip: (source) => source.tip(),
  blockAt: (source) => source.blockAt(7),
  block: (source) => source.block(HASH),
  fetchBlock: (source) => source.fetchBlock(HASH),
  contracts: (source) => source.contracts!(),
  txState: (source) => source.txState(HASH),
  finality: (source) => source.finality(),
  transaction: (source) => source.transaction(HASH),
  addressSummary: (source) => source.addressSummary(`0x${ACCOUNT}`),
  fees: (source) => source.fees(),
  head: ({ ranges }) => ranges!.head(),
  at: ({ ranges }) => ranges!.at([7]),
  search: ({ ranges }) => ranges!.search({ from: 1, to: 2 }, [ACCOUNT]),
  fetch: ({ ranges }) => ranges!.fetch(HASH),
  identity: ({ ranges }) => ranges!.identity(HASH),
  holdings: ({ ranges }) => ranges!.holdings.read([{ coin: ranges!.holdings.coins[0]!, account: ACCOUNT }]),
  balances: ({ ranges }) => ranges!.native?.balances([ACCOUNT], HASH),
  paid: ({ ranges }) => ranges!.native?.paid(HASH, new Set([ACCOUNT])),
};
/** What a broken provider answers to everything; undefined: an error. */
const ANSWERS = [undefined, null, 'nonsense', '0x7', {}, [], { number: '0x7', hash: `0x${'33'.repeat(32)}` }];

test('every error of a network that shares its code with others names it', async () => {
  for (const coin of leadingCoins().filter((one) => chainOf(one).ranges)) {
    const { networkName, chainIds } = chainOf(coin);
    const failed = new Set<string>();
    for (const answer of ANSWERS) {
      const source = createTokenNetworkSource({
        ...{ coin, network: 'mainnet', chainId: chainIds!.mainnet, url: 'http://in.memory', retryMs: 0 },
        ...{ outgoing: outgoingOf(() => answer), log: createLog('silent') },
      });
      for (const [name, ask] of Object.entries(asks)) {
        const error = await Promise.resolve(ask(source)).then(
          () => null,
          (thrown: unknown) => thrown,
        );
        if (!(error instanceof ChainError)) continue;
        failed.add(name);
        assert.ok(error.message.includes(networkName), `${name} of ${coin}: ${error.message}`);
        assert.doesNotMatch(error.message, /\bthe (node|source)\b|ETH (node|source)/);
      }
      source.close();
    }
    for (const name of Object.keys(asks))
      if (!/^(balances|paid)$/.test(name)) assert.ok(failed.has(name), `${name} of ${coin} never failed`);
  }
});
