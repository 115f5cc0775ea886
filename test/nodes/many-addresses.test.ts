/** Deposit addresses of four coins and two tokens are swept in one session. Its long version sweeps 1,000 addresses. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sweepInOneSession, sweptText } from '../kit/sweep-session.ts';

const EACH = 8;

test(`${EACH * 6} addresses of four coins and two tokens in one session: for a token, less than 50,000 gas for each address`, async (t) => {
  const swept = await sweepInOneSession(EACH);
  for (const one of swept) t.diagnostic(sweptText(one));
  for (const { gasPerAddress } of swept) assert.ok(gasPerAddress === null || gasPerAddress < 50_000);
});
