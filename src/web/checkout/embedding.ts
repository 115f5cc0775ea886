/** `/embed/v1.js`: the script that merchants add to their pages. */
import type { FastifyInstance } from 'fastify';
import type { Context } from '../../context.ts';
import { pack, sendPacked } from '../../http/encoding.ts';
import { browserScript } from './shell.ts';

export const EMBED_PATH = '/embed/v1.js';

/** The script with the addresses of this install; it defines only `Florin` and the custom element. */
export const embedScript = ({ publicUrl, paymentPageUrl }: Context['settings']): string =>
  `(()=>{${browserScript('embed.ts').replace('__API__', publicUrl).replace('__PAGE__', new URL(paymentPageUrl).origin)}})();`;

export function registerEmbed(pages: FastifyInstance, ctx: Context): void {
  const script = pack(Buffer.from(embedScript(ctx.settings)));
  pages.get(EMBED_PATH, async (request, reply) => {
    reply.headers({
      'content-type': 'text/javascript; charset=utf-8',
      'cache-control': 'public, max-age=3600',
      'access-control-allow-origin': '*',
      'cross-origin-resource-policy': 'cross-origin',
      'x-content-type-options': 'nosniff',
    });
    return sendPacked(request, reply, await script);
  });
}
