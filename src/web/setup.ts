/** The page of the one-time set-up link, until the dashboard stands behind it: says so and lists the operator commands. */
import type { FastifyInstance } from 'fastify';
import type { Context } from '../context.ts';
import { findSetup } from '../merchants/merchants.ts';
import { html } from './html.ts';
import { sendPlain } from './plain.ts';

const COMMANDS: readonly [string, string][] = [
  [
    'npm run florin -- wallet set --merchant MERCHANT --coin BTC --mode live --key ACCOUNT_KEY',
    'take a coin with your own watch-only account key (xpub and kin; never a private key)',
  ],
  ['npm run florin -- key create --merchant MERCHANT --mode live --type secret', 'make an API key'],
  ['npm run florin -- endpoint create --merchant MERCHANT --mode live --url https://shop.example/hook', 'receive signed webhooks'],
  ['npm run florin -- plan set --merchant MERCHANT --plan professional', 'change the plan'],
  ['npm run florin -- merchant create --name "Another shop"', 'add a merchant'],
  ['npm run florin -- doctor', 'check nodes, prices and settings'],
];

export function registerSetup(app: FastifyInstance, ctx: Context): void {
  app.get<{ Querystring: { token?: unknown } }>('/setup', async (request, reply) => {
    const { token } = request.query;
    const owner = typeof token === 'string' && token.length <= 64 ? await findSetup(ctx, { token }) : null;
    const main = owner
      ? html`<h1>Florin is running</h1><p>The dashboard is not part of this version. Until it is, everything is done with operator commands in Florin's folder; your merchant id is <code>${owner.merchantId}</code>.</p><ul>${COMMANDS.map(([command, what]) => html`<li><code>${command.replace('MERCHANT', owner.merchantId)}</code><br>${what}</li>`)}</ul><p>The API is described under <a href="/docs">/docs</a>.</p>`
      : html`<h1>This link is not valid</h1><p>Use the set-up link that the service printed, or make a new merchant with <code>npm run florin -- merchant create</code>.</p>`;
    return sendPlain(reply, { status: owner ? 200 : 404, title: 'Set up Florin', main });
  });
}
