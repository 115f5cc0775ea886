/** Completed payments that lose their money to the network: reported at once to everyone, and withdrawn when the money is back. */
// Invariant: A completed payment that loses its money notifies every endpoint, at once and once.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { MemberRole } from '../../src/core/roles.ts';
import { listNoticeSettings } from '../../src/notices/notices.ts';
import { eventually, startTestApp } from '../kit/app.ts';
import { firstOf } from '../kit/long.ts';
import { startMailServer } from '../kit/mail.ts';
import { setUpPerson } from '../kit/person.ts';
import { startReceiver } from '../kit/receiver.ts';
import { type SteppedShop, tellStepped as tell } from '../kit/stepped-shop.ts';

/** The events of a payment from the first one, as `completed` or `updated`. */
const eventsOf = async ({ app }: Pick<SteppedShop, 'app'>, id: string): Promise<string[]> => {
  const { json } = await app.live.get(`/v1/events?payment_id=${id}`);
  return json.data.map((event: { type: string }) => event.type.replace('payment.', '')).reverse();
};
/** A payment that completes with so many confirmations. */
async function complete({ chain, pay, look, detail }: SteppedShop, dollars: number, confirmations: number): Promise<string> {
  const [id] = await pay(chain, dollars);
  chain.mine(confirmations);
  await look();
  // If a worker runs, it settles beside the looks.
  await eventually(
    () => detail(id!),
    (d) => d.status === 'completed',
  );
  return id!;
}

