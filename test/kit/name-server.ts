/** A real DNS server (RFC 1035, over UDP) whose answers a test decides, one question at a time. */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';

/** IPv4 addresses; none: the name has no address; null: never answers. */
export type NameAnswer = readonly string[] | null;
export type NameServer = {
  /** In the format of `dns.setServers`. */
  address: string;
  /** The names whose IPv4 addresses were requested, in order, including repeats. */
  asked: string[];
  stop(): void;
};

const A = 1;

export async function startNameServer(
  answer: (name: string) => NameAnswer | Promise<NameAnswer>,
  { host = '127.0.0.1', port = 0 }: { host?: string; port?: number } = {},
): Promise<NameServer> {
  const socket = createSocket('udp4');
  const asked: string[] = [];
  let stopped = false;
  socket.on('message', async (message, from) => {
    const labels: string[] = [];
    let at = 12;
    for (; message[at] !== 0; at += message[at]! + 1) labels.push(message.toString('ascii', at + 1, at + 1 + message[at]!));
    const question = message.subarray(12, at + 5);
    const name = labels.join('.').toLowerCase();
    const asksForA = question.readUInt16BE(question.length - 4) === A;
    if (asksForA) asked.push(name);
    const found = await answer(name);
    if (found === null || stopped) return;
    const addresses = asksForA ? found : [];
    // An answer to a recursive question; each record points to the name in the question and has a TTL of zero.
    const header = Buffer.from([message[0]!, message[1]!, 0x81, 0x80, 0, 1, 0, addresses.length, 0, 0, 0, 0]);
    const records = addresses.map((address) => Buffer.from([0xc0, 12, 0, A, 0, 1, 0, 0, 0, 0, 0, 4, ...address.split('.').map(Number)]));
    socket.send(Buffer.concat([header, question, ...records]), from.port, from.address);
  });
  socket.bind(port, host);
  await once(socket, 'listening');
  return {
    address: `${host}:${(socket.address() as AddressInfo).port}`,
    asked,
    stop: () => {
      stopped = true;
      socket.close();
    },
  };
}
