/** Limits per client for the payment pages: an address may be shared by a whole office, but not by a shop's worth of payers. */
import type { FastifyRequest } from 'fastify';
import type { Coin } from '#core/coin';
import type { CustomerView } from '#core/payment-view';
import { Problem } from '#core/problem';
import type { Limits, ReadClient } from '#transport';

const MINUTE_SECONDS = 60;
const HOUR_SECONDS = 3_600;
/** Pages per minute. Without scripts, an open page reloads every five seconds. */
const LOOKS_A_MINUTE = 600;
/** A payment with this many transfers costs as much as another page. */
const TRANSFERS_A_LOOK = 100;
/** Update polls, which are cheap, and streams of updates. */
const NEWS_A_MINUTE = 1_200;
/** Open streams of updates, per process. Pages beyond them poll. */
const STREAMS_AT_ONCE = 64;
/** Forms submitted for one payment. */
const ACTS_A_MINUTE = 10;
/** Payments started from links. */
const STARTS_A_MINUTE = 60;
/** New deposit addresses of a merchant, for payments that anyone can create: a part of what its wallet issues in an hour. */
const ADDRESSES_AN_HOUR = 100;

export type RequestCounter = {
  /** Each throws rate_limit_exceeded when the client exceeds its limit. */
  look(request: FastifyRequest): Promise<void>;
  /** The cost of showing this payment beyond a normal view, charged to the client's next views. */
  looked(request: FastifyRequest, view: CustomerView): Promise<void>;
  news(request: FastifyRequest): Promise<void>;
  /** One more open stream of the client, until the result is called. Errors: rate_limit_exceeded. */
  stream(request: FastifyRequest): () => void;
  act(request: FastifyRequest, paymentId: string): Promise<void>;
  start(request: FastifyRequest): Promise<void>;
  /** The choice of a coin that takes a new address from the wallet. */
  address(request: FastifyRequest, view: CustomerView, coin: Coin): Promise<void>;
};

export function countRequests({ client, limits }: { client: ReadClient; limits: Limits }): RequestCounter {
  const take = async (request: FastifyRequest, what: string, points: number, seconds = MINUTE_SECONDS): Promise<void> => {
    const { allowed, resetMs } = await limits.consume(`page ${what} ${client(request).network}`, points, { seconds });
    if (allowed) return;
    const wait = Math.max(1, Math.ceil(resetMs / 1000));
    throw new Problem('rate_limit_exceeded', { seconds: wait }, { retryAfterSeconds: wait });
  };
  const streams = new Map<string, number>();
  const addStreams = (network: string, more: number): void => {
    const count = (streams.get(network) ?? 0) + more;
    if (count === 0) streams.delete(network);
    else streams.set(network, count);
  };
  return {
    look: (request) => take(request, 'look', LOOKS_A_MINUTE),
    looked: async (request, { transfersCount }) => {
      const cost = Math.floor(transfersCount / TRANSFERS_A_LOOK);
      if (cost > 0) await limits.consume(`page look ${client(request).network}`, LOOKS_A_MINUTE, { cost });
    },
    news: (request) => take(request, 'news', NEWS_A_MINUTE),
    stream: (request) => {
      const { network } = client(request);
      if ((streams.get(network) ?? 0) >= STREAMS_AT_ONCE)
        throw new Problem('rate_limit_exceeded', { seconds: MINUTE_SECONDS }, { retryAfterSeconds: MINUTE_SECONDS });
      addStreams(network, 1);
      let isOpen = true;
      return () => {
        if (isOpen) addStreams(network, -1);
        isOpen = false;
      };
    },
    act: (request, paymentId) => take(request, `act ${paymentId}`, ACTS_A_MINUTE),
    start: (request) => take(request, 'start', STARTS_A_MINUTE),
    address: async (request, { facts, createdWith, merchantId }, coin) => {
      const given = facts.quotes.some((quote) => quote.coin === coin);
      if (facts.mode === 'live' && createdWith === 'public' && !given)
        await take(request, `address ${merchantId}`, ADDRESSES_AN_HOUR, HOUR_SECONDS);
    },
  };
}
