/** Determines the client address: only listed proxies may set it; other proxies are ignored and reported to the operator. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually, startTestApp } from '../../test/kit/app.ts';
import { createApiKey } from '../keys/keys.ts';
import { diagnose } from '../operate/doctor.ts';

const FORWARDED = { 'x-forwarded-for': '203.0.113.7', 'x-forwarded-proto': 'https' };

/** What doctor reports about proxies after a request with forwarded headers was answered. */
async function afterForwarded(environment: Record<string, string>) {
  const shop = await startTestApp(environment);
  try {
    const reply = await fetch(`${shop.url}/api/payments`, {
      headers: { authorization: `Bearer ${shop.merchant.keys.liveSecret}`, ...FORWARDED },
    });
    const remembered = () => shop.app.ctx.db.sql<{ peer: string }[]>`select peer from unlisted_proxies`;
    const isSecure = async (protocol: string): Promise<boolean> => {
      const headers = { authorization: `Bearer ${shop.merchant.keys.liveSecret}`, 'x-forwarded-proto': protocol };
      return (await fetch(`${shop.url}/api/payments`, { headers })).status === 200;
    };
    return { status: reply.status, isSecure, remembered, findings: async () => (await diagnose(shop.app.ctx)).findings, stop: shop.stop };
  } catch (error) {
    await shop.stop();
    throw error;
  }
}

test('forwarded headers of an unlisted peer are ignored, and the doctor names the peer', async (t) => {
  const { status, remembered, findings, stop } = await afterForwarded({ PUBLIC_URL: 'https://pay.example.com' });
  t.after(stop);
  assert.equal(status, 403);
  await eventually(remembered, (rows) => rows.length === 1);
  const finding = (await findings()).find(({ check }) => check === 'proxies');
  assert.equal(finding?.detail, 'X-Forwarded headers of 127.0.0.1 were ignored in the last 24 hours');
  assert.match(finding?.fix ?? '', /TRUSTED_PROXIES/);
});

test('a listed proxy is trusted, and the doctor reports nothing', async (t) => {
  const { status, isSecure, remembered, findings, stop } = await afterForwarded({
    PUBLIC_URL: 'https://pay.example.com',
    TRUSTED_PROXIES: '127.0.0.0/8',
  });
  t.after(stop);
  assert.equal(status, 200);
  for (const protocol of ['https, https', 'https,http', 'HTTPS', ' https ']) assert.ok(await isSecure(protocol), protocol);
  for (const protocol of ['http', 'http, https', 'httpsx', '']) assert.ok(!(await isSecure(protocol)), protocol);
  assert.equal((await remembered()).length, 0);
  assert.equal(
    (await findings()).find(({ check }) => check === 'proxies'),
    undefined,
  );
});

test('a proxy may add the port to an address, and what a caller claims before an address that cannot be read counts for nothing', async (t) => {
  const shop = await startTestApp({ TRUSTED_PROXIES: '127.0.0.0/8' });
  t.after(shop.stop);
  const { merchantId } = shop.merchant;
  const allowedIps = ['198.51.100.7', '2001:db8::7'];
  const { key } = await createApiKey(shop.app.ctx, { merchantId, mode: 'test', kind: 'secret', allowedIps });
  const from = async (forwarded: string) => {
    const reply = await fetch(`${shop.url}/api/payments`, { headers: { authorization: `Bearer ${key}`, 'x-forwarded-for': forwarded } });
    return reply.status === 200 ? 'allowed' : ((await reply.json()) as { error: { message: string } }).error.message;
  };
  for (const mine of [
    '198.51.100.7',
    '198.51.100.7:4711',
    '2001:db8::7',
    '[2001:db8::7]',
    '[2001:db8::7]:4711',
    '9.9.9.9, 198.51.100.7:1, 127.0.0.2:2',
  ])
    assert.equal(await from(mine), 'allowed', mine);
  for (const [claim, named] of [
    ['198.51.100.7, 203.0.113.9:4711', '203.0.113.9'],
    ['198.51.100.7, [2001:db8::9]:4711', '2001:db8::9'],
    ['198.51.100.7, unknown', '127.0.0.1'],
    ['198.51.100.7, _hidden:1, 127.0.0.2', '127.0.0.1'],
    ['198.51.100.7,', '127.0.0.1'],
  ] as const)
    assert.ok((await from(claim)).includes(named), claim);
});
