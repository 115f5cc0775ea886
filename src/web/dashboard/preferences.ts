/** What members chose for their dashboard: saved searches, columns, and what they dismissed. */
import type { Context } from '#context';
import { asBoolean, asList, asObject, asText, asTexts, type StoredJson } from '#core/stored-json';

// Dashboard preferences of a member: views, columns, dismissed hints. They affect nobody else.

type Preferences = {
  /** Saved searches of payments. */
  views: readonly { name: string; query: string }[];
  /** Columns of the list of payments; null: the usual ones. */
  columns: readonly string[] | null;
  onboarding: { dismissed: boolean; polls: boolean };
};
type Of = { merchantId: string; userId: string };

/** Grows when the meaning of a field changes. What was stored without a version has the first form. */
const VERSION = 1;

/** Names and values as they are stored, only those that are given. Columns are a list of names, so they have no version. */
export const preferencesToJson = ({
  views,
  columns,
  onboarding,
}: Partial<Omit<Preferences, 'onboarding'>> & { onboarding?: Partial<Preferences['onboarding']> }): { name: string; value: unknown }[] => [
  ...(views ? [{ name: 'payments.views', value: views.map(({ name, query }): StoredJson => ({ v: VERSION, name, query })) }] : []),
  ...(columns ? [{ name: 'payments.columns', value: columns }] : []),
  ...(onboarding ? [{ name: 'onboarding', value: { v: VERSION, ...onboarding } }] : []),
];

/** A view that cannot be read is left out. */
export function preferencesFromJson(rows: readonly { name: string; value: unknown }[]): Preferences {
  const stored = new Map(rows.map(({ name, value }) => [name, value]));
  const columns = stored.get('payments.columns');
  const onboarding = asObject(stored.get('onboarding'));
  return {
    views: asList(stored.get('payments.views')).flatMap((entry) => {
      const view = asObject(entry);
      const [name, query] = [asText(view.name), asText(view.query)];
      return name === null || query === null ? [] : [{ name, query }];
    }),
    columns: Array.isArray(columns) ? asTexts(columns) : null,
    onboarding: { dismissed: asBoolean(onboarding.dismissed) ?? false, polls: asBoolean(onboarding.polls) ?? false },
  };
}

export async function readPreferences(ctx: Context, { merchantId, userId }: Of): Promise<Preferences> {
  const rows = await ctx.db.sql<{ name: string; value: unknown }[]>`
    select name, value from preferences where merchant_id = ${merchantId} and user_id = ${userId}`;
  return preferencesFromJson(rows);
}

/** Stores the preferences that are given; the others stay as they are. */
export async function setPreferences(
  ctx: Context,
  { merchantId, userId, ...given }: Of & Parameters<typeof preferencesToJson>[0],
): Promise<void> {
  const { sql } = ctx.db;
  await sql`
    insert into preferences (merchant_id, user_id, name, value)
    select ${merchantId}, ${userId}, r.name, r.value from jsonb_to_recordset(${sql.json(preferencesToJson(given) as never)}) as r (name text, value jsonb)
    on conflict (merchant_id, user_id, name) do update set value = excluded.value`;
}
