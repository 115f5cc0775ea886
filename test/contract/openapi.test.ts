/** The published API document against the running service: every request example is replayed, every reply has the documented form. */
// Invariant: Every documented request works as shown.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import { Check, Errors } from 'typebox/schema';
import { eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';
import { startLitecoind, type TestNode } from '../kit/nodes.ts';
import { giveInvoice } from '../kit/payments.ts';
import { type Receiver, startReceiver } from '../kit/receiver.ts';

type Operation = { path: string; method: 'get' | 'post' | 'delete'; operation: any };
let node: TestNode;
let app: TestApp;
let receiver: Receiver;
let document: any;
let operations: Operation[];

before(async () => {
  node = await startLitecoind();
  receiver = await startReceiver();
  app = await startTestApp({ LTC_NODE_URL: node.url, LTC_NETWORK: 'regtest' });
  const reply = await app.anonymous.get('/openapi.json');
  assert.equal(reply.status, 200);
  document = inlined(reply.json, reply.json);
  operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods as object).map(([method, operation]) => ({ path, method: method as 'get', operation })),
  );
});
after(async () => {
  await app?.stop();
  await receiver?.stop();
  await node?.destroy();
});

/** The document with every $ref replaced by its target. */
function inlined(value: any, root: any): any {
  if (Array.isArray(value)) return value.map((entry) => inlined(entry, root));
  if (typeof value !== 'object' || value === null) return value;
  if (typeof value.$ref === 'string') {
    const target = value.$ref
      .slice(2)
      .split('/')
      .reduce((at: any, name: string) => at?.[name], root);
    assert.ok(target, `${value.$ref} names nothing`);
    return inlined(target, root);
  }
  return Object.fromEntries(Object.entries(value).map(([name, entry]) => [name, inlined(entry, root)]));
}

const assertForm = (schema: any, value: unknown, what: string) =>
  assert.ok(Check(schema, value), `${what}: ${JSON.stringify(Errors(schema, value)[1])} in ${JSON.stringify(value)}`);

/** A schema with its parts, or its option for this event type, combined. */
function resolved(schema: any, value: any): any {
  // Other alternatives only say which fields are required together.
  if (schema.oneOf?.[0].properties)
    return resolved(schema.oneOf.find((option: any) => option.properties.type.const === value.type) ?? {}, value);
  if (!schema.allOf) return schema;
  return { properties: Object.assign({}, ...schema.allOf.map((part: any) => part.properties)) };
}

/** Fields of `value` that are not in the schema. */
function undocumented(whole: any, value: any, path = ''): string[] {
  const schema = typeof value === 'object' && value !== null ? resolved(whole, value) : whole;
  if (Array.isArray(value)) {
    const list = schema.items ? schema : (schema.anyOf ?? []).find((option: any) => option.items);
    return value.flatMap((entry, i) => undocumented(list?.items ?? {}, entry, `${path}[${i}]`));
  }
  if (typeof value !== 'object' || value === null) return [];
  const object = schema.properties ? schema : (schema.anyOf ?? []).find((option: any) => option.properties);
  const any = schema.additionalProperties ?? (schema.anyOf ?? []).find((option: any) => option.additionalProperties)?.additionalProperties;
  return Object.entries(value).flatMap(([name, entry]) => {
    const documented = object?.properties[name] ?? any;
    return documented ? undocumented(documented, entry, `${path}.${name}`) : [`${path}.${name}`];
  });
}
const contentOf = (part: any) => part.content['application/json'];
const successOf = (operation: any): [status: number, content: any] => {
  const [status] = Object.keys(operation.responses).filter((code) => code.startsWith('2'));
  return [Number(status), contentOf(operation.responses[status!])];
};

