/**
 * Links of claim pages. The token follows from the refund, the number of its link and the key of the install; the database has its hash, and
 * replies that contain it only sealed. Events and the log of requests leave it out. Emails to the customer contain it while they wait.
 */
import { createHash, createHmac } from 'node:crypto';
import type { Context } from '#context';
import { addMs, DAY_MS } from '#core/dates';
import { base62 } from '#core/id';

const CLAIM_DAYS = 30;
/** When a link that is created now expires. */
export const claimUntil = (now: Date): Date => addMs(now, CLAIM_DAYS * DAY_MS);

/** `claimNumber`: how many links the refund had before. */
type Link = { id: string; claimNumber: number };
/** About 190 bits. */
export function claimToken(ctx: Pick<Context, 'installKey'>, { id, claimNumber }: Link): string {
  let block = 0;
  const name = claimNumber === 0 ? id : `${id} ${claimNumber}`;
  const bytes = () => createHmac('sha256', ctx.installKey).update(`claim ${block++} ${name}`).digest();
  return base62(32, bytes);
}
const hashOf = (token: string): Buffer => createHash('sha256').update(token).digest();
export const hashOfClaim = (ctx: Pick<Context, 'installKey'>, link: Link): Buffer => hashOf(claimToken(ctx, link));
/** Null if it cannot be a token. */
export const hashOfToken = (token: string): Buffer | null => (/^[0-9A-Za-z]{32}$/.test(token) ? hashOf(token) : null);

export const claimUrl = (ctx: Pick<Context, 'installKey' | 'settings'>, link: Link): string =>
  `${ctx.settings.paymentPageUrl}/claim/${claimToken(ctx, link)}`;