describe('a completed payment', { concurrency: 3 }, () => {
  test('whose transfer is in no block any more says so at once, and the endpoints that chose it, the owner and finance are notified once', async () => {
    const mail = await startMailServer();
    const receivers = await Promise.all([startReceiver(), startReceiver(), startReceiver(), startReceiver()]);
    try {
      await tell(
        ['own'],
        async (story) => {
          const { app, chain, look, detail } = story;
          const owner = await setUpPerson(app);
          const wanted = [undefined, ['*'], ['payment.created'], ['payment.completed', 'payment.updated']];
          for (const [i, events] of wanted.entries()) {
            const made = await app.live.post('/v1/webhook_endpoints', { url: receivers[i]!.url, ...(events && { events }) });
            assert.equal(made.status, 201, made.text);
          }
          const id = await complete(story, 99, 1);
          chain.rewind(1, { forget: true });
          chain.mine(2, { empty: true });
          await look();
          // The worker settles beside the looks.
          const reversed = await eventually(
            () => detail(id),
            (d) => d.exceptions.length > 0,
          );
          assert.deepEqual(
            [reversed.status, reversed.exception, reversed.exceptions, reversed.confirmations],
            ['completed', 'reorged', ['reorged'], 0],
          );
          // The customer sees it too, and gets no receipt.
          assert.match(await (await fetch(`${app.url}/pay?id=${id}`)).text(), /data-state="reversed"[^>]*data-say="Payment reversed"/);
          assert.equal((await fetch(`${app.url}/pay/receipt?id=${id}`, { redirect: 'manual' })).status, 303);
          chain.mine(2);
          await look(2);
          assert.deepEqual(await eventsOf(story, id), ['created', 'processing', 'completed', 'reversed'], 'told once');
          const heard = [
            ['created', 'processing', 'completed', 'reversed'],
            ['created', 'processing', 'completed', 'reversed'],
            ['created'],
            ['completed'],
          ];
          for (const [i, receiver] of receivers.entries()) {
            const types = () => receiver.received.map(({ event }) => event.type.replace('payment.', ''));
            await eventually(
              async () => types(),
              (got) => got.length >= heard[i]!.length,
            );
            assert.deepEqual(types().sort(), [...heard[i]!].sort());
            const told = receiver.received.find(({ event }) => event.type === 'payment.reversed')?.event.data;
            assert.equal(told !== undefined, heard[i]!.includes('reversed'));
            if (told) assert.deepEqual([told.id, told.status, told.exceptions], [id, 'completed', ['reorged']]);
          }
          const mails = await eventually(
            async () => mail.mails.filter(({ text }) => /A completed payment of \$[\d,.]+ was reversed/.test(text)),
            (found) => found.length > 0,
          );
          assert.deepEqual(
            mails.map(({ to }) => to),
            [['olga@shop.example']],
          );
          const { data: notices } = (await owner.get('/live/notices')).json;
          assert.deepEqual(
            notices.filter((n: any) => n.payment === id).map((n: any) => n.kind),
            ['payment_reversed'],
          );
          const settings = (await owner.get('/live/notice-settings')).json.settings;
          assert.equal(settings.find((one: any) => one.kind === 'payment_reversed').email, true);
          const byDefault = async (role: MemberRole) =>
            (await listNoticeSettings(app.app.ctx, { merchantId: app.merchant.merchantId, userId: 'usr_none', role })).find(
              ({ kind }) => kind === 'payment_reversed',
            )!.email;
          assert.deepEqual(await Promise.all((['owner', 'finance', 'support'] as const).map(byDefault)), [true, true, false]);
          const { data: waiting } = (await owner.get('/live/attention')).json;
          assert.deepEqual(
            waiting.map((one: any) => one.id),
            [id],
          );
        },
        { environment: { SMTP_URL: mail.url, MAIL_FROM: 'pay@shop.example' }, roles: ['api', 'worker'] },
      );
    } finally {
      await mail.stop();
      for (const receiver of receivers) await receiver.stop();
    }
  });

  test('that waits again after a reorganization says so until it is deep enough, and an update then reports that it is', () =>
    tell(['own'], async (story) => {
      const { chain, look, detail } = story;
      const id = await complete(story, 999, 2);
      const exceptions = async () => (await detail(id)).exceptions;
      chain.rewind(2);
      chain.mine(3, { empty: true });
      await look();
      assert.deepEqual(await exceptions(), ['reorged'], 'it waits');
      chain.mine();
      await look();
      assert.deepEqual(await exceptions(), ['reorged'], 'one confirmation of two');
      chain.mine();
      await look();
      assert.deepEqual([(await detail(id)).confirmations, await exceptions()], [2, []]);
      assert.deepEqual(await eventsOf(story, id), ['created', 'processing', 'completed', 'reversed', 'updated']);
      // It happens again: that is another reversal.
      chain.rewind(2);
      chain.mine(3, { empty: true });
      await look();
      assert.deepEqual((await eventsOf(story, id)).slice(4), ['updated', 'reversed']);
    }));

  test('whose transfer is as deep on the other branch as before reports nothing', () =>
    tell(['own'], async (story) => {
      const { chain, look, detail } = story;
      const id = await complete(story, 999, 2);
      const before = (await detail(id)).transfers[0].block_hash;
      chain.rewind(2);
      chain.mine(3);
      await look();
      const after = await detail(id);
      assert.notEqual(after.transfers[0].block_hash, before);
      assert.deepEqual([after.confirmations, after.exceptions], [3, []]);
      assert.deepEqual(await eventsOf(story, id), ['created', 'processing', 'completed']);
    }));

  test('is checked once the other branch has been read, even by a service that was restarted in between', () =>
    tell(['own'], async (story) => {
      const { app, chain, servers, look, detail } = story;
      const id = await complete(story, 99, 1);
      chain.rewind(1, { forget: true });
      chain.mine(2, { empty: true });
      await look(1);
      assert.deepEqual((await detail(id)).exceptions, ['reorged']);
      // The same with a stop in between: blocks were removed, and the process ended.
      await app.app.ctx.db.sql`update tips set unwound = true`;
      servers[0]!.behave('down');
      await look(2);
      assert.deepEqual((await detail(id)).exceptions, ['reorged'], 'nothing is taken back meanwhile');
      servers[0]!.behave('well');
      chain.mine();
      await look(2);
      assert.deepEqual((await detail(id)).exceptions, ['reorged']);
      assert.equal((await eventsOf(story, id)).filter((type) => type === 'reversed').length, 1);
    }));

  for (const coin of firstOf(['BTC', 'LTC', 'DOGE', 'DASH'] as const))
    test(`in ${coin} is reported when the chain goes over to another branch, and counts once when it goes back to the first one, each time`, () =>
      tell(
        ['own'],
        async (story) => {
          const { chain, servers, pay, look, detail } = story;
          const other = chain.copy();
          const [id] = await pay(chain, 99);
          // Enough for each of these coins, also without the locks of DASH.
          const needed = 24;
          chain.mine(needed);
          await look();
          const before = await detail(id!);
          assert.deepEqual([before.status, before.exceptions], ['completed', []]);
          // The branch that is shown has two blocks more than the one before.
          for (const more of [needed + 2, 4]) {
            other.mine(more, { empty: true });
            servers[0]!.show(other);
            await look(2);
            const without = await detail(id!);
            assert.deepEqual([without.status, without.exceptions, without.confirmations], ['completed', ['reorged'], 0]);
            chain.mine(4);
            servers[0]!.show(chain);
            await look(2);
            const back = await detail(id!);
            assert.deepEqual([back.status, back.exceptions, back.amount_received], ['completed', [], before.amount_received]);
            assert.deepEqual(
              back.transfers.map(({ block_hash: hash }: { block_hash: string }) => hash),
              before.transfers.map(({ block_hash: hash }: { block_hash: string }) => hash),
            );
          }
          const twice = ['reversed', 'updated', 'reversed', 'updated'];
          assert.deepEqual(await eventsOf(story, id!), ['created', 'processing', 'completed', ...twice]);
        },
        { coin },
      ));

  test('does not depend on extra transfers: losing a second transfer reverses nothing', () =>
    tell(['own'], async (story) => {
      const { chain, look, detail } = story;
      const id = await complete(story, 99, 1);
      const { payment_address, amount } = await detail(id);
      chain.pay([[payment_address, BigInt(amount.replace('.', ''))]]);
      chain.mine();
      await look();
      assert.deepEqual((await detail(id)).exceptions, ['overpaid']);
      chain.rewind(1, { forget: true });
      chain.mine(2, { empty: true });
      await look();
      assert.ok(!(await detail(id)).exceptions.includes('reorged'));
      assert.ok(!(await eventsOf(story, id)).includes('reversed'));
    }));
});

