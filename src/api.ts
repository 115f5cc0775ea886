/** The role `api`: everything that is served over HTTP. */
import { readFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import type { Config } from './config.ts';
import type { Context } from './context.ts';
import { openLimits } from './http/limits.ts';
import { createServer } from './http/server.ts';
import { startRequestLog } from './keys/requests.ts';
import { registerCommerce } from './shops/commerce/serve-commerce.ts';
import { registerGreenfield } from './shops/greenfield/serve-greenfield.ts';
import { registerCheckout } from './web/checkout/actions.ts';
import { registerDashboard } from './web/dashboard/serve.ts';
import { registerDocs } from './web/docs/routes.ts';
import { registerPackage } from './web/sdk-package.ts';
import { registerShopPlugins } from './web/shop-plugins.ts';

/**
 * Listens on the configured address and returns it. `closers` receives the functions that stop it, called in the opposite order, so the
 * last reply is sent before its log entry is written. Errors: those of the address and of the certificate files.
 */
export async function startApi(ctx: Context, config: Config, { closers }: { closers: (() => Promise<void>)[] }): Promise<string> {
  const requestLog = startRequestLog(ctx);
  closers.push(() => requestLog.stop());
  const limits = await openLimits({ redisUrl: config.redisUrl, log: ctx.log });
  closers.push(() => limits.close());
  const server = await createServer(ctx, {
    limits,
    tls: config.tls && { cert: await readFile(config.tls.certFile), key: await readFile(config.tls.keyFile) },
    trustedProxies: [...config.trustedProxies],
    metricsToken: config.metricsToken,
    registerPages: (app, gate) => {
      const { client } = gate;
      registerCheckout(app, ctx, { client, limits });
      registerDashboard(app, ctx, { limits, client });
      registerDocs(app, ctx);
      registerPackage(app, ctx);
      registerShopPlugins(app, ctx);
      registerGreenfield(app, ctx, gate);
      registerCommerce(app, ctx, gate);
    },
  });
  closers.push(() => server.close());
  await server.listen({ port: config.port, host: config.host });
  const { port } = server.server.address() as AddressInfo;
  return `${config.tls ? 'https' : 'http'}://${config.host.includes(':') ? `[${config.host}]` : config.host}:${port}`;
}
