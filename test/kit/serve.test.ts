/** The servers of tests: a connection that ends early does not end the process, and everything else that a handler throws does. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';

const ASK = "await fetch(url, { method: 'POST', body: 'x' }).catch(() => {});";
const CUT = String.raw`
  const client = connect(port, '127.0.0.1');
  await new Promise((written) => client.write('POST / HTTP/1.1\r\nhost: shop.example\r\ncontent-length: 10\r\n\r\nx', written));
  client.destroy();
`;
const CASES: readonly [what: string, ask: string, handler: string, says: RegExp | null][] = [
  ['a client that hangs up in the middle of the body', CUT, '', null],
  ['a server that has stopped', ASK, 'await fetch(stopped.url)', null],
  ['a server that hangs up', ASK, 'await fetch(silent.url)', null],
  ['a server that hangs up in the middle of its answer', ASK, 'await (await fetch(short.url)).text()', null],
  ['a wrong assertion', ASK, "assert.equal('found', 'expected')", /AssertionError/],
  ['a request that is not possible', ASK, "await fetch('http://127.0.0.1:1/')", /bad port/],
];
for (const [what, ask, handler, says] of CASES) {
  test(`${what} ${says ? 'is not hidden' : 'fails nothing, and the next request is answered'}`, () => {
    const program = `
      import assert from 'node:assert/strict';
      import { connect } from 'node:net';
      import { serve } from './test/kit/serve.ts';
      const stopped = await serve(() => {});
      await stopped.stop();
      const silent = await serve((request) => request.socket.destroy());
      const short = await serve((request, reply) => reply.writeHead(200, { 'content-length': 10 }).write('x', () => reply.destroy()));
      const { url, port, stop } = await serve(async (request, reply) => {
        if (request.method === 'POST') { ${handler} }
        reply.end('answered');
      });
      ${ask}
      console.log(await (await fetch(url)).text());
      for (const server of [silent, short, { stop }]) await server.stop();
    `;
    const args = ['--disable-warning=ExperimentalWarning', '--input-type=module', '--eval', program];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 60_000 });
    assert.deepEqual([status, stdout], says ? [1, ''] : [0, 'answered\n'], stderr);
    if (says) assert.match(stderr, says);
  });
}
