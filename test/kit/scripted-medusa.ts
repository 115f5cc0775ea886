/**
 * The parts of Medusa 2 that meet a payment provider, in memory, with the steps of its workflows in their order: sessions, carts, orders,
 * webhooks. The provider and its requests to Florin are real. `startMedusa` starts Medusa itself, for the long runs.
 */
import './medusa-stub.ts';
import type { TestApp } from './app.ts';
import type { MedusaStore } from './medusa-store.ts';
import { serve } from './serve.ts';

const { FlorinPaymentProvider } = await import('../../plugins/medusa/src/index.ts');

const PRICE = 25.5;
type Data = Record<string, unknown>;
type Collection = { id: string; cart: Cart; amount: number; currency_code: string; status: string };
type Session = {
  id: string;
  provider_id: string;
  payment_collection_id: string;
  amount: number;
  status: string;
  data: Data;
  payment: MedusaPayment | null;
};
type MedusaPayment = {
  id: string;
  collection: string;
  session: string;
  amount: number;
  data: Data;
  captures: { amount: number }[];
  refunds: { amount: number }[];
  captured_at: Date | null;
  canceled_at: Date | null;
};
type Order = { id: string; status: string; customer_id: string; items: { quantity: number }[]; collection: string };
type Cart = { id: string; customer_id: string; item: { id: string; quantity: number }; collection: string | null; order: Order | null };

class Refused extends Error {
  readonly status: number;
  readonly type: string;
  constructor(status: number, type: string, message: string) {
    super(message);
    this.status = status;
    this.type = type;
  }
}
const invalid = (message: string): Refused => new Refused(400, 'invalid_data', message);
const UNFIT = 'Could not delete all payment sessions';
const PROCESSABLE = ['pending', 'requires_more', 'authorized', 'captured', 'pending_authorization'];
/** What customers can do something about is answered with the cart. */
const ANSWERED = ['payment_authorization_error', 'payment_requires_more_error'];
const sumOf = (all: readonly { amount: number }[]): number => all.reduce((sum, { amount }) => sum + amount, 0);
const one = async <Of>(work: Promise<Of>): Promise<{ value?: Of; error?: unknown }> => {
  try {
    return { value: await work };
  } catch (error) {
    return { error };
  }
};

