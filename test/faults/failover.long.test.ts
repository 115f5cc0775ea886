/** Many failovers at random moments: each way to lose a primary, with a standby that is synchronous or behind. */
import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { missingServer, type Template } from '../kit/database-pair.ts';
import { countLost, createShopTemplate, type Drill, startDrill } from '../kit/failover.ts';

const ROUNDS = 5;
const skip = missingServer;
let template: Template;
before(async () => {
  if (!skip) template = await createShopTemplate();
});
after(() => template?.remove());

/** The ways to lose a primary. Each returns once the standby is the primary. */
const WAYS: Readonly<Record<string, (drill: Drill) => Promise<void>>> = {
  'it is killed': async ({ pair }) => {
    await pair.primary.kill();
    await pair.standby.promote();
  },
  'it hangs, and continues when the standby was promoted': async ({ pair }) => {
    pair.primary.hang();
    await pair.standby.promote();
    await pair.standby.ask(`alter system set synchronous_standby_names = ''`);
    await sleep(randomInt(1_000));
    pair.primary.resume();
    await pair.primary.kill();
  },
  'it restarts first': async ({ pair }) => {
    await pair.primary.kill();
    await pair.primary.start();
    await sleep(randomInt(2_000));
    await pair.primary.kill();
    await pair.standby.promote();
  },
};

for (const [way, lose] of Object.entries(WAYS))
  for (const synchronous of [true, false])
    test(`${ROUNDS} primaries are lost (${way}; the standby is ${synchronous ? 'synchronous' : 'behind'})`, { skip }, async () => {
      for (let round = 0; round < ROUNDS; round++) {
        const drill = await startDrill(await template.pair({ synchronous }));
        try {
          const { primary, standby } = drill.pair;
          await drill.oneFollows(primary);
          if (!synchronous) {
            await standby.ask(`alter system set primary_conninfo = ''`);
            await standby.ask('select pg_reload_conf()');
          }
          for (let i = 0; i < randomInt(25); i++) await drill.order(i % 3 === 0 ? drill.api : undefined);
          await sleep(randomInt(500));
          await lose(drill);
          await standby.ask(`alter system set synchronous_standby_names = ''`);
          await standby.ask('select pg_reload_conf()');
          await drill.works();
          for (let i = 0; i < 10; i++) await drill.order(i % 2 === 0 ? drill.api : undefined);
          await drill.oneFollows(standby);
          if (synchronous) assert.equal(await countLost(drill), 0);
          assert.equal(new Set(drill.shown.values()).size, drill.shown.size);
        } finally {
          await drill.stop();
        }
      }
    });