test('the document is OpenAPI 3.1 with webhooks', async () => {
  assert.match(document.openapi, /^3\.1\./);
  assert.deepEqual(Object.keys(document.webhooks), [
    'payment.created',
    'payment.processing',
    'payment.completed',
    'payment.failed',
    'payment.expired',
    'payment.cancelled',
    'payment.updated',
    'payment.reversed',
    'refund.requested',
    'refund.approved',
    'refund.sent',
    'refund.confirmed',
    'refund.failed',
    'refund.canceled',
    'payout.requested',
    'payout.approved',
    'payout.sent',
    'payout.confirmed',
    'payout.failed',
    'payout.canceled',
    'webhook.test',
  ]);
  const ids = operations.map(({ operation }) => operation.operationId);
  assert.equal(new Set(ids).size, ids.length);
});

test('every operation has an example for each request, parameter, reply and error', () => {
  for (const { path, method, operation } of operations) {
    const name = `${method} ${path}`;
    if (operation.requestBody)
      assert.ok(Object.keys(contentOf(operation.requestBody).examples).length > 0, `${name} has no request example`);
    for (const parameter of operation.parameters) assert.ok('example' in parameter, `${name} ${parameter.name} has no example`);
    for (const [status, response] of Object.entries<any>(operation.responses)) {
      assert.ok(response.description, `${name} ${status} has no description`);
      assert.ok(Object.keys(contentOf(response).examples).length > 0, `${name} ${status} has no example`);
    }
    for (const status of ['400', '401', '403', '404', '429', '500', '503']) assert.ok(operation.responses[status], `${name} ${status}`);
  }
  for (const [type, { post }] of Object.entries<any>(document.webhooks)) {
    assert.equal(contentOf(post.requestBody).examples.default.value.type, type);
  }
});

test('every example has its documented form', () => {
  let checked = 0;
  const check = (content: any, what: string) => {
    for (const [name, { value }] of Object.entries<any>(content.examples)) {
      assertForm(content.schema, value, `${what} ${name}`);
      assert.deepEqual(undocumented(content.schema, value), [], `${what} ${name}`);
      checked++;
    }
  };
  for (const { path, method, operation } of operations) {
    if (operation.requestBody) check(contentOf(operation.requestBody), `${method} ${path} request`);
    for (const parameter of operation.parameters) {
      const value = parameter.schema.type === 'integer' ? Number(parameter.example) : parameter.example;
      assertForm(parameter.schema, value, `${method} ${path} ${parameter.name}`);
    }
    for (const [status, response] of Object.entries<any>(operation.responses)) check(contentOf(response), `${method} ${path} ${status}`);
  }
  for (const [type, { post }] of Object.entries<any>(document.webhooks)) check(contentOf(post.requestBody), type);
  assert.ok(checked > 400, `${checked} examples`);
});

/** Every object within a schema, with its path. */
function* objectsIn(schema: any, path: string): Generator<[path: string, object: any]> {
  if (typeof schema !== 'object' || schema === null) return;
  if (schema.properties) yield [path, schema];
  for (const [name, part] of Object.entries<any>(schema)) {
    if (name !== 'examples' && name !== 'example' && name !== 'enum') yield* objectsIn(part, `${path}/${name}`);
  }
}

