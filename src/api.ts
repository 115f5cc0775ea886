/** The role `api`: everything that is served over HTTP. */
import { readFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import type { Config } from '#config';
import type { Context } from '#context';
import { createServer } from '#http';
import { startRequestLog } from '#keys';
import { registerCommerce, registerGreenfield } from '#shops';
import { openLimits } from '#transport';
import { registerCheckout, registerDashboard, registerDocs, registerPackage, registerShopPlugins } from '#web';

/**
 * Listens on the configured address and returns it. `closers` receives the functions that stop it, called in the opposite order, so the
 * last reply is sent before its log entry is written. Errors: those of the address and of the certificate files.
 */
export async function startApi(ctx: Context, config: Config, { closers }: { closers: (() => Promise<void>)[] }): Promise<string> {
  const requestLog = startRequestLog(ctx);
  closers.push(() => requestLog.stop());
  const limits = await openLimits({ redisUrl: config.redisUrl, log: ctx.log });
  closers.push(() => limits.close());
  const { server, leave } = await createServer(ctx, {
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
  closers.push(async () => {
    await leave();
    await server.close();
  });
  await server.listen({ port: config.port, host: config.host });
  const { port } = server.server.address() as AddressInfo;
  return `${config.tls ? 'https' : 'http'}://${config.host.includes(':') ? `[${config.host}]` : config.host}:${port}`;
}
