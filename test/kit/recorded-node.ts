/** A node that only repeats the recorded answers of a real one, byte for byte except for the request's ID. */
import { type Recording, recordings } from './scripted-node.ts';
import { serve } from './serve.ts';

const UNKNOWN: Recording = {
  label: 'unknown',
  request: { method: '', params: [] },
  status: 404,
  body: '{"result":null,"error":{"code":-32601,"message":"Method not found"},"id":1}',
};

/** `more` has priority: replies that a test makes up, by label. */
export async function startRecordedNode(name: string, more: readonly Recording[] = []) {
  const known = [...more, ...recordings(name).values()];
  const plain = (params: readonly unknown[]) => JSON.stringify(params.map((param) => (typeof param === 'boolean' ? Number(param) : param)));
  const find = ({ method, params }: { method: string; params: unknown[] }): Recording => {
    const same = known.filter((row) => row.request.method === method);
    const exact = same.find((row) => plain(row.request.params) === plain(params));
    // A target that was not recorded gets the estimate of the recorded one; everything else that is unknown gets the recorded error.
    const refusal = method === 'getrawtransaction' ? 'err-unknown-txid' : 'err-method';
    return exact ?? (method === 'estimatesmartfee' ? same[0] : undefined) ?? known.find((row) => row.label === refusal) ?? UNKNOWN;
  };
  const { port, stop } = await serve((_request, reply, body) => {
    const asked = JSON.parse(body.toString());
    const textOf = (one: { id: number; method: string; params: unknown[] }) => find(one).body.replace(/"id":\d+\}\s*$/, `"id":${one.id}}`);
    if (Array.isArray(asked)) reply.writeHead(200).end(`[${asked.map(textOf).join(',')}]\n`);
    else reply.writeHead(find(asked).status).end(`${textOf(asked)}\n`);
  });
  return { url: `http://florin:test@127.0.0.1:${port}`, stop };
}
