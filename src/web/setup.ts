/** The page of the one-time set-up link, until the dashboard stands behind it: says so and lists the operator commands. */
import { createHash } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import type { Context } from '../context.ts';
import { findSetup } from '../merchants/merchants.ts';

const STYLE =
  'body{font:16px/1.55 system-ui,sans-serif;max-width:46rem;margin:3rem auto;padding:0 1.25rem;color:#1c2430;background:#fff}' +
  'code{background:#eef1f5;border-radius:4px;padding:.1em .35em;font-size:.9em;overflow-wrap:anywhere}li{margin:.5rem 0}' +
  '@media(prefers-color-scheme:dark){body{color:#e6eaf0;background:#12161c}code{background:#242c36}}';
const CSP = `default-src 'none'; style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;

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
    const body = owner
      ? `<h1>Florin is running</h1><p>The dashboard is not part of this version. Until it is, everything is done with operator commands in Florin's folder; your merchant id is <code>${owner.merchantId}</code>.</p><ul>${COMMANDS.map(([command, what]) => `<li><code>${command.replace('MERCHANT', owner.merchantId).replaceAll('"', '&quot;')}</code><br>${what}</li>`).join('')}</ul>`
      : '<h1>This link is not valid</h1><p>Use the set-up link that the service printed, or make a new merchant with <code>npm run florin -- merchant create</code>.</p>';
    return reply
      .code(owner ? 200 : 404)
      .headers({
        'content-type': 'text/html; charset=utf-8',
        'content-security-policy': CSP,
        'cache-control': 'no-store',
        'referrer-policy': 'no-referrer',
        'x-content-type-options': 'nosniff',
        'x-robots-tag': 'noindex',
      })
      .send(
        `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><title>Set up Florin</title><style>${STYLE}</style></head><body>${body}</body></html>`,
      );
  });
}
