/** Sending ETH through a node whose answer does not say whether it took the transaction. */
// Invariant: A transaction counts as sent only when a source answers with it, refuses it as known, or shows it.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type AccountDesk, startAccountDesk } from '../kit/account-desk.ts';
import { eventually } from '../kit/app.ts';
import { type EthProxy, startEthProxy } from '../kit/eth-proxy.ts';
import { isLongRun } from '../kit/long.ts';

const OTHER = `0x${'ab'.repeat(32)}`;
let [desk, proxy]: [AccountDesk, EthProxy] = [] as never;
before(async () => {
  const front = async (url: string) => {
    proxy = await startEthProxy(url);
    return proxy.url;
  };
  desk = await startAccountDesk({ environment: { ETH_CONFIRMATIONS: '2' }, front });
});
after(async () => {
  await desk?.stop();
  await proxy?.stop();
});

async function uploaded(): Promise<string> {
  await desk.paid('ETH', 1);
  const { sweep } = await desk.make('ETH');
  await desk.upload(await desk.sign(sweep.id));
  return sweep.id;
}
const isSending = ({ method }: { method: string }): boolean => method === 'eth_sendRawTransaction';

for (const [name, answer] of [
  ['null', null],
  ['another transaction', OTHER],
  ...(isLongRun
    ? ([
        ['an object', {}],
        ['a number', 7],
      ] as const)
    : []),
] as const)
  test(`a node that answers ${name} and took nothing sent nothing: the transaction is sent again`, async () => {
    proxy.answer = (call) => (isSending(call) ? answer : undefined);
    const id = await uploaded();
    const { failure, state } = await eventually(
      () => desk.sweepOf(id),
      (sweep) => sweep.failure !== null || sweep.state !== 'signed',
    );
    const [transaction] = await desk.transactionsOf(id);
    assert.deepEqual([state, transaction!.sentAt, transaction!.refusal], ['signed', null, null]);
    assert.match(failure!, /did not answer with the transaction that it was sent/);
    proxy.answer = () => undefined;
    const ended = await desk.finish(id, 'ETH');
    assert.deepEqual([ended.state, ended.failure], ['confirmed', null]);
  });

test('a node that answers null and took it: it is found, and ends', async () => {
  proxy.change = (call, result) => (isSending(call) ? null : result);
  const id = await uploaded();
  await eventually(
    () => desk.transactionsOf(id),
    ([one]) => one!.sentAt !== null,
  );
  const ended = await desk.finish(id, 'ETH');
  assert.deepEqual([ended.state, ended.failure], ['confirmed', null]);
  proxy.change = (_, result) => result;
});
