/** The header chain as the peers' side uses it: why headers are refused decides what becomes of the peer. */
import { HeaderError, idOf, showHash } from '../header.ts';
import type { HeaderReader } from '../header-chain.ts';
import { HeaderFault, type HeaderView } from './header-sync.ts';

/** Faults that are not the peer's: it may know a branch that we do not, or have another clock. */
const KINDS: Partial<Readonly<Record<HeaderError['fault'], HeaderFault['kind']>>> = {
  unknown_parent: 'unlinked',
  flood: 'unlinked',
  time_future: 'early',
};

export const viewHeaders = (chain: HeaderReader): HeaderView => ({
  locator: chain.locator,
  tip: chain.tip,
  find: chain.find,
  knows: chain.knows,
  waiting: chain.waiting,
  leadsTo: chain.leadsTo,
  setAside: chain.setAside,
  admit: chain.admit,
  hashOf: ({ bytes }) => showHash(idOf(chain.params, bytes)),
  add: async (headers, peer, giving) => {
    try {
      return await chain.add(headers, peer, giving);
    } catch (error) {
      throw error instanceof HeaderError ? new HeaderFault(KINDS[error.fault] ?? 'invalid', error.message) : error;
    }
  },
});
