/** The commands: each gets its arguments and options and returns its result. */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { FlorinError } from '../errors.ts';
import { pause, withoutEndSlashes } from '../request.ts';
import { showControls } from '../text.ts';
import type {
  Coin,
  CreatePaymentLinkParams,
  CreatePaymentParams,
  CreatePayoutParams,
  CreateWebhookEndpointParams,
  ListDeliveriesParams,
  ListEventsParams,
  ListPaymentsParams,
  ListPayoutsParams,
  ListRefundsParams,
  Payment,
  PaymentEvent,
  PaymentEventType,
  Scenario,
} from '../types.ts';
import { verify } from '../webhooks.ts';
import { forward, intervalOf, listen } from './listen.ts';
import { describeRequest, tail } from './logs.ts';
import {
  asPoll,
  connect,
  didYouMean,
  type Flags,
  forwardingSecret,
  line,
  need,
  note,
  numberOf,
  type OptionName,
  serviceKey,
  serviceUrl,
  table,
  toUrl,
  UsageError,
} from './terminal.ts';

export type Result = {
  /** What `--json` prints; undefined when everything is printed already. */
  json?: unknown;
  /** What people read; default: the JSON, one line per value. */
  text?: string;
  failed?: boolean;
};
export type Command = {
  usage: string;
  about: string;
  options: readonly OptionName[];
  run: (words: readonly string[], flags: Flags) => Promise<Result>;
};

const word = (words: readonly string[], name: string): string => {
  if (words.length > 1) throw new UsageError(`Unexpected argument "${words[1]}"`);
  if (!words[0]) throw new UsageError(`Missing argument: ${name}`);
  return words[0];
};
const none = (words: readonly string[]): void => {
  if (words.length > 0) throw new UsageError(`Unexpected argument "${words[0]}"`);
};
/** The idempotency key that makes it safe to run the command again. */
const onceOf = ({ 'idempotency-key': idempotencyKey }: Flags) => (idempotencyKey === undefined ? {} : { idempotencyKey });
const pageOf = (flags: Flags) => ({ limit: numberOf(flags, 'limit'), starting_after: flags['starting-after'] });
const coinOf = (flags: Flags): Coin | undefined => flags.currency?.toUpperCase() as Coin | undefined;

const metadataOf = (flags: Flags): Record<string, string> =>
  Object.fromEntries(
    (flags.metadata ?? []).map((pair) => {
      const at = pair.indexOf('=');
      if (at < 1) throw new UsageError('--metadata must look like name=value');
      return [pair.slice(0, at), pair.slice(at + 1)];
    }),
  );

/** What `payments create` and `trigger` share. */
const paramsOf = (flags: Flags): Omit<CreatePaymentParams, 'amount' | 'currency'> => ({
  return_url: flags['return-url'],
  description: flags.description,
  metadata: flags.metadata && metadataOf(flags),
  invoice_id: flags['invoice-id'],
  expires_in: numberOf(flags, 'expires-in'),
});

async function createPayment(words: readonly string[], flags: Flags): Promise<Result> {
  none(words);
  const customer = { email: flags['customer-email'], name: flags['customer-name'], reference: flags['customer-reference'] };
  const params: CreatePaymentParams = {
    ...{ amount: need(flags, 'amount'), currency: need(flags, 'currency'), ...paramsOf(flags) },
    ...{ crypto: flags.crypto, network: flags.network as CreatePaymentParams['network'], payment_address: flags['payment-address'] },
    ...(Object.values(customer).some((value) => value !== undefined) && { customer }),
  };
  return { json: await connect(flags).payments.create(params, onceOf(flags)) };
}

/** Problems of a stream, on standard error. */
const troubleOf =
  (flags: Flags) =>
  (message: string): void =>
    note(flags.json ? JSON.stringify({ warning: message }) : showControls(message));

