/** A merchant's webhook receiver: collects what arrives and answers as configured. */
import type { IncomingHttpHeaders } from 'node:http';
import { serve } from './serve.ts';

export type Received = { headers: IncomingHttpHeaders; body: string; event: any };
export type Receiver = { url: string; received: Received[]; answer(status: number): void; stop(): Promise<void> };

export async function startReceiver(): Promise<Receiver> {
  const received: Received[] = [];
  let status = 200;
  const { url, stop } = await serve(({ headers }, reply, sent) => {
    const body = sent.toString();
    if (status < 300) received.push({ headers, body, event: JSON.parse(body) });
    reply.writeHead(status).end();
  });
  return {
    url: `${url}/hook`,
    received,
    answer: (next) => {
      status = next;
    },
    stop,
  };
}
