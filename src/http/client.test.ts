/** Determines the client address: only listed proxies may set it; other proxies are ignored and reported to the operator. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually, startTestApp } from '../../test/kit/app.ts';
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
    return { status: reply.status, remembered, findings: async () => (await diagnose(shop.app.ctx)).findings, stop: shop.stop };
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
  const { status, remembered, findings, stop } = await afterForwarded({
    PUBLIC_URL: 'https://pay.example.com',
    TRUSTED_PROXIES: '127.0.0.0/8',
  });
  t.after(stop);
  assert.equal(status, 200);
  assert.equal((await remembered()).length, 0);
  assert.equal(
    (await findings()).find(({ check }) => check === 'proxies'),
    undefined,
  );
});
