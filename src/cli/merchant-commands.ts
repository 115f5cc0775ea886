/** Operator commands for merchants: their keys, wallets, payment page, plans and users. */
import { readFile } from 'node:fs/promises';
import { MODES } from '#core/coin';
import { formatDecimal, formatUsd } from '#core/money';
import { PLANS } from '#core/plan';
import { inOrder, KEY_PERMISSION_NAMES, type KeyPermission } from '#core/roles';
import { printableLine } from '#core/text';
import { createApiKey, listApiKeys, revokeApiKey } from '#keys';
import {
  changeSettings,
  createMerchant,
  createSetupLink,
  getMerchant,
  listMerchants,
  readTokens,
  SETUP_DAYS,
  setBranding,
  setPlan,
  setTimeZone,
  THEMES,
  tokensFor,
} from '#merchants';
import { setOperator } from '#people';
import { listUsers, resetFactors, resetPassword, setEmail } from '#sign-in';
import { listWallets, readWalletPolicy, setWallet } from '#wallets';
import {
  type Commands,
  commaList,
  type Flags,
  LIMIT,
  limitOf,
  MERCHANT,
  MODE,
  NATIVE_COIN_OPTION,
  nativeCoinOf,
  need,
  type Option,
  oneOfOption,
  ownerOfFlags,
  UsageError,
} from './command.ts';

const PLAN: Option = { value: PLANS.join('|'), about: 'Plan' };
const KINDS = ['secret', 'public'] as const;
const SCRIPTS = ['p2wpkh', 'p2tr', 'p2sh-p2wpkh', 'p2pkh', 'p2wsh', 'p2sh-p2wsh', 'eoa'] as const;
const EMAIL: Option = { value: 'EMAIL', about: 'Email address the user signs in with', required: true };
const iso = (date: Date | null): string | null => date?.toISOString() ?? null;

