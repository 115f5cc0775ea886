/** Customers: the list with its search, and one of them. Their payments and refunds are filters of those lists. */
import Type from 'typebox';
import { listCustomers } from '#customers';
import { CustomerItem, customerBody } from '#http';
import { lookedBackBody, lookedPageOf, pageIn, paging } from './fields.ts';
import { type DashboardRoute, forMembers, memberRoute, ownerOfCall } from './route.ts';

export const CUSTOMERS: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/customers',
    action: 'payments.read',
    query: Type.Object({ ...paging, search: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })) }),
    reply: lookedPageOf(CustomerItem),
    handle: async (call) => {
      const page = await listCustomers(call.ctx, {
        ...ownerOfCall(call),
        ...pageIn(call.query),
        search: call.query.search?.trim() || null,
      });
      return {
        success: true,
        data: page.items.map(customerBody),
        has_more: page.hasMore,
        looked_back_to: lookedBackBody(page.lookedBackTo),
      };
    },
  }),
  forMembers('readCustomer', { path: '/customers/:id', action: 'payments.read', as: 'customer' }),
];
