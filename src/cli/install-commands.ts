/** Operator commands for the install: the service, its database, its chains, and problems with them. */
import { acceptSecretKey, backup, PROCESS_ROLES, restore } from '../app.ts';
import { forgetCertificate } from '../chains/bitcoin/electrum/electrum-certificates.ts';
import { Problem } from '../core/problem.ts';
import { readChainStatus, releaseChain } from '../follow/chain-acts.ts';
import { claimDeposit } from '../follow/look-ahead.ts';
import { diagnose, verifyAddresses } from '../operate/doctor.ts';
import { hashSigner } from '../web/dashboard/build.ts';
import { CHAIN_OPTION, COIN_OPTION, type Commands, chainCoinOf, coinOf, need } from './command.ts';
import { serve } from './serve.ts';

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
  migrate: { about: 'Update the database schema (a start does this too)', run: async () => ({ migrated: true }) },
};
