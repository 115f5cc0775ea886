/** Lightning payments of a real process that is killed at any moment: no invoice is lost, and none counts twice. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import { eventually } from '../kit/app.ts';
import { type LightningFronts, NODE_CERTIFICATE, startLightningFronts } from '../kit/lightning-fronts.ts';
import { type LightningPair, startLightningPair } from '../kit/lightning-node.ts';
import { INVOICE_MACAROON } from '../kit/lightning-shop.ts';
import { type Service, startService } from '../kit/service.ts';

let service: Service;
let pair: LightningPair;
let fronts: LightningFronts;
let files: { macaroon: string; certificate: string };
before(async () => {
  [service, pair] = await Promise.all([startService({ environment: { BTC_NETWORK: 'regtest' } }), startLightningPair()]);
  fronts = await startLightningFronts(pair);
  const { folder } = service.database;
  files = { macaroon: join(folder, 'florin.macaroon'), certificate: join(folder, 'tls.cert') };
  writeFileSync(files.macaroon, Buffer.from(INVOICE_MACAROON, 'hex'));
  writeFileSync(files.certificate, NODE_CERTIFICATE);
});
after(async () => {
  await service?.destroy();
  await fronts?.stop();
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

/** Each: how long after the choice, and after the payment, the process is killed. */
const MOMENTS = [
  [0, 0],
  [15, 0],
  [60, 5],
  [300, 20],
  [300, 150],
  [300, 600],
] as const;
test('a service that is killed while an invoice is made, shown, paid or recorded completes each payment once', async () => {
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

test('a backup has the access to a back end only encrypted', async () => {
  const file = join(service.database.folder, 'florin.backup');
  await service.florin('backup', '--file', file);
  const content = gunzipSync(readFileSync(file));
  assert.ok(content.includes('lightning_backends') && content.includes(new URL(fronts.url).host));
  const macaroon = Buffer.from(INVOICE_MACAROON, 'hex');
  const forms = [macaroon, INVOICE_MACAROON, macaroon.toString('base64'), Buffer.from(INVOICE_MACAROON).toString('hex')];
  for (const form of forms) assert.equal(content.indexOf(form.slice(0, 40)), -1);
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
