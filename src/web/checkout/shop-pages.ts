/** The addresses under which plugins open payment pages: `/btcpay/i/<id>` and `/btcpay/invoice?id=<id>`. */
import type { FastifyInstance, FastifyReply } from 'fastify';
import type { Context } from '../../context.ts';
import { Problem } from '../../core/problem.ts';
import { paymentUrl } from '../../payments/detail.ts';
import { getPaymentForCustomer } from '../../payments/queries.ts';
import { GREENFIELD_PATH } from '../../shops/greenfield/invoice-body.ts';
import { packQuery } from '../../shops/pairing.ts';
import { PAYMENT_ID } from './forms.ts';
import { registerSharedScript } from './shared-script.ts';
import { browserScript } from './shell.ts';
import { languageOf, TAGS } from './words.ts';

/** Where plugins send a merchant who connects a shop. The dashboard signs the member in first. */
const AUTHORIZE = `${GREENFIELD_PATH}/api-keys/authorize`;

/** The script that opens payment pages over a shop, with its words. */
function modalScript(): string {
  const words = TAGS.map((tag) => {
    const { modalTitle: title, closeModal: close } = languageOf(tag).words;
    return [tag, { title, close }];
  });
  return `(()=>{${browserScript('modal.ts').replace("'__WORDS__'", () => JSON.stringify(Object.fromEntries(words)))}})();`;
}

export function registerShopPages(pages: FastifyInstance, ctx: Context): void {
  const open = (reply: FastifyReply, id: unknown, { view }: { view?: unknown }): FastifyReply => {
    if (typeof id !== 'string' || !PAYMENT_ID.test(id)) throw new Problem('payment_not_found', { id: '' });
    const url = paymentUrl(ctx.settings.paymentPageUrl, id) + (view === 'modal' ? '&view=modal' : '');
    return reply.header('cache-control', 'no-store').redirect(url, 302);
  };
  registerSharedScript(pages, { path: `${GREENFIELD_PATH}/modal/btcpay.js`, script: modalScript() });
  pages.get(AUTHORIZE, async ({ url }, reply) => {
    const ask = packQuery(url.split('?')[1]?.slice(0, 4_000) ?? '');
    return reply.header('cache-control', 'no-store').redirect(`${ctx.settings.publicUrl}/dashboard/live/shops/authorize?ask=${ask}`, 302);
  });
  pages.get<{ Params: { id: string } }>(`${GREENFIELD_PATH}/invoices/:id`, async ({ params }, reply) => {
    if (!PAYMENT_ID.test(params.id)) throw new Problem('payment_not_found', { id: '' });
    const { facts } = await getPaymentForCustomer(ctx, { paymentId: params.id });
    return reply
      .header('cache-control', 'no-store')
      .redirect(`${ctx.settings.publicUrl}/dashboard/${facts.mode}/payments/${params.id}`, 302);
  });
  pages.get<{ Params: { id: string } }>(`${GREENFIELD_PATH}/i/:id`, async ({ params, query }, reply) =>
    open(reply, params.id, query as object),
  );
  pages.get<{ Params: { id: string } }>(`${GREENFIELD_PATH}/i/:id/:method`, async ({ params, query }, reply) =>
    open(reply, params.id, query as object),
  );
  pages.get<{ Querystring: { id?: unknown; view?: unknown } }>(`${GREENFIELD_PATH}/invoice`, async ({ query }, reply) =>
    open(reply, query.id, query),
  );
}
