/** Operator commands for webhook endpoints and their deliveries: the same as /v1/webhook_endpoints and /v1/webhook_deliveries. */
import { readTime } from '#core/dates';
import { idOfNumber } from '#core/id';
import { FULL_SIGHT } from '#core/transfer';
import {
  connectionBody,
  DELIVERY_STATES,
  deliveryBody,
  endpointBody,
  getDelivery,
  getRecovery,
  itemBody,
  listDeliveries,
  recoveryBody,
  resendDelivery,
  secretBody,
  sendTestEvent,
  startRecovery,
} from '#deliveries';
import { BY_OPERATOR, createEndpoint, deleteEndpoint, listEndpoints, planUpdate, rotateSecret, tryEndpoint } from '#webhooks';
import {
  type Command,
  type Commands,
  commaList,
  LIMIT,
  limitOf,
  MERCHANT,
  MODE,
  need,
  type Option,
  oneOfOption,
  ownerOfFlags,
  UsageError,
} from './command.ts';

const ENDPOINT: Option = { value: 'ID', about: 'Endpoint, such as we_... ("endpoint list" shows them)', required: true };
const DELIVERY: Option = { value: 'ID', about: 'Delivery, such as del_... ("delivery list" shows them)', required: true };
const OWNER = { merchant: MERCHANT, mode: MODE };
const EVENTS: Option = { value: 'A,B', about: 'Event types, comma-separated; * for the usual six (default)' };

const list: Command = {
  about: 'List webhook deliveries, newest first',
  options: {
    ...OWNER,
    state: { value: DELIVERY_STATES.join('|'), about: 'Only deliveries in this state' },
    endpoint: { value: 'ID', about: 'Only deliveries to this endpoint' },
    payment: { value: 'ID', about: 'Only deliveries about this payment' },
    event: { value: 'TYPE', about: 'Only deliveries of this event type' },
    limit: LIMIT,
    after: { value: 'ID', about: 'Show deliveries after this one' },
  },
  columns: ['id', 'event_type', 'payment_id', 'endpoint_id', 'state', 'attempt_count', 'created_at'],
  run: async (ctx, flags) => {
    const page = await listDeliveries(ctx, {
      ...ownerOfFlags(flags),
      sight: FULL_SIGHT,
      limit: limitOf(flags),
      startingAfter: flags.after ?? null,
      endpointId: flags.endpoint ?? null,
      eventId: null,
      paymentId: flags.payment ?? null,
      eventType: flags.event ?? null,
      state: flags.state === undefined ? null : oneOfOption(flags.state, DELIVERY_STATES, 'state'),
    });
    return { deliveries: page.items.map(itemBody), has_more: page.hasMore, searched_all: page.searchedAll };
  },
};

