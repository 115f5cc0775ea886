/** Live payments in DOGE and DASH over peers, through the whole service: on Dogecoin above the headers that a real node sent. */
import assert from 'node:assert/strict';
import { after, afterEach, test } from 'node:test';
import { idOf, showHash } from '../../src/chains/bitcoin/header.ts';
import { decodeMessage } from '../../src/chains/bitcoin/p2p/messages.ts';
import { peerNetwork } from '../../src/chains/bitcoin/p2p/peer.ts';
import { PROOF_PARAMS } from '../../src/chains/bitcoin/proof-params.ts';
import { eventually } from '../kit/app.ts';
import { firstOf, longTest } from '../kit/long.ts';
import { createPeerChain } from '../kit/peer-chain.ts';
import { recordedMessages } from '../kit/peer-recordings.ts';
import { shownHash } from '../kit/regtest-chain.ts';
import { emptyChain, type ServedChain, startScriptedPeer } from '../kit/scripted-peer.ts';
import { begin, closeAll, pay, reaches, tellAway } from './peer-stories.ts';

afterEach(closeAll);
after(closeAll);

/** The headers that a real Dogecoin node sent, as a peer would send them again. */
function recordedDogecoin(): ServedChain {
  const { payload } = recordedMessages('DOGE').find(({ to, command }) => to === 'us' && command === 'headers')!;
  const message = decodeMessage('headers', payload, 'DOGE');
  assert.ok(message.command === 'headers' && message.headers.length > 100);
  const headers = message.headers.map((header) => ({ hash: showHash(idOf(PROOF_PARAMS.DOGE.regtest, header.bytes)), header }));
  return { ...emptyChain(), headers };
}

for (const { coin, served } of firstOf([
  { coin: 'DOGE' as const, served: recordedDogecoin },
  { coin: 'DASH' as const, served: emptyChain },
])) {
  test(`${coin}: announced, mined, completed, looked up, and reported when its block leaves the chain, comes back and leaves again`, async () => {
    const story = await begin(coin, served());
    const { app, chain, peers } = story;
    const { id, bytes } = await pay(story, coin);
    chain.announce(bytes, peers);
    await reaches(app, id, ({ status, confirmations }) => status === 'processing' && confirmations === 0);
    const [first] = chain.mine(1, { transactions: [bytes], merged: coin === 'DOGE' });
    await reaches(app, id, ({ confirmations }) => confirmations === 1);
    chain.mine(1, { merged: coin === 'DOGE' });
    chain.mine(1);
    await reaches(app, id, ({ status, confirmations }) => status === 'completed' && confirmations === 3);

    const found = await app.live.get(`/api/crypto/transaction/${shownHash(bytes)}?currency=${coin}`);
    assert.deepEqual([found.status, found.json.status, found.json.confirmations], [200, 'confirmed', 3], found.text);
    const other = await app.live.get(`/api/crypto/transaction/${'ab'.repeat(32)}?currency=${coin}`);
    assert.deepEqual([other.status, other.json.error.code], [501, 'not_supported']);
    const fees = await app.live.get(`/api/crypto/fees?currency=${coin}`);
    assert.equal(fees.status, 200, fees.text);

    // Miners replace its block and the next ones: more work without the payment.
    const branch = chain.served.headers.slice(-3);
    chain.drop(3);
    chain.mine(4);
    await reaches(app, id, ({ exception, confirmations }) => exception === 'reorged' && confirmations === 0);
    // They go back to the first branch, and to one without the payment again.
    chain.served.headers.splice(-4, 4, ...branch);
    chain.mine(2);
    const again = await reaches(app, id, ({ exception, confirmations }) => exception === null && confirmations === 5);
    assert.deepEqual([again.status, again.transfers[0].block_hash, again.amount_received], ['completed', first, '50.00000000']);
    chain.drop(5);
    chain.mine(6);
    await reaches(app, id, ({ exception, confirmations }) => exception === 'reorged' && confirmations === 0);
    // It is mined again in the new branch.
    chain.mine(1, { transactions: [bytes], merged: coin === 'DOGE' });
    chain.mine(2);
    const back = await reaches(app, id, ({ exception, confirmations }) => exception === null && confirmations === 3);
    assert.equal(back.status, 'completed');
    assert.notEqual(back.transfers[0].block_hash, first);
  });
}

for (const coin of firstOf(['BTC', 'DOGE'] as const))
  test(`${coin}: a branch with more work whose blocks nobody serves stops nothing, and what it says is paid is not, until it is served`, async (t) => {
    const served = emptyChain();
    createPeerChain(coin, [], { served }).mine(30);
    const announced = { ...served, headers: [...served.headers] };
    const missing = new Set<string>();
    const liar = await startScriptedPeer({
      ...{ network: peerNetwork(coin, 'regtest'), host: '127.65.0.1', chain: announced },
      script: ({ command, ...message }) =>
        command === 'getdata' && 'items' in message && message.items.some(({ hash }) => missing.has(hash)),
    });
    t.after(liar.close);
    const story = await begin(coin, served, liar);
    const { app, chain, peers } = story;
    const [paid, unpaid] = [await pay(story, coin), await pay(story, coin)];
    const branch = createPeerChain(coin, [liar], { served: announced });
    branch.drop(1);
    // It is announced with all its headers, and announced again.
    const [first] = branch.mine(7, { transactions: [paid.bytes, unpaid.bytes], merged: coin === 'DOGE' }, (hash) => missing.add(hash));
    await eventually(
      async () => liar.messages.some((message) => message.command === 'getdata' && message.items.some(({ hash }) => hash === first)),
      (asked) => asked,
    );
    chain.announce(paid.bytes, peers);
    await reaches(app, paid.id, ({ status }) => status === 'processing');
    chain.mine(1, { transactions: [paid.bytes] });
    chain.mine(2);
    await reaches(app, paid.id, ({ status, confirmations }) => status === 'completed' && confirmations === 3);
    assert.equal((await app.live.get(`/api/payment/${unpaid.id}`)).json.status, 'pending');
    assert.ok(
      peers.every((peer) => peer.opened() === 1),
      'the peers that serve their blocks stay',
    );

    // Now others have its blocks as well.
    served.headers.splice(0, served.headers.length, ...announced.headers);
    for (const [hash, bytes] of announced.blocks) served.blocks.set(hash, bytes);
    chain.mine(1);
    const moved = await reaches(app, unpaid.id, ({ status, confirmations }) => status === 'completed' && confirmations === 8);
    assert.equal(moved.transfers[0].block_hash, first);
    const kept = await reaches(app, paid.id, ({ confirmations }) => confirmations === 8);
    assert.deepEqual([kept.status, kept.transfers[0].block_hash, kept.amount_received], ['completed', first, '50.00000000']);
  });

// Invariant: Blocks that were mined while the service was stopped are all read from peers.
longTest('500 blocks that were mined while the service was stopped are all read, with the progress', () =>
  tellAway({ blocks: 500, paidAfter: 137, heldAt: 300, progress: 'reading missed blocks 59%, 201 left', timeoutMs: 60_000 }),
);
