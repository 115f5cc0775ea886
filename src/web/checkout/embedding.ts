/** `/embed/v1.js`: the script that merchants add to their pages. */
import type { FastifyInstance } from 'fastify';
import type { Context } from '../../context.ts';
import { registerSharedScript } from './shared-script.ts';
import { browserScript } from './shell.ts';

export const EMBED_PATH = '/embed/v1.js';

/** The script with the addresses of this install; it defines only `Florin` and the custom element. */
export const embedScript = ({ publicUrl, paymentPageUrl }: Context['settings']): string =>
  `(()=>{${browserScript('embed.ts').replace('__API__', publicUrl).replace('__PAGE__', new URL(paymentPageUrl).origin)}})();`;

export const registerEmbed = (pages: FastifyInstance, ctx: Context): void =>
  registerSharedScript(pages, { path: EMBED_PATH, script: embedScript(ctx.settings) });
