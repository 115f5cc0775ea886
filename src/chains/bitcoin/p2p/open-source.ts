/** Opens the peers of a private test network as a source: its header chain is read again at each start, and the operator names the peers. */
import type { Clock } from '../../../core/clock.ts';
import type { BitcoinFamily } from '../../../core/coin.ts';
import type { Log } from '../../../log.ts';
import type { ChainSource } from '../../chain.ts';
import { encodeHeader } from '../header.ts';
import { createHeaderChain, type Start } from '../header-chain.ts';
import { workHash } from '../proof-of-work.ts';
import { PROOF_PARAMS } from '../proof-params.ts';
import { viewHeaders } from './header-view.ts';
import type { PeerLimits } from './peer.ts';
import { peerNetwork } from './peer-networks.ts';
import { createPeerService } from './peer-service.ts';
import type { PeersLimits } from './peers.ts';
import type { Endpoint, SocksProxy } from './socks5.ts';
import { createPeerSource } from './source.ts';

/** The first block of a private test network: its chain of headers begins there. */
export const regtestStart = (family: BitcoinFamily): Start => ({
  height: 0,
  headers: [encodeHeader({ version: 1, parent: '0'.repeat(64), bits: 0x207fffff, ...PROOF_PARAMS[family].regtest.firstBlock })],
});

/** Connects in the background: until the first peer is read, the source says that it is away or syncing. */
export function openRegtestPeers({
  family,
  given,
  proxy = null,
  clock,
  log,
  ...limits
}: {
  family: BitcoinFamily;
  given: readonly Endpoint[];
  proxy?: SocksProxy | null;
  clock: Clock;
  log: Log;
  limits?: PeersLimits;
  peerLimits?: PeerLimits;
}): ChainSource {
  const params = PROOF_PARAMS[family].regtest;
  const chain = createHeaderChain({
    params,
    start: regtestStart(family),
    hashWork: async (kind, headers) => headers.map((header) => workHash(kind, header)),
    nowSeconds: () => Math.floor(clock.now().getTime() / 1000),
  });
  const listeners = new Set<() => void>();
  const service = createPeerService({
    ...{ network: peerNetwork(family, 'regtest'), view: viewHeaders(chain), given, proxy, clock, log, ...limits },
    // The operator names all peers, so that none is remembered and no name is resolved.
    store: { load: async () => ({ anchors: [], proven: [] }), save: async () => {} },
    resolve: async () => [],
    spacingSeconds: params.spacingSeconds,
    onHint: () => {
      for (const wake of listeners) wake();
    },
  });
  void service.start();
  return createPeerSource({
    ...{ family, network: 'regtest', chain, service, clock },
    onHint: (wake) => {
      listeners.add(wake);
      return () => void listeners.delete(wake);
    },
    close: () => void service.close(),
  });
}
