/** Customers: the list with its search, and one of them. Their payments and refunds are filters of those lists. */
import Type from 'typebox';
import { type CustomerRow, getCustomer, listCustomers } from '#customers';
import { CustomerField, Instant, lookedBackBody, lookedPageOf, PlainText, paging } from './fields.ts';
import { type DashboardRoute, memberRoute, ownerOfCall } from './route.ts';

export const CustomerBody = Type.Object({ ...CustomerField.properties, created_at: Instant });
export const customerBody = ({ id, email, name, reference, createdAt }: CustomerRow) => ({
  ...{ id, email, name, reference },
  created_at: createdAt.toISOString(),
});

export const CUSTOMERS: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/customers',
    action: 'payments.read',
    query: Type.Object({ ...paging, search: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })) }),
    reply: lookedPageOf(CustomerBody),
    handle: async (call) => {
      const { limit, starting_after, search } = call.query;
      const page = await listCustomers(call.ctx, {
        ...ownerOfCall(call),
        limit: Number(limit ?? 25),
        startingAfter: starting_after ?? null,
        search: search?.trim() || null,
      });
      return {
        success: true,
        data: page.items.map(customerBody),
        has_more: page.hasMore,
        looked_back_to: lookedBackBody(page.lookedBackTo),
      };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/customers/:id',
    action: 'payments.read',
    reply: Type.Object({
      success: Type.Boolean(),
      customer: CustomerBody,
      /** Followed by the ID of a completed payment. */
      receipt_url: PlainText,
    }),
    handle: async (call) => ({
      success: true,
      customer: customerBody(await getCustomer(call.ctx, { ...ownerOfCall(call), id: call.params.id })),
      receipt_url: `${call.ctx.settings.paymentPageUrl}/pay/receipt.pdf?id=`,
    }),
  }),
];
