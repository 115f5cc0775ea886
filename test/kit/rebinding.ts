/**
 * A merchant's URL whose name is resolved by a real DNS server that returns another address each time. Runs in separate network and mount
 * namespaces, where 11.11.11.11 is an address of this machine and /etc/resolv.conf names the server below. Prints the results of the
 * attempts as JSON.
 */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { join } from 'node:path';
import { createOutgoing } from '../../src/connections/http-client.ts';

const PUBLIC = '11.11.11.11';
const INSIDE = '127.0.0.1';
/** The addresses of the name, question by question: the first is checked, and a second would be connected to. */
const ANSWERS = [[PUBLIC], [INSIDE], [PUBLIC], [PUBLIC, INSIDE], [INSIDE, PUBLIC], [PUBLIC]];
const A = 1;

let questions = 0;
/** The answers by question ID: a question repeated because the machine stalled is the same question. */
const answered = new Map<number, string[]>();
const dns = createSocket('udp4');
dns.on('message', (message, from) => {
  let end = 12;
  while (message[end] !== 0) end += message[end]! + 1;
  const question = message.subarray(12, end + 5);
  const asksForA = question.readUInt16BE(question.length - 4) === A;
  const id = message.readUInt16BE(0);
  if (asksForA && !answered.has(id)) answered.set(id, ANSWERS[questions++ % ANSWERS.length]!);
  const addresses = asksForA ? answered.get(id)! : [];
  const header = Buffer.from([message[0]!, message[1]!, 0x81, 0x80, 0, 1, 0, addresses.length, 0, 0, 0, 0]);
  // Each record points to the name in the question, class IN, with a TTL of zero (RFC 1035, section 4).
  const records = addresses.map((address) => Buffer.from([0xc0, 12, 0, A, 0, 1, 0, 0, 0, 0, 0, 4, ...address.split('.').map(Number)]));
  dns.send(Buffer.concat([header, question, ...records]), from.port, from.address);
});
dns.bind(53, INSIDE);
await once(dns, 'listening');

const pem = readFileSync(join(import.meta.dirname, '../fixtures/hooks.example.pem'), 'utf8');
const [key, certificate] = pem.match(/-----BEGIN .*?-----END [A-Z ]+-----/gs)!;
const arrived: string[] = [];
for (const host of [PUBLIC, INSIDE]) {
  const server = createServer({ key: key!, cert: certificate! }, (_, reply) => {
    arrived.push(host);
    reply.end('ok');
  });
  server.listen(8443, host);
  await once(server, 'listening');
}

const outgoing = createOutgoing({ allow: [], ca: certificate!, log: { debug() {}, info() {}, warn() {}, error() {} } });
const outcomes: string[] = [];
for (let i = 0; i < ANSWERS.length; i++) {
  const attempt = outgoing.requestMerchantUrl({
    merchantId: 'mer_shop',
    url: 'https://hooks.example:8443/',
    method: 'POST',
    timeoutMs: 5_000,
    maxReplyBytes: 100,
  });
  outcomes.push(
    await attempt.then(
      ({ status }) => String(status),
      (error: { class?: string }) => error.class ?? String(error),
    ),
  );
}
process.stdout.write(JSON.stringify({ outcomes, questions, arrived }));
process.exit(0);
