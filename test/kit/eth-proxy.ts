/** A proxy between the service and an Ethereum node that answers like other providers: methods refused, tags unknown, limits reached. */
import { serve } from './serve.ts';

export type Call = { id: unknown; method: string; params: any[] };
export type EthProxy = {
  url: string;
  /** The node behind it. */
  target: string;
  /** Methods that this provider does not have; `custom tracers`: it runs only its own. */
  refused: Set<string>;
  /** Changes the answer to one call; undefined passes it on. */
  answer: (call: Call) => unknown;
  /** Refuses one call with an error; undefined passes it on. */
  fail: (call: Call) => { code: number; message: string } | undefined;
  /** Changes what the node answered to one call. */
  change: (call: Call, result: any) => unknown;
  /** It answers nothing. */
  isAway: boolean;
  /** How many of the next requests get 429 and a Retry-After of one second. */
  limited: number;
  /** The largest accepted batch. */
  maxBatch: number;
  requests: number;
  stop(): Promise<void>;
};

export async function startEthProxy(target: string): Promise<EthProxy> {
  const { url, stop } = await serve(async (request, reply, sent) => {
    const body = JSON.parse(sent.toString()) as Call | Call[];
    proxy.requests++;
    if (proxy.isAway) {
      request.socket.destroy();
      return;
    }
    const say = (status: number, value: unknown, headers: Record<string, string> = {}) =>
      reply.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value));
    if (proxy.limited > 0) {
      proxy.limited--;
      say(429, { jsonrpc: '2.0', id: null, error: { code: -32005, message: 'too many requests' } }, { 'retry-after': '1' });
      return;
    }
    const calls = Array.isArray(body) ? body : [body];
    if (calls.length > proxy.maxBatch) {
      say(400, { jsonrpc: '2.0', id: null, error: { code: -32600, message: 'batch too large' } });
      return;
    }
    const answers = new Map<unknown, object>();
    for (const call of calls) {
      const isCustom = /^\s*\{/.test(call.params?.[1]?.tracer ?? '');
      if (proxy.refused.has(call.method) || (isCustom && proxy.refused.has('custom tracers'))) {
        const error = { code: -32601, message: `the method ${call.method} does not exist/is not available` };
        answers.set(call.id, { jsonrpc: '2.0', id: call.id, error });
        continue;
      }
      const error = proxy.fail(call);
      if (error) {
        answers.set(call.id, { jsonrpc: '2.0', id: call.id, error });
        continue;
      }
      const result = proxy.answer(call);
      if (result !== undefined) answers.set(call.id, { jsonrpc: '2.0', id: call.id, result });
    }
    const rest = calls.filter((call) => !answers.has(call.id));
    if (rest.length > 0) {
      const passed = await fetch(proxy.target, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(rest),
      });
      for (const answer of (await passed.json()) as { id: unknown; result?: unknown }[]) {
        const call = rest.find(({ id }) => id === answer.id)!;
        answers.set(answer.id, 'result' in answer ? { ...answer, result: proxy.change(call, answer.result) } : answer);
      }
    }
    const all = calls.map((call) => answers.get(call.id));
    say(200, Array.isArray(body) ? all : all[0]);
  });
  const proxy: EthProxy = {
    target,
    url,
    refused: new Set(),
    answer: () => undefined,
    fail: () => undefined,
    change: (_, result) => result,
    isAway: false,
    limited: 0,
    maxBatch: 1_000,
    requests: 0,
    stop,
  };
  return proxy;
}
