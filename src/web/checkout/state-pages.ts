/** The pages that show every state of the payment page during development. The sample payments are loaded when a page is asked for. */
import type { FastifyInstance } from 'fastify';
import type { Context } from '../../context.ts';
import { html } from '../html.ts';
import { sendPlain } from '../plain.ts';
import { renderPage } from './page.ts';
import { renderReceipt } from './receipt.ts';
import { sendDocument } from './shell.ts';
import type { Fixture } from './states.ts';
import { matchLocale, TAGS } from './words.ts';

/** Serves the states on installs that only this machine can reach. */
export function registerStates(pages: FastifyInstance, ctx: Context): void {
  const url = new URL(ctx.settings.publicUrl);
  if (url.protocol !== 'http:' || !/^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(url.hostname)) return;
  pages.get<{ Querystring: { state?: unknown; lang?: unknown; theme?: unknown; receipt?: unknown } }>(
    '/_states',
    async (request, reply) => {
      const { fixtureOptions, fixturesAt } = await import('./states.ts');
      const { state, lang, theme, receipt } = request.query;
      const tag = (typeof lang === 'string' ? matchLocale(lang) : null) ?? 'en';
      const fixtures = fixturesAt(ctx.clock.now());
      const fixture = fixtures.find(({ name }) => name === state);
      if (!fixture) return sendPlain(reply, { title: 'States of the payment page', main: index(fixtures, tag) });
      const options = fixtureOptions(fixture, tag, ctx.settings.ethChainId);
      const { title, main } = receipt === undefined ? renderPage(fixture.view, options) : renderReceipt(fixture.view, options);
      const { merchant } = fixture.view;
      return sendDocument(
        request,
        reply,
        {
          title,
          main,
          language: options.language,
          theme: theme === 'light' || theme === 'dark' ? theme : merchant.theme,
          accent: merchant.accent,
          path: '/_states',
        },
        { secure: false },
      );
    },
  );
}

const index = (fixtures: readonly Fixture[], tag: string) => {
  const link = (name: string, more = '') => `/_states?state=${encodeURIComponent(name)}&lang=${tag}${more}`;
  const languages = TAGS.map((other) => html`<a href="/_states?lang=${other}">${other}</a> `);
  const receipt = ({ name, state }: Fixture) =>
    (state === 'completed' || state === 'overpaid') && html` · <a href="${link(name, '&receipt')}">receipt</a>`;
  const line = (one: Fixture) =>
    html`<li><a href="${link(one.name)}">${one.name}</a> · <a href="${link(one.name, '&theme=dark')}">dark</a>${receipt(one)}</li>`;
  return html`<h1>States of the payment page</h1>
<p>Every state, from the payments that the tests use. Languages: ${languages}</p>
<ul>${fixtures.map(line)}</ul>`;
};
