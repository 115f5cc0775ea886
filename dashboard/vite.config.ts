/** How the pages are built: hashed files, one chunk a screen, nothing inlined, because the security policy allows own files alone. */
import tailwind from '@tailwindcss/vite';
import react from '@vitejs/plugin-react';
import { defineConfig, type Plugin } from 'vite';
import { LANGUAGES } from './lib/language.ts';
import { findTexts, hasTexts } from './texts.ts';

/** The package holds the bundle as one string; the server around it, and the packages that server needs, are not installed. */
const BUNDLE = /^var standalone_default = (".*");$/m;

/** Scalar's bundle as a separate file, named by its contents, loaded before the script of the reference. */
function bundledScalar(): Plugin {
  let fileName = '';
  return {
    name: 'bundled-scalar',
    apply: 'build',
    async buildStart() {
      const resolved = await this.resolve('@scalar/fastify-api-reference');
      const [, bundle] = BUNDLE.exec(resolved ? await this.fs.readFile(resolved.id, { encoding: 'utf8' }) : '') ?? [];
      if (!bundle) throw new Error('@scalar/fastify-api-reference does not contain the bundle in the expected place');
      const source = (new Function(`return ${bundle}`)() as string).replace(/\n\/\/# sourceMappingURL=.*\s*$/, '\n');
      fileName = `assets/scalar-${await hashOf(source)}.js`;
      this.emitFile({ type: 'asset', fileName, source });
    },
    transformIndexHtml: (_html, { filename }) =>
      filename.endsWith('/reference.html')
        ? [{ tag: 'script', attrs: { defer: true, src: `/dashboard/${fileName}` }, injectTo: 'head-prepend' }]
        : [],
  };
}

const hashOf = async (text: string): Promise<string> => {
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text)));
  return [...hash.slice(0, 5)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
};

/**
 * Looks up texts in the words of the language, which a script of its own sets before all others run. `languages.json` names these
 * scripts: the server puts the right one into the page. English, which the texts are written in, has no words.
 *
 * The script also makes the first formatter of the page, which takes 50 ms on a desk and a fifth of a second on a slow phone, while the
 * large scripts are still under way.
 */
const languages: Plugin = {
  name: 'languages',
  enforce: 'pre',
  transform(source, id) {
    if (!hasTexts(id)) return null;
    const { code, keys } = findTexts(source, id);
    return keys.length === 0 ? null : `import { $nodes, $text } from '${new URL('lib/words.ts', import.meta.url).pathname}';\n${code}`;
  },
  async generateBundle() {
    const files: Record<string, string> = {};
    for (const language of Object.keys(LANGUAGES)) {
      const path = new URL(`words/${language}.json`, import.meta.url).pathname;
      const words = language === 'en' ? {} : (JSON.parse(await this.fs.readFile(path, { encoding: 'utf8' })) as Record<string, string>);
      const source = `globalThis.florinWords=${JSON.stringify({ language, words })};new Intl.DateTimeFormat('${language}');\n`;
      files[language] = `assets/words-${language}-${await hashOf(source)}.js`;
      this.emitFile({ type: 'asset', fileName: files[language], source });
    }
    this.emitFile({ type: 'asset', fileName: 'languages.json', source: JSON.stringify(files) });
  },
};

const LICENSES = 'licenses.json';
type License = { name: string; version: string; identifier: string; text: string };
/** Adds to the licenses that the build lists two packages whose code it takes without importing a module. */
const allLicenses: Plugin = {
  name: 'all-licenses',
  apply: 'build',
  async writeBundle({ dir }) {
    const list = JSON.parse(await this.fs.readFile(`${dir}/${LICENSES}`, { encoding: 'utf8' })) as License[];
    for (const name of ['@scalar/fastify-api-reference', 'tailwindcss']) {
      const folder = new URL(`../node_modules/${name}/`, import.meta.url).pathname;
      const read = (file: string) => this.fs.readFile(folder + file, { encoding: 'utf8' });
      const { version, license } = JSON.parse(await read('package.json')) as { version: string; license: string };
      list.push({ name, version, identifier: license, text: await read('LICENSE') });
    }
    await this.fs.writeFile(`${dir}/${LICENSES}`, JSON.stringify(list));
  },
};

/** What every screen needs, in one file: over a slow network, each further file costs a round trip. */
const FIRST = [
  /node_modules\/(?:react|react-dom|scheduler|use-sync-external-store|@tanstack\/[^/]+)\//,
  /@base-ui\/react\/(?:esm\/)?(?:csp-provider|internals\/csp-context)/,
  /(?:vite\/preload-helper|rolldown\/runtime)/,
  /\/dashboard\/(?:screens\.ts|generated\/api\.ts)$/,
  /\/dashboard\/lib\/(?:amount|api|ask|confirmation|days|density|first-data|hooks|jsx-runtime|keys|language|news|read-anew|store|theme|toasts|trouble|words)\.ts$/,
  /\/dashboard\/shell\/(?:shell|bell|stripes|toasts)\.tsx$/,
  /\/dashboard\/ui\/(?:button|icon|link|menu|states|values)\.tsx$/,
];

export default defineConfig({
  base: '/dashboard/',
  plugins: [languages, react({ jsxImportSource: '#dashboard' }), tailwind(), bundledScalar(), allLicenses],
  build: {
    assetsInlineLimit: 0,
    target: 'es2023',
    manifest: true,
    license: { fileName: LICENSES },
    modulePreload: { polyfill: false },
    rolldownOptions: {
      input: ['dashboard/index.html', 'dashboard/reference.html'],
      output: {
        codeSplitting: {
          includeDependenciesRecursively: false,
          groups: [{ name: 'first', test: (id) => FIRST.some((pattern) => pattern.test(id)) }],
        },
      },
    },
  },
});
