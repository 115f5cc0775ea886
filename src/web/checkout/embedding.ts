/** `/embed/v1.js`: the script that merchants add to their pages. */
import type { FastifyInstance } from 'fastify';
import type { Context } from '#context';
import { packOnce, sendPacked } from '#transport';
import { browserScript } from './shell.ts';

export const EMBED_PATH = '/embed/v1.js';

/** The script with the addresses of this install; it defines only `Florin` and the custom element. */
export const embedScript = ({ publicUrl, paymentPageUrl }: Context['settings']): string =>
  `(()=>{${browserScript('embed').replace('__API__', publicUrl).replace('__PAGE__', new URL(paymentPageUrl).origin)}})();`;

export const registerEmbed = (pages: FastifyInstance, ctx: Context): void =>
  registerSharedScript(pages, { path: EMBED_PATH, script: embedScript(ctx.settings) });

// Scripts that the pages of merchants load from this install.

/** Serves a script that a page of any origin may load. It is compressed once, for its first reader. */
export function registerSharedScript(pages: FastifyInstance, { path, script }: { path: string; script: string }): void {
  const packed = packOnce(() => script);
  pages.get(path, async (request, reply) => {
    reply.headers({
      'content-type': 'text/javascript; charset=utf-8',
      'cache-control': 'public, max-age=3600',
      'access-control-allow-origin': '*',
      'cross-origin-resource-policy': 'cross-origin',
      'x-content-type-options': 'nosniff',
    });
    return sendPacked(request, reply, await packed());
  });
}
