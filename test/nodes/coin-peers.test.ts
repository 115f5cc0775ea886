/** Live payments in DOGE and DASH over peers, through the whole service: on Dogecoin above the headers that a real node sent. */
import assert from 'node:assert/strict';
import { after, afterEach, test } from 'node:test';
import { idOf, showHash } from '../../src/chains/bitcoin/header.ts';
import { decodeMessage } from '../../src/chains/bitcoin/p2p/messages.ts';
import { PROOF_PARAMS } from '../../src/chains/bitcoin/proof-params.ts';
import { recordedMessages } from '../kit/peer-recordings.ts';
import { shownHash } from '../kit/regtest-chain.ts';
import { emptyChain, type ServedChain } from '../kit/scripted-peer.ts';
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

for (const { coin, served } of [
  { coin: 'DOGE' as const, served: recordedDogecoin },
  { coin: 'DASH' as const, served: emptyChain },
]) {
  test(`${coin}: announced, mined, completed, looked up, and reported when its block leaves the chain`, async () => {
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
    chain.drop(3);
    chain.mine(4);
    await reaches(app, id, ({ exception, confirmations }) => exception === 'reorged' && confirmations === 0);
    // It is mined again in the new branch.
    chain.mine(1, { transactions: [bytes], merged: coin === 'DOGE' });
    chain.mine(2);
    const back = await reaches(app, id, ({ exception, confirmations }) => exception === null && confirmations === 3);
    assert.equal(back.status, 'completed');
    assert.notEqual(back.transfers[0].block_hash, first);
  });
}

test('500 blocks that were mined while the service was stopped are all read, with the progress', () =>
  tellAway({ blocks: 500, paidAfter: 137, heldAt: 300, progress: 'reading missed blocks 59%, 201 left', timeoutMs: 60_000 }));
