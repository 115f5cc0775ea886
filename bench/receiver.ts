/**
 * Webhook receivers that answer well or badly, by path, in a separate process. `/figures` returns what arrived since the last request.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const block = Buffer.alloc(65_536, 'x');
let arrived = 0;
let latenciesMs: number[] = [];
const server = createServer((request, reply) => {
  const parts: Buffer[] = [];
  request.on('data', (part: Buffer) => parts.push(part));
  request.on('end', () => {
    const way = request.url!.split('/')[1]!;
    if (way === 'figures') {
      reply.end(JSON.stringify({ arrived, latenciesMs }));
      arrived = 0;
      latenciesMs = [];
    } else if (way === 'ok') {
      arrived++;
      const created = /"created_at":"([^"]+)"/.exec(Buffer.concat(parts).toString())?.[1];
      if (created) latenciesMs.push(Date.now() - Date.parse(created));
      reply.end('ok');
    } else if (way === 'drip') {
      const timer = setInterval(() => reply.write('x'), 1_000);
      reply.on('close', () => clearInterval(timer));
    } else if (way === 'reset') reply.socket!.destroy();
    else if (way === 'cut') {
      reply.writeHead(200, { 'content-length': '1000' }).write('x');
      setTimeout(() => reply.socket?.destroy(), 50);
    } else if (way === 'endless') {
      const push = () => {
        while (!reply.destroyed && reply.write(block));
      };
      reply.on('drain', push);
      push();
    } else if (way !== 'hang') reply.writeHead(Number(way), { location: '/ok' }).end();
  });
});
server.listen(0, '127.0.0.1', () => process.stdout.write(`ready http://127.0.0.1:${(server.address() as AddressInfo).port}\n`));
process.on('SIGTERM', () => process.exit(0));
