/** When a balance shows that a transfer was left out. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { judgeHolding, type Verdict } from './range-sentinel.ts';

const STORIES = `
story                                     | looks (balance/recorded)              | verdicts
nothing arrives                           | 0/0 0/0                               | explained explained
what arrives was recorded                 | 0/0 5/5 9/9                           | explained explained explained
recorded before the source shows it       | 0/5 5/5                               | unsure explained
shown before it is recorded               | 5/0 5/5                               | unsure explained
left out, found by the first search       | 0/0 5/0 5/0 5/5                       | explained unsure search explained
left out, and never found                 | 5/0 5/0 5/0 5/0 5/0 5/0               | unsure search search search given_up explained
swept                                     | 5/5 0/5 0/5 0/5                       | explained unsure explained explained
swept, then paid again, left out          | 5/5 0/5 0/5 3/5 3/5                   | explained unsure explained unsure search
swept before the first look               | 0/5 0/5 0/5                           | unsure explained explained
a reorganization takes a transfer back    | 5/5 0/0                               | explained explained
`;
for (const row of STORIES.trim().split('\n').slice(1)) {
  const [story, looks, verdicts] = row.split('|').map((cell) => cell.trim()) as [string, string, string];
  test(story, () => {
    const known = { balance: 0n, recorded: 0n, atMs: 0, over: 0, under: 0 };
    const found: Verdict[] = looks.split(/\s+/).map((look, nowMs) => {
      const [balance = 0n, recorded = 0n] = look.split('/').map(BigInt);
      return judgeHolding(known, { balance, recorded, nowMs });
    });
    assert.equal(found.join(' '), verdicts);
  });
}
