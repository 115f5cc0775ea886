/** The addresses under which plugins open payment pages: `/btcpay/i/<id>` and `/btcpay/invoice?id=<id>`. */
import type { FastifyInstance, FastifyReply } from 'fastify';
import type { Context } from '../../context.ts';
import { Problem } from '../../core/problem.ts';
import { paymentUrl } from '../../payments/detail.ts';
import { GREENFIELD_PATH } from '../../shops/greenfield/invoice-body.ts';
import { PAYMENT_ID } from './forms.ts';

export function registerShopPages(pages: FastifyInstance, ctx: Context): void {
  const open = (reply: FastifyReply, id: unknown): FastifyReply => {
    if (typeof id !== 'string' || !PAYMENT_ID.test(id)) throw new Problem('payment_not_found', { id: '' });
    return reply.header('cache-control', 'no-store').redirect(paymentUrl(ctx.settings.paymentPageUrl, id), 302);
  };
  pages.get<{ Params: { id: string } }>(`${GREENFIELD_PATH}/i/:id`, async ({ params }, reply) => open(reply, params.id));
  pages.get<{ Params: { id: string } }>(`${GREENFIELD_PATH}/i/:id/:method`, async ({ params }, reply) => open(reply, params.id));
  pages.get<{ Querystring: { id?: unknown } }>(`${GREENFIELD_PATH}/invoice`, async ({ query }, reply) => open(reply, query.id));
}