type Trigger = { scenario: Scenario | null; event: PaymentEventType; cancel?: true };
/** Which scenario causes an event; scenarios also by their own names, with the last event of each. */
const TRIGGERS: Readonly<Record<string, Trigger>> = {
  'payment.created': { scenario: null, event: 'payment.created' },
  'payment.processing': { scenario: 'slow', event: 'payment.processing' },
  'payment.completed': { scenario: 'success', event: 'payment.completed' },
  'payment.failed': { scenario: 'failed', event: 'payment.failed' },
  'payment.expired': { scenario: 'expired', event: 'payment.expired' },
  'payment.cancelled': { scenario: null, event: 'payment.cancelled', cancel: true },
  'payment.updated': { scenario: 'underpaid', event: 'payment.updated' },
  'payment.reversed': { scenario: 'reversed', event: 'payment.reversed' },
  success: { scenario: 'success', event: 'payment.completed' },
  slow: { scenario: 'slow', event: 'payment.processing' },
  failed: { scenario: 'failed', event: 'payment.failed' },
  underpaid: { scenario: 'underpaid', event: 'payment.updated' },
  overpaid: { scenario: 'overpaid', event: 'payment.completed' },
  late: { scenario: 'late', event: 'payment.expired' },
  wrong_network: { scenario: 'wrong_network', event: 'payment.updated' },
  wrong_token: { scenario: 'wrong_token', event: 'payment.updated' },
  reorg: { scenario: 'reorg', event: 'payment.completed' },
  replaced: { scenario: 'replaced', event: 'payment.updated' },
  expired: { scenario: 'expired', event: 'payment.expired' },
  reversed: { scenario: 'reversed', event: 'payment.reversed' },
};
export const TRIGGER_NAMES: readonly string[] = Object.keys(TRIGGERS);
const HAPPENS_WITHIN_MS = 15_000;

async function trigger(words: readonly string[], flags: Flags): Promise<Result> {
  const name = word(words, `an event or scenario: ${TRIGGER_NAMES.join(', ')}`);
  const wanted = Object.hasOwn(TRIGGERS, name) ? TRIGGERS[name]! : undefined;
  if (!wanted) throw new UsageError(`Unknown event "${name}".${didYouMean(name, TRIGGER_NAMES)} Known: ${TRIGGER_NAMES.join(', ')}`);
  if (/^(sk_live_|live_sk_)/.test(serviceKey(flags))) throw new UsageError('trigger creates test payments: use a test key');
  const client = connect(flags);
  const { id, payment_url } = await client.payments.create({ amount: flags['amount-usd'] ?? '25.00', currency: 'USD', ...paramsOf(flags) });
  const currency = coinOf(flags);
  if (wanted.scenario) await client.test.simulate(id, { scenario: wanted.scenario, ...(currency && { currency }) });
  if (wanted.cancel) await client.payments.cancel(id);
  const end = performance.now() + HAPPENS_WITHIN_MS;
  let events: PaymentEvent[] = [];
  while (!events.some((event) => event.type === wanted.event)) {
    if (performance.now() > end) throw new FlorinError(`${wanted.event} was not sent for ${id} within ${HAPPENS_WITHIN_MS / 1000} s`);
    events = (await client.events.list({ payment_id: id, limit: 100 })).data.reverse();
    await pause(250);
  }
  const { status, exception } = await client.payments.retrieve(id);
  return {
    json: {
      payment_id: id,
      payment_url,
      scenario: wanted.scenario,
      status,
      exception,
      events: events.map(({ id, type }) => ({ id, type })),
    },
  };
}

async function listenCommand(words: readonly string[], flags: Flags): Promise<Result> {
  none(words);
  const key = serviceKey(flags);
  const secret = forwardingSecret(key);
  if (flags['print-secret']) return { json: { secret }, text: secret };
  const url = toUrl(need(flags, 'forward-to'), '--forward-to');
  if (/^(sk_live_|live_sk_)/.test(key) && !flags.live) {
    throw new UsageError('This is a live key: events of real payments would be sent to this machine. Add --live if you mean it');
  }
  const wanted = flags.events?.split(',').map((type) => type.trim());
  let limit: number | null = null;
  const client = connect(
    flags,
    (response) => {
      limit = response.limitPerMinute;
    },
    asPoll,
  );
  const stopped = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stopped.abort());
  await listen({
    client,
    wants: (type) => wanted?.includes(type) ?? true,
    interval: () => intervalOf(limit),
    onReady: () => {
      if (flags.json) line(JSON.stringify({ ready: true, forward_to: url, secret }));
      else line(`Ready. Forwarding events from ${serviceUrl(flags)} to ${url}\nSigning secret: ${secret}\n`);
    },
    onEvent: async ({ id }) => {
      const result = await forward({ raw: await client.events.retrieveRaw(id), url, secret });
      if (flags.json) line(JSON.stringify(result));
      else
        line(
          showControls(`${result.type}  ${result.payment_id}  ${result.id}  ${result.failure ?? result.status}  ${result.duration_ms} ms`),
        );
    },
    onTrouble: troubleOf(flags),
    signal: stopped.signal,
  });
  return {};
}

