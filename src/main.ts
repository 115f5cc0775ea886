/** argv -> commands. Commands work beside a running service and without it; with --json standard output is the JSON alone. */
import { readFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { backup, openCore, ROLES, type Role, restore, startApp } from './app.ts';
import { type Config, ConfigError, readConfig } from './config.ts';
import type { Context } from './context.ts';
import { COINS, type Coin, MODES } from './core/coin.ts';
import { idOfNumber } from './core/id.ts';
import { formatDecimal, formatUsd } from './core/money.ts';
import { PLANS } from './core/plan.ts';
import { Problem } from './core/problem.ts';
import { deliveryBody, endpointBody, itemBody, recoveryBody } from './http/webhook-bodies.ts';
import { createLog, type Log } from './log.ts';
import { listUsers, resetFactors, resetPassword, setEmail, setOperator } from './merchants/account.ts';
import { setBranding } from './merchants/branding.ts';
import { createKey, revokeKey } from './merchants/keys.ts';
import { createFirstMerchant, createMerchant, getMerchant, setPlan, THEMES } from './merchants/merchants.ts';
import { setWallet } from './merchants/wallets.ts';
import { type ChainStatus, readChainStatus, releaseChain } from './payments/chain-acts.ts';
import { claimDeposit, diagnose, type Finding, verifyAddresses } from './payments/doctor.ts';
import { buildApp } from './web/dashboard/build.ts';
import { DELIVERY_STATES, getDelivery, getRecovery, listDeliveries, resendDelivery, startRecovery } from './webhooks/deliveries.ts';
import {
  BY_OPERATOR,
  createEndpoint,
  deleteEndpoint,
  listEndpoints,
  planUpdate,
  rotateSecret,
  sendTestEvent,
} from './webhooks/endpoints.ts';

const OPTIONS = {
  json: { type: 'boolean' },
  help: { type: 'boolean' },
  role: { type: 'string' },
  name: { type: 'string' },
  plan: { type: 'string' },
  merchant: { type: 'string' },
  coin: { type: 'string' },
  mode: { type: 'string' },
  key: { type: 'string' },
  script: { type: 'string' },
  'first-index': { type: 'string' },
  type: { type: 'string' },
  origins: { type: 'string' },
  url: { type: 'string' },
  events: { type: 'string' },
  description: { type: 'string' },
  enabled: { type: 'string' },
  endpoint: { type: 'string' },
  delivery: { type: 'string' },
  state: { type: 'string' },
  payment: { type: 'string' },
  event: { type: 'string' },
  limit: { type: 'string' },
  after: { type: 'string' },
  recovery: { type: 'string' },
  since: { type: 'string' },
  overlap: { type: 'string' },
  file: { type: 'string' },
  accent: { type: 'string' },
  logo: { type: 'string' },
  theme: { type: 'string' },
  locale: { type: 'string' },
  support: { type: 'string' },
  'auto-return': { type: 'string' },
  kiosk: { type: 'string' },
  ref: { type: 'string' },
  email: { type: 'string' },
  to: { type: 'string' },
  off: { type: 'boolean' },
  'keep-factors': { type: 'boolean' },
  reason: { type: 'string' },
} as const;
type Flags = { [K in keyof typeof OPTIONS]?: (typeof OPTIONS)[K]['type'] extends 'boolean' ? boolean : string };

const USAGE = `florin: a self-hosted cryptocurrency payment service

  serve [--role api,watcher,worker]     start the service (npm start)
  migrate                               bring the database up to date
  merchant create --name N [--plan P]
  wallet set --merchant M --coin LTC --mode live --key ACCOUNT_KEY [--script p2wpkh] [--first-index N]
  key create --merchant M --mode live|test --type secret|public [--name N] [--origins a,b]
  key revoke --key KEY_ID
  user email --email OLD --to NEW       another address to sign in with, once you made sure of both
  user list [--merchant M] [--limit 25] [--after EMAIL]
                                        who has an account: roles, second factor, passkeys, whether the address is verified
  user password --email E [--keep-factors]
                                        a new password for somebody who forgot it; ends sign-ins and trusted devices, and
                                        removes second factor and passkeys unless --keep-factors is given
  user reset-factors --email E          removes second factor, backup codes, passkeys and trusted devices of somebody who
                                        lost them, and ends sign-ins; the password stays
  user operator --email E [--off]       lets a user reach the operator area
  plan set --merchant M --plan ${PLANS.join('|')}
  checkout set --merchant M [--accent #0f5bd7] [--logo FILE] [--theme ${THEMES.join('|')}] [--locale de]
               [--support URL_OR_MAIL] [--origins a,b] [--auto-return yes|no] [--kiosk yes|no]
                                        how the payment page looks and who may show it; none takes a setting back
  endpoint create --merchant M --mode live|test --url U [--events a,b]
  endpoint list | update | delete | rotate | test | recover | recovery
                                        the same as /v1/webhook_endpoints, each with --merchant M --mode live|test
      update --endpoint E [--url U] [--events a,b] [--description TEXT] [--enabled true|false]
      rotate --endpoint E [--overlap SECONDS]      delete, test --endpoint E
      recover --endpoint E --since 2026-11-21T08:00:00Z      recovery --recovery R
  delivery list --merchant M --mode live|test [--state pending|delivered|failed] [--endpoint E] [--payment P] [--event T]
               [--limit 25] [--after D]          newest first; "deliveries list" is the same
  delivery show | resend --merchant M --mode live|test --delivery D
  chain status [--coin C]               each chain: its sources, how far it is read, what holds it, the block it fails at
  chain release --coin C --reason R     lifts what waits for an operator: a deep reorganization, blocks that cannot be read back
  doctor                                check database, nodes, prices, wallets and endpoints, and say what to fix
  verify                                derive the deposit addresses anew and compare
  deposit claim --coin C --ref REF      a deposit that doctor names is dealt with
  backup --file F                       write everything into one file, also beside a running service
  restore --file F                      read it into an empty install

  --json   print the result as JSON alone`;

class UsageError extends Error {}

const need = (flags: Flags, name: keyof Flags): string => {
  const value = flags[name];
  if (typeof value !== 'string' || value === '') throw new UsageError(`--${name} is needed`);
  return value;
};
const oneOf = <T extends string>(value: string, known: readonly T[], name: string): T => {
  const found = known.find((k) => k === value);
  if (!found) throw new UsageError(`--${name} must be one of ${known.join(', ')}`);
  return found;
};
const coinOf = (flags: Flags): Coin => oneOf(need(flags, 'coin').toUpperCase(), COINS, 'coin');
const commaList = (text: string | undefined): string[] =>
  (text ?? '')
    .split(',')
    .map((part) => part.trim())
    .filter(Boolean);

/** Commands on the database as it is: they neither bring it up to date nor need what it holds. */
const STORE_COMMANDS: Readonly<Record<string, (config: Config, flags: Flags, log: Log) => Promise<object>>> = {
  backup: (config, flags, log) => backup(config, { file: need(flags, 'file'), log }),
  restore: async (config, flags, log) => {
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
};
const ownerOf = (flags: Flags) => ({ merchantId: need(flags, 'merchant'), mode: oneOf(need(flags, 'mode'), MODES, 'mode') });

const limitOf = (flags: Flags): number => {
  const limit = flags.limit ?? '25';
  if (!/^([1-9]\d?|100)$/.test(limit)) throw new UsageError('--limit must be a number from 1 to 100');
  return Number(limit);
};

type Command = (ctx: Context, flags: Flags) => Promise<object>;
/** What was sent, newest first. */
const listSent: Command = async (ctx, flags) => {
  const page = await listDeliveries(ctx, {
    ...ownerOf(flags),
    limit: limitOf(flags),
    startingAfter: flags.after ?? null,
    endpointId: flags.endpoint ?? null,
    eventId: null,
    paymentId: flags.payment ?? null,
    eventType: flags.event ?? null,
    state: flags.state === undefined ? null : oneOf(flags.state, DELIVERY_STATES, 'state'),
  });
  return { deliveries: page.items.map(itemBody), has_more: page.hasMore, searched_all: page.searchedAll };
};
const COMMANDS: Readonly<Record<string, Command>> = {
  migrate: async () => ({ migrated: true }),
  'merchant create': async (ctx, flags) => {
    const made = await createMerchant(ctx, {
      name: need(flags, 'name'),
      ...(flags.plan === undefined ? {} : { plan: oneOf(flags.plan, PLANS, 'plan') }),
    });
    return {
      merchant_id: made.merchantId,
      keys: {
        live_secret: made.keys.liveSecret,
        live_public: made.keys.livePublic,
        test_secret: made.keys.testSecret,
        test_public: made.keys.testPublic,
      },
      setup_url: made.setupUrl,
    };
  },
  'wallet set': async (ctx, flags) => {
    const mode = oneOf(flags.mode ?? 'live', MODES, 'mode');
    if (mode === 'test') throw new UsageError('test mode needs no wallet: a test page never shows an address that takes real money');
    const coin = coinOf(flags);
    const firstIndex = flags['first-index'] ?? '0';
    if (!/^\d{1,9}$/.test(firstIndex)) throw new UsageError('--first-index must be a whole number');
    const set = await setWallet(ctx, {
      merchantId: need(flags, 'merchant'),
      coin,
      accountKey: need(flags, 'key'),
      firstIndex: BigInt(firstIndex),
      ...(flags.script === undefined ? {} : { script: oneOf(flags.script, ['p2wpkh', 'p2tr', 'p2sh-p2wpkh', 'p2pkh', 'eoa'], 'script') }),
    });
    const { settings } = await getMerchant(ctx, { merchantId: need(flags, 'merchant') });
    return {
      wallet_id: set.walletId,
      first_addresses: set.firstAddresses,
      next_index: Number(set.nextIndex),
      // What counts as paid although it is less: to be changed in the dashboard, under Checkout.
      tolerance_percent: formatDecimal(BigInt(settings.toleranceBasisPoints), 2),
      tolerance_cap_usd: formatUsd(BigInt(settings.toleranceCapUsdCents)),
    };
  },
  'key create': async (ctx, flags) => {
    const made = await createKey(ctx, {
      merchantId: need(flags, 'merchant'),
      mode: oneOf(need(flags, 'mode'), MODES, 'mode'),
      kind: oneOf(need(flags, 'type'), ['secret', 'public'], 'type'),
      origins: commaList(flags.origins),
      ...(flags.name !== undefined && { name: flags.name }),
    });
    return { key_id: made.keyId, key: made.key };
  },
  'key revoke': async (ctx, flags) => {
    await revokeKey(ctx, { keyId: need(flags, 'key') });
    return { key_id: flags.key, revoked: true };
  },
  'plan set': async (ctx, flags) => {
    const plan = oneOf(need(flags, 'plan'), PLANS, 'plan');
    await setPlan(ctx, { merchantId: need(flags, 'merchant'), plan });
    return { merchant_id: flags.merchant, plan };
  },
  'user email': async (ctx, flags) => {
    await setEmail(ctx, { email: need(flags, 'email'), to: need(flags, 'to') });
    return { email: flags.to };
  },
  'user list': async (ctx, flags) => {
    const page = await listUsers(ctx, { merchantId: flags.merchant ?? null, limit: limitOf(flags), after: flags.after ?? null });
    const users = page.users.map(({ emailVerified, secondFactor, ...user }) => ({
      ...user,
      email_verified: emailVerified,
      second_factor: secondFactor,
    }));
    return { users, has_more: page.hasMore };
  },
  'user password': async (ctx, flags) => {
    const keepFactors = flags['keep-factors'] === true;
    const { password } = await resetPassword(ctx, { email: need(flags, 'email'), keepFactors });
    return { email: flags.email, password, factors: keepFactors ? 'kept' : 'removed' };
  },
  'user reset-factors': async (ctx, flags) => {
    const { secondFactor, passkeys, sessions } = await resetFactors(ctx, { email: need(flags, 'email') });
    return { email: flags.email, second_factor_removed: secondFactor, passkeys_removed: passkeys, sign_ins_ended: sessions };
  },
  'user operator': async (ctx, flags) => {
    await setOperator(ctx, { email: need(flags, 'email'), operator: flags.off !== true });
    return { email: flags.email, operator: flags.off !== true };
  },
  'checkout set': async (ctx, flags) => {
    const merchantId = need(flags, 'merchant');
    const given = (name: keyof Flags): string | null => (flags[name] === 'none' ? null : (flags[name] as string));
    const logo = flags.logo === undefined ? undefined : flags.logo === 'none' ? null : await readFile(flags.logo);
    await setBranding(ctx, {
      merchantId,
      branding: {
        ...(flags.accent !== undefined && { accent: given('accent') }),
        ...(flags.theme !== undefined && { theme: oneOf(flags.theme, THEMES, 'theme') }),
        ...(flags.locale !== undefined && { locale: given('locale') }),
        ...(flags.support !== undefined && { supportContact: given('support') }),
        ...(flags.origins !== undefined && { origins: flags.origins === 'none' ? [] : commaList(flags.origins) }),
        ...(flags['auto-return'] !== undefined && { autoReturn: oneOf(flags['auto-return'], ['yes', 'no'], 'auto-return') === 'yes' }),
        ...(flags.kiosk !== undefined && { kiosk: oneOf(flags.kiosk, ['yes', 'no'], 'kiosk') === 'yes' }),
      },
      ...(logo !== undefined && { logo }),
    });
    const { settings, logo: hash } = await getMerchant(ctx, { merchantId });
    const { accent, theme, locale, supportContact, origins, autoReturn, kiosk } = settings;
    return { merchant_id: merchantId, accent, theme, locale, support: supportContact, origins, auto_return: autoReturn, kiosk, logo: hash };
  },
  'endpoint create': async (ctx, flags) => {
    const made = await createEndpoint(ctx, {
      merchantId: need(flags, 'merchant'),
      mode: oneOf(need(flags, 'mode'), MODES, 'mode'),
      url: need(flags, 'url'),
      events: flags.events === undefined ? ['*'] : commaList(flags.events),
      description: null,
      by: BY_OPERATOR,
    });
    return { endpoint_id: made.endpointId, secret: made.secret };
  },
  'deposit claim': async (ctx, flags) => {
    const deposit = { coin: coinOf(flags), ref: need(flags, 'ref') };
    await claimDeposit(ctx, deposit);
    return { ...deposit, claimed: true };
  },
  'endpoint list': async (ctx, flags) => ({ endpoints: (await listEndpoints(ctx, ownerOf(flags))).map(endpointBody) }),
  'endpoint update': async (ctx, flags) =>
    endpointBody(
      await ctx.db.begin(
        await planUpdate(ctx, {
          ...ownerOf(flags),
          endpointId: need(flags, 'endpoint'),
          url: flags.url,
          events: flags.events === undefined ? undefined : commaList(flags.events),
          description: flags.description === '' ? null : flags.description,
          enabled: flags.enabled === undefined ? undefined : oneOf(flags.enabled, ['true', 'false'], 'enabled') === 'true',
          by: BY_OPERATOR,
        }),
      ),
    ),
  'endpoint delete': async (ctx, flags) => {
    await ctx.db.begin((tx) => deleteEndpoint(ctx, tx, { ...ownerOf(flags), endpointId: need(flags, 'endpoint') }));
    return { endpoint_id: flags.endpoint, deleted: true };
  },
  'endpoint rotate': async (ctx, flags) => {
    if (flags.overlap !== undefined && !/^\d{1,9}$/.test(flags.overlap))
      throw new UsageError('--overlap must be a whole number of seconds');
    const overlapSeconds = flags.overlap === undefined ? undefined : Number(flags.overlap);
    return endpointBody(
      await ctx.db.begin((tx) => rotateSecret(ctx, tx, { ...ownerOf(flags), endpointId: need(flags, 'endpoint'), overlapSeconds })),
    );
  },
  'endpoint test': async (ctx, flags) => {
    const number = await ctx.db.begin((tx) => sendTestEvent(ctx, tx, { ...ownerOf(flags), endpointId: need(flags, 'endpoint') }));
    return { delivery_id: idOfNumber('del', ctx.installKey, number) };
  },
  'endpoint recover': async (ctx, flags) => {
    const since = new Date(need(flags, 'since'));
    if (Number.isNaN(since.getTime())) throw new UsageError('--since must be a time such as 2026-11-21T08:00:00Z');
    return recoveryBody(
      await ctx.db.begin((tx) => startRecovery(ctx, tx, { ...ownerOf(flags), endpointId: need(flags, 'endpoint'), since })),
    );
  },
  'endpoint recovery': async (ctx, flags) =>
    recoveryBody(await getRecovery(ctx, { ...ownerOf(flags), recoveryId: need(flags, 'recovery') })),
  'delivery list': listSent,
  'deliveries list': listSent,
  'delivery show': async (ctx, flags) => deliveryBody(await getDelivery(ctx, { ...ownerOf(flags), deliveryId: need(flags, 'delivery') })),
  'delivery resend': async (ctx, flags) =>
    deliveryBody(await ctx.db.begin((tx) => resendDelivery(ctx, tx, { ...ownerOf(flags), deliveryId: need(flags, 'delivery') }))),
  'chain status': async (ctx, flags) => ({
    chains: await readChainStatus(ctx, { coin: flags.coin === undefined ? null : coinOf(flags) }),
  }),
  'chain release': async (ctx, flags) => {
    const coin = coinOf(flags);
    return { coin, ...(await releaseChain(ctx, { coin, reason: need(flags, 'reason') })) };
  },
  doctor: (ctx) => diagnose(ctx),
  verify: (ctx) => verifyAddresses(ctx),
};

/** A result for people: one line a value. */
function printPlain(value: unknown, indent = ''): void {
  for (const [name, item] of Object.entries(value as object)) {
    if (Array.isArray(item)) {
      process.stdout.write(`${indent}${name}:\n`);
      for (const entry of item) process.stdout.write(`${indent}  ${typeof entry === 'object' ? JSON.stringify(entry) : entry}\n`);
    } else if (typeof item === 'object' && item !== null) {
      process.stdout.write(`${indent}${name}:\n`);
      printPlain(item, `${indent}  `);
    } else process.stdout.write(`${indent}${name}: ${item}\n`);
  }
}

/** What the doctor found: `FIX` needs the operator, `note` may. */
function printFindings(findings: readonly Finding[]): void {
  for (const { check, ok, detail, fix } of findings) {
    process.stdout.write(
      `${ok ? (fix === null ? 'ok  ' : 'note') : 'FIX '}  ${check}: ${detail}\n${fix === null ? '' : `      -> ${fix}\n`}`,
    );
  }
  const wrong = findings.filter(({ ok }) => !ok).length;
  process.stdout.write(wrong === 0 ? '\nNothing needs to be fixed.\n' : `\n${wrong} of ${findings.length} need to be fixed.\n`);
}

/** A chain a paragraph: what holds it and what is wrong stand out. */
function printChains(chains: readonly ChainStatus[]): void {
  for (const { coin, network, sources, height, cursor, behind, watched_from, holds, troubles, released } of chains) {
    const place = cursor ? `read to block ${cursor.height}, ${behind ?? 'unknown how many'} behind` : 'not begun';
    process.stdout.write(`${coin} (${network}): ${place}${watched_from === null ? '' : `, from block ${watched_from} on`}\n`);
    for (const { name, state, height: at, followed, reason } of sources)
      process.stdout.write(
        `  source ${name}: ${state}${at === null ? '' : ` at block ${at}`}${followed ? ', followed' : ''}${reason ? `: ${reason}` : ''}\n`,
      );
    for (const hold of holds) process.stdout.write(`  HELD  ${hold}\n`);
    for (const trouble of troubles) process.stdout.write(`  !     ${trouble}\n`);
    if (released) process.stdout.write(`  released at ${released.at}: ${released.reason}\n`);
    if (height === null) process.stdout.write('  no source answers\n');
  }
  if (chains.length === 0) process.stdout.write('No chain is configured.\n');
}

function print(result: object, flags: Flags): void {
  if (flags.json) process.stdout.write(`${JSON.stringify(result)}\n`);
  else if ('findings' in result) printFindings(result.findings as Finding[]);
  else if ('chains' in result) printChains(result.chains as ChainStatus[]);
  else printPlain(result);
}

/** The embedded database drops root anyway. If the service did too, it could not open the files that root created before. */
const AS_ROOT = `WARNING: Florin is running as root and does not need to. Anyone who breaks into it would control this machine.
Stop it, create a user for it, and make that user the owner of the data folder: chown -R florin DATA_FOLDER
See "As a system service" in docs/guides/self-hosting.md, which also covers ports below 1024.`;

async function serve(flags: Flags): Promise<void> {
  const config = readConfig();
  const roles: Role[] = flags.role === undefined ? [...ROLES] : commaList(flags.role).map((role) => oneOf(role, ROLES, 'role'));
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
  if (roles.includes('api')) await buildApp(app.log).catch((error) => app.log.error({ err: error }, 'Could not build the dashboard'));
}

/** On an empty install: creates the first merchant and prints its setup link, its test keys and a command to try. */
async function welcome(ctx: Context): Promise<void> {
  const first = await createFirstMerchant(ctx, { name: 'My shop' });
  if (!first) return;
  const { merchantId, keys, setupUrl } = first;
  process.stdout.write(`
Your first merchant is ${merchantId}.

  Create your account   ${setupUrl}
                        This link works once.

  Secret test key       ${keys.testSecret}
  Public test key       ${keys.testPublic}
                        Copy the keys now: you won't see them again.

Create a test payment:

  curl ${ctx.settings.publicUrl}/api/payment/create/simple \\
    -H "Authorization: Bearer ${keys.testSecret}" \\
    -H "Content-Type: application/json" \\
    -d '{"amount_usd": 25.00, "return_url": "https://example.com/thanks"}'

Open the payment_url from the response, choose a coin, and watch the payment complete.
When you go live, create a live key: ./florin key create --merchant ${merchantId} --mode live --type secret

`);
}

async function main(argv: readonly string[]): Promise<void> {
  const { values, positionals } = parseArgs({ args: [...argv], options: OPTIONS, allowPositionals: true, strict: true });
  const flags = values as Flags;
  const name = positionals.join(' ');
  if (flags.help || name === '' || name === 'help') {
    process.stdout.write(`${USAGE}\n`);
    return;
  }
  if (name === 'serve') return serve(flags);
  const onStore = Object.hasOwn(STORE_COMMANDS, name) ? STORE_COMMANDS[name] : undefined;
  if (onStore) return print(await onStore(readConfig(), flags, createLog('warn')), flags);
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (!command) throw new UsageError(`there is no command "${name}"`);
  const core = await openCore(readConfig(), createLog('warn'));
  try {
    const result = await command(core.ctx, flags);
    print(result, flags);
    if ('ok' in result && result.ok === false) process.exitCode = 1;
  } finally {
    await core.close();
  }
}

if (Number(process.versions.node.split('.')[0]) < 24) {
  process.stderr.write(
    `Florin needs Node 24 or newer; this is ${process.version}. On Linux "npm ci" brings it along; elsewhere install Node 24.\n`,
  );
  process.exit(1);
}
main(process.argv.slice(2)).catch((error: unknown) => {
  const known =
    error instanceof UsageError ||
    error instanceof ConfigError ||
    error instanceof Problem ||
    (error as { code?: string })?.code?.startsWith('ERR_PARSE_ARGS');
  const message = error instanceof Error ? error.message : String(error);
  process.stderr.write(
    known || !(error instanceof Error) ? `${message}\n` : `${error.name === 'Error' ? '' : `${error.name}: `}${message}\n`,
  );
  if (error instanceof UsageError) process.stderr.write('See: npm run florin -- help\n');
  process.exit(1);
});
