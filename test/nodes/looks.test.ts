/** What reading a chain costs the node: one request when nothing happened, one more when the mempool changed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../kit/app.ts';
import { startBitcoind } from '../kit/nodes.ts';
import { passOn, serve } from '../kit/serve.ts';
import { startService } from '../kit/service.ts';

/** Passes requests on and records the methods of each. */
async function startCounter(nodeUrl: string) {
  const target = new URL(nodeUrl);
  const requests: string[][] = [];
  const { port, stop } = await serve(async (request, reply, body) => {
    requests.push([JSON.parse(body.toString())].flat().map((call: { method: string }) => call.method));
    const passed = await passOn(target.origin, request, body);
    reply.writeHead(passed.status, { 'content-type': 'application/json' }).end(Buffer.from(await passed.arrayBuffer()));
  });
  return { url: `http://florin:test@127.0.0.1:${port}`, requests, stop };
}

test('a look is one request, and one more when the mempool changed', async (t) => {
  // The last that was started stops first: the service still asks the node while it runs.
  const started = new AsyncDisposableStack();
  t.after(() => started.disposeAsync());
  const node = started.adopt(await startBitcoind(), (one) => one.destroy());
  const counter = started.adopt(await startCounter(node.url), (one) => one.stop());
  const environment = { BTC_NODE_URL: counter.url, BTC_NETWORK: 'regtest', PRICES: 'static:BTC=97000.00' };
  const service = started.adopt(await startService({ environment }), (one) => one.destroy());
  const looks = (from: number) => counter.requests.slice(from).filter((methods) => methods.includes('getblockchaininfo')).length;
  const during = async (work: () => Promise<unknown>) => {
    const from = counter.requests.length;
    await work();
    await eventually(
      async () => looks(from),
      (count) => count >= 12,
      120_000,
    );
    return { looks: looks(from), requests: counter.requests.slice(from) };
  };
  await service.looked('BTC');
  await service.looked('BTC');
  const quiet = await during(async () => {});
  // Sometimes the whole list is read anyway.
  assert.ok(quiet.requests.length <= quiet.looks + 3, `${quiet.requests.length} requests for ${quiet.looks} looks`);
  const paid = await during(async () => {
    for (let i = 0; i < 3; i++) {
      await node.pay(await node.newAddress(), '0.1');
      await service.looked('BTC');
    }
  });
  const lists = paid.requests.filter((methods) => methods.includes('getrawmempool')).length;
  assert.ok(lists >= 3, 'each change was read');
  // A payment by the node changes its mempool: the list, and the transaction.
  assert.ok(paid.requests.length <= paid.looks + 3 + 2 * 4, `${paid.requests.length} requests for ${paid.looks} looks`);
});
