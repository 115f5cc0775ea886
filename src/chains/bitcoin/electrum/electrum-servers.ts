/** The Electrum servers of a chain: which of them may be asked now, how much, and why the others are not. */

import { isIP } from 'node:net';
import type { SocksProxy } from '#connections';
import type { Clock } from '#core/dates';
import { defaultTrust } from '#core/guard';
import type { Log } from '#log';
import type { ServerState } from '../../chain-source.ts';
import type { ChainStore } from '../../store.ts';
import { HEADER_BYTES, idOf, showHash } from '../header.ts';
import { networkGroup } from '../p2p/peer-book.ts';
import type { ProofParams } from '../proof-params.ts';
import {
  AnswerError,
  type ElectrumConnection,
  LARGE_BYTES,
  openConnection,
  type ServerAddress,
  ServerError,
  type ServerFault,
  SMALL_BYTES,
  type Waits,
} from './electrum-connection.ts';
import { isHash, isHeight, isHex } from './electrum-proof.ts';

/** A block that a server names as its newest. */
type ServerTip = { height: number; hash: string };
/** One server that answers. */
export type ElectrumSession = {
  name: string;
  /** Servers of one operator are one witness. */
  operator: string;
  software: string;
  protocol: string;
  /** Errors: ServerError, AnswerError. */
  ask(method: string, params: readonly unknown[], bytes?: number): Promise<unknown>;
  tip(): ServerTip;
  /** It is not asked again for a while, for this reason. */
  leaveOut(fault: ServerFault, reason: string): ServerError;
};

/** How long a server is not asked after each fault: at first, and at most, doubling in between. */
const PAUSES_MS: Readonly<Record<ServerFault, readonly [first: number, most: number]>> = {
  away: [5_000, 600_000],
  busy: [60_000, 3_600_000],
  certificate: [30_000, 30_000],
  wrong: [600_000, 3_600_000],
};
/**
 * ElectrumX counts a cost for each request of an address, slows down above 1,000, and forgives one each second. Other people's servers
 * are asked for less than that.
 */
const COST = { most: 900, perSecond: 1, connection: 5, error: 100, bytesPerPoint: 5_000 } as const;

/**
 * The exception: thousands of headers arrive once, after a start. A server that finds them too many answers slowly, or says that it is busy.
 */
const UNCOUNTED = 'blockchain.block.headers';

/** Servers that are connected while another one is waited for. */
const AHEAD = 2;

/** Who runs a server, as far as its name tells. The operator of this service runs those at private addresses, and each of them counts. */
function operatorOf({ host, name }: ServerAddress): string {
  if (isPrivate(host)) return name;
  return isIP(host) === 0 && !host.endsWith('.onion') ? host.toLowerCase().split('.').slice(-2).join('.') : networkGroup(host);
}
const isPrivate = (host: string): boolean => defaultTrust(`tcp://${isIP(host) === 6 ? `[${host}]` : host}`) === 'own';

type Options = {
  params: ProofParams;
  proxy: SocksProxy | null;
  certificates: ChainStore['certificates'];
  clock: Clock;
  log: Log;
  waits?: Waits;
};
type Server = Options & {
  address: ServerAddress;
  operator: string;
  /** Null: one of our own, which is asked as often as needed. */
  budget: { points: number; atMs: number } | null;
  opening: Promise<ElectrumSession> | null;
  connection: ElectrumConnection | null;
  tip: ServerTip | null;
  fault: ServerError | null;
  failures: number;
  notBeforeMs: number;
};

function pause(server: Server, error: ServerError): ServerError {
  const [first, most] = PAUSES_MS[error.fault];
  const ms = Math.min(first * 2 ** server.failures, most);
  server.failures++;
  server.fault = error;
  server.notBeforeMs = server.clock.monotonicMs() + ms;
  const { coin } = server.params;
  server.log.warn({ coin, server: server.address.name, reason: error.message, seconds: ms / 1000 }, 'An Electrum server is not used');
  return error;
}

function spend(server: Server, points: number): void {
  const { budget } = server;
  if (!budget) return;
  const nowMs = server.clock.monotonicMs();
  budget.points = Math.min(COST.most, budget.points + ((nowMs - budget.atMs) / 1000) * COST.perSecond) - points;
  budget.atMs = nowMs;
}

/** Reads `{hex, height}` of a header; DOGE's may be followed by their proof. Errors: ServerError. */
function readTip(params: ProofParams, value: unknown): ServerTip {
  const { hex, height } = (typeof value === 'object' && value !== null ? value : {}) as Record<string, unknown>;
  if (!isHex(hex) || hex.length < 2 * HEADER_BYTES || !isHeight(height)) throw new ServerError('wrong', 'does not show its newest block');
  return { height, hash: showHash(idOf(params, Buffer.from(hex.slice(0, 2 * HEADER_BYTES), 'hex'))) };
}

