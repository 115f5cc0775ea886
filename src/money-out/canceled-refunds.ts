/**
 * Canceled refunds whose signed files somebody may have kept: until a file can never be executed, no other refund of its payment is put into
 * one, because the customer could be paid twice.
 */
import type { Chain } from '../chains/chain.ts';
import type { Context } from '../context.ts';
import { minuteText } from '../core/clock.ts';
import type { Coin } from '../core/coin.ts';
import { usedAmong } from './authorizations.ts';
import type { Holding } from './holdings.ts';
import { EXPIRED_SECONDS, readNonces, VALID_SECONDS } from './make-accounts.ts';
import { nonceIn } from './payout-parts.ts';

type Asked = { id: string; paymentId: string };
type Left = { id: string; reason: string };
type Canceled = {
  paymentId: string;
  anchor: string;
  /** When an authorization of it expires, and whether that is so long ago that the blocks before are final. */
  until: Date;
  expired: boolean;
  /** Whether a transaction of another file used its account nonce. */
  isReplaced: boolean;
};

/** Without those whose file failed because something else used the nonce: their merchants saw that and decided about them. */
const readCanceled = (
  ctx: Context,
  { merchantId, coin, paymentIds }: { merchantId: string; coin: Coin; paymentIds: readonly string[] },
): Promise<Canceled[]> =>
  ctx.db.sql<Canceled[]>`
    select r.payment_id as "paymentId", r.anchor, to_timestamp(u.until) as until,
      u.until < extract(epoch from clock_timestamp()) - ${EXPIRED_SECONDS} as expired,
      exists (
        select 1 from sweep_transactions t join sweeps s on s.id = t.sweep_id
        cross join lateral (select s.file -> 'requests' -> t.number as request) q
        where s.merchant_id = r.merchant_id and t.block_height is not null
          and s.id in (select sweep_id from sweep_inputs where payment_id = r.payment_id)
          and lower(r.anchor) = lower(concat_ws(':', 'nonce', q.request ->> 'from', q.request ->> 'nonce'))
      ) as "isReplaced"
    from refunds r
    cross join lateral (
      -- A file that was canceled was made before its refund was.
      select coalesce(max((q ->> 'validBefore')::bigint), floor(extract(epoch from r.ended_at))::bigint + ${VALID_SECONDS}) as until
      from sweeps s cross join lateral jsonb_array_elements(s.file -> 'requests') q
      where s.merchant_id = r.merchant_id and s.coin = r.coin and s.purpose = 'refund' and s.made_at >= r.created_at
        and q -> 'authorizations' @> jsonb_build_array(jsonb_build_object('nonce', r.anchor))
    ) u
    where r.merchant_id = ${merchantId} and r.mode = 'live' and r.coin = ${coin} and r.payment_id = any(${paymentIds as string[]}::text[])
      and r.state = 'canceled' and r.anchor is not null and (r.anchor like '0x%' or r.sweep_id is null)
    order by r.number`;

const DECIDE = 'then mark this refund as sent or cancel it';
const executed = `a refund of its payment was canceled, but somebody sent its signed file, so that money was returned; find the transaction, ${DECIDE}`;
const nonceUsed = `its deposit address sent another transaction since a file of a refund that is canceled now was made; look where the money went, ${DECIDE}`;
const live = (until: Date): string =>
  `a refund of its payment was canceled, but its signed file can still be sent until ${minuteText(until)}; make the file an hour after that`;

/** Why some of these refunds cannot be in a file now. `holdings`: of the deposit addresses that pay them. Errors: ChainError. */
export async function readHeldBack(
  ctx: Context,
  chain: Chain,
  {
    asked,
    holdings,
    contract,
    ...of
  }: { merchantId: string; coin: Coin; asked: readonly Asked[]; holdings: readonly Holding[]; contract: string | null },
): Promise<Left[]> {
  const addresses = new Map(holdings.map(({ paymentId, address }) => [paymentId, address]));
  const paymentIds = asked.map(({ paymentId }) => paymentId).filter((id) => addresses.has(id));
  const canceled = await readCanceled(ctx, { ...of, paymentIds });
  const reasons = new Map<string, string>();
  const published = canceled
    .filter(({ anchor }) => anchor.startsWith('0x'))
    .map((one) => ({ ...one, from: addresses.get(one.paymentId)!, nonce: one.anchor }));
  const used = contract === null ? new Set() : await usedAmong(chain, contract, published);
  for (const one of published) {
    if (used.has(one)) reasons.set(one.paymentId, executed);
    else if (!one.expired) reasons.set(one.paymentId, live(one.until));
  }
  const numbered = canceled.filter(({ anchor, isReplaced }) => anchor.startsWith('nonce:') && !isReplaced);
  const nonces = await readNonces(
    chain,
    numbered.map(({ paymentId }) => addresses.get(paymentId)!),
  );
  // While the nonce is free, the next refund uses the same one, so only one of them can be mined.
  for (const [i, { paymentId, anchor }] of numbered.entries()) if (nonces[i]! > nonceIn(anchor)) reasons.set(paymentId, nonceUsed);
  return asked.flatMap(({ id, paymentId }) => (reasons.has(paymentId) ? [{ id, reason: reasons.get(paymentId)! }] : []));
}
