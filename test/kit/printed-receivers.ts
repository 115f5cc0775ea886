/** A folder for the code of the guides that receives webhooks: the client beside it, and a Florin from which it reads payments. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { codeBlocks } from './documents.ts';
import { serve } from './serve.ts';

const SDK = pathToFileURL(resolve(import.meta.dirname, '../../sdk/src/index.ts')).href;

/**
 * Writes the function of the guide that its receivers ask, with the client that it imports, and starts the Florin that answers it: with `payment`,
 * as it is at that moment.
 */
export async function addPaidBy(folder: string, payment: object): Promise<{ stop(): Promise<void> }> {
  mkdirSync(join(folder, 'node_modules/florin'), { recursive: true });
  writeFileSync(join(folder, 'node_modules/florin/package.json'), '{"name":"florin","type":"module","exports":"./index.js"}');
  writeFileSync(join(folder, 'node_modules/florin/index.js'), `export * from ${JSON.stringify(SDK)};\n`);
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  writeFileSync(
    join(folder, 'paid.js'),
    codeBlocks('docs/guides/frameworks.md').find(({ text }) => text.includes('function paidBy'))!.text,
  );
  const { url, stop } = await serve((request, reply) => {
    const isRead = request.method === 'GET' && /^\/(api\/payment|v1\/payments)\/pay_\w+$/.test(request.url!);
    reply.writeHead(isRead ? 200 : 404, { 'content-type': 'application/json', connection: 'close' }).end(JSON.stringify(payment));
  });
  process.env.FLORIN_URL = url;
  process.env.FLORIN_API_KEY = 'sk_test_0123456789abcdefghijklmnop';
  return { stop };
}
