/**
 * The process may die at each of its writes: the same payment is made again and again, and the process is killed at its first, second,
 * third ... write to a socket or file, until the payment completes without a kill.
 */
// Invariant: A killed process loses nothing.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../kit/app.ts';
import { startBitcoind, type TestNode } from '../kit/nodes.ts';
import { type Service, startService } from '../kit/service.ts';

const WRITES = 'write,writev,pwrite64,pwritev,sendto,sendmsg';
/** The merchant's account keys: a public test vector of BIP-84. */
const ACCOUNT = 'vpub5Y6cjg78GGuNLsaPhmYsiw4gYX3HoQiRBiSwDaBXKUafCt9bNwWQiitDk5VZ5BVxYnQdwoTyXSs2JHRPAgjAvtbBrf8ZhDYe2jWAqvZVnsc';

let node: TestNode;
let service: Service;
before(async () => {
  node = await startBitcoind();
  service = await startService({
    environment: { BTC_NODE_URL: node.url, BTC_NETWORK: 'regtest', BTC_CONFIRMATIONS: '1', PRICES: 'static:BTC=97000.00' },
  });
  await service.florin('wallet', 'set', '--merchant', service.merchantId, '--coin', 'BTC', '--mode', 'live', '--key', ACCOUNT);
});
after(async () => {
  await service?.destroy();
  await node?.destroy();
});

test('a kill at every write between choice and completion loses nothing', async (t) => {
  const addresses = new Set<string>();
  let kills = 0;
  for (let number = 1; ; number++) {
    const { json } = await service.live.post('/api/payment/create/simple', { amount_usd: 25, return_url: 'https://shop.example/' });
    const id: string = json.transaction_id;
    const pid = service.pid();
    const tracer = spawn(
      'strace',
      ['-f', '-qq', '-o', '/dev/null', '-e', `trace=${WRITES}`, '-e', `inject=${WRITES}:signal=KILL:when=${number}`, '-p', String(pid)],
      {
        stdio: ['ignore', 'ignore', 'pipe'],
      },
    );
    await sleep(300);
    // The answer may be lost with the process; the choice was made or it was not.
    await service.choose(id, 'BTC').catch(() => undefined);
    let killed = false;
    const revive = async () => {
      if (killed || alive(pid)) return;
      killed = true;
      await service.end('SIGKILL');
      await service.start();
    };
    const address = await eventually(
      async () => {
        await revive();
        const given = (await service.live.get(`/api/payment/${id}`).catch(() => null))?.json.payment_address;
        if (given === null) await service.choose(id, 'BTC').catch(() => undefined);
        return given as string | null | undefined;
      },
      (given) => typeof given === 'string',
      30_000,
    );
    assert.ok(!addresses.has(address!), 'no address is given twice');
    addresses.add(address!);
    await node.pay(address!, '0.00025774');
    await node.mine(1);
    await eventually(
      async () => {
        await revive();
        return service.eventsOf(id).join(' ');
      },
      (events) => events === 'created processing completed' || events === 'created completed',
      60_000,
    );
    if (tracer.exitCode === null && tracer.signalCode === null) {
      tracer.kill('SIGTERM');
      await once(tracer, 'exit');
    }
    await revive();
    const end = (await service.live.get(`/api/payment/${id}`)).json;
    assert.equal(end.status, 'completed');
    assert.equal(end.amount_received, '0.00025774');
    assert.equal(end.transfers.length, 1);
    if (!killed) break;
    kills++;
  }
  assert.ok(kills > 20, `only ${kills} writes were met`);
  assert.equal((await service.live.get('/api/payments?limit=1')).json.total_count, kills + 1);
  assert.equal((await service.florin('verify')).ok, true);
  t.diagnostic(`${kills} kills, one at each write`);
});

/** Whether the process runs. A killed one that nobody has waited for does not. */
function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  return true;
}