test('every field of every object, every parameter and every named schema is described', async () => {
  const { components, paths } = (await app.anonymous.get('/openapi.json')).json;
  let fields = 0;
  const missing: string[] = [];
  for (const [path, { properties }] of objectsIn({ components, paths }, '#')) {
    for (const [name, field] of Object.entries<any>(properties)) {
      fields++;
      if (!/^[A-Z`].{5,}[.]$/s.test(field.description ?? '')) missing.push(`${path} ${name}`);
      // What can be null says when.
      const isNullable = field.type?.includes?.('null') || field.anyOf?.some((option: any) => option.type === 'null');
      if (isNullable && !/\bnull\b/i.test(field.description)) missing.push(`${path} ${name}: when is it null?`);
    }
  }
  for (const { path, method, operation } of operations) {
    if (!operation.summary || operation.tags?.length !== 1) missing.push(`${method} ${path}`);
    for (const { name, description } of operation.parameters) if (!description) missing.push(`${method} ${path} ${name}`);
  }
  assert.deepEqual(missing, []);
  assert.ok(fields > 300, `${fields} fields`);
});

test('bodies and replies are named, and no name shadows a global of browsers or Node', async () => {
  const { components, paths } = (await app.anonymous.get('/openapi.json')).json;
  for (const [path, methods] of Object.entries<any>(paths)) {
    for (const [method, { requestBody, responses }] of Object.entries<any>(methods)) {
      const parts = [...(requestBody ? [requestBody] : []), ...Object.values<any>(responses).filter((one) => one.content)];
      for (const part of parts) assert.match(contentOf(part).schema.$ref ?? '', /^#\/components\/schemas\//, `${method} ${path}`);
      if (requestBody) {
        const { $ref } = contentOf(requestBody).schema;
        const needed = components.schemas[$ref.split('/').at(-1)].required?.length > 0;
        assert.equal(requestBody.required, needed, `${method} ${path}`);
      }
    }
  }
  const globals = new Set([...Object.getOwnPropertyNames(globalThis), ...DOM_GLOBALS]);
  assert.deepEqual(
    Object.keys(components.schemas).filter((name) => globals.has(name)),
    [],
  );
  for (const name of ['Payment', 'WebhookEvent', 'ErrorBody']) assert.ok(components.schemas[name], name);
});
/** Names that browsers have and Node has not, of those that an API may want. */
const DOM_GLOBALS = [
  ...['Account', 'Range', 'Request', 'Response', 'Notification', 'PaymentRequest', 'PaymentResponse', 'PaymentAddress', 'Selection'],
  ...['Text', 'Document', 'Element', 'Node', 'Event', 'ErrorEvent', 'Error', 'Option', 'Image', 'Location', 'History', 'Lock', 'Plugin'],
];

test('sets of values are listed, and events are told apart by their type', async () => {
  const { components } = (await app.anonymous.get('/openapi.json')).json;
  const { schemas } = components;
  const refOf = (field: any) => (field.items ?? field.anyOf?.[0].items ?? field).$ref;
  assert.equal(refOf(schemas.SimulateParams.properties.scenario), '#/components/schemas/Scenario');
  assert.equal(refOf(schemas.CreateWebhookEndpointParams.properties.events), '#/components/schemas/EndpointEventType');
  assert.equal(refOf(schemas.CreateTransactionParams.properties.currency_fiat), '#/components/schemas/FiatCurrency');
  assert.equal(refOf(schemas.Payment.properties.status), '#/components/schemas/PaymentStatus');
  for (const name of ['Scenario', 'EndpointEventType', 'FiatCurrency', 'PaymentStatus', 'Coin', 'Mode', 'ErrorType'])
    assert.ok(schemas[name].enum.length > 1, name);
  const { oneOf, discriminator } = schemas.WebhookEvent;
  assert.equal(discriminator.propertyName, 'type');
  assert.deepEqual(Object.keys(discriminator.mapping), Object.keys(document.webhooks));
  assert.deepEqual(
    Object.values(discriminator.mapping),
    oneOf.map((one: any) => one.$ref),
  );
  for (const [type, $ref] of Object.entries<string>(discriminator.mapping))
    assert.equal(schemas[$ref.split('/').at(-1)!].properties.type.const, type);
});

/** What the example ids stand for in a replay. */
type Stage = {
  payment: string;
  customer: string;
  link: string;
  event: string;
  txid: string;
  endpoint: string;
  delivery: string;
  recovery: string;
  refund: string;
  payout: string;
  request: string;
  key: string;
};
async function stage(operationId: string): Promise<Stage> {
  let endpoint = '';
  let recovery = '';
  if (/Webhook/.test(operationId) && operationId !== 'createWebhookEndpoint') {
    const made = await app.test.post('/v1/webhook_endpoints', { url: receiver.url });
    assert.equal(made.status, 201, made.text);
    endpoint = made.json.id;
    if (operationId === 'readWebhookRecovery')
      recovery = (await app.test.post(`/v1/webhook_endpoints/${endpoint}/recover`, { since: '2026-11-21T08:00:00Z' })).json.id;
  }
  const customer = { email: 'ada@example.com' };
  const created = await app.test.post('/api/payment/create/simple', { amount_usd: 25.5, return_url: 'https://shop.example/', customer });
  const payment = created.json.transaction_id as string;
  const scenario = {
    readPayment: 'success',
    readPayments: 'success',
    readTransaction: 'success',
    readTransfers: 'success',
    resolve: 'late',
    createRefund: 'success',
    readRefund: 'success',
    readRefunds: 'success',
    renewClaimLink: 'success',
    proveRefund: 'success',
    cancelRefund: 'success',
  }[operationId];
  if (scenario) {
    await app.test.post(`/v1/test/payments/${payment}/simulate`, { scenario, currency: 'BTC' });
    await eventually(
      () => app.test.get(`/api/payment/${payment}`),
      ({ json }) => (scenario === 'late' ? json.exception === 'late' : json.status === 'completed'),
    );
  }
  const refund = /^(read|cancel|prove)Refund|ClaimLink$/.test(operationId)
    ? (await app.test.post('/v1/refunds', { payment_id: payment })).json.id
    : '';
  if (operationId === 'proveRefund') {
    const { preimage } = operations.find(({ operation }) => operation.operationId === operationId)!.operation.requestBody.content[
      'application/json'
    ].examples.default.value;
    await giveInvoice(app, { refund, preimage });
  }
  const payout = /^(read|cancel)Payout/.test(operationId)
    ? (await app.test.post('/v1/payouts', { currency: 'BTC', amount: '0.001', address: 'test_btc_payer', payout_reference: randomUUID() }))
        .json.id
    : '';
  const link = /PaymentLink/.test(operationId) ? (await app.test.post('/v1/payment_links', { name: 'Mug', amount: '5.00' })).json.id : '';
  const detail = (await app.test.get(`/api/payment/${payment}`)).json;
  const events = await app.test.get(`/v1/events?payment_id=${payment}`);
  const deliveries = endpoint ? await app.test.get(`/v1/webhook_deliveries?endpoint_id=${endpoint}`) : null;
  // The log of requests is written once a second.
  const asked =
    operationId === 'readRequests'
      ? (
          await eventually(
            () => app.test.get('/v1/requests?limit=1'),
            ({ json }) => json.data.length > 0,
          )
        ).json.data[0]
      : null;
  return {
    payment,
    customer: detail.customer?.id ?? '',
    link,
    request: asked?.id ?? '',
    key: asked?.key_id ?? '',
    endpoint,
    recovery,
    refund,
    payout,
    event: events.json.data[0].id,
    delivery: deliveries?.json.data[0]?.id ?? '',
    txid: detail.transfers[0]?.transaction_hash ?? '',
  };
}

/** Sends an operation with its example parameters but one, the ids replaced by real ones. */
/** The coin of the real node. */
const ON_CHAIN: Readonly<Record<string, string>> = { currency: 'LTC', network: 'litecoin' };
async function replay(
  { path, method, operation }: Operation,
  { body, live, without }: { body: unknown; live: boolean; without: string },
): Promise<Reply> {
  const { payment, customer, link, event, txid, endpoint, delivery, recovery, refund, payout, request, key } = await stage(
    operation.operationId,
  );
  const onChain = live && operation.operationId === 'readTransaction';
  let mined = '';
  if (onChain) {
    mined = await node.pay(await node.newAddress(), '0.5');
    await node.mine(1);
  }
  const real = (text: string) =>
    text
      .replaceAll(/pay_[0-9A-Za-z]{24}/g, payment)
      .replaceAll(/cus_[0-9A-Za-z]{24}/g, customer)
      .replaceAll(/lnk_[0-9A-Za-z]{24}/g, link)
      .replaceAll(/evt_[0-9A-Za-z]{24}/g, event)
      .replaceAll(/we_[0-9A-Za-z]{24}/g, endpoint)
      .replaceAll(/del_[0-9A-Za-z]{24}/g, delivery)
      .replaceAll(/rec_[0-9A-Za-z]{24}/g, recovery)
      .replaceAll(/ref_[0-9A-Za-z]{24}/g, refund)
      .replaceAll(/\bpo_[0-9A-Za-z]{24}/g, payout)
      .replaceAll(/req_[0-9A-Za-z]{24}/g, request)
      .replaceAll(/\bkey_[0-9A-Za-z]{24}/g, key)
      // The one name that resolves here.
      .replaceAll('https://shop.example/hook', receiver.url)
      .replaceAll(/\b5c504ed4[0-9a-f]{56}\b/g, onChain ? mined : txid);
  const query = new URLSearchParams();
  const headers: Record<string, string> = {};
  let url = path;
  for (const parameter of operation.parameters.filter(({ name }: { name: string }) => name !== without)) {
    if (parameter.style === 'deepObject') {
      for (const [key, value] of Object.entries<string>(parameter.example)) query.set(`${parameter.name}[${key}]`, value);
      continue;
    }
    const value = real(String(parameter.example));
    if (parameter.in === 'path') url = url.replace(`{${parameter.name}}`, value);
    // The one node of the test is a Litecoin node.
    if (parameter.in === 'query') query.set(parameter.name, (onChain && ON_CHAIN[parameter.name]) || value);
    if (parameter.in === 'header') headers[parameter.name] = `${value} ${payment}`;
  }
  const client = live ? app.live : app.test;
  if (query.size > 0) url += `?${query}`;
  if (method === 'delete') return client.delete(url);
  return method === 'get' ? client.get(url) : client.post(url, real(JSON.stringify(body ?? {})), headers);
}

test('every request example answers as documented', async (t) => {
  let replayed = 0;
  for (const one of operations) {
    const { operation, path, method } = one;
    const bodies = operation.requestBody
      ? Object.entries<any>(contentOf(operation.requestBody).examples)
      : [['default', { value: undefined }]];
    // A page begins behind a payment or ends before one, not both.
    const twoWays: boolean = operation.parameters.some((parameter: any) => parameter.name === 'ending_before');
    for (const [name, { value }] of bodies as [string, { value: unknown }][]) {
      for (const without of twoWays ? ['starting_after', 'ending_before'] : ['']) {
        // All is told in test mode; the look-up of a transaction by the live node too.
        for (const live of operation.operationId === 'readTransaction' ? [false, true] : [false]) {
          const reply = await replay(one, { body: value, live, without });
          const [status, content] = successOf(operation);
          const what = `${method} ${path} (${name})`;
          if (operation.operationId.endsWith('WebhookEndpoint') && method === 'post' && reply.status === 201)
            await app.test.delete(`/v1/webhook_endpoints/${reply.json.endpoint_id ?? reply.json.id}`);
          assert.equal(reply.status, status, `${what}: ${reply.text}`);
          assertForm(content.schema, reply.json, what);
          assert.deepEqual(undocumented(content.schema, reply.json), [], what);
          for (const header of Object.keys(operation.responses[status].headers))
            assert.equal(reply.headers.has(header), header !== 'X-Ignored-Parameters', `${what} ${header}`);
          replayed++;
        }
      }
    }
  }
  t.diagnostic(`${replayed} requests of ${operations.length} operations`);
  assert.ok(replayed >= operations.length);
});

test('a request without parameters or with wrong ones answers a documented error', async () => {
  const codes = new Map<string, any>();
  for (const { path, method, operation } of operations) {
    const url = path.replaceAll(/\{[a-z]+\}/g, 'unknown');
    const replies: Reply[] = [];
    for (const key of [null, app.merchant.keys.testPublic, app.merchant.keys.testSecret, app.merchant.keys.liveSecret]) {
      const client = key === null ? app.anonymous : app.as(key);
      if (method === 'delete') replies.push(await client.delete(url));
      else if (method === 'get') replies.push(await client.get(`${url}?limit=0`), await client.get(url));
      else replies.push(await client.post(url, { metadata: { order: 7 }, items: 'none' }), await client.post(url));
    }
    const refused = replies.filter((reply) => reply.status >= 400);
    assert.ok(refused.length > 0, `${method} ${path}`);
    for (const reply of refused) {
      const documented = operation.responses[reply.status];
      assert.ok(documented, `${method} ${path} answers ${reply.status}, which is not documented: ${reply.text}`);
      assertForm(contentOf(documented).schema, reply.json, `${method} ${path} ${reply.status}`);
      assert.deepEqual(undocumented(contentOf(documented).schema, reply.json), [], `${method} ${path} ${reply.status}`);
      const example = contentOf(documented).examples[reply.json.error.code]?.value;
      assert.ok(example, `${reply.status} ${reply.json.error.code} has no example`);
      assert.equal(reply.json.error.type, example.error.type);
      assert.equal(reply.json.error.doc_url, example.error.doc_url);
      codes.set(reply.json.error.code, reply.json);
    }
  }
  for (const code of [
    'invalid_api_key',
    'secret_key_required',
    'test_key_required',
    'parameter_unknown',
    'parameter_missing',
    'parameter_invalid',
    'payment_not_found',
  ]) {
    assert.ok(codes.has(code), code);
  }
});

test('delivered events have the documented form', async () => {
  const told = ['payment.created', 'payment.processing', 'payment.completed', 'payment.expired', 'payment.cancelled', 'payment.updated'];
  // Every page: the replay makes more events than one page holds.
  const everyEvent = async () => {
    const all: any[] = [];
    for (let after = ''; ; after = `&starting_after=${all.at(-1).id}`) {
      const { data, has_more } = (await app.test.get(`/v1/events?limit=100${after}`)).json;
      all.push(...data);
      if (!has_more) return all;
    }
  };
  const events = await eventually(everyEvent, (all) => told.every((type) => all.some((event) => event.type === type)));
  for (const event of events) {
    const { schema } = contentOf(document.webhooks[event.type].post.requestBody);
    assertForm(schema, event, event.type);
    assert.deepEqual(undocumented(schema, event), [], event.type);
  }
});

test('the document says which amount a simple payment needs, that null means absent, and how the path names a payment', () => {
  const { CreateSimpleParams, ItemParams, UpdateMetadataParams } = document.components.schemas;
  assert.deepEqual(CreateSimpleParams.oneOf, [{ required: ['amount_usd'] }, { required: ['amount', 'currency_fiat'] }]);
  const returnUrl = 'https://shop.example/';
  const root = document;
  const isBody = (body: object) => Check(inlined(CreateSimpleParams, root), body);
  assert.ok(isBody({ amount_usd: 25, return_url: returnUrl, description: null, metadata: { order: 'A-1', coupon: null } }));
  assert.ok(isBody({ amount: 25, currency_fiat: 'EUR', return_url: returnUrl }));
  for (const body of [{ return_url: returnUrl }, { amount: 25, return_url: returnUrl }, { amount_usd: 25, return_url: null }])
    assert.ok(!isBody(body));
  assert.ok(!JSON.stringify(ItemParams.properties).includes('null'), 'what is required is never null');
  assert.ok(UpdateMetadataParams.required.includes('metadata'));
  const { parameters } = document.paths['/api/payment/{payment_id}'].get;
  assert.deepEqual([parameters[0].name, parameters[0].in, parameters[0].required], ['payment_id', 'path', true]);
});
