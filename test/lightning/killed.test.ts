/** Lightning payments of a real process that is killed at any moment: no invoice is lost, and none counts twice. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import { HDKey } from '@scure/bip32';
import { eventually } from '../kit/app.ts';
import { base58check } from '../kit/base58.ts';
import { type LightningFronts, NODE_CERTIFICATE, startLightningFronts } from '../kit/lightning-fronts.ts';
import { type LightningPair, startLightningPair } from '../kit/lightning-node.ts';
import { CREDENTIALS, INVOICE_MACAROON } from '../kit/lightning-shop.ts';
import { isLongRun } from '../kit/long.ts';
import { startBitcoind, type TestNode } from '../kit/nodes.ts';
import { NWC_SECRET } from '../kit/nostr-relay.ts';
import { type Service, startService } from '../kit/service.ts';

let service: Service;
let node: TestNode;
let pair: LightningPair;
let fronts: LightningFronts;
let files: { macaroon: string; certificate: string };
before(async () => {
  node = await startBitcoind();
  const environment = { BTC_NODE_URL: node.url, BTC_NETWORK: 'regtest', BTC_CONFIRMATIONS: '1' };
  [service, pair] = await Promise.all([startService({ environment }), startLightningPair()]);
  fronts = await startLightningFronts(pair);
  const { folder } = service.database;
  files = { macaroon: join(folder, 'florin.macaroon'), certificate: join(folder, 'tls.cert') };
  writeFileSync(files.macaroon, Buffer.from(INVOICE_MACAROON, 'hex'));
  writeFileSync(files.certificate, NODE_CERTIFICATE);
});
after(async () => {
  await service?.destroy();
  await fronts?.stop();
  await node?.destroy();
});

const florin = (...args: string[]) => service.florin('lightning', args[0]!, '--merchant', service.merchantId, ...args.slice(1));

test('an operator sets Lightning up, checks it and turns it off with commands', async () => {
  const set = await florin('set', '--lnd', fronts.url, '--credential', files.macaroon, '--certificate', files.certificate);
  assert.deepEqual([set.kind, set.node, set.open_invoices, set.last_failure], ['lnd', pair.payee, 0, null]);
  assert.equal((await florin('check')).node, pair.payee);
  assert.equal((await florin('remove')).removed, true);
  await assert.rejects(florin('check'), /not set up/);
  await florin('set', '--lnd', fronts.url, '--credential', files.macaroon, '--certificate', files.certificate);
});

/** Each: how long after the choice, and after the payment, the process is killed. From 300 on, the choice is complete. */
const MOMENTS: readonly (readonly [choosing: number, paying: number])[] = isLongRun
  ? [
      [0, 0],
      [15, 0],
      [60, 5],
      [300, 20],
      [300, 150],
      [300, 600],
    ]
  : [
      [15, 5],
      [300, 150],
    ];
test('hostile case 25: a service that is killed while an invoice is made, shown, paid or recorded completes each payment once', async () => {
  const ids: string[] = [];
  for (const [choosing, paying] of MOMENTS) {
    const body = { amount_usd: '9.70', return_url: 'https://shop.example/' };
    const made = await service.live.post('/api/payment/create/simple', body);
    assert.equal(made.status, 201, made.text);
    const id: string = made.json.transaction_id;
    const chosen = choose(id).catch(() => {});
    if (choosing < 300) {
      await sleep(choosing);
      await service.end('SIGKILL');
      await chosen;
      await service.start();
      await choose(id);
    } else await chosen;
    const { payment_address: invoice } = (await service.live.get(`/api/payment/${id}`)).json;
    pair.pay(invoice);
    await sleep(paying);
    await service.end('SIGKILL');
    await service.start();
    ids.push(id);
  }
  for (const id of ids) {
    const done = await eventually(
      async () => (await service.live.get(`/api/payment/${id}`)).json,
      (one) => one.status === 'completed',
      60_000,
    );
    assert.deepEqual([done.transfers.length, done.amount_received, done.exception], [1, '0.00010000', null]);
    const events = await eventually(
      async () => service.eventsOf(id),
      (types) => types.includes('completed'),
      60_000,
    );
    assert.equal(events.filter((type) => type === 'completed').length, 1);
  }
});

