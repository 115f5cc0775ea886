/** Operator commands for the install: the service, its database, its chains, and problems with them. */
import { resolve } from 'node:path';
import { acceptSecretKey, backup, inspect, PROCESS_ROLES, type Role, restore, startApp } from '#app';
import { forgetCertificate } from '#chain-store';
import type { Config } from '#config';
import { createOutgoing } from '#connections';
import type { Context } from '#context';
import { Problem } from '#core/problem';
import { claimDeposit, readChainStatus, releaseChain } from '#follow';
import { createFirstMerchant, keepSetupLink, SETUP_DAYS } from '#merchants';
import { diagnose, findNewer, hashSigner, upgrade, verifyAddresses } from '#operate';
import { CHAIN_OPTION, COIN_OPTION, type Commands, chainCoinOf, coinOf, commaList, type Flags, need, oneOfOption } from './command.ts';

/** The folder of this install. */
const INSTALLED = resolve(import.meta.dirname, '../..');
const FILE = { value: 'FILE', about: 'Backup file', required: true } as const;

export const SERVE_COMMAND: Commands = {
  serve: {
    about: 'Start the service (npm start)',
    options: { role: { value: 'ROLES', about: `Roles to run, comma-separated: ${PROCESS_ROLES.join(', ')} (default: all)` } },
    serve,
  },
};

export const INSTALL_COMMANDS: Commands = {
  doctor: {
    about: 'Check the database, nodes, prices, wallets and endpoints, and say what to fix',
    notes: 'Exit code 1 when something must be fixed.',
    run: async (ctx) => {
      const { ok, findings } = await diagnose(ctx);
      const hash = await hashSigner();
      const detail = hash === null ? 'not built yet: open the dashboard once' : `SHA-256 ${hash}`;
      return { ok, findings: [...findings, { check: 'signer page', ok: true, detail, fix: null }] };
    },
  },
  verify: {
    about: 'Derive every deposit address again and compare it with the stored one',
    notes: 'Exit code 1 when an address differs.',
    run: (ctx) => verifyAddresses(ctx),
  },
  'chain status': {
    about: 'Show each chain: its sources, progress, holds and problems',
    options: { coin: { value: 'COIN', about: 'Only this coin' } },
    run: async (ctx, flags) => ({ chains: await readChainStatus(ctx, { coin: flags.coin === undefined ? null : chainCoinOf(flags) }) }),
  },
  'chain release': {
    about: 'Release a chain that waits for an operator, after a deep reorganization, unreadable blocks or an upgraded token contract',
    options: { coin: CHAIN_OPTION, reason: { value: 'TEXT', about: 'Why it is safe; kept in the log', required: true } },
    run: async (ctx, flags) => {
      const coin = chainCoinOf(flags);
      return { coin, ...(await releaseChain(ctx, { coin, reason: need(flags, 'reason') })) };
    },
  },
  'chain accept-certificate': {
    about: 'Accept the new certificate of an Electrum server that doctor reports',
    options: { server: { value: 'HOST:PORT', about: 'The server, as doctor shows it', required: true } },
    run: async ({ db }, flags) => {
      const server = need(flags, 'server');
      if (!(await forgetCertificate(db, { server })))
        throw new Problem('parameter_invalid', { reason: 'no certificate of this server is stored' }, { param: 'server' });
      return { server, accepts_next_certificate: true };
    },
  },
  'deposit claim': {
    about: 'Mark a deposit that doctor reports as handled',
    options: { coin: COIN_OPTION, ref: { value: 'REF', about: 'Reference that doctor shows', required: true } },
    run: async (ctx, flags) => {
      const deposit = { coin: coinOf(flags), ref: need(flags, 'ref') };
      await claimDeposit(ctx, deposit);
      return { ...deposit, claimed: true };
    },
  },
  'secret-key accept': {
    about: 'Use the current SECRET_KEY or key file after the old key was lost',
    notes: 'Stop the service first. What was sealed with the old key cannot be read any more; the command lists it.',
    onStore: async (config, _flags, log) => ({ accepted: true, unreadable: (await acceptSecretKey(config, { log })).closed }),
  },
  backup: {
    about: 'Write everything to one file; the service can keep running',
    options: { file: FILE },
    onStore: (config, flags, log) => backup(config, { file: need(flags, 'file'), log }),
  },
  restore: {
    about: 'Restore a backup into an empty install',
    options: { file: FILE },
    createsDatabase: true,
    onStore: async (config, flags, log) => {
      const { finished, ...result } = await restore(config, { file: need(flags, 'file'), log });
      return {
        ...result,
        wallets: finished.map(({ walletId, coin, from, to }) => ({
          wallet_id: walletId,
          coin,
          index_in_backup: Number(from),
          next_index: Number(to),
        })),
      };
    },
  },
  version: {
    about: 'Show the version, how it was installed, and the versions of Node, PostgreSQL and the schema',
    options: {
      check: { about: 'Also say which versions are newer, from the signed list at RELEASES_URL' },
      file: {
        value: 'FILE',
        about: 'With --check: the list as a file, with its signature in FILE.minisig, for a machine without internet',
      },
    },
    createsDatabase: true,
    onStore: async (config, flags, log) => {
      const own = await inspect(config, { log });
      if (flags.check === undefined) return own;
      const outgoing = createOutgoing({ allow: [], log });
      const file = flags.file ?? null;
      return { ...own, releases: await findNewer(config, { version: own.version, installedBy: own.installed_by, file, outgoing }) };
    },
  },
  upgrade: {
    about: 'Install another release from its archive, into this folder; data and settings stay',
    notes: 'SHA256SUMS and SHA256SUMS.minisig must be beside the archive. To go back, give the archive of the version before.',
    options: {
      file: { value: 'FILE', about: 'florin-VERSION.tgz', required: true },
      unit: {
        value: 'UNITS',
        about: 'systemd units that run Florin, comma-separated: stopped, started, and put back if it does not start',
      },
    },
    createsDatabase: true,
    onStore: ({ host, port, releasesKey }, flags) => {
      const at = { host: host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host, port };
      return upgrade(INSTALLED, { file: resolve(need(flags, 'file')), key: releasesKey, units: commaList(flags.unit), at });
    },
  },
  migrate: { about: 'Update the database schema (a start does this too)', run: async () => ({ migrated: true }) },
};

