/** Lists of releases that minisign itself signed, from a server, from a file, and changed. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { createSigner, serveReleases } from '../../test/kit/releases.ts';
import { createOutgoing } from '../connections/http-client.ts';
import { createLog } from '../log.ts';
import { findNewer, isNewer, isSignedBy } from './releases.ts';

const signer = createSigner();
const stranger = createSigner();
after(() => {
  signer.remove();
  stranger.remove();
});
const { key, sign } = signer;
const other = stranger.key;
const at = (name: string) => join(signer.folder, name);

const LIST = {
  published: '2026-12-10',
  releases: [
    { version: '1.0.0', date: '2026-12-01', security: false, breaking: false },
    { version: '1.0.1', date: '2026-12-10', security: true, breaking: false },
    { version: '1.1.0-rc.1', date: '2026-12-05', security: false, breaking: true },
  ],
};
const noNetwork = {
  request: () => Promise.reject(new Error('no request was expected')),
};
const find = (file: string, version: string, releasesKey: string | null = key) =>
  findNewer({ releasesUrl: null, releasesKey }, { version, installedBy: 'deb', file: at(file), outgoing: noNetwork });

test('what minisign signed is believed, in both of its forms, and nothing else', () => {
  for (const more of [[], ['-l']]) {
    const { content, signature } = sign('any', 'a list', ...more);
    assert.equal(isSignedBy(content, { signature, key }), true);
    assert.equal(isSignedBy(content, { signature: signature.replaceAll('\n', '\r\n'), key }), true);
    assert.equal(isSignedBy(content, { signature, key: other }), false);
    assert.equal(isSignedBy(Buffer.from('a lisT'), { signature, key }), false);
    assert.equal(isSignedBy(content, { signature: signature.replace('florin releases', 'florin release'), key }), false);
  }
});

test('every changed character of a signature makes it worthless', () => {
  const { content, signature } = sign('any', 'a list');
  const [untrusted, ...rest] = signature.split('\n');
  const signed = rest.join('\n').trimEnd();
  for (let i = 0; i < signed.length; i++) {
    const changed = signed.slice(0, i) + (signed[i] === 'A' ? 'B' : 'A') + signed.slice(i + 1);
    // The last bits of base64 belong to no byte.
    const same = signed
      .split('\n')
      .every((line, n) => Buffer.from(line, 'base64').equals(Buffer.from(changed.split('\n')[n] ?? '', 'base64')));
    if (!same) assert.equal(isSignedBy(content, { signature: `${untrusted}\n${changed}\n`, key }), false, `character ${i}`);
  }
  for (const signature of ['', 'untrusted', 'a\nb\nc\nd', `${untrusted}\n\n\n`])
    assert.equal(isSignedBy(content, { signature, key }), false);
  assert.equal(isSignedBy(content, { signature, key: '' }), false);
});

test('versions are ordered by number, and a candidate comes before its release', () => {
  const ordered = ['0.9.9', '1.0.0-rc.1', '1.0.0-rc.2', '1.0.0-rc.10', '1.0.0', '1.0.2', '1.0.10', '1.2.0', '2.0.0'];
  for (const [i, one] of ordered.entries())
    for (const [j, two] of ordered.entries()) assert.equal(isNewer(one, two), i > j, `${one} ${two}`);
});

test('newer releases are named from a file, newest first, with how to install them', async () => {
  sign('releases.json', JSON.stringify(LIST));
  assert.deepEqual(await find('releases.json', '1.0.0-rc.1'), {
    published: '2026-12-10',
    newer: [LIST.releases[2], LIST.releases[1], LIST.releases[0]],
    ...{ security: true, upgrade: 'apt install ./florin_VERSION_ARCHITECTURE.deb' },
  });
  assert.deepEqual(await find('releases.json', '1.1.0'), { published: '2026-12-10', newer: [], security: false, upgrade: null });
});

test('the list is fetched with nothing that tells one install from another', async () => {
  sign('served.json', JSON.stringify(LIST));
  const server = await serveReleases(signer);
  try {
    const outgoing = createOutgoing({ allow: [], log: createLog('silent') });
    const from = { releasesUrl: `${server.url}/served.json`, releasesKey: key };
    const found = await findNewer(from, { version: '1.0.0', installedBy: 'clone', file: null, outgoing });
    assert.deepEqual(
      found.newer.map(({ version }) => version),
      ['1.1.0-rc.1', '1.0.1'],
    );
    assert.deepEqual(
      server.asked.toSorted(([one], [two]) => (one < two ? -1 : 1)),
      ['/served.json', '/served.json.minisig'].map((path) => [path, { 'user-agent': 'florin' }]),
    );
  } finally {
    await server.stop();
  }
});

test('a list that is not signed, has another form or cannot be had is refused with the reason', async () => {
  sign('signed.json', JSON.stringify(LIST));
  writeFileSync(at('signed.json'), JSON.stringify({ ...LIST, published: '2026-12-11' }));
  await assert.rejects(find('signed.json', '1.0.0'), /not signed with RELEASES_KEY/);
  sign('signed.json', JSON.stringify(LIST));
  await assert.rejects(find('signed.json', '1.0.0', other), /not signed with RELEASES_KEY/);
  await assert.rejects(find('signed.json', '1.0.0', null), /Set RELEASES_KEY/);
  for (const [wrong, reason] of [
    ['[', /no date/],
    ['null', /no date/],
    [{ ...LIST, published: 'soon' }, /no date/],
    [{ ...LIST, releases: {} }, /another form/],
    [{ ...LIST, releases: [null] }, /another form/],
    [{ ...LIST, releases: [{ ...LIST.releases[0], version: '1.0' }] }, /another form/],
    [{ ...LIST, releases: Array.from({ length: 1_001 }, () => LIST.releases[0]) }, /another form/],
  ] as const) {
    sign('wrong.json', typeof wrong === 'string' ? wrong : JSON.stringify(wrong));
    await assert.rejects(find('wrong.json', '1.0.0'), reason);
  }
  const refused = { request: async () => ({ status: 404, headers: {}, body: Buffer.from('') }) };
  await assert.rejects(
    findNewer(
      { releasesUrl: 'https://releases.example/list', releasesKey: key },
      { version: '1.0.0', installedBy: 'image', file: null, outgoing: refused },
    ),
    /answered with status 404/,
  );
});
