/** What a member leaves behind when they are removed or get another role: what waits ends, and what they made can be ended with it. */
import type { Context } from '../../context.ts';
import type { Mode } from '../../core/coin.ts';
import { Problem } from '../../core/problem.ts';
import type { Sql, Tx } from '../../db/db.ts';
import { endApiKey } from '../../keys/key-ring.ts';
import { forgetApprovals } from '../../money-out/approvals.ts';
import { endWaitingDestinations } from '../../money-out/destinations.ts';
import { type Departure, writeAudit } from '../../people/members.ts';
import { disconnectShop } from '../../shops/shop-keys.ts';
import { forgetShopApprovals } from '../../shops/shop-refunds.ts';
import { endWaitingChanges } from '../../wallets/wallet-changes.ts';
import { disableEndpoint } from '../../webhooks/endpoints.ts';

export const MADE_KINDS = ['key', 'endpoint', 'shop'] as const;
export type MemberMade = { id: string; kind: (typeof MADE_KINDS)[number]; mode: Mode; name: string };

/** The API keys, webhook endpoints and connected shops that a member made and that still work. */
export const listMade = (sql: Sql | Tx, { merchantId, userId }: { merchantId: string; userId: string }): Promise<MemberMade[]> => sql<
  MemberMade[]
>`
  select * from (
    select id, 'key' as kind, mode, name, created_at from keys
    where merchant_id = ${merchantId} and made_by = ${userId} and revoked_at is null
      and (expires_at is null or expires_at > clock_timestamp())
    union all
    select id, 'endpoint', mode, url, created_at from endpoints
    where merchant_id = ${merchantId} and made_by = ${userId} and state = 'enabled' and shop_key_id is null
    union all
    select id, 'shop', mode, name, created_at from shop_keys
    where merchant_id = ${merchantId} and made_by = ${userId} and revoked_at is null
  ) as made order by mode, kind, created_at, id`;

/**
 * Ends what waits for a member's authority, and of what they made what is named. Called by the team in its transaction. Errors:
 * parameter_invalid (ends).
 */
export const departing =
  (ctx: Context, ends: readonly string[]) =>
  async (tx: Tx, departure: Departure): Promise<void> => {
    await endWaitingChanges(tx, departure);
    await endWaitingDestinations(tx, departure);
    await forgetApprovals(tx, departure, { shopRefunds: await forgetShopApprovals(tx, departure) });
    if (ends.length === 0) return;
    const made = new Map((await listMade(tx, departure)).map((one) => [one.id, one]));
    for (const id of new Set(ends)) {
      const one = made.get(id);
      if (!one) throw new Problem('parameter_invalid', { reason: `${id} has ended, or this member did not make it` }, { param: 'ends' });
      await endMade(ctx, tx, departure, one);
    }
  };

async function endMade(ctx: Context, tx: Tx, { merchantId, actor }: Departure, { id, kind, mode, name }: MemberMade): Promise<void> {
  const of = { merchantId, mode };
  const audit = (action: string, before: object, after?: object) =>
    writeAudit(tx, { ...of, actor, action, object: id, before, ...(after && { after }) });
  switch (kind) {
    case 'key':
      await endApiKey(ctx, tx, { ...of, keyId: id, name });
      return audit('key.revoked', { name });
    case 'endpoint':
      await disableEndpoint(tx, { ...of, endpointId: id });
      return audit('endpoint.update', { url: name, enabled: true }, { url: name, enabled: false });
    case 'shop':
      return audit('shop.disconnected', await disconnectShop(tx, { ...of, shopId: id }));
  }
}
