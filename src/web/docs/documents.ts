/** The documents that every install serves: read from the folder `docs`, in reading order. */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { CHAINS } from '#core/coin';
import { type LinkOf, withoutComments } from './markdown.ts';

const FOLDER = join(import.meta.dirname, '../../../docs');

/** The sidebar: files without `.md`, or pages with their own path. A test compares it with the folder. */
export const CONTENTS: readonly { title: string; entries: readonly (string | { path: string; title: string })[] }[] = [
  { title: 'Get started', entries: ['guides/quickstart', 'guides/test-mode', 'guides/dashboard', 'guides/team', 'guides/going-live'] },
  {
    title: 'Integrate',
    entries: [
      'guides/api-keys',
      'guides/webhooks',
      'guides/frameworks',
      'guides/recipes/README',
      'guides/recipes/node',
      'guides/recipes/python',
      'guides/recipes/php',
      'guides/recipes/go',
      'guides/recipes/ruby',
      'guides/embedding',
      'guides/exceptions',
      'guides/customers',
      'guides/refunds',
      'guides/prices',
    ],
  },
  {
    title: 'Shops',
    entries: [
      'guides/shops/README',
      'guides/shops/woocommerce',
      'guides/shops/woocommerce-btcpay',
      'guides/shops/prestashop',
      'guides/shops/magento',
      'guides/shops/opencart',
      'guides/shops/whmcs',
      'guides/shops/medusa',
      'guides/shops/shopify',
      'guides/shops/coinbase-commerce',
    ],
  },
  {
    title: 'Reference',
    entries: [
      { path: '/docs/api', title: 'API reference' },
      'reference/events',
      'reference/errors',
      'reference/roles',
      'reference/config',
      'reference/interface',
    ],
  },
  {
    title: 'Connect networks',
    // The guide of a chain has its ID as its name.
    entries: [
      'guides/peers',
      ...CHAINS.map((chain) => `guides/${chain}`).filter((file) => existsSync(join(FOLDER, `${file}.md`))),
      'guides/stablecoins',
      'guides/lookups',
      'guides/sources',
    ],
  },
  {
    title: 'Operate',
    entries: ['guides/self-hosting', 'guides/high-availability', 'guides/sweeping', 'guides/payouts', 'guides/accounting'],
  },
  { title: 'Migrate', entries: ['guides/migrate-btcpay', 'guides/migrate-coinbase-commerce'] },
];

/** `about` is the first sentence below the title, as plain Markdown. */
export type Document = { file: string; path: string; title: string; about: string; text: string };

/** `guides/webhooks.md` -> `/docs/guides/webhooks`. Errors have a short path, because every error of the API links to it. */
const pathOfFile = (file: string): string =>
  file === 'reference/errors.md' ? '/docs/errors' : `/docs/${file.replace(/(\/README)?\.md$/, '')}`;

/** Reads all documents, those of the sidebar first and in its order. */
export function readDocuments(): Document[] {
  const order = CONTENTS.flatMap(({ entries }) => entries).filter((entry) => typeof entry === 'string');
  const rank = (file: string): number => {
    const at = order.indexOf(file.replace(/\.md$/, ''));
    return at === -1 ? order.length : at;
  };
  return globSync(['guides/**/*.md', 'reference/*.md'], { cwd: FOLDER })
    .sort((a, b) => rank(a) - rank(b) || a.localeCompare(b))
    .map((file) => {
      const text = withoutComments(readFileSync(join(FOLDER, file), 'utf8'));
      const [, title = file, about = ''] = /^# (.*)\n+(?:(?![#|`-])([^{}]*?(?:[.:](?=\s|$)|$)))?/.exec(text) ?? [];
      return { file, path: pathOfFile(file), title, about: about.replace(/:$/, '.').replace(/\[([^[\]]*)\]\([^()[\]]*\)/g, '$1'), text };
    });
}

/** The pictures of the guides, with their paths. */
export const readImages = (): { path: string; file: string }[] =>
  globSync('images/shops/*.webp', { cwd: FOLDER })
    .sort()
    .map((name) => ({ path: `/docs/${name}`, file: join(FOLDER, name) }));

/** The sidebar with the titles of the documents: the same groups and order as `CONTENTS`. */
export function contentsOf(documents: readonly Document[]): { title: string; entries: { path: string; title: string }[] }[] {
  const byFile = new Map(documents.map((document) => [document.file, document]));
  return CONTENTS.map(({ title, entries }) => ({
    title,
    entries: entries.map((entry) => (typeof entry === 'string' ? byFile.get(`${entry}.md`)! : entry)),
  }));
}

/** Links between documents lead to their pages; links to other source files are removed, because those files are not served. */
export function linksFrom(file: string, documents: readonly Document[]): LinkOf {
  const byFile = new Map(documents.map((document) => [document.file, document]));
  return (target) => {
    if (/^(https?:|#|\/)/.test(target)) return { to: target };
    const [path = '', anchor] = target.split('#');
    const found = byFile.get(normalize(join(dirname(file), path)));
    return found ? { to: `${found.path}${anchor === undefined ? '' : `#${anchor}`}`, title: found.title } : null;
  };
}
