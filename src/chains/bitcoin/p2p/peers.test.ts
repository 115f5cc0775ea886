/** Connections to peers when what is stored cannot be read. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import { createLog } from '../../../log.ts';
import { peerNetwork } from './peer.ts';
import { createPeers } from './peers.ts';

test('when the stored peers cannot be read, peers are connected to all the same, and nothing is saved over them', async () => {
  const server = createServer((socket) => socket.on('error', () => {}));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  let saved = 0;
  const ignore = () => {};
  const peers = createPeers({
    network: peerNetwork('BTC', 'regtest'),
    given: [],
    fallback: [{ host: '127.0.0.1', port }],
    proxy: null,
    store: {
      load: async () => {
        throw new Error('the connection to the database was lost');
      },
      save: async () => void saved++,
    },
    handlers: { onOpen: ignore, onHeaders: ignore, onItems: ignore, onTransaction: ignore, onClose: ignore },
    isStale: () => false,
    brought: () => null,
    resolve: async () => [],
    isUsable: () => true,
    clock: { now: () => new Date(), monotonicMs: () => performance.now() },
    log: createLog('silent'),
  });
  const dialed = once(server, 'connection');
  try {
    await peers.start();
    const [socket] = await dialed;
    await peers.close();
    socket.destroy();
    assert.equal(saved, 0);
  } finally {
    await peers.close();
    server.close();
  }
});