describe('a source that comes back', { concurrency: 3 }, () => {
  /** Completed by the first source while the second is away. */
  const completeAlone = async (story: SteppedShop): Promise<string> => {
    story.servers[1]!.behave('down');
    return complete(story, 99, 1);
  };
  const exceptions = async ({ detail }: SteppedShop, id: string) => (await detail(id)).exceptions;

  test('and lacks the block of a completed payment: the payment says so until the source has it', () =>
    tell(['own', 'own'], async (story) => {
      const { app, chain, servers, look } = story;
      const behind = chain.copy();
      const id = await completeAlone(story);
      servers[1]!.show(behind);
      servers[1]!.behave('well');
      await look();
      assert.deepEqual(await exceptions(story, id), [], 'it may hear of it in a moment');
      await look();
      assert.deepEqual(await exceptions(story, id), ['reorged']);
      await look(2);
      assert.deepEqual(await eventsOf(story, id), ['created', 'processing', 'completed', 'reversed']);
      // When it is away again, it takes nothing back.
      servers[1]!.behave('down');
      await look(2);
      servers[1]!.behave('well');
      servers[1]!.show(chain);
      await look(2);
      assert.deepEqual(await exceptions(story, id), []);
      assert.deepEqual(await eventsOf(story, id), ['created', 'processing', 'completed', 'reversed', 'updated']);
      const [left] = await app.app.ctx.db.sql<{ n: bigint }[]>`select count(*) as n from transfers where disputed_since is not null`;
      assert.equal(left!.n, 0n);
    }));

  // Invariant: A payment that completed while a source was away is reported when that source returns without the block.
  test('and has another block in its place: a payment that a lying source completed meanwhile says so', () =>
    tell(['own', 'own'], async (story) => {
      const { chain, servers, look, pay, detail } = story;
      const honest = chain.copy();
      const before = await complete(story, 50, 1);
      honest.mine(1, { empty: true });
      servers[1]!.behave('down');
      const [id] = await pay(chain, 99);
      chain.mine(6);
      await look();
      assert.equal((await detail(id!)).status, 'completed');
      servers[1]!.show(honest);
      servers[1]!.behave('well');
      await look(3);
      assert.deepEqual(await exceptions(story, id!), ['reorged']);
      assert.deepEqual(await exceptions(story, before), ['reorged'], 'its block is another one there, too');
    }));

  test('far behind says nothing about blocks that it cannot know yet', () =>
    tell(['own', 'own'], async (story) => {
      const { chain, servers, look, pay, detail } = story;
      const old = chain.copy();
      chain.mine(10, { empty: true });
      await look();
      servers[1]!.behave('down');
      const [id] = await pay(chain, 99);
      chain.mine();
      await look();
      assert.equal((await detail(id!)).status, 'completed');
      servers[1]!.show(old);
      servers[1]!.behave('well');
      await look(4);
      assert.deepEqual(await exceptions(story, id!), []);
    }));

  test('and is untrusted disputes nothing that your own node has', () =>
    tell(['own', 'untrusted'], async (story) => {
      const { chain, servers, look } = story;
      const other = chain.copy();
      other.mine(2, { empty: true });
      const id = await completeAlone(story);
      servers[1]!.show(other);
      servers[1]!.behave('well');
      await look(4);
      assert.deepEqual(await exceptions(story, id), []);
    }));
});

test('test mode simulates a reversal: completed, then reversed', async () => {
  const app = await startTestApp();
  try {
    for (const currency of ['BTC', 'ETH', 'DASH']) {
      const { json } = await app.test.post('/api/payment/create/simple', {
        amount_usd: '25.00',
        return_url: 'https://shop.example/thanks',
      });
      await app.test.post(`/v1/test/payments/${json.id}/simulate`, { scenario: 'reversed', currency });
      const detail = await eventually(
        async () => (await app.test.get(`/api/payment/${json.id}`)).json,
        (d) => d.exception === 'reorged',
      );
      assert.equal(detail.status, 'completed');
      const { data } = (await app.test.get(`/v1/events?payment_id=${json.id}`)).json;
      assert.deepEqual(data.map((event: any) => event.type).reverse(), [
        'payment.created',
        ...(data.some((event: any) => event.type === 'payment.updated') ? ['payment.updated'] : []),
        'payment.processing',
        'payment.completed',
        'payment.reversed',
      ]);
    }
  } finally {
    await app.stop();
  }
});
