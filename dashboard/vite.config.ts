/** How the pages are built: hashed files, one chunk a screen, nothing inlined, because the security policy allows own files alone. */
import tailwind from '@tailwindcss/vite';
import react from '@vitejs/plugin-react';
import { defineConfig, type Plugin } from 'vite';

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
      const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(source)));
      fileName = `assets/scalar-${[...hash.slice(0, 5)].map((byte) => byte.toString(16).padStart(2, '0')).join('')}.js`;
      this.emitFile({ type: 'asset', fileName, source });
    },
    transformIndexHtml: (_html, { filename }) =>
      filename.endsWith('/reference.html')
        ? [{ tag: 'script', attrs: { defer: true, src: `/dashboard/${fileName}` }, injectTo: 'head-prepend' }]
        : [],
  };
}

/** The frame of every screen is fetched beside the entry, which asks for it as soon as it runs. */
const preloadedFrame: Plugin = {
  name: 'preloaded-frame',
  apply: 'build',
  transformIndexHtml: {
    order: 'post',
    handler: (html, { filename, bundle = {} }) => {
      if (!filename.endsWith('/index.html')) return [];
      const chunks = Object.values(bundle).filter((file) => file.type === 'chunk');
      const frame = chunks.find(({ facadeModuleId }) => facadeModuleId?.endsWith('/shell/shell.tsx'));
      if (!frame) throw new Error('the frame is no chunk of its own');
      return [frame.fileName, ...frame.imports]
        .filter((file) => !html.includes(file))
        .map((file) => ({
          tag: 'link',
          attrs: { rel: 'modulepreload', crossorigin: true, href: `/dashboard/${file}` },
          injectTo: 'head' as const,
        }));
    },
  },
};

export default defineConfig({
  base: '/dashboard/',
  plugins: [react(), tailwind(), bundledScalar(), preloadedFrame],
  build: {
    assetsInlineLimit: 0,
    target: 'es2023',
    manifest: true,
    modulePreload: { polyfill: false },
    rollupOptions: { input: ['dashboard/index.html', 'dashboard/reference.html'] },
  },
});
