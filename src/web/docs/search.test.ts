/** The search of the documentation. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readDocuments } from './documents.ts';
import { createSearch } from './search.ts';

test('guides come before errors and operations that have the name', async () => {
  const search = await createSearch(readDocuments());
  for (const [question, guide] of [
    ['refund', '/docs/guides/'],
    ['idempotency', '/docs/guides/'],
    ['webhook signature', '/docs/guides/'],
    ['stablecoins', '/docs/guides/stablecoins'],
    ['sweep', '/docs/guides/sweeping'],
  ] as const)
    assert.ok(search(question)[0]!.path.startsWith(guide), `${question}: ${search(question)[0]!.path}`);
  // What only the reference has is still found.
  assert.match(search('refund_exceeds')[0]!.path, /^\/docs\/errors#refund_exceeds/);
});

test('eight words of a question are looked up, whatever separates them', async () => {
  const search = await createSearch([
    { file: 'a.md', path: '/docs/guides/a', title: 'Walrus', about: '', text: '# Walrus\n\nA walrus sleeps.' },
  ]);
  const find = (question: string) => search(question).map(({ path }) => path);
  assert.deepEqual(find('walrus sleeps'), ['/docs/guides/a']);
  assert.deepEqual(find('walrus giraffe'), []);
  for (const between of [' ', '.', ',', '-', '_'])
    assert.deepEqual(find([...Array(8).fill('walrus'), 'giraffe'].join(between)), ['/docs/guides/a'], between);
});