export const MERCHANT_COMMANDS: Commands = {
  'merchant list': {
    about: 'List merchants, newest first',
    options: { limit: LIMIT, after: { value: 'ID', about: 'Show merchants after this one' } },
    columns: ['id', 'name', 'plan', 'members', 'payments_this_month', 'created_at'],
    run: async (ctx, flags) => {
      const page = await listMerchants(ctx, { limit: limitOf(flags), startingAfter: flags.after ?? null });
      return {
        merchants: page.merchants.map(({ id, name, plan, members, used, createdAt }) => ({
          ...{ id, name, plan, members: Number(members), payments_this_month: Number(used), created_at: iso(createdAt) },
        })),
        has_more: page.hasMore,
      };
    },
  },
  'merchant create': {
    about: 'Create a merchant with API keys and a setup link',
    options: {
      name: { value: 'NAME', about: 'Name of the business', required: true },
      plan: { ...PLAN, about: 'Plan (default: starter)' },
    },
    notes: `The keys and the setup link are shown once. The link opens the dashboard for the owner and works for ${SETUP_DAYS} days.`,
    run: async (ctx, flags) => {
      const made = await createMerchant(ctx, {
        name: need(flags, 'name'),
        ...(flags.plan === undefined ? {} : { plan: oneOfOption(flags.plan, PLANS, 'plan') }),
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
  },
  'merchant setup-link': {
    about: 'Create a new setup link for a merchant without an owner',
    options: { merchant: MERCHANT },
    notes: `The link works once, for ${SETUP_DAYS} days. An older one stops working.`,
    run: async (ctx, flags) => ({
      merchant_id: flags.merchant,
      setup_url: await createSetupLink(ctx, { merchantId: need(flags, 'merchant') }),
    }),
  },
  'merchant time-zone': {
    about: 'Set where the days of a merchant begin: in lists, files, reports and books',
    options: { merchant: MERCHANT, zone: { value: 'ZONE', about: 'Time zone, such as Europe/Berlin, or UTC', required: true } },
    run: async (ctx, flags) => {
      const merchantId = need(flags, 'merchant');
      await setTimeZone(ctx, { merchantId, timeZone: need(flags, 'zone') });
      return { merchant_id: merchantId, time_zone: flags.zone };
    },
  },
  'plan set': {
    about: 'Change the plan of a merchant',
    options: { merchant: MERCHANT, plan: { ...PLAN, required: true } },
    run: async (ctx, flags) => {
      const plan = oneOfOption(need(flags, 'plan'), PLANS, 'plan');
      await setPlan(ctx, { merchantId: need(flags, 'merchant'), plan });
      return { merchant_id: flags.merchant, plan };
    },
  },
  'key list': {
    about: 'List the API keys of a merchant, newest first',
    options: {
      merchant: MERCHANT,
      mode: MODE,
      type: { value: KINDS.join('|'), about: 'Only keys of this type' },
      ended: { about: 'Show revoked and expired keys instead of active ones' },
      limit: LIMIT,
      after: { value: 'ID', about: 'Show keys after this one' },
    },
    columns: ['id', 'type', 'name', 'hint', 'permissions', 'read_only', 'created_at', 'last_used_at'],
    run: async (ctx, flags) => {
      const owner = ownerOfFlags(flags);
      await getMerchant(ctx, owner);
      const kind = flags.type === undefined ? null : oneOfOption(flags.type, KINDS, 'type');
      const wanted = { kind, active: flags.ended === undefined, limit: limitOf(flags), startingAfter: flags.after ?? null };
      const page = await listApiKeys(ctx, { ...owner, ...wanted });
      return {
        keys: page.items.map((key) => ({
          ...{ id: key.id, type: key.kind, name: key.name, hint: key.hint, read_only: key.readOnly },
          // A secret key from before there were permissions can do everything.
          permissions: key.kind === 'public' ? ['create payments'] : (key.permissions ?? KEY_PERMISSION_NAMES),
          ...{ origins: key.origins, allowed_ips: key.allowedIps, created_at: iso(key.createdAt), last_used_at: iso(key.lastUsedAt) },
          ...{ expires_at: iso(key.expiresAt), revoked_at: iso(key.revokedAt) },
        })),
        has_more: page.hasMore,
      };
    },
  },
  'key create': {
    about: 'Create an API key',
    options: {
      merchant: MERCHANT,
      mode: MODE,
      type: { value: KINDS.join('|'), about: 'Secret keys are for servers, public ones for web pages', required: true },
      name: { value: 'NAME', about: 'Name to recognize it by' },
      origins: { value: 'A,B', about: 'Origins that may use a public key, comma-separated' },
      permissions: { value: 'A,B', about: `What a secret key can do (default all): ${KEY_PERMISSION_NAMES.join(', ')}` },
    },
    notes: 'The key is shown once. The guide "API keys" says what each permission includes.',
    run: async (ctx, flags) => {
      const kind = oneOfOption(need(flags, 'type'), KINDS, 'type');
      const made = await createApiKey(ctx, {
        ...ownerOfFlags(flags),
        kind,
        origins: commaList(flags.origins),
        ...(flags.name !== undefined && { name: printableLine(flags.name, 'name') }),
        ...(flags.permissions !== undefined && { permissions: permissionsOf(flags.permissions, kind) }),
      });
      return { key_id: made.keyId, key: made.key };
    },
  },
  'key revoke': {
    about: 'Revoke an API key; it stops working within a second',
    options: { key: { value: 'ID', about: 'Key, such as key_... ("key list" shows them)', required: true } },
    run: async (ctx, flags) => {
      await revokeApiKey(ctx, { keyId: need(flags, 'key') });
      return { key_id: flags.key, revoked: true };
    },
  },
  'wallet list': {
    about: 'List the wallets of a merchant',
    options: { merchant: MERCHANT },
    columns: ['coin', 'state', 'network', 'key', 'script', 'next_index', 'gap_limit', 'last_deposit_at'],
    run: async (ctx, flags) => {
      const merchantId = need(flags, 'merchant');
      await getMerchant(ctx, { merchantId });
      return {
        wallets: (await listWallets(ctx, { merchantId })).map((wallet) => ({
          ...{ coin: wallet.coin, state: wallet.state, network: wallet.network, key: wallet.key, script: wallet.script },
          ...{ path: wallet.path, next_index: Number(wallet.nextIndex), last_deposit_at: iso(wallet.lastDepositAt) },
          // The longest run of addresses without a payment, and the gap limit to set in the wallet so that it finds what is behind it.
          ...{ unused_run: Number(wallet.unusedRun), gap_limit: wallet.gapLimit === null ? null : Number(wallet.gapLimit) },
          waiting_until: iso(wallet.waiting?.dueAt ?? null),
        })),
      };
    },
  },
  'wallet set': {
    about: 'Set the extended public key that receives a coin',
    options: {
      merchant: MERCHANT,
      coin: NATIVE_COIN_OPTION,
      key: { value: 'ACCOUNT_KEY', about: 'Extended public key of the account: zpub, xpub, ...', required: true },
      mode: { value: 'live', about: 'Only live mode has wallets (default)' },
      script: { value: 'SCRIPT', about: `Address type when the key does not say: ${SCRIPTS.join(', ')}` },
      'first-index': { value: 'N', about: 'First address index to use (default 0)' },
    },
    notes: 'Compare the addresses it prints with those in your wallet before you take payments.',
    run: async (ctx, flags) => {
      if (oneOfOption(flags.mode ?? 'live', MODES, 'mode') === 'test')
        throw new UsageError('Test mode needs no wallet: test pages never show an address that takes real money');
      const coin = nativeCoinOf(flags);
      const firstIndex = flags['first-index'] ?? '0';
      if (!/^\d{1,9}$/.test(firstIndex)) throw new UsageError('--first-index must be a whole number');
      const merchantId = need(flags, 'merchant');
      const set = await setWallet(ctx, {
        ...{ merchantId, coin, accountKey: need(flags, 'key'), firstIndex: BigInt(firstIndex) },
        ...(flags.script === undefined ? {} : { script: oneOfOption(flags.script, SCRIPTS, 'script') }),
      });
      const { settings } = await getMerchant(ctx, { merchantId });
      return {
        wallet_id: set.walletId,
        first_addresses: set.firstAddresses,
        next_index: Number(set.nextIndex),
        // The underpayment tolerance. It can be changed in the dashboard, under Checkout.
        tolerance_percent: formatDecimal(BigInt(settings.toleranceBasisPoints), 2),
        tolerance_cap_usd: formatUsd(BigInt(settings.toleranceCapUsdCents)),
      };
    },
  },
  'wallet policy': {
    about: 'Print the policy (BIP-388) that hardware wallets register',
    options: { merchant: MERCHANT, coin: NATIVE_COIN_OPTION },
    run: (ctx, flags) => readWalletPolicy(ctx, { merchantId: need(flags, 'merchant'), coin: nativeCoinOf(flags) }),
  },
  'wallet tokens': {
    about: 'Set the stablecoins that a merchant accepts at the addresses of its wallets',
    options: {
      merchant: MERCHANT,
      tokens: { value: 'A,B', about: 'Such as USDC@ethereum,USDC@base; none turns all off', required: true },
    },
    run: async (ctx, flags) => {
      const merchantId = need(flags, 'merchant');
      const names = need(flags, 'tokens');
      const tokens = readTokens(ctx, names === 'none' ? [] : commaList(names));
      await changeSettings(ctx, { merchantId, settings: { tokens } });
      return { merchant_id: merchantId, tokens, available: tokensFor(ctx) };
    },
  },
  'checkout set': {
    about: 'Change how the payment page looks and which sites may embed it',
    options: {
      merchant: MERCHANT,
      accent: { value: 'COLOR', about: 'Accent color, such as #0f5bd7' },
      logo: { value: 'FILE', about: 'Logo: PNG or SVG, up to 64 kB' },
      theme: { value: THEMES.join('|'), about: 'Color scheme' },
      locale: { value: 'LANGUAGE', about: 'Language of the page, such as de' },
      support: { value: 'URL_OR_EMAIL', about: 'Where customers get help' },
      origins: { value: 'A,B', about: 'Origins that may embed the page, comma-separated' },
      'auto-return': { value: 'yes|no', about: 'Return to the shop automatically after payment' },
      kiosk: { value: 'yes|no', about: 'Keep the screen on, for a display on your counter' },
    },
    notes: '"none" resets a setting.',
    run: setCheckout,
  },
  'user list': {
    about: 'List users by email address',
    options: {
      merchant: { value: 'ID', about: 'Only members of this merchant' },
      limit: LIMIT,
      after: { value: 'EMAIL', about: 'Show users after this one' },
    },
    columns: ['email', 'name', 'merchants', 'second_factor', 'passkeys', 'email_verified', 'operator'],
    run: async (ctx, flags) => {
      const page = await listUsers(ctx, { merchantId: flags.merchant ?? null, limit: limitOf(flags), after: flags.after ?? null });
      const users = page.users.map(({ emailVerified, secondFactor, ...user }) => ({
        ...user,
        email_verified: emailVerified,
        second_factor: secondFactor,
      }));
      return { users, has_more: page.hasMore };
    },
  },
  'user email': {
    about: 'Change the email address a user signs in with',
    options: { email: EMAIL, to: { value: 'EMAIL', about: 'New address', required: true } },
    notes: 'Make sure that both addresses belong to the same person. Both are notified.',
    run: async (ctx, flags) => {
      await setEmail(ctx, { email: need(flags, 'email'), to: need(flags, 'to') });
      return { email: flags.to };
    },
  },
  'user password': {
    about: 'Give a user who forgot the password a new one',
    options: { email: EMAIL, 'keep-factors': { about: 'Keep two-factor authentication and passkeys' } },
    notes: 'Signs the user out everywhere, and removes two-factor authentication and passkeys unless --keep-factors is given.',
    run: async (ctx, flags) => {
      const keepFactors = flags['keep-factors'] !== undefined;
      const { password } = await resetPassword(ctx, { email: need(flags, 'email'), keepFactors });
      return { email: flags.email, password, factors: keepFactors ? 'kept' : 'removed' };
    },
  },
  'user reset-factors': {
    about: 'Turn off two-factor authentication for a user who lost access to it',
    options: { email: EMAIL },
    notes: 'Removes two-factor authentication, backup codes, passkeys and trusted devices, and signs the user out. The password stays.',
    run: async (ctx, flags) => {
      const { secondFactor, passkeys, sessions } = await resetFactors(ctx, { email: need(flags, 'email') });
      return { email: flags.email, second_factor_removed: secondFactor, passkeys_removed: passkeys, sign_ins_ended: sessions };
    },
  },
  'user operator': {
    about: 'Give a user access to the operator area',
    options: { email: EMAIL, off: { about: 'Take the access away' } },
    run: async (ctx, flags) => {
      const operator = flags.off === undefined;
      await setOperator(ctx, { email: need(flags, 'email'), operator });
      return { email: flags.email, operator };
    },
  },
};

function permissionsOf(text: string, kind: (typeof KINDS)[number]): KeyPermission[] {
  if (kind === 'public') throw new UsageError('--permissions is for secret keys: public keys only create payments');
  for (const name of commaList(text)) oneOfOption(name, KEY_PERMISSION_NAMES, 'permissions');
  return inOrder(commaList(text));
}

async function setCheckout(ctx: Parameters<typeof setBranding>[0], flags: Flags): Promise<object> {
  const merchantId = need(flags, 'merchant');
  const given = (name: string): string | null => (flags[name] === 'none' ? null : (flags[name] as string));
  const isYes = (name: string): boolean => oneOfOption(flags[name]!, ['yes', 'no'], name) === 'yes';
  const logo = flags.logo === undefined ? undefined : flags.logo === 'none' ? null : await readFile(flags.logo);
  await setBranding(ctx, {
    merchantId,
    branding: {
      ...(flags.accent !== undefined && { accent: given('accent') }),
      ...(flags.theme !== undefined && { theme: oneOfOption(flags.theme, THEMES, 'theme') }),
      ...(flags.locale !== undefined && { locale: given('locale') }),
      ...(flags.support !== undefined && { supportContact: given('support') }),
      ...(flags.origins !== undefined && { origins: flags.origins === 'none' ? [] : commaList(flags.origins) }),
      ...(flags['auto-return'] !== undefined && { autoReturn: isYes('auto-return') }),
      ...(flags.kiosk !== undefined && { kiosk: isYes('kiosk') }),
    },
    ...(logo !== undefined && { logo }),
  });
  const { settings, logo: hash } = await getMerchant(ctx, { merchantId });
  const { accent, theme, locale, supportContact, origins, autoReturn, kiosk } = settings;
  return { merchant_id: merchantId, accent, theme, locale, support: supportContact, origins, auto_return: autoReturn, kiosk, logo: hash };
}
