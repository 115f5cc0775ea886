/** When peers that only bring headers are connected, and when they are left. */
import { test } from 'node:test';
import { eventually } from '../../../../test/kit/app.ts';
import { createLog } from '../../../log.ts';
import { createHeaderHelp } from './header-help.ts';

function createHelp({ fails = 0 } = {}) {
  const told: string[] = [];
  let nowMs = 0;
  let isReady = false;
  let failures = fails;
  const help = createHeaderHelp({
    coin: 'DOGE',
    connect: () => {
      told.push('connect');
      return {
        start: async () => {
          if (failures-- > 0) throw new Error('no network');
          told.push('start');
        },
        isReady: () => isReady,
        stop: async () => void told.push('stop'),
      };
    },
    left: async () => void told.push('left'),
    clock: { now: () => new Date(), monotonicMs: () => nowMs },
    log: createLog('silent'),
    checkMs: 1,
  });
  const reaches = (...wanted: string[]) =>
    eventually(
      async () => [...told],
      (now) => now.join() === wanted.join(),
    );
  return {
    help,
    told,
    reaches,
    pass: (ms: number) => {
      nowMs += ms;
    },
    setReady: (value: boolean) => {
      isReady = value;
    },
  };
}
const ONCE = ['connect', 'start', 'stop', 'left'];

test('they are connected once, left when the headers are complete, and connected again when they are needed again', async () => {
  const { help, reaches, setReady, pass } = createHelp();
  help.ask();
  help.ask();
  await reaches('connect', 'start');
  setReady(true);
  await reaches(...ONCE);
  setReady(false);
  help.ask();
  await reaches(...ONCE);
  pass(601_000);
  help.ask();
  await reaches(...ONCE, 'connect', 'start');
  await help.stop();
  await reaches(...ONCE, ...ONCE);
  help.ask();
  await reaches(...ONCE, ...ONCE);
});

test('they are left when nobody asked for two minutes', async () => {
  const { help, reaches, pass } = createHelp();
  help.ask();
  await reaches('connect', 'start');
  pass(119_000);
  help.ask();
  pass(119_000);
  await reaches('connect', 'start');
  pass(2_000);
  await reaches(...ONCE);
});

test('a failed start is tried again with the next request', async () => {
  const { help, reaches } = createHelp({ fails: 1 });
  help.ask();
  await reaches('connect', 'stop', 'left');
  help.ask();
  await reaches('connect', 'stop', 'left', 'connect', 'start');
  await help.stop();
});
