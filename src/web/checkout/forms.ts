/** The forms of the hosted page: each runs one operation, and the page shows what it refused. */
import { timingSafeEqual } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Context } from '#context';
import { COIN, type Coin, isCoin } from '#core/coin';
import { Problem } from '#core/problem';
import { askInvoice } from '#lightning';
import { cancelByPayer, chooseCoin, getPaymentForCustomer, leaveRefundAddress, repeatPayment, simulateOnPage } from '#payments';
import { coinChosen } from './choice.ts';
import type { RequestCounter } from './counting.ts';
import type { FormFault, PageOptions } from './parts.ts';
import { chosenBy, formToken, languageOfRequest, sendPayment } from './responses.ts';
import { say } from './words.ts';

export const PAYMENT_ID = /^pay_[0-9A-Za-z]{24}$/;

/** What an operation leads to: another page, or the page of the payment. */
type Answer = { location: string } | null;
type Form = { id: string; fields: URLSearchParams };
type Operation = (form: Form, request: FastifyRequest) => Promise<Answer>;

export function registerForms(pages: FastifyInstance, ctx: Context, { counting }: { counting: RequestCounter }): void {
  const invoices = { askInvoice: askInvoice(ctx), later: afterPages(pages, ctx) };
  const operations: Readonly<Record<string, Operation>> = {
    '/pay/select': async ({ id, fields }, request) => {
      const view = await getPaymentForCustomer(ctx, { paymentId: id });
      const coin = coinChosen(view, fields);
      await counting.address(request, view, coin);
      await chooseCoin(ctx, { paymentId: id, coin, scenario: fields.get('scenario'), ...invoices });
      return null;
    },
    '/pay/requote': async ({ id }) => {
      const { settlement } = await getPaymentForCustomer(ctx, { paymentId: id });
      if (settlement.coin) await chooseCoin(ctx, { paymentId: id, coin: settlement.coin, ...invoices });
      return null;
    },
    '/pay/simulate': async ({ id, fields }) => {
      await simulateOnPage(ctx, { paymentId: id, scenario: fields.get('scenario') ?? 'success' });
      return null;
    },
    '/pay/refund-address': async ({ id, fields }) => {
      const address = (fields.get('address') ?? '').trim();
      await leaveRefundAddress(ctx, { paymentId: id, coin: coinOf(fields), address, email: fields.get('email')?.trim() || null });
      return null;
    },
    '/pay/cancel': async ({ id }) => {
      await cancelByPayer(ctx, { paymentId: id });
      return null;
    },
    // Leads to another page, so it is always a plain form, with and without scripts.
    '/pay/again': async ({ id }) => ({ location: `/pay?id=${await repeatPayment(ctx, { paymentId: id })}` }),
  };
  for (const [path, operation] of Object.entries(operations))
    pages.post(path, async (request, reply) => {
      const form = readForm(ctx, request);
      const done = await attempt(async () => {
        await counting.act(request, form.id);
        return operation(form, request);
      });
      return answer(ctx, request, reply, { form, done });
    });
}

/** Invoices that are asked for at a time, beside addresses that are shown. */
const MOST_LATER = 100;
/** Does what a page does not wait for. It refreshes itself. */
function afterPages(pages: FastifyInstance, ctx: Context): (work: () => Promise<void>) => void {
  const underWay = new Set<Promise<void>>();
  pages.addHook('onClose', async () => void (await Promise.all(underWay)));
  return (work) => {
    if (underWay.size >= MOST_LATER) return;
    const one = work()
      .catch((error: unknown) => {
        // The customer pays on-chain. Why there is no invoice is logged where it was asked for.
        if (!(error instanceof Problem)) ctx.log.error({ err: error }, 'Could not add a Lightning invoice');
      })
      .finally(() => underWay.delete(one));
    underWay.add(one);
  };
}

/** The form, if it was part of a page of its payment. */
export function readForm(ctx: Context, { body }: Pick<FastifyRequest, 'body'>): Form {
  const fields = body instanceof URLSearchParams ? body : new URLSearchParams();
  const id = fields.get('id') ?? '';
  const token = Buffer.from(fields.get('token') ?? '');
  const wanted = Buffer.from(formToken(ctx, id));
  if (!PAYMENT_ID.test(id) || token.length !== wanted.length || !timingSafeEqual(token, wanted))
    throw new Problem('payment_not_found', { id: '' });
  return { id, fields };
}

type Done = { answer: Answer; refused: null } | { answer: null; refused: Problem };
/** What an operation refuses is shown on the page; everything else fails the request. */
async function attempt(run: () => Promise<Answer>): Promise<Done> {
  try {
    return { answer: await run(), refused: null };
  } catch (error) {
    if (!(error instanceof Problem) || error.code === 'payment_not_found' || error.status === 500) throw error;
    return { answer: null, refused: error };
  }
}

/** With scripts, the page as it is now; without, a redirect to it, so that reloading repeats nothing. */
async function answer(
  ctx: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  { form: { id, fields }, done: { answer: made, refused } }: { form: Form; done: Done },
) {
  if (refused === null && request.headers['x-fragment'] !== '1') {
    const chosen = chosenBy(request);
    const target = made?.location ?? `/pay?id=${id}`;
    return reply
      .code(303)
      .header('location', `${target}${chosen ? `&lang=${chosen}` : ''}`)
      .send();
  }
  const view = await getPaymentForCustomer(ctx, { paymentId: id });
  if (refused === null) return sendPayment(ctx, request, reply, { view });
  const fault = faultOf(refused, fields, languageOfRequest(request, view).words);
  return sendPayment(ctx, request, reply, { view, status: refused.status, fault });
}

function coinOf(fields: URLSearchParams): Coin {
  const coin = fields.get('currency');
  if (!isCoin(coin)) throw new Problem('currency_unknown', {}, { param: 'currency' });
  return coin;
}

/** The error message shown to the payer, in the language of the page. */
export function faultOf(problem: Problem, form: URLSearchParams, words: PageOptions['language']['words']): FormFault {
  const given = { address: (form.get('address') ?? '').slice(0, 200), email: (form.get('email') ?? '').slice(0, 200) };
  const asked = form.get('currency') ?? '';
  const coin = isCoin(asked) ? COIN[asked].asset : asked;
  if (problem.code === 'address_invalid') return { field: 'address', text: say(words.addressInvalid, { coin }), given };
  if (problem.param === 'email') return { field: 'email', text: words.emailInvalid, given };
  const texts: Readonly<Record<string, string>> = {
    rate_limit_exceeded: words.tooMany,
    price_unavailable: `${coin}: ${words.noPrice}`,
    chain_unavailable: `${coin}: ${words.noNetwork}`,
    coin_not_configured: `${coin}: ${words.noNetwork}`,
    // A payment that is started again has no coin yet.
    amount_too_small: coin === '' ? words.smallPayment : `${coin}: ${words.tooSmall}`,
  };
  return { field: null, text: texts[problem.code] ?? words.refused, given };
}
