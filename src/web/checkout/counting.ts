/** How much one client may ask of the payment pages: behind an address may be a whole office, but no shop's worth of payers. */
import type { FastifyRequest } from 'fastify';
import type { Coin } from '../../core/coin.ts';
import { Problem } from '../../core/problem.ts';
import type { ReadClient } from '../../http/client.ts';
import type { Limits } from '../../http/limits.ts';
import type { CustomerView } from '../../payments/view.ts';

const MINUTE_SECONDS = 60;
const HOUR_SECONDS = 3_600;
/** Pages in a minute. Without scripts an open page loads itself every five seconds. */
const LOOKS_A_MINUTE = 600;
/** A payment of so many transfers is as much work as another page. */
const TRANSFERS_A_LOOK = 100;
/** Answers about news, which cost little, and streams of them. */
const NEWS_A_MINUTE = 1_200;
/** Forms sent for one payment. */
const ACTS_A_MINUTE = 10;
/** Payments started from links. */
const STARTS_A_MINUTE = 20;
/** New deposit addresses of a merchant, for payments that anybody can make: a part of what its wallet gives in an hour. */
const ADDRESSES_AN_HOUR = 30;

export type Counting = {
  /** Each throws rate_limit_exceeded where the client asked for more than that. */
  look(request: FastifyRequest): Promise<void>;
  /** What showing this payment costs beyond a look; the client's next looks pay for it. */
  looked(request: FastifyRequest, view: CustomerView): Promise<void>;
  news(request: FastifyRequest): Promise<void>;
  act(request: FastifyRequest, paymentId: string): Promise<void>;
  start(request: FastifyRequest): Promise<void>;
  /** The choice of a coin, where it takes an address that the wallet has not given yet. */
  address(request: FastifyRequest, view: CustomerView, coin: Coin): Promise<void>;
};

export function countRequests({ client, limits }: { client: ReadClient; limits: Limits }): Counting {
  const take = async (request: FastifyRequest, what: string, points: number, seconds = MINUTE_SECONDS): Promise<void> => {
    const { allowed, resetMs } = await limits.consume(`page ${what} ${client(request).network}`, points, { seconds });
    if (allowed) return;
    const wait = Math.max(1, Math.ceil(resetMs / 1000));
    throw new Problem('rate_limit_exceeded', { seconds: wait }, { retryAfterSeconds: wait });
  };
  return {
    look: (request) => take(request, 'look', LOOKS_A_MINUTE),
    looked: async (request, { transfersCount }) => {
      const cost = Math.floor(transfersCount / TRANSFERS_A_LOOK);
      if (cost > 0) await limits.consume(`page look ${client(request).network}`, LOOKS_A_MINUTE, { cost });
    },
    news: (request) => take(request, 'news', NEWS_A_MINUTE),
    act: (request, paymentId) => take(request, `act ${paymentId}`, ACTS_A_MINUTE),
    start: (request) => take(request, 'start', STARTS_A_MINUTE),
    address: async (request, { facts, createdWith, merchantId }, coin) => {
      const given = facts.quotes.some((quote) => quote.coin === coin);
      if (facts.mode === 'live' && createdWith === 'public' && !given)
        await take(request, `address ${merchantId}`, ADDRESSES_AN_HOUR, HOUR_SECONDS);
    },
  };
}
