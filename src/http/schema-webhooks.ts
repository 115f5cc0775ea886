/** Schemas of events and of what is sent to webhook endpoints. */
import Type from 'typebox';
import {
  API_VERSION,
  DELIVERED_EVENTS,
  type EventType,
  isPayoutEvent,
  isRefundEvent,
  PAYMENT_EVENTS,
  REVERSED_EVENT,
  SHOP_EVENTS,
  TEST_EVENT,
  UPDATED_EVENT,
} from '#core/event';
import type { PaymentStatus } from '#core/payment';
import { UNREACHED } from '#core/unreached';
import { LONGEST_OVERLAP_SECONDS } from '#webhooks';
import { DetailSchema } from './schema.ts';
import {
  CountField,
  DeliveryId,
  EndpointId,
  EventId,
  Expand,
  Flag,
  HasMore,
  Limit,
  literals,
  ModeField,
  OneOf,
  OrNull,
  PaymentId,
  StartingAfter,
  Success,
  Text,
  Time,
} from './schema-fields.ts';
import { PayoutItem, RefundItem } from './schema-refunds.ts';

// Events

export const EventQuery = Type.Object({ expand: Expand('payment', 'the payment that an event is about, as its `payment`') });
export const EventsQuery = Type.Object({
  limit: Limit,
  starting_after: StartingAfter('evt_8sWn2LxR7vKd1Ye4fTq0ZcJb'),
  type: Type.Optional(OneOf('PaymentEventType', 'Only events of this type.', 'payment.created')),
  payment_id: Type.Optional(
    PaymentId(
      'Only events of this payment. They are listed as soon as the payment shows the change; lists of all events follow a moment later.',
    ),
  ),
  ...EventQuery.properties,
});
export const EventData = Type.Object(
  {
    ...DetailSchema.properties,
    sequence: CountField('Position among the events of this payment, from 1. Use it to order them.', 1),
  },
  { description: 'The payment as it was when the event happened.' },
);
export const RefundEventData = Type.Object(
  {
    ...RefundItem.properties,
    claim_url: OrNull(
      Text('A URL.', 'https://pay.example/claim/...'),
      'Always null: who has the link can enter the address. Retrieve the refund to read it.',
    ),
    sequence: CountField('Position among the events of the payment, from 1. Use it to order them.', 1),
  },
  { description: 'The refund as it was when the event happened.' },
);
export const PayoutEventData = Type.Object(
  {
    ...PayoutItem.properties,
    sequence: CountField('Position among the events of the payout, from 1. Use it to order them.', 1),
  },
  { description: 'The payout as it was when the event happened.' },
);
const Version = Text('Version of the shape of `data`.', API_VERSION);
/** The status of the payment at that moment; for unlisted types it can be any. */
const STATUS_OF: Readonly<Partial<Record<EventType, PaymentStatus>>> = {
  'payment.created': 'pending',
  'payment.processing': 'processing',
  'payment.completed': 'completed',
  'payment.failed': 'failed',
  'payment.expired': 'expired',
  'payment.cancelled': 'cancelled',
};
const ONLY_NAMED = 'Sent only to endpoints that name it.';
const SENT_WHEN: Readonly<Record<EventType, string>> = {
  'payment.created': 'A payment was created.',
  'payment.processing': 'The full amount was received and is waiting for confirmations.',
  'payment.completed': 'The payment is confirmed: deliver the order.',
  'payment.failed': 'The time to pay ended, and too little had arrived.',
  'payment.expired': 'The time to pay ended, and nothing had arrived.',
  'payment.cancelled': 'The payment was canceled.',
  'payment.updated': 'Something else about the payment changed, such as a partial or late transfer. Sent only to endpoints that name it.',
  'payment.reversed': 'A completed payment lost its money to a reorganization of the network. Sent to endpoints that name it or `*`.',
  'refund.requested': `A refund was requested. ${ONLY_NAMED}`,
  'refund.approved': `A refund was approved. ${ONLY_NAMED}`,
  'refund.sent': `The transaction of a refund was sent. ${ONLY_NAMED}`,
  'refund.confirmed': `The transaction of a refund is confirmed. ${ONLY_NAMED}`,
  'refund.failed': `The transaction of a refund failed, so nothing was returned. ${ONLY_NAMED}`,
  'refund.canceled': `A refund was canceled. ${ONLY_NAMED}`,
  'payout.requested': `A payout was requested. ${ONLY_NAMED}`,
  'payout.approved': `A payout was approved. ${ONLY_NAMED}`,
  'payout.sent': `The transaction of a payout was sent. ${ONLY_NAMED}`,
  'payout.confirmed': `The transaction of a payout is confirmed. ${ONLY_NAMED}`,
  'payout.failed': `The transaction of a payout failed, so nothing was paid. ${ONLY_NAMED}`,
  'payout.canceled': `A payout was canceled. ${ONLY_NAMED}`,
};
const eventOf = (type: EventType) => {
  const status = STATUS_OF[type];
  return Type.Object(
    {
      id: EventId('Identifier of the event. Deliveries can repeat: use it to handle each event once.'),
      type: Type.Literal(type, { description: 'Type of the event.', examples: [type] }),
      created_at: Time('When the event happened.'),
      mode: ModeField,
      api_version: Version,
      data: isRefundEvent(type)
        ? RefundEventData
        : isPayoutEvent(type)
          ? PayoutEventData
          : status === undefined
            ? EventData
            : Type.Intersect([EventData, Type.Object({ status: Type.Literal(status, { description: 'Status at that moment.' }) })], {
                description: 'The payment as it was when the event happened.',
              }),
      payment: Type.Optional(
        OrNull(
          DetailSchema,
          'The payment as it is now. Only in replies to requests with `expand=payment`, never in webhooks. Null for events of payouts.',
        ),
      ),
    },
    { description: SENT_WHEN[type] },
  );
};
/** `payment.completed` -> `PaymentCompletedEvent`. */
export const eventName = (type: string): string =>
  `${type.replace(/(^|\.)(\w)/g, (_, _dot: string, letter: string) => letter.toUpperCase())}Event`;