async function tailCommand(words: readonly string[], flags: Flags): Promise<Result> {
  none(words);
  let limit: number | null = null;
  const client = connect(flags, (response) => {
    limit = response.limitPerMinute;
  });
  const stopped = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stopped.abort());
  await tail({
    client,
    filter: { ...(flags.failed && { outcome: 'failed' }), status: numberOf(flags, 'status'), path: flags.path },
    interval: () => intervalOf(limit),
    onReady: () => {
      if (flags.json) line(JSON.stringify({ ready: true }));
      else note(`Showing requests to ${serviceUrl(flags)}. Stop with Ctrl+C.`);
    },
    onRequest: (request) => line(flags.json ? JSON.stringify(request) : describeRequest(request)),
    onTrouble: troubleOf(flags),
    signal: stopped.signal,
  });
  return {};
}

async function logsList(words: readonly string[], flags: Flags): Promise<Result> {
  none(words);
  const page = await connect(flags).requests.list({
    limit: numberOf(flags, 'limit'),
    starting_after: flags['starting-after'],
    ...(flags.failed && { outcome: 'failed' }),
    status: numberOf(flags, 'status'),
    path: flags.path,
  });
  return { json: page, text: page.data.map(describeRequest).join('\n') };
}

async function resend(words: readonly string[], flags: Flags): Promise<Result> {
  const id = word(words, 'event ID');
  const client = connect(flags);
  if (flags['forward-to'] !== undefined) {
    const url = toUrl(flags['forward-to'], '--forward-to');
    const result = await forward({ raw: await client.events.retrieveRaw(id), url, secret: forwardingSecret(serviceKey(flags)) });
    return { json: result, failed: result.failure !== null };
  }
  const deliveries = await client.webhookDeliveries.list({ event_id: id, limit: 100 });
  const sent = [];
  for (const delivery of deliveries.data) {
    const { id, endpoint_id, state } = await client.webhookDeliveries.resend(delivery.id);
    sent.push({ id, endpoint_id, state });
  }
  if (sent.length === 0) throw new FlorinError(`${id} was not sent to any endpoint. To send it to this machine, add --forward-to URL`);
  return { json: { event_id: id, deliveries: sent } };
}

async function verifyCommand(words: readonly string[], flags: Flags): Promise<Result> {
  none(words);
  const headers = Object.fromEntries(
    (flags.header ?? []).map((text) => {
      const at = text.indexOf(':');
      if (at < 1) throw new UsageError(`--header must look like 'name: value'`);
      return [text.slice(0, at).trim().toLowerCase(), text.slice(at + 1).trim()];
    }),
  );
  const body = need(flags, 'body');
  const tolerance = numberOf(flags, 'tolerance');
  const event = await verify(readFileSync(body === '-' ? 0 : body), headers, need(flags, 'secret'), {
    legacy: flags.legacy ? 'accept' : 'reject',
    ...(tolerance !== undefined && { toleranceSeconds: tolerance }),
  });
  return { json: { valid: true, id: event.id, type: event.type, created_at: event.created_at } };
}

async function open(words: readonly string[], flags: Flags): Promise<Result> {
  const base = withoutEndSlashes(serviceUrl(flags));
  const [what = 'docs', ...more] = words;
  none(more);
  const pages: Readonly<Record<string, string>> = { docs: '/docs', errors: '/docs/errors', openapi: '/openapi.json', status: '/readyz' };
  let url: string;
  if (what.startsWith('pay_')) ({ payment_url: url } = await connect(flags).payments.retrieve(what));
  else if (Object.hasOwn(pages, what)) url = base + pages[what];
  else
    throw new UsageError(
      `Unknown page "${what}".${didYouMean(what, Object.keys(pages))} Known: ${Object.keys(pages).join(', ')}, or a payment ID`,
    );
  if (!flags.json) {
    const program = process.platform === 'darwin' ? 'open' : 'xdg-open';
    // Without a desktop the printed address is the result.
    spawn(program, [url], { stdio: 'ignore', detached: true })
      .on('error', () => {})
      .unref();
  }
  return { json: { url }, text: url };
}