export const WEBHOOK_COMMANDS: Commands = {
  'endpoint list': {
    about: 'List the webhook endpoints of a merchant',
    options: OWNER,
    columns: ['id', 'url', 'enabled', 'events', 'created_at'],
    run: async (ctx, flags) => ({ endpoints: (await listEndpoints(ctx, ownerOfFlags(flags))).map((one) => endpointBody(one, FULL_SIGHT)) }),
  },
  'endpoint create': {
    about: 'Create a webhook endpoint and print its signing secret',
    options: { ...OWNER, url: { value: 'URL', about: 'Where events are sent', required: true }, events: EVENTS },
    run: async (ctx, flags) => {
      const url = need(flags, 'url');
      const made = await createEndpoint(ctx, {
        ...ownerOfFlags(flags),
        url,
        events: flags.events === undefined ? ['*'] : commaList(flags.events),
        description: null,
        by: BY_OPERATOR,
      });
      const reached = await tryEndpoint(ctx, { ...ownerOfFlags(flags), url });
      return { endpoint_id: made.endpointId, secret: made.secret, connection: connectionBody(reached), same_url: made.sameUrl };
    },
  },
  'endpoint update': {
    about: 'Change a webhook endpoint',
    options: {
      ...OWNER,
      endpoint: ENDPOINT,
      url: { value: 'URL', about: 'Where events are sent' },
      events: EVENTS,
      description: { value: 'TEXT', about: 'Description; empty removes it' },
      enabled: { value: 'true|false', about: 'Whether events are sent' },
    },
    run: async (ctx, flags) =>
      endpointBody(
        await ctx.db.begin(
          await planUpdate(ctx, {
            ...ownerOfFlags(flags),
            endpointId: need(flags, 'endpoint'),
            url: flags.url,
            events: flags.events === undefined ? undefined : commaList(flags.events),
            description: flags.description === '' ? null : flags.description,
            enabled: flags.enabled === undefined ? undefined : oneOfOption(flags.enabled, ['true', 'false'], 'enabled') === 'true',
            by: BY_OPERATOR,
          }),
        ),
        FULL_SIGHT,
      ),
  },
  'endpoint delete': {
    about: 'Delete a webhook endpoint',
    options: { ...OWNER, endpoint: ENDPOINT },
    run: async (ctx, flags) => {
      await ctx.db.begin((tx) => deleteEndpoint(ctx, tx, { ...ownerOfFlags(flags), endpointId: need(flags, 'endpoint') }));
      return { endpoint_id: flags.endpoint, deleted: true };
    },
  },
  'endpoint rotate': {
    about: 'Replace the signing secret of a webhook endpoint',
    options: { ...OWNER, endpoint: ENDPOINT, overlap: { value: 'SECONDS', about: 'How long the old secret also signs' } },
    run: async (ctx, flags) => {
      if (flags.overlap !== undefined && !/^\d{1,9}$/.test(flags.overlap))
        throw new UsageError('--overlap must be a whole number of seconds');
      const overlapSeconds = flags.overlap === undefined ? undefined : Number(flags.overlap);
      return secretBody(
        await ctx.db.begin((tx) => rotateSecret(ctx, tx, { ...ownerOfFlags(flags), endpointId: need(flags, 'endpoint'), overlapSeconds })),
      );
    },
  },
  'endpoint test': {
    about: 'Send a test event to a webhook endpoint',
    options: { ...OWNER, endpoint: ENDPOINT },
    run: async (ctx, flags) => {
      const number = await ctx.db.begin((tx) => sendTestEvent(ctx, tx, { ...ownerOfFlags(flags), endpointId: need(flags, 'endpoint') }));
      return { delivery_id: idOfNumber('del', ctx.installKey, number) };
    },
  },
  'endpoint recover': {
    about: 'Resend everything that failed since a time',
    options: { ...OWNER, endpoint: ENDPOINT, since: { value: 'TIME', about: 'Such as 2026-11-21T08:00:00Z', required: true } },
    run: async (ctx, flags) => {
      const since = readTime(need(flags, 'since'), 'since', { days: false });
      return recoveryBody(
        await ctx.db.begin((tx) => startRecovery(ctx, tx, { ...ownerOfFlags(flags), endpointId: need(flags, 'endpoint'), since })),
      );
    },
  },
  'endpoint recovery': {
    about: 'Show the progress of such a recovery',
    options: { ...OWNER, recovery: { value: 'ID', about: 'Recovery, as "endpoint recover" printed it', required: true } },
    run: async (ctx, flags) => recoveryBody(await getRecovery(ctx, { ...ownerOfFlags(flags), recoveryId: need(flags, 'recovery') })),
  },
  'delivery list': list,
  'delivery show': {
    about: 'Show a webhook delivery with every attempt',
    options: { ...OWNER, delivery: DELIVERY },
    run: async (ctx, flags) =>
      deliveryBody(await getDelivery(ctx, { ...ownerOfFlags(flags), deliveryId: need(flags, 'delivery'), sight: FULL_SIGHT }), FULL_SIGHT),
  },
  'delivery resend': {
    about: 'Send a webhook delivery again',
    options: { ...OWNER, delivery: DELIVERY },
    run: async (ctx, flags) =>
      deliveryBody(
        await ctx.db.begin((tx) =>
          resendDelivery(ctx, tx, { ...ownerOfFlags(flags), deliveryId: need(flags, 'delivery'), sight: FULL_SIGHT }),
        ),
        FULL_SIGHT,
      ),
  },
};
