/** What bare node:http needs to hold pages open: server-sent events with the same headers and the same first line, and nothing else. */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

const open = new Set<ServerResponse>();
const server = createServer((_request, reply) => {
  reply.writeHead(200, {
    'content-type': 'text/event-stream',
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
    'x-content-type-options': 'nosniff',
  });
  reply.write('retry: 2000\nevent: v\ndata: 1\n\n');
  open.add(reply);
  reply.once('close', () => open.delete(reply));
});
setFlagsFromString('--expose-gc');
process.on('SIGUSR2', () => runInNewContext('gc')());
server.listen(0, '127.0.0.1', () => process.stdout.write(`ready http://127.0.0.1:${(server.address() as AddressInfo).port}\n`));
process.on('SIGTERM', () => process.exit(0));
