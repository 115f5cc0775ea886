/** Closing the server, on a clock of its own. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { startTestApp } from '../../test/kit/app.ts';
import { openLimits } from '../transport/index.ts';
import { createServer } from './server.ts';

test('closing waits for no idle connection: neither for one that was used before, nor for one that never was', async (t) => {
  const app = await startTestApp({}, { roles: [] });
  t.after(() => app.stop());
  const { ctx } = app.app;
  // The ten seconds that running requests get never pass on this clock.
  let monotonicMs = 0;
  const clock = {
    now: () => ctx.clock.now(),
    monotonicMs: () => {
      monotonicMs = Math.min(5_000, monotonicMs + 20);
      return monotonicMs;
    },
  };
  const limits = await openLimits({ redisUrl: null, log: ctx.log });
  const options = { limits, tls: null, trustedProxies: [], metricsToken: null, registerPages: () => {} };
  const { server } = await createServer({ ...ctx, clock }, options);
  await server.listen({ port: 0, host: '127.0.0.1' });
  const { port } = server.server.address() as AddressInfo;
  const open = async (): Promise<Socket> => {
    const socket = connect(port, '127.0.0.1');
    await once(socket, 'connect');
    return socket;
  };
  const [used, unused] = [await open(), await open()];
  used.write('GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n');
  assert.match(String((await once(used, 'data'))[0]), /^HTTP\/1\.1 200 /);
  const ended = Promise.all([used, unused].map((socket) => once(socket.resume(), 'close')));
  await server.close();
  await ended;
  await limits.close();
});