const paymentRows = (rows: readonly Pick<Payment, 'id' | 'status' | 'amount_usd' | 'currency' | 'created_at' | 'exception'>[]): string =>
  table([
    ['id', 'status', 'usd', 'coin', 'created', 'exception'],
    ...rows.map((row) => [row.id, row.status, row.amount_usd, row.currency ?? '–', row.created_at, row.exception ?? '–']),
  ]);

export const COMMANDS: Readonly<Record<string, Command>> = {
  listen: {
    usage: 'listen --forward-to URL',
    about: 'forward events to a program on this machine',
    options: ['forward-to', 'events', 'print-secret', 'live'],
    run: listenCommand,
  },
  trigger: {
    usage: 'trigger EVENT|SCENARIO',
    about: 'create a test payment and trigger this event',
    options: ['currency', 'amount-usd', 'return-url', 'description', 'metadata', 'invoice-id', 'expires-in'],
    run: trigger,
  },
  'payments create': {
    usage: 'payments create --amount AMOUNT --currency CODE',
    about: 'create a payment',
    options: [
      ...(['amount', 'currency', 'crypto', 'network', 'description', 'customer-email', 'customer-name', 'customer-reference'] as const),
      ...(['return-url', 'metadata', 'invoice-id', 'expires-in', 'payment-address', 'idempotency-key'] as const),
    ],
    run: createPayment,
  },
  'payments get': {
    usage: 'payments get ID',
    about: 'show a payment',
    options: [],
    run: async (words, flags) => ({ json: await connect(flags).payments.retrieve(word(words, 'payment ID')) }),
  },
  'payments list': {
    usage: 'payments list',
    about: 'list payments, newest first',
    options: ['limit', 'status', 'currency', 'invoice-id', 'metadata', 'amount', 'created-after', 'created-before', 'starting-after'],
    run: async (words, flags) => {
      none(words);
      const page = await connect(flags).payments.list({
        limit: numberOf(flags, 'limit'),
        status: flags.status as ListPaymentsParams['status'],
        currency: coinOf(flags),
        invoice_id: flags['invoice-id'],
        metadata: flags.metadata && metadataOf(flags),
        amount: flags.amount,
        created_after: flags['created-after'],
        created_before: flags['created-before'],
        starting_after: flags['starting-after'],
      });
      return {
        json: page,
        text: `${paymentRows(page.data)}\n${page.data.length} of ${page.total_count_capped ? 'more than ' : ''}${page.total_count}`,
      };
    },
  },
  'payments cancel': {
    usage: 'payments cancel ID',
    about: 'cancel a pending payment',
    options: [],
    run: async (words, flags) => ({ json: await connect(flags).payments.cancel(word(words, 'payment ID')) }),
  },
  'links create': {
    usage: 'links create NAME',
    about: 'create a payment link; without --amount, the customer chooses it',
    options: ['amount', 'currency', 'return-url', 'ask-email', 'one-payment', 'idempotency-key'],
    run: async (words, flags) => {
      const params: CreatePaymentLinkParams = {
        ...{ name: word(words, 'name'), amount: flags.amount, currency: flags.currency as CreatePaymentLinkParams['currency'] },
        ...{ return_url: flags['return-url'], ask_email: flags['ask-email'], reusable: !flags['one-payment'] },
      };
      return { json: await connect(flags).paymentLinks.create(params, onceOf(flags)) };
    },
  },
  'links get': {
    usage: 'links get ID',
    about: 'show a payment link',
    options: [],
    run: async (words, flags) => ({ json: await connect(flags).paymentLinks.retrieve(word(words, 'link ID')) }),
  },
  'links list': {
    usage: 'links list',
    about: 'list payment links, newest first',
    options: ['limit', 'starting-after'],
    run: async (words, flags) => {
      none(words);
      const page = await connect(flags).paymentLinks.list(pageOf(flags));
      const rows = page.data.map((row) => [
        ...[row.id, row.state, row.amount === null ? '–' : `${row.amount} ${row.currency}`],
        ...[String(row.payments), row.name],
      ]);
      return { json: page, text: table([['id', 'state', 'amount', 'payments', 'name'], ...rows]) };
    },
  },
  'links archive': {
    usage: 'links archive ID',
    about: 'archive a payment link: it creates no more payments',
    options: [],
    run: async (words, flags) => ({ json: await connect(flags).paymentLinks.update(word(words, 'link ID'), { state: 'archived' }) }),
  },
  'customers get': {
    usage: 'customers get ID',
    about: 'show a customer',
    options: [],
    run: async (words, flags) => ({ json: await connect(flags).customers.retrieve(word(words, 'customer ID')) }),
  },
  'customers list': {
    usage: 'customers list',
    about: 'list customers, newest first',
    options: ['limit', 'email', 'reference', 'starting-after'],
    run: async (words, flags) => {
      none(words);
      const page = await connect(flags).customers.list({ ...pageOf(flags), email: flags.email, reference: flags.reference });
      const rows = page.data.map((row) => [row.id, row.email ?? '–', row.name ?? '–', row.reference ?? '–', row.created_at]);
      return { json: page, text: table([['id', 'email', 'name', 'reference', 'created'], ...rows]) };
    },
  },
  'refunds create': {
    usage: 'refunds create PAYMENT_ID',
    about: 'request a refund of everything that is left, or of an amount',
    options: ['amount-usd', 'address', 'reason', 'idempotency-key'],
    run: async (words, flags) => {
      const params = {
        payment_id: word(words, 'payment ID'),
        amount_usd: flags['amount-usd'],
        address: flags.address,
        reason: flags.reason,
      };
      return { json: await connect(flags).refunds.create(params, onceOf(flags)) };
    },
  },
  'refunds get': {
    usage: 'refunds get ID',
    about: 'show a refund',
    options: [],
    run: async (words, flags) => ({ json: await connect(flags).refunds.retrieve(word(words, 'refund ID')) }),
  },
  'refunds list': {
    usage: 'refunds list',
    about: 'list refunds, newest first',
    options: ['limit', 'status', 'payment', 'starting-after'],
    run: async (words, flags) => {
      none(words);
      const page = await connect(flags).refunds.list({
        ...pageOf(flags),
        status: flags.status as ListRefundsParams['status'],
        payment_id: flags.payment,
      });
      const rows = page.data.map((row) => [row.id, row.status, row.amount, row.currency, row.payment_id, row.created_at]);
      return { json: page, text: table([['id', 'status', 'amount', 'coin', 'payment', 'created'], ...rows]) };
    },
  },
  'refunds cancel': {
    usage: 'refunds cancel ID',
    about: 'cancel a refund that was not approved',
    options: [],
    run: async (words, flags) => ({ json: await connect(flags).refunds.cancel(word(words, 'refund ID')) }),
  },
  'payouts create': {
    usage: 'payouts create --currency COIN --amount AMOUNT --address ADDRESS',
    about: 'request a payout',
    options: ['currency', 'network', 'amount', 'amount-usd', 'address', 'payout-reference', 'description', 'idempotency-key'],
    run: async (words, flags) => {
      none(words);
      const params = {
        ...{ currency: need(flags, 'currency').toUpperCase() as Coin, network: flags.network as CreatePayoutParams['network'] },
        ...{ amount: flags.amount, amount_usd: flags['amount-usd'], address: need(flags, 'address') },
        ...{ payout_reference: flags['payout-reference'], description: flags.description },
      };
      return { json: await connect(flags).payouts.create(params, onceOf(flags)) };
    },
  },
  'payouts get': {
    usage: 'payouts get ID',
    about: 'show a payout',
    options: [],
    run: async (words, flags) => ({ json: await connect(flags).payouts.retrieve(word(words, 'payout ID')) }),
  },
  'payouts list': {
    usage: 'payouts list',
    about: 'list payouts, newest first',
    options: ['limit', 'status', 'payout-reference', 'starting-after'],
    run: async (words, flags) => {
      none(words);
      const page = await connect(flags).payouts.list({
        ...pageOf(flags),
        status: flags.status as ListPayoutsParams['status'],
        payout_reference: flags['payout-reference'],
      });
      const rows = page.data.map((row) => [row.id, row.status, row.amount, row.currency, row.payout_reference ?? '–', row.created_at]);
      return { json: page, text: table([['id', 'status', 'amount', 'coin', 'reference', 'created'], ...rows]) };
    },
  },
  'payouts cancel': {
    usage: 'payouts cancel ID',
    about: 'cancel a payout that was not approved',
    options: [],
    run: async (words, flags) => ({ json: await connect(flags).payouts.cancel(word(words, 'payout ID')) }),
  },
  'endpoints create': {
    usage: 'endpoints create URL',
    about: 'create a webhook endpoint, and show its signing secret once',
    options: ['events', 'description', 'idempotency-key'],
    run: async (words, flags) => {
      const events = flags.events?.split(',') as CreateWebhookEndpointParams['events'];
      const params = { url: word(words, 'URL'), events, description: flags.description };
      return { json: await connect(flags).webhookEndpoints.create(params, onceOf(flags)) };
    },
  },
  'endpoints get': {
    usage: 'endpoints get ID',
    about: 'show a webhook endpoint',
    options: [],
    run: async (words, flags) => ({ json: await connect(flags).webhookEndpoints.retrieve(word(words, 'endpoint ID')) }),
  },
  'endpoints list': {
    usage: 'endpoints list',
    about: 'list webhook endpoints, newest first',
    options: [],
    run: async (words, flags) => {
      none(words);
      const page = await connect(flags).webhookEndpoints.list();
      const rows = page.data.map((row) => [row.id, row.enabled ? 'enabled' : 'disabled', row.events.join(','), row.url]);
      return { json: page, text: table([['id', 'state', 'events', 'url'], ...rows]) };
    },
  },
  'endpoints test': {
    usage: 'endpoints test ID',
    about: 'send a test event to a webhook endpoint',
    options: [],
    run: async (words, flags) => ({ json: await connect(flags).webhookEndpoints.sendTest(word(words, 'endpoint ID')) }),
  },
  'endpoints delete': {
    usage: 'endpoints delete ID',
    about: 'delete a webhook endpoint',
    options: [],
    run: async (words, flags) => ({ json: await connect(flags).webhookEndpoints.delete(word(words, 'endpoint ID')) }),
  },
  'events list': {
    usage: 'events list',
    about: 'list events, newest first',
    options: ['limit', 'type', 'payment', 'starting-after'],
    run: async (words, flags) => {
      none(words);
      const page = await connect(flags).events.list({
        limit: numberOf(flags, 'limit'),
        type: flags.type as ListEventsParams['type'],
        payment_id: flags.payment,
        starting_after: flags['starting-after'],
      });
      const rows = page.data.map((event) => [event.id, event.type, event.data.id, event.data.status, event.created_at]);
      return { json: page, text: table([['id', 'type', 'payment', 'status', 'created'], ...rows]) };
    },
  },
  'events resend': {
    usage: 'events resend ID',
    about: 'send an event again, to its endpoints or to a program on this machine',
    options: ['forward-to'],
    run: resend,
  },
  'deliveries list': {
    usage: 'deliveries list',
    about: 'list webhook deliveries, newest first',
    options: ['limit', 'state', 'event', 'endpoint', 'starting-after'],
    run: async (words, flags) => {
      none(words);
      const page = await connect(flags).webhookDeliveries.list({
        limit: numberOf(flags, 'limit'),
        state: flags.state as ListDeliveriesParams['state'],
        event_id: flags.event,
        endpoint_id: flags.endpoint,
        starting_after: flags['starting-after'],
      });
      const rows = page.data.map((row) => [row.id, row.event_type, row.event_id, row.endpoint_id, row.state, String(row.attempt_count)]);
      return { json: page, text: table([['id', 'type', 'event', 'endpoint', 'state', 'attempts'], ...rows]) };
    },
  },
  'deliveries get': {
    usage: 'deliveries get ID',
    about: 'show a webhook delivery and its attempts',
    options: [],
    run: async (words, flags) => ({ json: await connect(flags).webhookDeliveries.retrieve(word(words, 'delivery ID')) }),
  },
  'logs list': {
    usage: 'logs list',
    about: 'list requests made with your keys, newest first',
    options: ['limit', 'failed', 'status', 'path', 'starting-after'],
    run: logsList,
  },
  'logs tail': {
    usage: 'logs tail',
    about: 'show requests made with your keys as they happen',
    options: ['failed', 'status', 'path'],
    run: tailCommand,
  },
  'webhooks verify': {
    usage: "webhooks verify --secret SECRET --body FILE --header 'NAME: VALUE' ...",
    about: 'check the signature of a delivery and say what is wrong with it',
    options: ['secret', 'body', 'header', 'tolerance', 'legacy'],
    run: verifyCommand,
  },
  open: {
    usage: 'open [docs|errors|openapi|status|PAYMENT_ID]',
    about: 'open a page of the service or of a payment',
    options: [],
    run: open,
  },
};
