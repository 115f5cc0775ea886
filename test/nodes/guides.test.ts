/** Nodes set up exactly as the guides print: Florin works with them, and so does every other user of the node. */
// Invariant: A node set up with the lines of its guide works, and keeps its other users.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { addressOfScript } from '../../src/addresses/address.ts';
import { startConfiguredNode } from '../kit/nodes.ts';
import { lookFor, openSource } from '../kit/source.ts';
import { bitcoindCommand } from '../kit/tools.ts';

/** In the format of share/rpcauth/rpcauth.py. */
const rpcauth = (user: string, password: string) => `${user}:00ff$${createHmac('sha256', '00ff').update(password).digest('hex')}`;
const NODES = [
  { coin: 'BTC', guide: 'bitcoin.md', file: 'bitcoin.conf', command: () => bitcoindCommand() },
  { coin: 'LTC', guide: 'litecoin.md', file: 'litecoin.conf', command: () => ['/usr/lib/litecoin/litecoind'] },
] as const;

for (const { coin, guide, file, command } of NODES) {
  test(`${coin}: the printed configuration lets Florin in and locks nobody out`, async (t) => {
    const printed = new RegExp(`^# ${file}\\n([\\s\\S]*?)^\`\`\`$`, 'm').exec(
      readFileSync(join(import.meta.dirname, '../../docs/guides', guide), 'utf8'),
    )![1]!;
    assert.match(printed, /^rpcauth=florin:\.\.\./m);
    const configuration = printed.replace('florin:...', rpcauth('florin', 'test'));
    const node = await startConfiguredNode({
      command: command(),
      file,
      configuration,
      flags: [`-rpcauth=${rpcauth('other', 'own')}`],
      user: 'florin:test',
    });
    const source = openSource(coin, node.origin.replace('//', '//florin:test@'));
    t.after(async () => {
      // A node that stops waits for open connections.
      await source.close();
      await node.destroy();
    });
    const ask = async (user: string, body: unknown) => {
      const reply = await fetch(node.origin, {
        method: 'POST',
        headers: { authorization: `Basic ${Buffer.from(user).toString('base64')}` },
        body: JSON.stringify(body),
      });
      return { status: reply.status, text: await reply.text() };
    };
    const script = '0014'.padEnd(44, '7');
    const address = addressOfScript(script, { coin, network: 'regtest' })!;
    // Another user may call what Florin may not.
    const mined = await ask('other:own', { id: 1, method: 'generatetoaddress', params: [2, address] });
    assert.equal(mined.status, 200, mined.text);
    assert.equal((await ask('other:own', [{ id: 1, method: 'getpeerinfo', params: [] }])).status, 200);
    assert.equal((await ask('florin:test', { id: 1, method: 'getpeerinfo', params: [] })).status, 403);

    const health = await source.health();
    assert.equal(health.tip.height, 2);
    assert.deepEqual((await source.inspect!()).missing, []);
    const block = await (await source.fetchBlock(health.tip.hash)).scan(lookFor(script));
    assert.equal(block.sightings.length, 1);
    assert.equal((await source.fetchMempool()).beside, health.tip.hash);
    assert.equal((await source.readUnspent!({ address, outputs: block.sightings })).units, block.sightings[0]!.units);
    assert.equal((await source.fees()).length, 3);
  });
}
