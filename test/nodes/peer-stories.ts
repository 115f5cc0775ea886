/** Shops that read a coin from scripted peers on regtest, and the story of a service that was stopped for a long time. */
import assert from 'node:assert/strict';
import { HDKey } from '@scure/bip32';
import { decodeAddress } from '../../src/addresses/address.ts';
import { startApp } from '../../src/app.ts';
import { peerNetwork } from '../../src/chains/bitcoin/p2p/peer.ts';
import { readChainStatus } from '../../src/follow/chain-acts.ts';
import { createLog } from '../../src/log.ts';
import { readPayableCoins } from '../../src/readiness/readiness.ts';
import { setWallet } from '../../src/wallets/wallets.ts';
import { client, eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { base58check } from '../kit/base58.ts';
import { createPeerChain, type PeerChain } from '../kit/peer-chain.ts';
import { transaction } from '../kit/regtest-chain.ts';
import { emptyChain, type ScriptedPeer, type ServedChain, startScriptedPeer } from '../kit/scripted-peer.ts';

const closers: (() => Promise<void>)[] = [];
export const closeAll = async () => {
  for (const close of closers.splice(0).reverse()) await close();
};
/** Blocks that the follower remembers, with that of its cursor. */
const KEPT = 2_001;
const XPUB = base58check.respell(HDKey.fromMasterSeed(new Uint8Array(32).fill(7)).derive("m/44'/1'/0'").publicExtendedKey, 0x043587cf);

export type Story = { app: TestApp; chain: PeerChain; peers: ScriptedPeer[] };
/** `liar`: one more peer, the first in the settings. */
export async function begin(coin: 'BTC' | 'DOGE' | 'DASH', served: ServedChain, liar: ScriptedPeer | null = null): Promise<Story> {
  const peers = await Promise.all(
    ['127.61.0.1', '127.62.0.1'].map((host) => startScriptedPeer({ network: peerNetwork(coin, 'regtest'), chain: served, host })),
  );
  closers.push(...peers.map(({ close }) => close));
  const chain = createPeerChain(coin, peers, { served });
  if (served.headers.length === 0) chain.mine(30);
  const app = await startTestApp({
    [`${coin}_NETWORK`]: 'regtest',
    [`${coin}_PEERS`]: [...(liar ? [liar] : []), ...peers].map(({ name }) => name).join(','),
    [`${coin}_CONFIRMATIONS`]: '3',
    PRICES: `static:${coin}=0.50`,
  });
  closers.push(app.stop);
  await setWallet(app.app.ctx, { merchantId: app.merchant.merchantId, coin, accountKey: XPUB, script: 'p2pkh' });
  await eventually(
    async () => ((await (await fetch(`${app.url}/readyz`)).json()) as any).followers[coin]?.height,
    (height) => height === served.headers.length,
  );
  return { app, chain, peers };
}
export async function pay({ app }: Story, coin: 'DOGE' | 'DASH' | 'BTC'): Promise<{ id: string; bytes: Buffer }> {
  const made = await app.live.post('/v1/transactions/create', { crypto: coin, amount: 25, currency_fiat: 'USD' });
  assert.equal(made.status, 201, made.text);
  assert.equal(made.json.amount, '50.00000000');
  const { key: script } = decodeAddress(made.json.payment_address, { coin, network: 'regtest' });
  return { id: made.json.transaction_id, bytes: transaction([{ script, units: 5_000_000_000n }]) };
}
export const reaches = (app: TestApp, id: string, is: (detail: any) => boolean) =>
  eventually(async () => (await app.live.get(`/api/payment/${id}`)).json, is);

/**
 * So many blocks are mined while the service is stopped. Their reading is held at one of them, where the progress is `progress`, which
 * everything shows; then all of them are read, and the payment in the block after the first `paidAfter` is found.
 */
export async function tellAway({
  blocks,
  paidAfter,
  heldAt,
  progress,
  timeoutMs,
}: {
  blocks: number;
  paidAfter: number;
  heldAt: number;
  progress: string;
  timeoutMs: number;
}): Promise<void> {
  const held = { hash: '', asked: [] as (() => void)[] };
  const served = emptyChain();
  const peers = await Promise.all(
    ['127.63.0.1', '127.64.0.1'].map((host) =>
      startScriptedPeer({
        network: peerNetwork('BTC', 'regtest'),
        chain: served,
        host,
        script: (message, link) => {
          if (message.command !== 'getdata' || !message.items.some(({ hash }) => hash === held.hash)) return false;
          const { hash } = held;
          held.asked.push(() => link.send({ command: 'block', bytes: served.blocks.get(hash)! }));
          return true;
        },
      }),
    ),
  );
  closers.push(...peers.map(({ close }) => close));
  const chain = createPeerChain('BTC', peers, { served });
  chain.mine(20);
  const app = await startTestApp({
    ...{ BTC_NETWORK: 'regtest', BTC_PEERS: peers.map(({ name }) => name).join(','), BTC_CONFIRMATIONS: '2', PRICES: 'static:BTC=0.50' },
  });
  closers.push(app.stop);
  const { ctx } = app.app;
  const { merchantId, keys } = app.merchant;
  await setWallet(ctx, { merchantId, coin: 'BTC', accountKey: XPUB, script: 'p2pkh' });
  const heightOf = async (url: string) => ((await (await fetch(`${url}/readyz`)).json()) as any).followers.BTC?.height;
  await eventually(
    () => heightOf(app.url),
    (height) => height === 20,
  );
  const { id, bytes } = await pay({ app, chain, peers }, 'BTC');
  await app.app.stop();

  chain.mine(paidAfter);
  chain.mine(blocks - paidAfter, { transactions: [bytes] });
  held.hash = served.headers[20 + heldAt - 1]!.hash;
  const again = await startApp(app.config, { log: createLog('error') });
  closers.push(again.stop);
  await again.ctx.db.sql`update tips set looked_at = 'epoch'`;
  const readyz = async () => (await fetch(`${again.url}/readyz`)).json() as Promise<any>;
  await eventually(readyz, ({ reasons }) => reasons.includes(`BTC: ${progress}`), timeoutMs);
  const readiness = await readPayableCoins(again.ctx, { merchantId, mode: 'live' });
  assert.deepEqual(
    readiness.find(({ coin }) => coin === 'BTC')!.missing.map(({ message }) => message),
    [`The Bitcoin source is not in sync: ${progress}.`],
  );
  assert.deepEqual((await readChainStatus(again.ctx, { coin: 'BTC' }))[0]!.troubles, [progress]);

  held.hash = '';
  for (const send of held.asked) send();
  const live = client(again.url!, keys.liveSecret);
  const paid = await eventually(
    async () => (await live.get(`/api/payment/${id}`)).json,
    ({ status, confirmations }) => status === 'completed' && confirmations === blocks - paidAfter,
    timeoutMs,
  );
  assert.equal(paid.transfers[0].block_height, 20 + paidAfter + 1);
  const [read] = await again.ctx.db.sql<{ blocks: number; lowest: number; highest: number }[]>`
    select count(*)::int as blocks, min(height)::int as lowest, max(height)::int as highest from blocks where chain = 'BTC' and height > 20`;
  assert.deepEqual(read, { blocks: Math.min(blocks, KEPT), lowest: Math.max(21, blocks + 21 - KEPT), highest: blocks + 20 });
  await eventually(readyz, ({ reasons }) => reasons.length === 0);
}
