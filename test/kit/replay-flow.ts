/** Replays what a plugin did in a recording: its calls in order, the payment between them, and the webhooks that it received. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { eventually } from './app.ts';
import { checkReads, type Flow, type FlowCall, type FlowWebhook, type Hit, type Hook, ok, type ShopClient } from './shop-flows.ts';

/** What differs between the protocols of a recording. */
type Protocol = {
  /** The header that signs webhooks, and its value. */
  header: string;
  sign(secret: string, text: string): string;
  /** The call that creates what the customer pays. */
  creates: RegExp;
  /** The payment in the answer to a call, the event in a webhook, and its payment. */
  made(json: any): any;
  eventOf(body: any): any;
  paymentOf(event: any): string;
  /** The events of a payment in time that every recording of the protocol leads to. */
  inTime: readonly string[];
  /** The first of them that says that money arrived, and the one that it is confirmed. */
  arrived: string;
  confirmed: string;
};
const hmac = (secret: string, text: string): string => createHmac('sha256', secret).update(text).digest('hex');
export const PROTOCOLS = {
  greenfield: {
    header: 'btcpay-sig',
    sign: (secret, text) => `sha256=${hmac(secret, text)}`,
    creates: /\/invoices$/,
    made: (json) => json,
    eventOf: (body) => body,
    paymentOf: ({ invoiceId }) => invoiceId,
    inTime: ['InvoiceCreated', 'InvoiceReceivedPayment', 'InvoiceProcessing', 'InvoicePaymentSettled', 'InvoiceSettled'],
    arrived: 'InvoiceReceivedPayment',
    confirmed: 'InvoicePaymentSettled',
  },
  commerce: {
    header: 'x-cc-webhook-signature',
    sign: hmac,
    creates: /\/charges$/,
    made: ({ data }) => data,
    eventOf: ({ event }) => event,
    paymentOf: ({ data }) => data.id,
    inTime: ['charge:created', 'charge:pending', 'charge:confirmed'],
    arrived: 'charge:pending',
    confirmed: 'charge:confirmed',
  },
} as const satisfies Readonly<Record<string, Protocol>>;

/** A shop for a replay, and what its customers and the chain do. */
export type FlowShop = {
  protocol: Protocol;
  key: string;
  store: string;
  /** The secret of its webhooks, if it does not create one itself. */
  secret?: string;
  /** Calls below the address of the protocol. */
  call: ShopClient;
  hook: Hook;
  /** The customer pays in full, in Bitcoin. */
  pay(id: string): Promise<void>;
  /** The payment gets its confirmations. */
  confirm(id: string): Promise<void>;
  /** The payment ends without money, and the customer pays in full after that. */
  payLate(id: string): Promise<void>;
};

/** The types of the events of a payment that the shop took, each with its signature checked. */
const hitsOf = ({ hook, protocol }: FlowShop, id: string): Hit[] =>
  hook.hits.filter(({ event }) => protocol.paymentOf(protocol.eventOf(event)) === id);
const typesOf = (shop: FlowShop, id: string): string[] => hitsOf(shop, id).map(({ event }) => shop.protocol.eventOf(event).type);
const taken = (shop: FlowShop, id: string, type: string) =>
  eventually(
    async () => typesOf(shop, id),
    (types) => types.includes(type),
    60_000,
  );

const isCreation = ({ creates }: Protocol, { request: { method, path } }: FlowCall): boolean => method === 'POST' && creates.test(path);

/** How far the payment was in the recording: 0 unpaid, 1 seen, 2 confirmed. */
function progressOf(step: FlowCall | FlowWebhook, { eventOf, inTime, confirmed }: Protocol): number {
  if (step.kind === 'webhook') return inTime.indexOf(eventOf(step.request.body).type) < inTime.indexOf(confirmed) ? 1 : 2;
  // Without its webhook, the shop would miss the rest.
  if (step.request.method === 'DELETE') return 2;
  const methods: any[] = Array.isArray(step.reply.body) ? step.reply.body : [];
  const states = methods.flatMap(({ payments = [] }) => payments.map(({ status }: { status: string }) => status));
  return states.length === 0 ? 0 : states.includes('Processing') ? 1 : 2;
}

/** The webhook as recorded: its fields and flags, and the metadata that the plugin sent. Identifiers, times and amounts differ. */
function checkWebhook(shop: FlowShop, { hit, recorded, metadata }: { hit: Hit; recorded: any; metadata: object }): void {
  const { eventOf } = shop.protocol;
  assert.deepEqual(Object.keys(hit.event).sort(), Object.keys(recorded).sort());
  assert.equal(hit.event.attempt_number, recorded.attempt_number);
  const [event, expected] = [eventOf(hit.event), eventOf(recorded)];
  assert.deepEqual(Object.keys(event).sort(), Object.keys(expected).sort());
  assert.equal(event.type, expected.type);
  assert.deepEqual((event.data ?? event).metadata, metadata);
  for (const flag of ['overPaid', 'manuallyMarked', 'afterExpiration', 'isRedelivery', 'paymentMethodId'])
    assert.equal(event[flag], expected[flag], `${event.type} ${flag}`);
  const statuses = ({ data }: any): string[] | undefined => data?.timeline.map(({ status }: { status: string }) => status);
  assert.deepEqual(statuses(event), statuses(expected));
  if (!expected.payment) return;
  assert.deepEqual(Object.keys(event.payment).sort(), Object.keys(expected.payment).sort());
  assert.equal(event.payment.status, expected.payment.status);
  assert.match(event.payment.id, /^[0-9a-f]{64}-\d+$/);
  assert.ok(Number.isInteger(event.payment.receivedDate));
}

