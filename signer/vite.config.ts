/** Builds the signer into one HTML file, the same from the same sources, whose security policy allows its own script and no connection. */
import { createHash } from 'node:crypto';
import { defineConfig, type Plugin } from 'vite';

const hashOf = (text: string): string => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

/** Puts the script and the style sheet into the page. */
const oneFile: Plugin = {
  name: 'one-file',
  apply: 'build',
  enforce: 'post',
  generateBundle(_options, bundle) {
    const files = Object.values(bundle);
    const page = files.find(({ fileName }) => fileName === 'index.html');
    const script = files.find(({ type }) => type === 'chunk');
    const style = files.find(({ fileName }) => fileName.endsWith('.css'));
    if (page?.type !== 'asset' || script?.type !== 'chunk' || style?.type !== 'asset' || files.length !== 3)
      throw new Error(
        `the signer has other parts than a page, a script and a style sheet: ${files.map(({ fileName }) => fileName).join()}`,
      );
    const code = script.code.replaceAll('</script', '<\\/script').trim();
    const css = String(style.source).trim();
    const policy = [
      "default-src 'none'",
      `script-src ${hashOf(code)}`,
      `style-src ${hashOf(css)}`,
      "connect-src 'none'",
      'img-src data:',
      "base-uri 'none'",
      "form-action 'none'",
    ].join('; ');
    const html = String(page.source)
      .replace(/\s*<script[^>]*src=[^>]*><\/script>/, '')
      .replace(/\s*<link rel="(?:stylesheet|modulepreload)"[^>]*>/g, '')
      .replace(
        '<meta charset="utf-8">',
        () => `<meta charset="utf-8">\n    <meta http-equiv="Content-Security-Policy" content="${policy}">`,
      )
      .replace('</head>', () => `<style>${css}</style>\n  </head>`)
      .replace('</body>', () => `<script type="module">${code}</script>\n  </body>`);
    for (const name of Object.keys(bundle)) delete bundle[name];
    this.emitFile({ type: 'asset', fileName: 'signer.html', source: html });
  },
};

export default defineConfig({
  base: './',
  plugins: [oneFile],
  build: { target: 'es2023', modulePreload: { polyfill: false }, assetsInlineLimit: 0 },
});