export async function startScriptedMedusa(
  app: TestApp,
  { florinUrl, hooksUrl, webhookDelayMs }: { florinUrl: string; hooksUrl: string; webhookDelayMs: number },
): Promise<Pick<MedusaStore, 'url' | 'output' | 'ask' | 'region' | 'variant' | 'stop'>> {
  const endpoint = await app.test.post('/v1/webhook_endpoints', { url: hooksUrl, events: ['*'] });
  const [carts, collections, sessions, payments, orders] = [
    new Map<string, Cart>(),
    new Map<string, Collection>(),
    new Map<string, Session>(),
    new Map<string, MedusaPayment>(),
    new Map<string, Order>(),
  ];
  let output = '';
  const log = (line: string) => {
    output += `${line}\n`;
  };
  let made = 0;
  const newId = (prefix: string) => `${prefix}_${String(++made).padStart(6, '0')}`;
  const sessionsOf = (collection: string) => [...sessions.values()].filter((row) => row.payment_collection_id === collection);

  const florin = new FlorinPaymentProvider(
    {
      logger: { warn: log, error: log },
      paymentSessionService: {
        list: async ({ id, payment_collection_id }: { id?: string; payment_collection_id?: string }) =>
          [...sessions.values()]
            .filter((row) => (!id || row.id === id) && (!payment_collection_id || row.payment_collection_id === payment_collection_id))
            .map((row) => ({ ...row, payment_collection: { ...collections.get(row.payment_collection_id) } })),
      },
    },
    {
      url: florinUrl,
      apiKey: app.merchant.keys.testSecret,
      webhookSecret: endpoint.json.secret,
      returnUrl: 'http://localhost:8000/checkout/florin?session={session_id}',
    },
  );
  /** Medusa's own way to pay, which takes money by hand. */
  const byHand = {
    initiatePayment: async () => ({ data: {}, status: 'pending' }),
    authorizePayment: async () => ({ data: {}, status: 'authorized' }),
    deletePayment: async () => ({ data: {} }),
    cancelPayment: async () => ({ data: {} }),
    capturePayment: async () => ({ data: {} }),
    refundPayment: async () => ({ data: {} }),
  };
  const providerOf = (id: string): typeof byHand => (id === 'pp_florin_florin' ? (florin as never) : byHand);
  const providerOfPayment = ({ data }: MedusaPayment) =>
    providerOf(data.payment_id === undefined ? 'pp_system_default' : 'pp_florin_florin');
  const call = <Of>(work: (input: never) => Promise<Of>, provider: object, input: object): Promise<Of> =>
    work.call(provider, input as never);

  const locks = new Map<string, Promise<unknown>>();
  /** As long as a cart is locked, others wait so many seconds for it. */
  async function locked<Of>(cart: string, seconds: number, work: () => Promise<Of>): Promise<Of> {
    const before = locks.get(cart) ?? Promise.resolve();
    let isLate = false;
    const mine = before.then(async () => (isLate ? (undefined as Of) : work()));
    locks.set(
      cart,
      mine.catch(() => {}),
    );
    const timer = setTimeout(() => {
      isLate = true;
    }, seconds * 1_000);
    await before;
    clearTimeout(timer);
    if (isLate) {
      log(`Failed to acquire lock for key \\"${cart}\\"`);
      throw new Refused(500, 'unexpected_state', 'The cart is locked.');
    }
    return mine;
  }

  // The payment module.

  async function createSession(collectionId: string, provider_id: string): Promise<Session> {
    const { amount, currency_code } = collections.get(collectionId)!;
    const id = newId('payses');
    const row: Session = { id, provider_id, payment_collection_id: collectionId, amount, status: 'pending', data: {}, payment: null };
    sessions.set(id, row);
    const provider = providerOf(provider_id);
    const input = { amount, currency_code, data: { session_id: id }, context: { idempotency_key: id } };
    const { value, error } = await one(call(provider.initiatePayment, provider, input));
    if (!value) {
      sessions.delete(id);
      throw error;
    }
    Object.assign(row, { data: value.data, status: value.status });
    return row;
  }
  async function deleteSession(id: string): Promise<void> {
    const row = sessions.get(id);
    if (!row) throw new Refused(404, 'not_found', 'There is no such payment session.');
    const provider = providerOf(row.provider_id);
    await call(provider.deletePayment, provider, { data: row.data });
    sessions.delete(id);
  }
  function updateCollection(id: string): void {
    const collection = collections.get(id)!;
    const all = sessionsOf(id);
    const authorized = sumOf(all.filter(({ status }) => status === 'authorized'));
    const captured = sumOf([...payments.values()].filter((row) => row.collection === id).flatMap(({ captures }) => captures));
    collection.status = all.length === 0 ? 'not_paid' : 'awaiting';
    if (authorized > 0) collection.status = authorized >= collection.amount ? 'authorized' : 'partially_authorized';
    if (captured >= collection.amount) collection.status = 'completed';
  }
  async function capture(payment: MedusaPayment, { amount = payment.amount, isCaptured = false } = {}): Promise<void> {
    if (payment.canceled_at) throw invalid('The payment has been canceled.');
    if (payment.captured_at) return;
    if (amount > payment.amount - sumOf(payment.captures)) throw invalid('You cannot capture more than the authorized amount.');
    const row = { amount };
    payment.captures.push(row);
    const isFull = sumOf(payment.captures) >= payment.amount;
    const provider = providerOfPayment(payment);
    const { error } = isCaptured ? { error: undefined } : await one(call(provider.capturePayment, provider, { data: payment.data }));
    if (error) {
      payment.captures.splice(payment.captures.indexOf(row), 1);
      throw error;
    }
    if (isFull) payment.captured_at = new Date();
    updateCollection(payment.collection);
  }
  /** Null: the money is on its way. */
  async function authorize(id: string): Promise<MedusaPayment | null> {
    const row = sessions.get(id);
    if (!row) throw new Refused(404, 'not_found', 'There is no such payment session.');
    if (row.payment) return row.payment;
    const provider = providerOf(row.provider_id);
    const { data, status } = await call(provider.authorizePayment, provider, { data: row.data, context: { idempotency_key: id } });
    // What was deleted meanwhile cannot be stored.
    if (!sessions.has(id)) throw new Refused(404, 'not_found', 'There is no such payment session.');
    Object.assign(row, { data, status: status === 'captured' ? 'authorized' : status });
    if (status === 'pending_authorization') {
      updateCollection(row.payment_collection_id);
      return null;
    }
    if (status !== 'authorized' && status !== 'captured') throw new Refused(400, 'not_allowed', 'The session was not authorized.');
    const payment: MedusaPayment = {
      ...{ id: newId('pay'), collection: row.payment_collection_id, session: id, amount: row.amount, data },
      ...{ captures: [], refunds: [], captured_at: null, canceled_at: null },
    };
    payments.set(payment.id, payment);
    row.payment = payment;
    if (status === 'captured') await capture(payment, { isCaptured: true });
    updateCollection(row.payment_collection_id);
    return payment;
  }
  async function refund(payment: MedusaPayment, amount: number): Promise<void> {
    if (amount > sumOf(payment.captures) - sumOf(payment.refunds)) throw invalid('You are not allowed to refund more than was captured.');
    const row = { amount };
    payment.refunds.push(row);
    const provider = providerOfPayment(payment);
    const input = { amount, data: payment.data, context: { idempotency_key: newId('ref') } };
    const { value, error } = await one(call(provider.refundPayment, provider, input));
    if (!value) {
      payment.refunds.splice(payment.refunds.indexOf(row), 1);
      throw error;
    }
    payment.data = value.data;
  }

  // The workflows.

  /** Tries all of them; those that were deleted are made again if one was not. */
  async function deleteSessions(rows: readonly Session[]): Promise<() => Promise<void>> {
    const results = await Promise.all(rows.map(async (row) => ({ row, ...(await one(deleteSession(row.id))) })));
    for (const { row, error } of results) if (error) log(`The payment session ${row.id} was not deleted: ${error}`);
    const undo = async () => {
      for (const { row, error } of results)
        if (!error) await createSession(row.payment_collection_id, row.provider_id).catch((reason) => log(String(reason)));
    };
    if (!results.some(({ error }) => error)) return undo;
    await undo();
    throw new Refused(500, 'unexpected_state', UNFIT);
  }
  async function startSession(collection: string, provider: string): Promise<void> {
    const before = sessionsOf(collection);
    const [created, deleted] = await Promise.all([one(createSession(collection, provider)), one(deleteSessions(before))]);
    if (created.value && deleted.value) return;
    if (created.value) await deleteSession(created.value.id).catch((reason) => log(String(reason)));
    await deleted.value?.();
    throw created.error ?? deleted.error;
  }
  const change = (cart: Cart, quantity: number) =>
    locked(cart.id, 2, async () => {
      if (cart.order) throw invalid('The cart is completed.');
      const before = cart.item.quantity;
      cart.item.quantity = quantity;
      const collection = cart.collection === null ? undefined : collections.get(cart.collection);
      if (!collection || collection.amount === quantity * PRICE) return;
      const { amount } = collection;
      collection.amount = quantity * PRICE;
      const { error } = await one(deleteSessions(sessionsOf(collection.id)));
      if (!error) return;
      collection.amount = amount;
      cart.item.quantity = before;
      throw error;
    });
  const complete = (cart: Cart): Promise<Order> =>
    locked(cart.id, 30, async () => {
      const [session] = cart.collection === null ? [] : sessionsOf(cart.collection).filter(({ status }) => PROCESSABLE.includes(status));
      if (!session) throw invalid('Payment sessions are required to complete cart');
      if (cart.order) return cart.order;
      const { customer_id, item } = cart;
      const items = [{ quantity: item.quantity }];
      const order = { id: newId('order'), status: 'pending', customer_id, items, collection: session.payment_collection_id };
      orders.set(order.id, order);
      cart.order = order;
      const { error } = await one(authorize(session.id));
      if (error) {
        orders.delete(order.id);
        cart.order = null;
        throw error;
      }
      return order;
    });
  async function cancel(order: Order): Promise<void> {
    if (order.status === 'canceled') throw invalid('The order is canceled.');
    const own = [...payments.values()].filter(({ collection }) => collection === order.collection);
    const results = await Promise.all(
      own.map(async (payment) => {
        if (payment.captures.length > 0) {
          const left = sumOf(payment.captures) - sumOf(payment.refunds);
          return left > 0 ? one(refund(payment, left)) : {};
        }
        const provider = providerOfPayment(payment);
        const { error } = await one(call(provider.cancelPayment, provider, { data: payment.data }));
        if (error) log(`The payment ${payment.id} was not canceled: ${error}`);
        else payment.canceled_at = new Date();
        return {};
      }),
    );
    const failed = results.find(({ error }) => error);
    if (failed) throw failed.error;
    collections.get(order.collection)!.status = 'canceled';
    order.status = 'canceled';
  }
  async function process({ action, data }: { action: string; data?: { session_id: string; amount: string } }): Promise<void> {
    const session = sessions.get(data?.session_id ?? '');
    if (!data || !session || (action !== 'captured' && action !== 'authorized')) return;
    const { cart } = collections.get(session.payment_collection_id)!;
    const { payment } = session;
    const order = cart.order;
    await locked(cart.id, 30, async () => {
      const amount = Number(data.amount);
      if (action === 'captured') {
        const paid = payment ?? (await authorize(session.id));
        if (paid) await capture(paid, { amount });
      } else if (order && !payment) await authorize(session.id);
    });
    if (!order) await complete(cart);
  }

  const { url, stop } = await serve((request, reply, body) => {
    const rawData = body.toString();
    reply.writeHead(200).end();
    setTimeout(async () => {
      const payload = { data: JSON.parse(rawData), rawData, headers: request.headers as Data };
      const { error } = await one(florin.getWebhookActionAndData(payload as never).then((result) => process(result as never)));
      if (error) log(String(error));
    }, webhookDelayMs);
  });

  const shown = (order: Order) => ({
    ...order,
    payment_collections: [{ payments: [...payments.values()].filter(({ collection }) => collection === order.collection) }],
  });
  const routes: readonly [RegExp, (body: any, id: string) => Promise<object>][] = [
    [
      /^\/store\/carts$/,
      async ({ items: [{ quantity }] }) => {
        const item = { id: newId('item'), quantity };
        const cart: Cart = { id: newId('cart'), customer_id: newId('cus'), item, collection: null, order: null };
        carts.set(cart.id, cart);
        return { cart };
      },
    ],
    [/^\/store\/carts\/(\w+)\?/, async (_, id) => ({ cart: { id, items: [carts.get(id)!.item] } })],
    [
      /^\/store\/payment-collections$/,
      async ({ cart_id }) => {
        const cart = carts.get(cart_id)!;
        const amount = cart.item.quantity * PRICE;
        const collection = { id: newId('paycol'), cart, amount, currency_code: 'eur', status: 'not_paid' };
        collections.set(collection.id, collection);
        cart.collection = collection.id;
        return { payment_collection: { id: collection.id } };
      },
    ],
    [
      /^\/store\/payment-collections\/(\w+)\/payment-sessions$/,
      async ({ provider_id }, id) => ({ done: await startSession(id, provider_id) }),
    ],
    [/^\/store\/carts\/(\w+)\/line-items\/\w+$/, async ({ quantity }, id) => ({ done: await change(carts.get(id)!, quantity) })],
    [
      /^\/store\/carts\/(\w+)\/complete$/,
      async (_, id) => {
        const { value, error } = await one(complete(carts.get(id)!));
        if (value) return { order: { id: value.id } };
        const { type, message } = error as Refused;
        if (!ANSWERED.includes(type)) throw error;
        return { error: { type, message } };
      },
    ],
    [/^\/admin\/payments\/(\w+)\/capture$/, async (_, id) => ({ done: await capture(payments.get(id)!) })],
    [/^\/admin\/payments\/(\w+)\/refund$/, async ({ amount }, id) => ({ done: await refund(payments.get(id)!, amount) })],
    [/^\/admin\/orders\/(\w+)\/cancel$/, async (_, id) => ({ done: await cancel(orders.get(id)!) })],
    [
      /^\/admin\/orders\?customer_id=(\w+)/,
      async (_, id) => ({ orders: [...orders.values()].filter(({ customer_id }) => customer_id === id).map(shown) }),
    ],
  ];
  const ask = async (path: string, body: object = {}) => {
    for (const [pattern, handle] of routes) {
      const found = pattern.exec(path);
      if (!found) continue;
      const { value, error } = await one(handle(body, found[1] ?? ''));
      if (value) return { status: 200, ...structuredClone(value) };
      const { type, message } = error as Refused;
      const status = error instanceof Refused ? error.status : type === 'unexpected_state' ? 500 : 400;
      return { status, type, message };
    }
    throw new Error(`The scripted store has no ${path}.`);
  };
  return { url, output: () => output, ask, region: 'reg_1', variant: 'variant_1', stop };
}
