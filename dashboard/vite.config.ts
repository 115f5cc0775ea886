/** How the pages are built: hashed files, one chunk a screen, nothing inlined, because the security policy allows own files alone. */
import scalar from '@scalar/fastify-api-reference';
import tailwind from '@tailwindcss/vite';
import react from '@vitejs/plugin-react';
import Fastify from 'fastify';
import { defineConfig, type Plugin } from 'vite';

/** Scalar's bundle as a file of its own, named by its contents, before the script of the reference. */
function bundledScalar(): Plugin {
  let fileName = '';
  return {
    name: 'bundled-scalar',
    apply: 'build',
    // The package holds the bundle as text, which it gives to whoever asks its route.
    async buildStart() {
      const app = Fastify();
      await app.register(scalar, { routePrefix: '/reference', configuration: { url: '/openapi.json' } });
      const { statusCode, body } = await app.inject('/reference/js/scalar.js');
      await app.close();
      if (statusCode !== 200) throw new Error(`Scalar's bundle is not where it was: ${statusCode}`);
      const source = body.replace(/\n\/\/# sourceMappingURL=.*\s*$/, '\n');
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