/** Checks that a server is on our network. Some do not tell, but have the first header. Errors: ServerError. */
async function checkNetwork({ params }: Server, connection: ElectrumConnection): Promise<void> {
  const told = await connection.request('server.features', []).catch(orNoAnswer);
  const { genesis_hash: named } = (typeof told === 'object' && told !== null ? told : {}) as Record<string, unknown>;
  let genesis = named;
  if (!isHash(genesis)) {
    const header = await connection.request('blockchain.block.header', [0]).catch(orNoAnswer);
    genesis = isHex(header) && header.length >= 2 * HEADER_BYTES ? readTip(params, { hex: header, height: 0 }).hash : null;
  }
  if (genesis !== params.genesis) throw new ServerError('wrong', `is not a server of ${params.coin} ${params.network}`);
}
function orNoAnswer(error: unknown): null {
  if (error instanceof AnswerError) return null;
  throw error;
}

async function openSession(server: Server): Promise<ElectrumSession> {
  const { params, address, operator } = server;
  spend(server, COST.connection);
  const connection = await openConnection({
    ...server,
    onNotice: (method, [value]) => {
      // Before the handshake ends there is nothing to tell.
      if (method !== 'blockchain.headers.subscribe' || !server.connection) return;
      try {
        server.tip = readTip(params, value);
      } catch (error) {
        if (!(error instanceof ServerError)) throw error;
        session.leaveOut('wrong', error.message);
      }
    },
    onAnswer: (method, bytes) => spend(server, method === UNCOUNTED ? 0 : bytes / COST.bytesPerPoint),
    onClose: (error) => {
      server.connection = null;
      server.opening = null;
      if (error.message !== 'was not needed') pause(server, error);
    },
  });
  const session: ElectrumSession = {
    ...{ name: address.name, operator, software: connection.software, protocol: connection.protocol },
    ask: async (method, params, bytes = SMALL_BYTES) => {
      spend(server, 0);
      if (server.budget && server.budget.points < 0)
        throw new ServerError('busy', 'was asked as much as it allows; it is asked again shortly');
      try {
        spend(server, 1);
        return await connection.request(method, params, bytes);
      } catch (error) {
        if (error instanceof AnswerError) spend(server, COST.error);
        throw error;
      }
    },
    tip: () => server.tip!,
    leaveOut: (fault, reason) => {
      connection.close();
      server.connection = null;
      server.opening = null;
      return pause(server, new ServerError(fault, reason));
    },
  };
  try {
    await checkNetwork(server, connection);
    server.tip = readTip(params, await connection.request('blockchain.headers.subscribe', [], LARGE_BYTES));
  } catch (error) {
    connection.close();
    throw error instanceof AnswerError ? new ServerError('wrong', 'does not show its newest block') : error;
  }
  server.connection = connection;
  server.fault = null;
  server.failures = 0;
  return session;
}

/** The open session, or a new one. Errors: ServerError. */
function connect(server: Server): Promise<ElectrumSession> {
  if (server.notBeforeMs > server.clock.monotonicMs()) return Promise.reject(server.fault);
  server.opening ??= openSession(server).catch((error: unknown) => {
    server.opening = null;
    throw error instanceof ServerError ? pause(server, error) : error;
  });
  return server.opening;
}

function stateOf(server: Server): ServerState {
  const { address, connection, fault, tip } = server;
  const shown = { name: address.name, software: connection?.software ?? null, height: connection ? (tip?.height ?? null) : null };
  if (connection) return { ...shown, state: 'ok', reason: null };
  return fault ? { ...shown, state: 'down', reason: fault.message } : { ...shown, state: 'unused', reason: null };
}

export type ElectrumServers = {
  /**
   * Those that answer now, one after the other, in order of preference; of each operator only the first. Why the others do not goes to
   * `failures`. Errors: those of the database.
   */
  sessions(failures: string[]): AsyncGenerator<ElectrumSession, void>;
  /** As far as known now; `check` connects to all of them. */
  states(): ServerState[];
  check(): Promise<ServerState[]>;
  close(): void;
};

export function createServers({ addresses, ...options }: Options & { addresses: readonly ServerAddress[] }): ElectrumServers {
  const servers = addresses.map(
    (address): Server => ({
      ...options,
      ...{ address, operator: operatorOf(address), opening: null, connection: null, tip: null, fault: null, failures: 0, notBeforeMs: 0 },
      budget: isPrivate(address.host) ? null : { points: COST.most, atMs: options.clock.monotonicMs() },
    }),
  );
  const states = (): ServerState[] => servers.map(stateOf);
  return {
    states,
    check: async () => {
      await Promise.all(
        servers.map((server) =>
          connect(server).catch((error: unknown) => {
            if (!(error instanceof ServerError)) throw error;
          }),
        ),
      );
      return states();
    },
    sessions: async function* (failures) {
      const used = new Set<string>();
      for (const [i, server] of servers.entries()) {
        if (used.has(server.operator)) continue;
        // Servers that are away take seconds to show it, so the next ones are connected meanwhile.
        for (const next of servers.slice(i + 1, i + 1 + AHEAD)) void connect(next).catch(() => {});
        try {
          const session = await connect(server);
          used.add(server.operator);
          yield session;
        } catch (error) {
          if (!(error instanceof ServerError)) throw error;
          failures.push(`${server.address.name} ${error.message}`);
        }
      }
    },
    close: () => {
      for (const server of servers) {
        server.connection?.close();
        server.connection = null;
        server.opening = null;
      }
    },
  };
}
