/** Every limit in the parsers of the wire formats, at the limit and one above. The test prints them beside the rules of the protocols. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../test/kit/wire-limits.ts';

/** Sizes that are read where the protocol has no limit. */
const WITHOUT = [1, 1_000, 100_001];

for (const { what, ours, rule, take, refusal } of LIMITS)
  test(`${what}: ${ours === null ? 'no limit but the size of what contains it' : `${ours} are read, and one more is refused`}`, async () => {
    if (ours === null) {
      assert.equal(rule, null, 'where the protocol has a bound it is known');
      for (const count of WITHOUT) await take(count);
      return;
    }
    assert.ok(rule !== null && ours >= rule, `a limit of ${ours} is below the ${rule} that the protocol allows`);
    await take(ours);
    await assert.rejects(
      async () => take(ours + 1),
      (error) => {
        assert.ok(error instanceof refusal, String((error as Error).stack));
        assert.notEqual(error.message, '');
        return true;
      },
    );
  });

test('the list of limits is printed', () => {
  console.log('\nwhat is limited, where: ours | the rule of the protocol');
  for (const { what, where, ours, rule, source } of LIMITS)
    console.log(`${what} (${where}): ${ours ?? 'none'} | ${rule === null ? '' : `${rule}, `}${source}`);
  assert.ok(LIMITS.length > 30);
});