/** One schema for each type, by its name. */
export const EVENT_SCHEMAS = Object.fromEntries(PAYMENT_EVENTS.map((type) => [eventName(type), eventOf(type)] as const));
export const EventReply = Type.Union(Object.values(EVENT_SCHEMAS), {
  description: 'Something that happened to a payment, a refund or a payout. `type` says what, and which status `data` has.',
});
export const EventList = Type.Object({
  success: Success,
  data: Type.Array(EventReply, { description: 'The events, newest first.' }),
  has_more: HasMore,
});
export const TestEventReply = Type.Object(
  {
    id: EventId('Identifier of the event.'),
    type: Type.Literal(TEST_EVENT, { description: 'Type of the event.', examples: [TEST_EVENT] }),
    created_at: Time('When the event was requested.'),
    mode: ModeField,
    api_version: Version,
    data: Type.Object({ endpoint_id: EndpointId('The endpoint that is tested.') }, { description: 'What is tested.' }),
  },
  { description: 'Sent on request, to test an endpoint.' },
);
export const WebhookEvent = Type.Union([...Object.values(EVENT_SCHEMAS), TestEventReply], {
  description: 'The body of a webhook. `type` says what happened, and which shape `data` has.',
});

// Endpoints

const EndpointUrl = Text(
  'Where events are sent: a public https URL. Its host must resolve when you save it.',
  'https://shop.example/hook',
  {
    minLength: 1,
    maxLength: 2048,
  },
);
const EndpointEvents = Type.Array(OneOf('EndpointEventType', 'An event type, or `*`.', '*'), {
  minItems: 1,
  maxItems: 30,
  description: `Event types to send. \`*\` stands for the six basic ones and ${REVERSED_EVENT}; ${UPDATED_EVENT} and those of refunds and payouts are sent only when named. An endpoint that receives payment.completed should also receive ${REVERSED_EVENT}, which takes it back. Defaults to \`["*"]\`.`,
  examples: [['*']],
});
const EndpointDescription = Type.Union([Type.String({ maxLength: 500 }), Type.Null()], {
  description: 'Your note about the endpoint, up to 500 characters. Null for none.',
  examples: ['Orders'],
});
const Enabled = Flag('Whether events are sent. While it is false, no deliveries are queued.', true);
export const CreateEndpoint = Type.Object({
  url: EndpointUrl,
  events: Type.Optional(EndpointEvents),
  description: Type.Optional(EndpointDescription),
  enabled: Type.Optional(Enabled),
});
export const UpdateEndpoint = Type.Object({
  url: Type.Optional(EndpointUrl),
  events: Type.Optional(EndpointEvents),
  description: Type.Optional(EndpointDescription),
  enabled: Type.Optional(Enabled),
});
export const RotateSecret = Type.Object({
  expires_in: Type.Optional(
    CountField('How long the old secret also signs, in seconds: up to 7 days, 0 for not at all. Defaults to 86400.', 86_400, {
      minimum: 0,
      maximum: LONGEST_OVERLAP_SECONDS,
    }),
  ),
});
export const Recover = Type.Object({
  since: Text('Deliveries created at or after this time, in ISO 8601 with a time zone.', '2026-11-21T08:00:00.000Z', { maxLength: 40 }),
});
const WhyFields = {
  reason: OrNull(
    Text('A reason.', 'certificate_incomplete'),
    `Why it failed, in more detail: ${UNREACHED.map((reason) => `\`${reason}\``).join(', ')}. Null when nothing failed.`,
  ),
  message: OrNull(Text('A sentence.', 'The intermediate certificate is missing'), 'The reason in words. Null when nothing failed.'),
  advice: OrNull(
    Text('A sentence.', 'Make the web server send the whole chain, such as fullchain.pem instead of cert.pem.'),
    'What to do about it. Null when nothing failed.',
  ),
};
export const EndpointConnection = Type.Object(
  {
    reached: Flag('Whether the server accepted the connection, with TLS.', true),
    address: OrNull(Text('An IP address.', '203.0.113.7'), 'The IP address that was connected to. Null if there was none.'),
    ...WhyFields,
  },
  { description: 'The result of one connection to an endpoint.' },
);
/** What creating or updating an endpoint also says. */
const savedFields = {
  connection: OrNull(
    EndpointConnection,
    'Florin connected to the URL once, without sending anything. The endpoint is saved in any case. Null when it is disabled, or no URL was given.',
  ),
  same_url: Type.Array(EndpointId('An endpoint.'), {
    description: 'Your other endpoints with the same URL in this mode. It receives each event once for each of them.',
  }),
};
const endpointFields = {
  success: Success,
  id: EndpointId('Identifier of the endpoint.'),
  url: Text('Where events are sent.', 'https://shop.example/hook'),
  events: Type.Array(OneOf('EndpointEventType', 'An event type, or `*`.', '*'), { description: 'Event types that are sent.' }),
  description: OrNull(Text('A text.', 'Orders'), 'Your note about the endpoint. Null when you gave none.'),
  enabled: Flag('Whether events are sent.', true),
  disabled_reason: OrNull(
    OneOf('DisabledReason', 'A reason.', 'failures'),
    'Why it is disabled. `merchant`: by you. `failures`: every delivery failed for five days. `gone`: it answered 410. Null while it is enabled.',
  ),
  failing_since: OrNull(Time('A time.'), 'Since when every delivery has failed. Null when the last one was delivered.'),
  previous_secret_expires_at: OrNull(Time('A time.'), 'Until when the old secret also signs. Null when there is no old secret.'),
  mode: ModeField,
  created_at: Time('When the endpoint was created.'),
};
export const EndpointReply = Type.Object(endpointFields, { description: 'A URL of yours that receives events.' });
export const EndpointWithSecret = Type.Object(
  { ...endpointFields, secret: Text('The signing secret. Store it: the API does not return it again.', 'whsec_…') },
  { description: 'An endpoint with its signing secret.' },
);
export const EndpointCreated = Type.Object(
  { ...EndpointWithSecret.properties, ...savedFields },
  { description: 'A new endpoint with its signing secret.' },
);
export const EndpointUpdated = Type.Object({ ...endpointFields, ...savedFields }, { description: 'An endpoint that was changed.' });
export const EndpointList = Type.Object({
  success: Success,
  data: Type.Array(EndpointReply, { description: 'The endpoints, newest first.' }),
  has_more: Flag('Always false: all endpoints are on one page.', false),
});
export const EndpointDeleted = Type.Object({
  success: Success,
  id: EndpointId('Identifier of the deleted endpoint.'),
  deleted: Flag('Always true.', true),
});

// Deliveries

const State = OneOf(
  'DeliveryState',
  '`pending`: waiting for an attempt. `delivered`: the endpoint answered 2xx. `failed`: given up after the last attempt.',
  'failed',
);
export const DeliveriesQuery = Type.Object({
  limit: Limit,
  starting_after: StartingAfter('del_0ZcJb8sWn2LxR7vKd1Ye4fTq'),
  endpoint_id: Type.Optional(EndpointId('Only deliveries to this endpoint.')),
  event_id: Type.Optional(EventId('Only deliveries of this event.')),
  state: Type.Optional(OneOf('DeliveryState', 'Only deliveries in this state.', 'failed')),
});
const deliveryFields = {
  id: DeliveryId('Identifier of the delivery.'),
  event_id: EventId('The event that is delivered.'),
  event_type: literals([...DELIVERED_EVENTS, ...SHOP_EVENTS], {
    description: 'Type of the event; those that begin with `Invoice` are sent to connected shops.',
    examples: ['payment.completed'],
  }),
  endpoint_id: EndpointId('The endpoint that it is sent to.'),
  payment_id: OrNull(PaymentId('A payment.'), 'The payment of the event. Null for a test event and for events of payouts.'),
  mode: ModeField,
  state: State,
  attempt_count: CountField('Number of attempts so far.', 1),
  created_at: Time('When the delivery was queued.'),
  delivered_at: OrNull(Time('A time.'), 'When the endpoint accepted it. Null until then.'),
  next_attempt_at: OrNull(Time('A time.'), 'When the next attempt is due. Null when there is none.'),
};
export const DeliveryItemSchema = Type.Object(deliveryFields, {
  description: 'A delivery in a list. Retrieve it by its `id` for its attempts.',
});
export const DeliveryList = Type.Object({
  success: Success,
  data: Type.Array(DeliveryItemSchema, { description: 'The deliveries, newest first.' }),
  has_more: HasMore,
});
export const DeliveryAttempt = Type.Object(
  {
    number: CountField('Position among the attempts, from 1.', 1),
    at: Time('When it was made.'),
    duration_ms: CountField('How long it took, in milliseconds.', 84),
    url: OrNull(Text('A URL.', 'https://shop.example/hook'), 'Where it was sent. Null when nothing was sent.'),
    status: OrNull(CountField('A status.', 503), 'HTTP status of the answer. Null when there was no answer.'),
    failure: OrNull(
      Text('A reason.', 'status_503'),
      'Why it failed: `status_` and the status, `timeout`, `dns`, `connect`, `tls`, `reset`, `refused_address`, `invalid_url`, `internal`, or `forgotten` when its event was deleted. Null when it was delivered.',
    ),
    ...WhyFields,
    address: OrNull(
      Text('An IP address.', '203.0.113.7'),
      'The IP address that the request went to. If none could be reached, all that were tried, comma-separated. Null if there was none.',
    ),
    request_headers: Type.Record(Type.String(), Type.String(), {
      description: 'Headers that were sent.',
      examples: [{ 'webhook-id': 'evt_8sWn2LxR7vKd1Ye4fTq0ZcJb' }],
    }),
    response_body: OrNull(Text('A text.', 'down for maintenance'), 'The first 4 kB of the answer. Null when there was no answer.'),
  },
  { description: 'One HTTP request to the endpoint.' },
);
export const DeliveryReply = Type.Object(
  {
    success: Success,
    ...deliveryFields,
    request_body: OrNull(
      Text('A text.', '{"id":"evt_8sWn2LxR7vKd1Ye4fTq0ZcJb"}'),
      'The exact body of every attempt. Null when the event was deleted after 30 days.',
    ),
    attempts: Type.Array(DeliveryAttempt, { description: 'The last hundred attempts, oldest first.' }),
  },
  { description: 'One event for one endpoint, with every attempt to deliver it.' },
);
export const RecoveryReply = Type.Object(
  {
    success: Success,
    id: Text('Identifier of the recovery.', 'rec_1Ye4fTq0ZcJb8sWn2LxR7vKd'),
    endpoint_id: EndpointId('The endpoint.'),
    status: OneOf(
      'RecoveryStatus',
      '`queueing`: deliveries are being queued. `delivering`: all are queued. `done`: each was delivered or failed. `cancelled`: the endpoint was disabled or deleted.',
      'delivering',
    ),
    since: Time('Deliveries created at or after this time are sent again.', '2026-11-21T08:00:00.000Z'),
    created_at: Time('When the recovery began.'),
    total: CountField('Deliveries that had failed, or were waiting for another attempt, when it began.', 120),
    queued: CountField('How many of them have been sent again so far.', 120),
    delivered: CountField('How many of them were delivered.', 87),
    failed: CountField('How many of them failed again and are not retried.', 0),
  },
  { description: 'The progress of sending failed deliveries again.' },
);
