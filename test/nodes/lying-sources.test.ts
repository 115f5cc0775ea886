/**
 * Sources that lie, on mainnet: blocks without any work, invented by the followed source, while the other source works, is away, slow or
 * behind. The test steps the follower and its guard, so that nothing depends on the speed of the machine.
 */
// Invariant: Forged blocks of the followed source complete nothing that the other source has not seen; while the other source is away nothing large completes, and while your own node is away nothing completes.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TrustSetting } from '../../src/core/guard.ts';
import { createGuard } from '../../src/follow/chain-guard.ts';
import { diagnose } from '../../src/operate/doctor.ts';
import { readCoinHealth } from '../../src/readiness/coin-health.ts';
import { startTestApp } from '../kit/app.ts';
import { startCoreNode } from '../kit/core-node.ts';
import { firstOf, isLongRun } from '../kit/long.ts';
import { type SteppedShop, tellStepped as tell } from '../kit/stepped-shop.ts';
import { createTestChain } from '../kit/test-chain.ts';

const OTHERS = ['well', 'away', 'slow', 'behind'] as const;
type Other = (typeof OTHERS)[number];
/** The state of the other source while the first one lies. */
function become({ servers, chain }: Pick<SteppedShop, 'servers' | 'chain'>, other: Other): void {
  if (other === 'away') servers[1]!.behave('down');
  if (other === 'slow') servers[1]!.behave('slow');
  if (other === 'behind') {
    const behind = chain.copy();
    behind.rewind(1, { forget: true });
    servers[1]!.show(behind);
  }
}

const AMOUNTS = [99, 999, 50_000] as const;
/** Confirmations that BTC requires for each of them. */
const DEPTHS = [1, 2, 6] as const;
/** What a source may complete alone while the other is away: the trust of the lying one, then of the other. */
const RULES: readonly { trusts: readonly [TrustSetting, TrustSetting]; alone: readonly number[] }[] = [
  { trusts: ['own', 'own'], alone: [99, 999] },
  { trusts: ['own', 'untrusted'], alone: [99, 999] },
  { trusts: ['untrusted', 'own'], alone: [] },
  { trusts: ['untrusted', 'untrusted'], alone: [] },
];
/** The usual run has each state of the other source once, and one that is away beside each trust of the lying one. */
const USUAL: readonly string[] = ['own own away', 'own own slow', 'own untrusted well', 'untrusted own away', 'untrusted untrusted behind'];

describe('a source that invents blocks', { concurrency: 4 }, () => {
  for (const { trusts, alone } of RULES) {
    for (const other of OTHERS.filter((one) => isLongRun || USUAL.includes([...trusts, one].join(' ')))) {
      const completes = other === 'away' ? alone : [];
      const told =
        other === 'slow' && alone.length > 0
          ? 'completes nothing above 1,000 USD'
          : completes.length === 0
            ? 'completes nothing'
            : `completes ${completes.join(' and ')} USD, and nothing above`;
      test(`${trusts[0]}, beside one that is ${trusts[1]} and ${other}: 1, 2, 6 and 30 made-up blocks: it ${told}`, () =>
        tell(trusts, async (story) => {
          const { chain, servers, look, pay, detail, statuses } = story;
          become(story, other);
          const lying = chain.copy();
          servers[0]!.show(lying);
          const honestHeight = lying.tip().height;
          const ids: string[] = [];
          for (const blocks of other === 'slow' ? [1, 2, 3, 30] : [1, 2, 3, 6, 8, 30]) {
            // Each in a separate block: transfers in one block count as one payment.
            if (ids.length < AMOUNTS.length) ids.push(...(await pay(lying, AMOUNTS[ids.length]!)));
            lying.mine(blocks - (lying.tip().height - honestHeight));
            // Read twice: what was held the first time stays held.
            await look(other === 'slow' ? 1 : 2);
            const expected = ids.map((_, i) => (completes.includes(AMOUNTS[i]!) && blocks - i >= DEPTHS[i]! ? 'completed' : 'processing'));
            const found = await statuses(ids);
            // A slow source has a vote only while it answers in time. Payments that may complete either way are left out.
            const sure = (_: string, i: number) => other !== 'slow' || !alone.includes(AMOUNTS[i]!);
            assert.deepEqual(found.filter(sure), expected.filter(sure), `${blocks} blocks`);
          }
          for (const [i, id] of ids.entries()) {
            const { status, confirmations, hold_reason } = await detail(id);
            assert.equal(confirmations, 30 - i);
            if (status !== 'completed') assert.notEqual(hold_reason, null, `${AMOUNTS[i]} USD: the payment says why it waits`);
          }
        }));
    }
  }

  for (const trusts of [['own', 'untrusted'], ['own', 'own'], ...(isLongRun ? [['untrusted', 'untrusted'] as const] : [])] as const) {
    const small = trusts[1] === 'untrusted' ? 'processing' : 'completed';
    test(`${trusts[1]}, taking over from an honest one that is ${trusts[0]}: of 99 and 50,000 USD it leaves ${small} and processing`, () =>
      tell(trusts, async ({ chain, servers, look, pay, detail, statuses }) => {
        const lying = chain.copy();
        servers[1]!.show(lying);
        servers[0]!.behave('down');
        const ids: string[] = [];
        for (const amount of [99, 50_000]) {
          ids.push(...(await pay(lying, amount)));
          lying.mine(15);
        }
        await look(3);
        assert.deepEqual(await statuses(ids), [small, 'processing']);
        assert.match(
          (await detail(ids[1]!)).hold_reason,
          small === 'completed'
            ? /above 1,000 USD wait: they need two/
            : trusts[0] === 'own'
              ? /your own node is not available/
              : /nothing proves/,
        );
        // The honest one is back: its chain does not have the payment.
        servers[0]!.behave('well');
        chain.mine(31, { empty: true });
        await look(3);
        assert.equal((await detail(ids[1]!)).confirmations, 0);
      }));
  }
});

