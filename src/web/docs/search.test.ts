/** The search of the documentation. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSearch } from './search.ts';

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