/** Returns the payment as it was created, and the webhooks about it. */
export async function replayFlow(shop: FlowShop, { steps }: Flow): Promise<{ made: any; hits: Hit[] }> {
  const { protocol } = shop;
  const known: Record<string, string> = { KEY: shop.key, STORE: shop.store };
  const fill = (text: string) => text.replace(/\{(KEY|STORE|INVOICE|WEBHOOK)\}/g, (_, part: string) => known[part] ?? '');
  const sites: string[] = [];
  let secret = shop.secret;
  let subscribed: readonly string[] = protocol.inTime;
  let methods: string[] = [];
  let created: { body: any; made: any } | null = null;
  let progress = 0;
  let next = 0;
  const reach = async (wanted: number) => {
    if (created === null || wanted <= progress) return;
    const { id } = created.made;
    if (progress === 0) await shop.pay(id);
    await taken(shop, id, protocol.arrived);
    if (wanted === 2) await shop.confirm(id);
    if (wanted === 2) await taken(shop, id, protocol.inTime.at(-1)!);
    progress = wanted;
  };
  const create = async (step: FlowCall, body: any): Promise<any> => {
    const { status, json, text } = await shop.call('POST', fill(step.request.path), body);
    assert.equal(status, step.reply.status, text);
    checkReads(step, json);
    const made = protocol.made(json);
    assert.deepEqual(made.metadata, body.metadata);
    if (body.checkout) {
      assert.equal(made.checkout.redirectURL, body.checkout.redirectURL);
      assert.ok(made.checkoutLink.endsWith(`/btcpay/i/${made.id}`), made.checkoutLink);
    }
    return made;
  };
  const bodyOf = ({ request: { path, body } }: FlowCall): any => {
    if (!body) return undefined;
    if (path.endsWith('/webhooks')) {
      const { origin, pathname, search } = new URL(body.url);
      sites.push(decodeURI(pathname + search));
      return { ...body, url: body.url.replace(origin, new URL(shop.hook.url).origin) };
    }
    // The plugin names the methods that it found.
    const named = (text: string) => methods.map((method) => method.replace('-', text));
    if (body.checkout?.paymentMethods) return { ...body, checkout: { ...body.checkout, paymentMethods: named('_') } };
    if (body.payoutMethods) return { ...body, paymentMethods: named('_'), payoutMethods: named('_') };
    return body;
  };
  for (const step of steps) {
    await reach(progressOf(step, protocol));
    if (step.kind === 'webhook') {
      const wanted = protocol.eventOf(step.request.body).type;
      await taken(shop, created!.made.id, wanted);
      const hits = hitsOf(shop, created!.made.id).filter(({ event }) => protocol.eventOf(event).type !== protocol.inTime[0]);
      checkWebhook(shop, { hit: hits[next++]!, recorded: step.request.body, metadata: created!.body.metadata });
      continue;
    }
    const { method, path } = step.request;
    const body = bodyOf(step);
    if (isCreation(protocol, step)) {
      const made = await create(step, body);
      created = { body, made };
      known.INVOICE = made.id;
      continue;
    }
    if (path.endsWith('/status')) {
      // Only money that waits for the merchant can be accepted.
      const creation = steps.find((one): one is FlowCall => one.kind === 'call' && isCreation(protocol, one))!;
      const late = await create(creation, created!.body);
      await shop.payLate(late.id);
      await taken(shop, late.id, protocol.arrived);
      checkReads(step, ok(await shop.call(method, fill(path).replace(known.INVOICE!, late.id), body)));
      await shop.confirm(late.id);
      await taken(shop, late.id, protocol.inTime.at(-1)!);
      continue;
    }
    const read = ok(await shop.call(method, fill(path), body));
    checkReads(step, read);
    if (method === 'GET' && /\/stores\/[^/]+\/payment-methods$/.test(path))
      methods = read.map(({ paymentMethodId }: { paymentMethodId: string }) => paymentMethodId);
    if (method === 'POST' && path.endsWith('/webhooks')) {
      known.WEBHOOK = read.id;
      secret = read.secret;
      if (body.secret) assert.equal(secret, body.secret, 'the secret of the plugin is taken as it is');
      const { everything, specificEvents } = body.authorizedEvents;
      if (!everything) subscribed = protocol.inTime.filter((type) => specificEvents.includes(type));
    }
  }
  await reach(2);
  const { id } = created!.made;
  const hits = hitsOf(shop, id);
  assert.deepEqual(typesOf(shop, id), subscribed);
  for (const { text, signature, path } of hits) {
    assert.equal(signature, protocol.sign(secret!, text));
    if (sites.length > 0) assert.ok(sites.includes(decodeURI(path)), path);
  }
  assert.ok(!shop.hook.hits.some(({ text }) => text.includes('PaidLate')));
  return { made: created!.made, hits };
}
