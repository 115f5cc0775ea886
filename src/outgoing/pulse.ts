/** What open dashboards ask for twice a second: whether files, refunds or payouts changed. */
import type { Context } from '#context';
import type { Mode } from '#core/coin';

/** A change of older rows shows when the screen is opened again. */
const NEWEST = 20;
type Owners = { owners: readonly { merchantId: string; mode: Mode }[] };

/** For each owner, a text that changes when one of the newest signing files does. One query for all open dashboards. */
export async function readFilePulse({ db: { sql } }: Context, { owners }: Owners): Promise<(string | null)[]> {
  const rows = await sql<{ pulse: string | null }[]>`
    select (
      select string_agg(concat_ws(' ', s.id, s.state, s.round, md5(s.failure)), ',' order by s.number)
      from (select id, number, state, round, failure from signing_files where merchant_id = o.merchant_id and mode = o.mode
        order by number desc limit ${NEWEST}) s) as pulse
    from unnest(${owners.map((o) => o.merchantId)}::text[], ${owners.map((o) => o.mode)}::text[]) with ordinality as o (merchant_id, mode, n)
    order by o.n`;
  return rows.map((row) => row.pulse);
}

/** The same for refunds and payouts, of which not every change is an event: a customer enters an address, a file is made or canceled. */
export async function readOutPulse({ db: { sql } }: Context, { owners }: Owners): Promise<(string | null)[]> {
  const rows = await sql<{ pulse: string | null }[]>`
    select (
      select string_agg(concat_ws(' ', id, state, backed_by, approved_by, address is not null, claim_number, file_id, md5(failure)), ',' order by number)
      from (select r.* from unnest(array['refund', 'payout']) as k cross join lateral (
        select * from outgoing_payments where merchant_id = o.merchant_id and mode = o.mode and kind = k order by number desc limit ${NEWEST}) r) as newest
    ) as pulse
    from unnest(${owners.map((o) => o.merchantId)}::text[], ${owners.map((o) => o.mode)}::text[]) with ordinality as o (merchant_id, mode, n)
    order by o.n`;
  return rows.map((row) => row.pulse);
}
