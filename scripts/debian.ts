/** The Debian package: the release with its production packages, so that a server needs neither npm nor a Node of its own. */
import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';

const ROOT = join(import.meta.dirname, '..');
const PARTS = join(ROOT, 'deploy/debian');
const MAINTAINER = 'The maintainers of Florin <florin@localhost>';
/** Debian's name of each architecture, and npm's. */
export const ARCHITECTURES = { amd64: 'x64', arm64: 'arm64' } as const;
type Architecture = keyof typeof ARCHITECTURES;

/** A release candidate is older than its release. */
export const debianVersion = (version: string): string => version.replace('-', '~');

function control({ version, architecture, kilobytes }: { version: string; architecture: Architecture; kilobytes: number }): string {
  return `Package: florin
Version: ${debianVersion(version)}
Architecture: ${architecture}
Maintainer: ${MAINTAINER}
Installed-Size: ${kilobytes}
Depends: adduser, ca-certificates, init-system-helpers, libc6 (>= 2.28), libgcc-s1, libstdc++6, util-linux
Suggests: postgresql-18 | postgresql-17
Section: net
Priority: optional
Description: self-hosted cryptocurrency payments
 Florin lets a merchant be paid in Bitcoin, Ethereum, Litecoin, Dash, Dogecoin
 and stablecoins, straight into wallets whose keys never touch the server.
 .
 The package contains Node.js and PostgreSQL. It creates a backup before each
 upgrade, and keeps all data when it is removed.
`;
}

/** Writes `florin_VERSION_ARCH.deb` into a folder. `release` is the unpacked archive. The same release makes the same bytes. */
export function packDebian(
  release: string,
  { architecture, version, time, out }: { architecture: Architecture; version: string; time: Date; out: string },
): string {
  const stage = `${release}-${architecture}`;
  const code = join(stage, 'usr/lib/florin');
  rmSync(stage, { recursive: true, force: true });
  cpSync(release, code, { recursive: true });
  execFileSync(
    'npm',
    ['ci', '--omit=dev', '--os=linux', `--cpu=${ARCHITECTURES[architecture]}`, '--no-audit', '--no-fund', '--prefer-offline'],
    {
      ...{ cwd: code, stdio: ['ignore', 'ignore', 'inherit'] },
    },
  );
  const origin = JSON.parse(readFileSync(join(code, 'dist/release.json'), 'utf8')) as object;
  writeFileSync(join(code, 'dist/release.json'), `${JSON.stringify({ ...origin, installed_by: 'deb' })}\n`);
  const place = (from: string, to: string, mode = 0o644) => {
    mkdirSync(dirname(join(stage, to)), { recursive: true });
    cpSync(from, join(stage, to));
    chmodSync(join(stage, to), mode);
  };
  place(join(PARTS, 'florin'), 'usr/bin/florin', 0o755);
  for (const unit of ['florin.service', 'florin-backup.service', 'florin-backup.timer'])
    place(join(PARTS, unit), `lib/systemd/system/${unit}`);
  place(join(code, '.env.example'), 'etc/florin/florin.env', 0o640);
  const documents = join(stage, 'usr/share/doc/florin');
  mkdirSync(documents, { recursive: true });
  writeFileSync(
    join(documents, 'copyright'),
    readFileSync(join(code, 'LICENSE'), 'utf8') + readFileSync(join(code, 'THIRD-PARTY.txt'), 'utf8'),
  );
  const date = time.toUTCString().replace(/^(\w+), (.*) GMT$/, '$1, $2 +0000');
  const changes = `florin (${debianVersion(version)}) stable; urgency=medium\n\n  * See /usr/lib/florin/CHANGELOG.md.\n\n -- ${MAINTAINER}  ${date}\n`;
  writeFileSync(join(documents, 'changelog.gz'), gzipSync(changes, { level: 9 }));
  // What only npm and the archive need.
  for (const path of ['.env.example', 'LICENSE', 'scripts', 'package-lock.json', 'node_modules/.package-lock.json'])
    rmSync(join(code, path), { recursive: true });

  const kilobytes = Number(execFileSync('du', ['-sk', '--apparent-size', stage], { encoding: 'utf8' }).split('\t')[0]);
  const debian = join(stage, 'DEBIAN');
  mkdirSync(debian);
  writeFileSync(join(debian, 'control'), control({ version, architecture, kilobytes }));
  writeFileSync(join(debian, 'conffiles'), '/etc/florin/florin.env\n');
  const newest = readdirSync(join(code, 'src/db/migrations')).sort().at(-1)!.slice(0, 4);
  const filled = { VERSION: version, DEBIAN_VERSION: debianVersion(version), NEWEST_MIGRATION: newest };
  for (const name of ['preinst', 'postinst', 'prerm', 'postrm'])
    writeFileSync(
      join(debian, name),
      readFileSync(join(PARTS, name), 'utf8').replace(/@(\w+)@/g, (_, key: keyof typeof filled) => filled[key]),
      { mode: 0o755 },
    );
  execFileSync('chmod', ['-R', 'u+rwX,go+rX,go-w', stage]);
  chmodSync(join(stage, 'etc/florin/florin.env'), 0o640);
  const sums = execFileSync('sh', ['-c', 'find usr lib -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum'], {
    cwd: stage,
    maxBuffer: 1 << 26,
  });
  writeFileSync(join(debian, 'md5sums'), sums, { mode: 0o644 });
  const seconds = String(time.getTime() / 1000);
  execFileSync('find', [stage, '-exec', 'touch', '--no-dereference', `--date=@${seconds}`, '{}', '+']);
  const file = join(out, `florin_${debianVersion(version)}_${architecture}.deb`);
  execFileSync('dpkg-deb', ['--root-owner-group', '-Zzstd', '-z9', '--threads-max=1', '--build', stage, `${file}.part`], {
    env: { ...process.env, SOURCE_DATE_EPOCH: seconds },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  renameSync(`${file}.part`, file);
  rmSync(stage, { recursive: true });
  return file;
}