describe('honest sources', { concurrency: 4 }, () => {
  for (const { trusts } of firstOf(RULES.filter((rule) => rule.trusts.includes('own')))) {
    test(`${trusts.join(' and ')} with the same blocks complete payments of any amount`, () =>
      tell(trusts, async ({ chain, look, pay, statuses }) => {
        const ids: string[] = [];
        for (const amount of AMOUNTS) {
          ids.push(...(await pay(chain, amount)));
          chain.mine();
          await look();
        }
        assert.deepEqual(await statuses(ids), ['completed', 'completed', 'processing']);
        chain.mine(5);
        await look();
        assert.deepEqual(await statuses(ids), ['completed', 'completed', 'completed']);
      }));
  }

  test('one source of your own alone completes payments of any amount, and vouches for their blocks', () =>
    tell(['own'], async ({ chain, look, pay, detail, statuses }) => {
      const ids = await pay(chain, ...AMOUNTS);
      await look();
      assert.equal((await detail(ids[0]!)).verified_by, null);
      chain.mine(6);
      await look();
      assert.deepEqual(await statuses(ids), ['completed', 'completed', 'completed']);
      assert.equal((await detail(ids[0]!)).verified_by, 'node');
    }));

  for (const trusts of firstOf([['untrusted', 'untrusted'], ['untrusted']] as const))
    test(`${trusts.length} of others, without a proof, complete nothing and say why`, () =>
      tell(trusts, async ({ chain, look, pay, detail, statuses }) => {
        const ids = await pay(chain, 99);
        chain.mine(6);
        await look(2);
        assert.deepEqual(await statuses(ids), ['processing']);
        const { confirmations, hold_reason } = await detail(ids[0]!);
        assert.equal(confirmations, 6);
        assert.match(hold_reason, /nothing proves what the sources of this chain show/);
      }));

  test('while your own source is away for a moment, payments above the amount wait with the reason, and complete when it is back', () =>
    tell(['own', 'untrusted'], async ({ app, chain, servers, look, pay, detail, statuses }) => {
      const ids = await pay(chain, 99, 50_000);
      servers[0]!.behave('down');
      chain.mine(6);
      await look(2);
      assert.deepEqual(await statuses(ids), ['processing', 'processing']);
      const reason = /your own node is not available/;
      for (const id of ids) assert.match((await detail(id)).hold_reason, reason);
      const ready = (await (await fetch(`${app.url}/readyz`)).json()) as { holds: string[] };
      assert.match(ready.holds.join(), reason);
      const finding = (await diagnose(app.app.ctx)).findings.find(({ check }) => check === 'BTC completion');
      assert.deepEqual([finding?.ok, reason.test(finding?.detail ?? '')], [false, true], JSON.stringify(finding));
      servers[0]!.behave('well');
      await look(2);
      assert.deepEqual(await statuses(ids), ['completed', 'completed']);
    }));

  test('QUORUM_ABOVE sets the amount above which two sources are required', () =>
    tell(
      ['own', 'own'],
      async ({ app, chain, servers, look, pay, detail, statuses }) => {
        servers[1]!.behave('down');
        const ids: string[] = [];
        for (const amount of [50, 51]) {
          ids.push(...(await pay(chain, amount)));
          chain.mine();
        }
        await look(2);
        assert.deepEqual(await statuses(ids), ['completed', 'processing']);
        const reason = /payments above 50 USD wait: they need two sources of this chain, and only one is available/;
        assert.match((await detail(ids[1]!)).hold_reason, reason);
        const ready = (await (await fetch(`${app.url}/readyz`)).json()) as { holds: string[]; warnings: string[] };
        assert.deepEqual([ready.holds, reason.test(ready.warnings.join())], [[], true]);
        const health = async () => {
          const btc = (await readCoinHealth(app.app.ctx, { mode: 'live' })).find(({ coin }) => coin === 'BTC')!;
          return { chain: btc.chain, reasons: btc.reasons.join() };
        };
        const limited = await health();
        assert.deepEqual([limited.chain, reason.test(limited.reasons)], ['limited', true], limited.reasons);
        servers[1]!.behave('well');
        await look();
        assert.deepEqual(await statuses(ids), ['completed', 'completed']);
        assert.deepEqual(await health(), { chain: 'ok', reasons: '' });
      },
      { environment: { QUORUM_ABOVE: '50', BTC_CONFIRMATIONS: '1' } },
    ));

  test('two sources with one name count as one: if one of them is away, nothing is held', async () => {
    const chain = createTestChain({ coin: 'BTC' });
    const server = await startCoreNode(chain);
    const app = await startTestApp({ BTC_NODE_URL: `${server.url}, ${server.url}` }, { roles: ['api'] });
    try {
      const { ctx } = app.app;
      const source = ctx.chains.get('bitcoin')!;
      await createGuard(ctx, source).check();
      const [row] = await app.app.ctx.db.sql<{ above: string | null }[]>`select held_above_reason as above from chain_guard`;
      assert.equal(row!.above, null);
    } finally {
      await app.stop();
      await server.close();
    }
  });

  test('for a new block each source is asked once, and for a quiet chain not at all', () =>
    tell(['own', 'own'], async ({ chain, servers, look }) => {
      await look(2);
      const asked = () => servers[1]!.calls.filter((method) => method === 'getblockhash').length;
      const before = asked();
      await look(5);
      assert.equal(asked(), before, 'nothing new, nothing asked');
      chain.mine(3);
      await look(3);
      assert.ok(asked() - before <= 1, `${asked() - before} questions`);
    }));
});
