/** Preview of the payment page: the real page in every state, from sample payments, with unsaved settings. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Context } from '../../context.ts';
import { MODES } from '../../core/coin.ts';
import { Problem } from '../../core/problem.ts';
import { getMerchant } from '../../merchants/merchants.ts';
import { THEMES } from '../../merchants/stored-settings.ts';
import { renderPage } from '../checkout/page.ts';
import { sendDocument } from '../checkout/shell.ts';
import { matchLocale } from '../checkout/words.ts';

const LONGEST = 300;

export function registerPreview(
  app: FastifyInstance,
  ctx: Context,
  { enter }: { enter: (request: FastifyRequest) => Promise<{ merchantId: string }> },
): void {
  for (const mode of MODES) {
    app.get(`/dashboard/api/${mode}/settings/checkout/preview`, { exposeHeadRoute: false }, async (request, reply) => {
      const merchant = await getMerchant(ctx, await enter(request));
      const asked = (name: string): string | null => {
        const value = (request.query as Record<string, unknown>)[name];
        return typeof value === 'string' && value.length <= LONGEST ? value : null;
      };
      const { fixtureOptions, fixturesAt } = await import('../checkout/states.ts');
      const fixture = fixturesAt(ctx.clock.now()).find(({ name }) => name === asked('state'));
      if (!fixture) throw new Problem('parameter_invalid', { reason: 'it must be a state of the payment page' }, { param: 'state' });
      const { settings, name, logo } = merchant;
      const accent = asked('accent') ?? settings.accent;
      const offered = asked('currencies')?.split(',') ?? settings.coins;
      const view = {
        ...fixture.view,
        coins: fixture.view.coins.filter(({ coin }) => offered === null || offered.includes(coin)),
        merchant: {
          name,
          logo,
          supportContact: asked('support') ?? settings.supportContact,
          accent: accent !== null && /^#[0-9a-f]{6}$/i.test(accent) ? accent : null,
          theme: settings.theme,
          locale: settings.locale,
          origins: [],
          autoReturn: false,
          kiosk: false,
          payerCancel: asked('payer_cancel') === null ? settings.payerCancel : asked('payer_cancel') === 'yes',
        },
      };
      const locale = asked('locale') ?? settings.locale;
      const options = fixtureOptions(fixture, (locale === null ? null : matchLocale(locale)) ?? 'en', ctx.settings.ethChainId);
      const { title, main } = renderPage(view, options);
      return sendDocument(
        request,
        reply,
        {
          ...{ title, main, language: options.language, accent: view.merchant.accent },
          theme: THEMES.find((theme) => theme === asked('theme')) ?? settings.theme,
          // Only the dashboard shows it in a frame.
          origins: ["'self'"],
        },
        { secure: ctx.settings.publicUrl.startsWith('https:') },
      );
    });
  }
}
