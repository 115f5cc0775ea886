/** A folder for the code of the guides that receives webhooks: the client beside it, and a Florin from which it reads payments. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { codeBlocks } from './documents.ts';

const SDK = pathToFileURL(resolve(import.meta.dirname, '../../sdk/src/index.ts')).href;

/**
 * Writes the function of the guide that its receivers ask, with the client that it imports, and starts the Florin that answers it: with `payment`,
 * as it is at that moment.
 */
export async function addPaidBy(folder: string, payment: object): Promise<{ stop(): void }> {
  mkdirSync(join(folder, 'node_modules/florin'), { recursive: true });
  writeFileSync(join(folder, 'node_modules/florin/package.json'), '{"name":"florin","type":"module","exports":"./index.js"}');
  writeFileSync(join(folder, 'node_modules/florin/index.js'), `export * from ${JSON.stringify(SDK)};\n`);
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  writeFileSync(
    join(folder, 'paid.js'),
    codeBlocks('docs/guides/frameworks.md').find(({ text }) => text.includes('function paidBy'))!.text,
  );
  const server = createServer((request, reply) => {
    const isRead = request.method === 'GET' && /^\/(api\/payment|v1\/payments)\/pay_\w+$/.test(request.url!);
    reply.writeHead(isRead ? 200 : 404, { 'content-type': 'application/json', connection: 'close' }).end(JSON.stringify(payment));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  process.env.FLORIN_URL = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  process.env.FLORIN_API_KEY = 'sk_test_0123456789abcdefghijklmnop';
  return { stop: () => void server.close() };
}
