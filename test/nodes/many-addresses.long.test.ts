/** The same as many-addresses.test.ts with 1,000 addresses and more. FLORIN_ADDRESSES is how many of each coin. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sweepInOneSession, sweptText } from '../kit/sweep-session.ts';

const EACH = Number(process.env.FLORIN_ADDRESSES ?? 167);

test(`${EACH * 6} addresses of four coins and two tokens in one session: for a token, less than 50,000 gas for each address`, async (t) => {
  const swept = await sweepInOneSession(EACH);
  for (const one of swept) t.diagnostic(sweptText(one));
  for (const { gasPerAddress } of swept) assert.ok(gasPerAddress === null || gasPerAddress < 50_000);
});
