/** What a browser loads for the dashboard: gzip sizes, and nothing from other hosts. */
// Invariant: The dashboard stays small.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { findApp } from '../../src/operate/app-build.ts';
import { buildApp } from '../../src/web/dashboard/build.ts';

type Chunk = { file: string; imports?: string[]; css?: string[]; isEntry?: boolean; isDynamicEntry?: boolean };
let folder = '';
let manifest: Record<string, Chunk> = {};
const sizes = new Map<string, number>();
before(async () => {
  await buildApp({ info: () => {} });
  folder = (await findApp())!;
  manifest = JSON.parse(readFileSync(join(folder, '.vite/manifest.json'), 'utf8'));
  for (const name of readdirSync(join(folder, 'assets')).filter((one) => /\.(js|css)$/.test(one))) {
    sizes.set(`assets/${name}`, statSync(join(folder, 'assets', `${name}.gz`)).size / 1000);
  }
});

const kB = (file: string): number => sizes.get(file)!;
/** All files that loading a chunk requires. */
function filesOf(key: string, seen = new Set<string>()): Set<string> {
  const chunk = manifest[key]!;
  if (seen.has(chunk.file)) return seen;
  seen.add(chunk.file);
  for (const next of chunk.imports ?? []) filesOf(next, seen);
  return seen;
}
const total = (files: Iterable<string>): number => [...files].reduce((sum, file) => sum + kB(file), 0);

test('the entry with the frame is at most 125 kB, each screen adds at most 60 kB, the style is at most 20 kB', (t) => {
  const first = filesOf('index.html');
  assert.ok(total(first) <= 125, `the entry is ${total(first)} kB`);
  const screens = Object.keys(manifest).filter((key) => manifest[key]!.isDynamicEntry && key.startsWith('screens/'));
  assert.ok(screens.length >= 5);
  for (const screen of screens) {
    const more = new Set([...filesOf(screen)].filter((file) => !first.has(file)));
    t.diagnostic(`${screen}: ${total(more).toFixed(1)} kB`);
    assert.ok(total(more) <= 60, `${screen} adds ${total(more)} kB`);
  }
  const style = readdirSync(join(folder, 'assets')).filter((name) => name.endsWith('.css'));
  assert.ok(total(style.map((name) => `assets/${name}`)) <= 20);
  t.diagnostic(`entry ${total(first).toFixed(1)} kB`);
});

test('the pages load only their own files and have no inline script or style', () => {
  for (const name of ['index.html', 'reference.html']) {
    const page = readFileSync(join(folder, name), 'utf8');
    for (const [, url] of page.matchAll(/(?:src|<link[^>]* href)="([^"]+)"/g)) assert.match(url!, /^(\/dashboard\/assets\/|data:,$)/);
    assert.ok(!/<script(?![^>]*src=)|<style|style="/.test(page));
  }
});
