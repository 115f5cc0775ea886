/** Beacon servers (Beacon API, `/eth/v1/beacon/light_client`). Each of them may deliver what is then proven, so one that answers is enough. */
import { withoutEndSlashes } from '../../../core/text.ts';
import type { Outgoing } from '../../../outgoing.ts';
import { ChainError } from '../../chain.ts';
import { requestFrom } from '../../reply.ts';
import { ProofError } from '../proof-values.ts';

const TIMEOUT_MS = 10_000;
/** Sixteen updates with a sync committee each have about 1 MB. */
export const MAX_BYTES = 4 << 20;

export type BeaconServerState = { name: string; reason: string | null };
export type BeaconServers = {
  /** What the first server whose answer is accepted sends, in turn from the one that answered last; null when there is none. */
  first<T>(path: string, accept: (body: unknown) => T): Promise<T | null>;
  /** What every server sends whose answer is accepted. */
  all<T>(path: string, accept: (body: unknown) => T): Promise<T[]>;
  /** Why each server was not used last; null when it was. */
  states(): readonly BeaconServerState[];
};

/** `accept` throws ProofError for an answer that proves nothing; other errors are not the server's, and pass. */
export function createBeaconServers({ urls, outgoing }: { urls: readonly string[]; outgoing: Outgoing }): BeaconServers {
  const servers = urls.map((url) => ({ url: withoutEndSlashes(url), name: new URL(url).host, reason: null as string | null }));
  let preferred = 0;
  const read = async (server: (typeof servers)[number], path: string): Promise<unknown> => {
    const { status, body } = await requestFrom(outgoing, server.name, {
      url: `${server.url}/eth/v1/beacon/light_client/${path}`,
      headers: { accept: 'application/json' },
      gzip: true,
      timeoutMs: TIMEOUT_MS,
      maxReplyBytes: MAX_BYTES,
    });
    if (status !== 200) throw new ChainError('outage', `${server.name} answers with status ${status}`);
    try {
      return JSON.parse(Buffer.from(body).toString());
    } catch (cause) {
      throw new ChainError('outage', `${server.name} does not send JSON`, { cause });
    }
  };
  const ask = async <T>(server: (typeof servers)[number], path: string, accept: (body: unknown) => T): Promise<{ answer: T } | null> => {
    try {
      const answer = accept(await read(server, path));
      server.reason = null;
      return { answer };
    } catch (error) {
      if (!(error instanceof ChainError || error instanceof ProofError)) throw error;
      server.reason = error instanceof ProofError ? `${server.name}: ${error.message}` : error.message;
      return null;
    }
  };
  return {
    first: async (path, accept) => {
      for (let i = 0; i < servers.length; i++) {
        const at = (preferred + i) % servers.length;
        const taken = await ask(servers[at]!, path, accept);
        if (!taken) continue;
        preferred = at;
        return taken.answer;
      }
      return null;
    },
    all: async (path, accept) => {
      const taken = await Promise.all(servers.map((server) => ask(server, path, accept)));
      return taken.flatMap((one) => (one ? [one.answer] : []));
    },
    states: () => servers.map(({ name, reason }) => ({ name, reason })),
  };
}