/** When the process is killed: at once, or so many milliseconds after the node was asked for the invoice. */
const STEPS = isLongRun ? ([null, 0, 1, 2, 3, 5, 8, 13, 20, 30, 50, 100] as const) : ([null, 3] as const);
test('hostile case 25: a request that creates a payment over Lightning is killed at each step and repeated: one payment, whose invoice counts once', async () => {
  const { sql } = service.database.db;
  const count = async () => (await sql<{ n: number }[]>`select count(*)::int as n from payments`)[0]!.n;
  const before = await count();
  const body = { amount: '9.70', currency: 'USD', crypto: 'BTC', network: 'lightning', return_url: 'https://shop.example/' };
  const ids: string[] = [];
  for (const [number, step] of STEPS.entries()) {
    const order = () => service.live.post('/v1/payments', body, { 'idempotency-key': `order-${number}` });
    const asked = new Promise<void>((resolve) => {
      fronts.behave((usual, { path }) => {
        if (path.endsWith('/v1/invoices')) resolve();
        return usual;
      });
    });
    const first = order().catch(() => null);
    if (step !== null) {
      await asked;
      await sleep(step);
    }
    await service.end('SIGKILL');
    const acknowledged = await first;
    fronts.behave();
    await service.start();
    const made = await eventually(order, ({ status }) => status === 201, 60_000);
    if (acknowledged?.status === 201) assert.equal(made.json.id, acknowledged.json.id);
    pair.pay(made.json.payment_address);
    ids.push(made.json.id);
  }
  assert.equal(await count(), before + STEPS.length, 'each order has one payment');
  for (const id of ids) {
    const done = await eventually(
      async () => (await service.live.get(`/api/payment/${id}`)).json,
      (one) => one.status === 'completed',
      60_000,
    );
    assert.deepEqual([done.transfers.length, done.amount_received, done.exception], [1, '0.00010000', null]);
  }
});

test('hostile case 25: a service that is killed while a payment is paid over both rails counts each of them once', async () => {
  const account = HDKey.fromMasterSeed(new Uint8Array(32).fill(9)).derive("m/84'/1'/0'").publicExtendedKey;
  await service.florin(
    ...['wallet', 'set', '--merchant', service.merchantId, '--coin', 'BTC', '--mode', 'live'],
    ...['--key', base58check.respell(account, 0x043587cf), '--script', 'p2wpkh'],
  );
  const [{ transaction_id: id }, { sql }] = [
    (await service.live.post('/api/payment/create/simple', { amount_usd: '9.70', return_url: 'https://shop.example/' })).json,
    service.database.db,
  ];
  await eventually(
    () => service.choose(id, 'BTC').catch(() => ''),
    (page) => page.includes('bitcoin:'),
    60_000,
  );
  const [row] = await eventually(
    () => sql<{ bolt11: string }[]>`select bolt11 from lightning_invoices where payment_id = ${id}`,
    ({ length }) => length === 1,
  );
  const { payment_address: address } = (await service.live.get(`/api/payment/${id}`)).json;
  await node.pay(address, '0.0001');
  pair.pay(row!.bolt11);
  for (const wait of STEPS) {
    await sleep(wait ?? 0);
    await service.end('SIGKILL');
    await service.start();
  }
  await node.mine(1);
  const done = await eventually(
    async () => (await service.live.get(`/api/payment/${id}`)).json,
    (one) => one.status === 'completed' && one.transfers.length === 2 && one.exception === 'overpaid',
    60_000,
  );
  assert.equal(done.amount_received_usd, '19.40');
  const events = await eventually(
    async () => service.eventsOf(id),
    (types) => types.includes('completed'),
    60_000,
  );
  assert.equal(events.filter((type) => type === 'completed').length, 1);
});

test('a backup has the access to a back end only encrypted, whatever its kind', async () => {
  const file = join(service.database.folder, 'florin.backup');
  const credential = join(service.database.folder, 'credential');
  const kinds: readonly (readonly [string, string])[] = [
    ['lnd', CREDENTIALS.lnd],
    ['cln', CREDENTIALS.cln],
    ['phoenixd', CREDENTIALS.phoenixd],
    ['lnbits', CREDENTIALS.lnbits],
    ['nwc', fronts.nwc],
  ];
  // The usual run makes backups with the access of a node and with that of a wallet service.
  for (const [kind, text] of kinds.filter(([one]) => isLongRun || one === 'lnd' || one === 'nwc')) {
    writeFileSync(credential, text);
    const certificate = kind === 'lnd' || kind === 'cln' ? ['--certificate', files.certificate] : [];
    if (kind === 'nwc') await florin('set', '--nwc', credential);
    else await florin('set', `--${kind}`, fronts.url, '--credential', credential, ...certificate);
    await service.florin('backup', '--file', file);
    const content = gunzipSync(readFileSync(file));
    assert.ok(content.includes('lightning_backends') && content.includes(kind));
    const bytes = kind === 'lnd' ? Buffer.from(text, 'hex') : Buffer.from(text);
    const forms = [text, bytes, bytes.toString('hex'), bytes.toString('base64'), ...(kind === 'nwc' ? [NWC_SECRET] : [])];
    for (const form of forms) assert.equal(content.indexOf(form.slice(0, 40)), -1, kind);
  }
});

async function choose(id: string): Promise<void> {
  const page = await (await fetch(`${service.url}/pay?id=${id}`)).text();
  const token = /name="token" value="([^"]+)"/.exec(page)?.[1] ?? '';
  const fields = { id, token, currency: 'BTC', 'network-BTC': 'lightning' };
  await fetch(`${service.url}/pay/select`, {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams(fields).toString(),
  });
}
