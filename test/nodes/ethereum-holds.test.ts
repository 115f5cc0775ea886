/** What keeps payments on Ethereum from completing is shown wherever somebody looks: readiness, commands, the doctor, the dashboard. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { COIN } from '../../src/core/coin.ts';
import { readChainStatus } from '../../src/follow/chain-acts.ts';
import { changeSettings } from '../../src/merchants/merchants.ts';
import { diagnose } from '../../src/operate/doctor.ts';
import { eventually, type Reply, startTestApp, type TestApp } from '../kit/app.ts';
import {
  type BeaconAnswers,
  type BeaconServer,
  createBeaconChain,
  type MadeHeader,
  smallNetwork,
  startBeaconServer,
} from '../kit/beacon-chain.ts';
import { type EthNode, startAnvil } from '../kit/nodes.ts';
import { giveWallet } from '../kit/shop.ts';
import { putToken } from '../kit/token-contracts.ts';

const USDC = 'USDC@ethereum';
/** A slot a second, and one period that lasts for hours. */
const SECONDS_BEFORE = 4_000;
const DAYS_15 = 15 * 86_400;
const started = Math.floor(Date.now() / 1000);
const at = (genesisTime: number, secondsPerSlot: number) =>
  createBeaconChain(smallNetwork({ fulu: 0 }, { genesisTime, secondsPerSlot, epochsPerPeriod: 100_000 }));

let node: EthNode;
let server: BeaconServer;
let apps: TestApp[] = [];
before(async () => {
  node = await startAnvil('--chain-id', '1');
  await putToken(node.rpc, COIN[USDC].contract!.toLowerCase(), { decimals: COIN[USDC].decimals });
  await node.mine(1);
  server = await startBeaconServer();
});
after(async () => {
  for (const app of apps) await app.stop();
  await server?.stop();
  await node?.destroy();
});

const tipOf = async (): Promise<string> => (await node.rpc('eth_getBlockByNumber', 'latest', false)).hash;
/** A service on the main network, which holds real money. */
async function follow(chain: ReturnType<typeof createBeaconChain>, checkpoint: MadeHeader): Promise<TestApp> {
  const app = await startTestApp(
    {
      ...{ ETH_NODE_URL: node.url, ETH_TRUST: 'untrusted', ETH_CONFIRMATIONS: '1', ETH_BEACON_URL: server.url },
      ...{ ETH_CHECKPOINT: `0x${checkpoint.root}`, PRICES: 'static:ETH=2500.00,USDC=1.00', LOG_LEVEL: 'silent' },
    },
    { beacon: chain.network },
  );
  apps = [...apps, app];
  await giveWallet(app, 'ETH');
  await changeSettings(app.app.ctx, { merchantId: app.merchant.merchantId, settings: { tokens: [USDC] } });
  return app;
}
const readiness = async (app: TestApp): Promise<{ reasons: string[]; holds: string[]; followers: { ETH?: object } }> =>
  (await (await fetch(`${app.url}/readyz`)).json()) as any;
/** Where an operator looks, all of them. */
async function shows(app: TestApp, reason: RegExp): Promise<void> {
  await eventually(
    () => readiness(app),
    ({ reasons, holds }) => [...reasons, ...holds].some((one) => one.startsWith('ETH: ') && reason.test(one)),
    60_000,
  );
  const { ctx } = app.app;
  await eventually(
    async () => (await readChainStatus(ctx, { coin: 'ETH' }))[0]!,
    ({ holds, troubles, sources }) => [...holds, ...troubles, ...sources.map((one) => one.reason ?? '')].some((one) => reason.test(one)),
  );
  await eventually(
    () => diagnose(ctx),
    ({ findings }) => findings.some(({ check, ok, detail }) => /ETH|Ethereum/.test(check) && !ok && reason.test(detail)),
  );
}
const ok = (reply: Reply, status = 200): any => {
  assert.equal(reply.status, status, reply.text);
  return reply.json;
};

test('a stale head, an unknown fork and two signed finalized blocks hold, and a payment says why', async () => {
  const chain = at(started - SECONDS_BEFORE, 1);
  const slotNow = () => Math.floor(Date.now() / 1000) - (started - SECONDS_BEFORE);
  const checkpoint = chain.header(SECONDS_BEFORE - 600, await tipOf());
  const sign = async (slot: number): Promise<BeaconAnswers> => {
    const update = chain.update(chain.header(slot, await tipOf(), { finalized: checkpoint }), { finalized: checkpoint });
    const { finalized_header: _, finality_branch: __, ...optimistic } = update;
    return { bootstrap: chain.bootstrap(checkpoint), finality: update, optimistic };
  };
  server.serve(await sign(SECONDS_BEFORE - 590));
  const app = await follow(chain, checkpoint);
  await eventually(
    () => readiness(app),
    ({ followers }) => followers.ETH !== undefined,
    60_000,
  );
  const { id, payment_address: to } = ok(
    await app.live.post('/v1/transactions/create', { amount: 25, currency_fiat: 'USD', crypto: 'ETH', network: 'ethereum' }),
    201,
  );
  await node.send({ to, value: 10n ** 16n });
  await node.mine(2);
  const old = await sign(SECONDS_BEFORE - 580);
  server.serve(old);
  await shows(app, /the newest block that the sync committee signed is \d+ min old$/);
  const detail = async () => ok(await app.live.get(`/api/payment/${id}`));
  await eventually(detail, ({ hold_reason: hold }) => /the sync committee signed is \d+ min old$/.test(hold ?? ''), 60_000);
  assert.notEqual((await detail()).status, 'completed');

  server.serve({ ...old, version: 'heze' });
  await shows(app, /beacon servers serve a fork that this version of Florin does not know; upgrade Florin$/);

  server.serve(await sign(slotNow() - 3));
  await eventually(detail, ({ status }) => status === 'completed', 60_000);
  assert.equal((await detail()).hold_reason, null);

  const other = chain.header(checkpoint.slot, `0x${'77'.repeat(32)}`);
  const slot = slotNow() - 3;
  const two = chain.update(chain.header(slot, await tipOf(), { finalized: other }), { finalized: other });
  server.serve({ ...(await sign(slot)), finality: two });
  await shows(app, /two finalized blocks of slot \d+ are both signed/);
});

test('a checkpoint of 15 days ago is refused, and the reason is shown', async () => {
  const chain = at(started - DAYS_15 - 7_200, 12);
  const checkpoint = chain.header(300, await tipOf());
  server.serve({ bootstrap: chain.bootstrap(checkpoint) });
  const app = await follow(chain, checkpoint);
  await shows(app, /the checkpoint is 15 days old; set ETH_CHECKPOINT to a finalized block of the last 14 days/);
});

test('a clock that is behind the chain holds', async () => {
  const chain = at(started - SECONDS_BEFORE, 1);
  const checkpoint = chain.header(SECONDS_BEFORE + 1_800, await tipOf());
  server.serve({ bootstrap: chain.bootstrap(checkpoint) });
  const app = await follow(chain, checkpoint);
  await shows(app, /the clock of this machine is \d+ min behind the newest block that the sync committee signed$/);
});
