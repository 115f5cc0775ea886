/** The customer endpoints. */
import { formatUsd } from '#core/money';
import { type CustomerRow, getCustomer, listCustomers } from '#customers';
import { readLimit, readPageCursor, readQuery } from './read.ts';
import { type ApiRoute, apiRoute, mine } from './route.ts';
import { CustomerList, CustomerReply, CustomersQuery } from './schema.ts';

export const customerBody = ({ createdAt, paidUsdCents, ...customer }: CustomerRow) => ({
  ...customer,
  paid_usd: formatUsd(paidUsdCents),
  created_at: createdAt.toISOString(),
});

export const CUSTOMER_ROUTES: readonly ApiRoute[] = [
  apiRoute({
    id: 'readCustomers',
    method: 'GET',
    path: '/v1/customers',
    access: 'secret',
    permission: 'payments',
    summary: 'List customers, newest first',
    query: CustomersQuery,
    reply: CustomerList,
    handle: async ({ ctx, owner, query, reply }) => {
      const { items, hasMore } = await listCustomers(ctx, {
        ...mine(owner),
        limit: readLimit(query),
        startingAfter: readPageCursor(query, 'starting_after'),
        email: readQuery(query, 'email'),
        reference: readQuery(query, 'reference'),
      });
      return reply({ success: true, data: items.map(customerBody), has_more: hasMore });
    },
  }),
  apiRoute({
    id: 'readCustomer',
    method: 'GET',
    path: '/v1/customers/:id',
    access: 'secret',
    permission: 'payments',
    summary: 'Retrieve a customer',
    reply: CustomerReply,
    handle: async ({ ctx, owner, params, reply }) =>
      reply({ success: true, ...customerBody(await getCustomer(ctx, { ...mine(owner), id: params.id })) }),
  }),
];
