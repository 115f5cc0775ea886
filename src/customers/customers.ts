/** Customers: who payments are for. One row for each, found again by the merchant's reference, or else by the email address. */
import type { Context } from '#context';
import type { Mode } from '#core/coin';
import { derivedId } from '#core/id';
import type { Customer, NamedCustomer } from '#core/payment-view';
import { Problem } from '#core/problem';
import { isPrintableLine, printableLine } from '#core/text';
import { type Fragment, type LookedBackTo, lookThrough, type Sql, type Tx } from '#db';

/** `paidUsdCents`: what the payments of the customer count now, as in the books: sales and what was overpaid, less what left the chain. */
export type CustomerRow = Customer & { mode: Mode; createdAt: Date; paidUsdCents: bigint };
type Owner = { merchantId: string; mode: Mode };

/** Errors: parameter_invalid. */
export function checkPayerEmail(email: string, param = 'email'): void {
  if (email.length > 200 || !/^[^\s@\p{Cc}]+@[^\s@\p{Cc}]+$/u.test(email) || !isPrintableLine(email))
    throw new Problem('parameter_invalid', { reason: 'it must be an email address' }, { param });
}

/**
 * The customer that a request names; null if it names nobody. A text of blanks is the same as none, because shops send empty fields.
 * Errors: parameter_invalid.
 */
export function readCustomer(given: Partial<NamedCustomer> | undefined): NamedCustomer | null {
  const [email, name, reference] = [given?.email, given?.name, given?.reference].map((text) => text?.trim() || null) as [
    string | null,
    string | null,
    string | null,
  ];
  if (email === null && name === null && reference === null) return null;
  if (email !== null) checkPayerEmail(email, 'customer.email');
  if (name !== null) printableLine(name, 'customer.name');
  if (reference !== null) printableLine(reference, 'customer.reference');
  if (email === null && reference === null)
    throw new Problem(
      'parameter_invalid',
      { reason: 'a name alone does not tell customers apart; add email or reference' },
      { param: 'customer' },
    );
  return { email, name, reference };
}

/** The spelling by which an email address is compared. */
const plainEmail = (email: string): string => email.normalize('NFC').toLowerCase();

/**
 * The customer with the ID that the merchant, the mode and the key of the customer determine: a create knows it without reading. The key of
 * the install is part of it, so that nobody can find out an address by trying.
 */
export function identified(ctx: Context, { merchantId, mode }: Owner, customer: NamedCustomer): Customer {
  const { email, reference } = customer;
  const key = reference !== null ? ['reference', reference] : ['email', plainEmail(email!)];
  return { id: derivedId('cus', ctx.installKey, [merchantId, mode, 'customer', ...key]), ...customer };
}

/**
 * Stores customers and what is new about them, as a part of the statement that writes their payments. `input` has id, merchant_id, mode,
 * email, name and reference, each ID once. What a request does not say stays as it is.
 */
export const customersCte = (tx: Sql | Tx, input: Fragment): Fragment => tx`
  insert into customers as c (id, merchant_id, mode, email, name, reference)
  select i.id, i.merchant_id, i.mode, i.email, i.name, i.reference from ${input} as i order by i.id
  on conflict (id) do update set email = coalesce(excluded.email, c.email), name = coalesce(excluded.name, c.name)
  where excluded.email is distinct from c.email or excluded.name is distinct from c.name`;

/** The customer of the payment `p`, as JSON. */
export const customerOf = (sql: Sql | Tx): Fragment => sql`
  (select json_build_object('id', c.id, 'email', c.email, 'name', c.name, 'reference', c.reference) from customers c
    where c.id = p.customer_id and c.merchant_id = p.merchant_id and c.mode = p.mode)`;

/** Deletes those of the customers that no payment names any more. */
export async function deleteCustomers(tx: Tx, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  // A create that names one of them has locked its row until its payment can be seen.
  await tx`select 1 from customers where id = any(${[...ids]}::text[]) order by id for update`;
  await tx`
    delete from customers c where id = any(${[...ids]}::text[])
      and not exists (select 1 from payments p where p.merchant_id = c.merchant_id and p.mode = c.mode and p.customer_id = c.id)`;
}

const columns = (sql: Sql) => sql`c.id, c.mode, c.email, c.name, c.reference, c.created_at as "createdAt",
  (select coalesce(sum(s.sale_cents + s.over_cents), 0)::bigint from payments p
    join payment_sales s on s.merchant_id = p.merchant_id and s.payment_id = p.id
    where p.merchant_id = c.merchant_id and p.mode = c.mode and p.customer_id = c.id) as "paidUsdCents"`;

/** Errors: customer_not_found. */
export async function getCustomer({ db: { sql } }: Context, { merchantId, mode, id }: Owner & { id: string }): Promise<CustomerRow> {
  const [row] = await sql<CustomerRow[]>`
    select ${columns(sql)} from customers c where id = ${id} and merchant_id = ${merchantId} and mode = ${mode}`;
  if (!row) throw new Problem('customer_not_found', { id: id.slice(0, 40) });
  return row;
}

/**
 * The newest first. `email` in any case, and `reference`, are compared as a whole; `search` finds any part of a text of a customer, and may end
 * before the page is full. Errors: cursor_invalid.
 */
export async function listCustomers(
  { db: { sql } }: Context,
  {
    merchantId,
    mode,
    limit,
    startingAfter,
    email = null,
    reference = null,
    search = null,
  }: Owner & { limit: number; startingAfter: string | null; email?: string | null; reference?: string | null; search?: string | null },
): Promise<{ items: CustomerRow[]; hasMore: boolean; lookedBackTo: LookedBackTo }> {
  const mine = sql`merchant_id = ${merchantId} and mode = ${mode}`;
  const [cursor] =
    startingAfter === null ? [null] : await sql<{ number: bigint }[]>`select number from customers where id = ${startingAfter} and ${mine}`;
  if (cursor === undefined) throw new Problem('cursor_invalid', {}, { param: 'starting_after' });
  const candidates = sql`where ${mine} ${cursor ? sql`and number < ${cursor.number.toString()}` : sql``}
    ${email === null ? sql`` : sql`and lower(normalize(email)) = ${plainEmail(email)}`}
    ${reference === null ? sql`` : sql`and reference = ${reference}`} order by number desc`;
  const found =
    search === null
      ? sql``
      : sql`where strpos(lower(normalize(concat_ws(' ', email, name, reference), NFKC)), ${search.normalize('NFKC').toLowerCase()}) > 0`;
  return lookThrough(sql, {
    limit,
    further: startingAfter !== null,
    isExact: search === null,
    find: (bound) => sql<CustomerRow[]>`
      select ${columns(sql)} from (select * from customers ${candidates} ${bound}) as c ${found} order by number desc limit ${limit + 1}`,
    candidateKeys: sql`select number from customers ${candidates}`,
    last: (key) => sql<{ id: string; at: Date }[]>`select id, created_at as at from customers where ${mine} and number = ${key}`,
  });
}

/** Who payments are for, by the ID of the payment; those that name nobody are left out. */
export async function readCustomersOf(
  { db: { sql } }: Context,
  { merchantId, mode, paymentIds }: Owner & { paymentIds: readonly string[] },
): Promise<ReadonlyMap<string, Customer>> {
  const rows = await sql<{ id: string; customer: Customer }[]>`
    select p.id, ${customerOf(sql)} as customer from payments p
    where p.id = any(${[...paymentIds]}::text[]) and p.merchant_id = ${merchantId} and p.mode = ${mode} and p.customer_id is not null`;
  return new Map(rows.map(({ id, customer }) => [id, customer]));
}