// `serve`: runs the service until a signal, and greets the operator of an empty install.

/** The embedded database drops root anyway. If the service did too, it could not open the files that root created before. */
const AS_ROOT = `WARNING: Florin is running as root and does not need to. Anyone who breaks into it would control this machine.
Stop it, create a user for it, and make that user the owner of the data folder: chown -R florin DATA_FOLDER
See "As a system service" in docs/guides/self-hosting.md, which also covers ports below 1024.`;

/** Starts the roles and keeps them running until a signal. */
async function serve(config: Config, flags: Flags): Promise<void> {
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
  if (roles.includes('api')) await welcome(app.ctx, config);
  // Printed last, so that it is noticed.
  if (process.getuid?.() === 0) process.stderr.write(`\n${AS_ROOT}\n`);
  // In the background: the service already answers, and later starts find the build.
  if (roles.includes('api')) {
    const { BuildToolsMissing, buildApp } = await import('#web');
    await buildApp(app.log).catch((error) => {
      if (error instanceof BuildToolsMissing) process.stderr.write(`\nWARNING: ${error.message}\nPayments are not affected.\n`);
      else app.log.error({ err: error }, 'Could not build the dashboard');
    });
  }
}

/**
 * On an empty install: creates the first merchant and prints its setup link, its test keys and a command to try. Until there is an
 * account, later starts print the link again, because it may be lost.
 */
async function welcome(ctx: Context, { setupToken }: Pick<Config, 'setupToken'>): Promise<void> {
  const first = await createFirstMerchant(ctx, { name: 'My shop', setupToken });
  if (!first) {
    const waiting = await keepSetupLink(ctx, { setupToken });
    if (!waiting) return;
    const { merchantId, setupUrl } = waiting;
    const link = setupUrl ?? `Get a link: ./florin merchant setup-link --merchant ${merchantId}`;
    process.stdout.write(`\nNobody has an account yet.\n\n  Create your account   ${link}\n\n`);
    return;
  }
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

  curl ${ctx.settings.publicUrl}/v1/payments -u ${keys.testSecret}: \\
    -H "Content-Type: application/json" \\
    -d '{"amount": "25.00", "currency": "USD", "return_url": "https://example.com/thanks"}'

Open the payment_url from the response, choose a coin, and simulate a payment.
When you go live, create a live key: ./florin key create --merchant ${merchantId} --mode live --type secret

`);
}
