/** `serve`: runs the service until a signal, and greets the operator of an empty install. */
import { PROCESS_ROLES, type Role, startApp } from '../app.ts';
import type { Config } from '../config.ts';
import type { Context } from '../context.ts';
import { createFirstMerchant, SETUP_DAYS } from '../merchants/merchants.ts';
import { BuildToolsMissing } from '../web/build-tools.ts';
import { buildApp } from '../web/dashboard/build.ts';
import { commaList, type Flags, oneOfOption } from './command.ts';

/** The embedded database drops root anyway. If the service did too, it could not open the files that root created before. */
const AS_ROOT = `WARNING: Florin is running as root and does not need to. Anyone who breaks into it would control this machine.
Stop it, create a user for it, and make that user the owner of the data folder: chown -R florin DATA_FOLDER
See "As a system service" in docs/guides/self-hosting.md, which also covers ports below 1024.`;

/** Starts the roles and keeps them running until a signal. */
export async function serve(config: Config, flags: Flags): Promise<void> {
  const roles: Role[] =
    flags.role === undefined ? [...PROCESS_ROLES] : commaList(flags.role).map((role) => oneOfOption(role, PROCESS_ROLES, 'role'));
  const app = await startApp(config, { roles });
  let stopping = false;
  const stop = (signal: string) => {
    if (stopping) return;
    stopping = true;
    app.log.info({ signal }, 'Stopping');
    app.stop().then(
      () => process.exit(0),
      (error) => {
        app.log.error({ err: error }, 'Could not stop cleanly');
        process.exit(1);
      },
    );
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
  if (app.url) process.stdout.write(`\nFlorin is ready at ${config.publicUrl}\n`);
  else process.stdout.write(`\nFlorin is running: ${roles.join(', ')}\n`);
  await welcome(app.ctx);
  // Printed last, so that it is noticed.
  if (process.getuid?.() === 0) process.stderr.write(`\n${AS_ROOT}\n`);
  // In the background: the service already answers, and later starts find the build.
  if (roles.includes('api'))
    await buildApp(app.log).catch((error) => {
      if (error instanceof BuildToolsMissing) process.stderr.write(`\nWARNING: ${error.message}\nPayments are not affected.\n`);
      else app.log.error({ err: error }, 'Could not build the dashboard');
    });
}

/** On an empty install: creates the first merchant and prints its setup link, its test keys and a command to try. */
async function welcome(ctx: Context): Promise<void> {
  const first = await createFirstMerchant(ctx, { name: 'My shop' });
  if (!first) return;
  const { merchantId, keys, setupUrl } = first;
  process.stdout.write(`
Your first merchant is ${merchantId}.

  Create your account   ${setupUrl}
                        This link works once, for ${SETUP_DAYS} days. Get a new one with:
                        ./florin merchant setup-link --merchant ${merchantId}

  Secret test key       ${keys.testSecret}
  Public test key       ${keys.testPublic}
                        Copy the keys now: you won't see them again.
                        Every website can use the public key until you list the origins of yours:
                        ./florin checkout set --merchant ${merchantId} --origins https://shop.example

Create a test payment:

  curl ${ctx.settings.publicUrl}/api/payment/create/simple \\
    -H "Authorization: Bearer ${keys.testSecret}" \\
    -H "Content-Type: application/json" \\
    -d '{"amount_usd": 25.00, "return_url": "https://example.com/thanks"}'

Open the payment_url from the response, choose a coin, and simulate a payment.
When you go live, create a live key: ./florin key create --merchant ${merchantId} --mode live --type secret

`);
}
