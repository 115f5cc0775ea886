/** Wallets: a card for each coin, the import of account keys, and scheduled changes. Live mode only: test mode needs none. */
import Type from 'typebox';
import { ASSET, COIN, type Coin, chainOf, NATIVE_COINS, NETWORKS } from '#core/coin';
import { formatUnits, formatUsd } from '#core/money';
import { Problem } from '#core/problem';
import { literals } from '#http';
import {
  changeLightning,
  checkLightning,
  confirmLightning,
  dropLightning,
  lookAtTest,
  readLightning,
  readWaitingLightning,
  removeLightning,
  testLightning,
} from '#lightning';
import { changeOwnSettings, getMerchant, isOffered, readTokens, tiersOf, tokensFor } from '#merchants';
import { feeCentsOf, readLiveFees } from '#payments';
import { readPayableCoins } from '#readiness';
import {
  CHANGE_WAIT_HOURS,
  confirmChange,
  confirmWaitOff,
  dropChange,
  GAP_LIMIT,
  importAccountKey,
  listWallets,
  pauseWallet,
  previewAccountKey,
  readWaitOff,
  readWalletPolicy,
  setWait,
} from '#wallets';
import { svgOf } from '../checkout/parts.ts';
import { CoinName, Done, Instant, NoFields, Nullable, PlainText, Readiness, readinessBody } from './fields.ts';
import { type DashboardRoute, inOnePart, type MemberCall, memberRoute } from './route.ts';
import { Tier, tierBody } from './settings-api.ts';

const Script = literals(['p2wpkh', 'p2tr', 'p2sh-p2wpkh', 'p2pkh', 'p2wsh', 'p2sh-p2wsh', 'eoa'] as const);
/** Who signs for a wallet with several keys; null where one key does. */
const Signers = Nullable(
  Type.Object({ required: Type.Integer(), signers: Type.Array(Type.Object({ fingerprint: Nullable(PlainText), path: PlainText })) }),
);
const Network = literals(NETWORKS);
/** A wallet file may contain much else. */
const Key = Type.String({ minLength: 1, maxLength: 100_000 });
/** Who requested a scheduled change. */
const Asked = { asked_by: PlainText, asked_by_me: Type.Boolean(), due_at: Instant };
const askedBody = (call: MemberCall, { askedBy, askedByName, dueAt }: { askedBy: string; askedByName: string; dueAt: Date }) => ({
  asked_by: askedByName,
  asked_by_me: askedBy === call.actor.userId,
  due_at: dueAt.toISOString(),
});
const Card = Type.Object({
  currency: CoinName,
  state: literals(['not_set', 'active', 'paused'] as const),
  key: Nullable(PlainText),
  fingerprint: Nullable(PlainText),
  signers: Signers,
  script: Nullable(Script),
  path: Nullable(PlainText),
  network: Network,
  /** Whether customers can pay with it now, and what is missing. */
  readiness: Readiness,
  next_index: Type.Integer(),
  unused_run: Type.Integer(),
  /** The default of wallets, and what to set; null where wallets have no such limit. */
  usual_gap_limit: Type.Integer(),
  gap_limit: Nullable(Type.Integer()),
  amount_received: PlainText,
  amount_received_is_all: Type.Boolean(),
  last_deposit_at: Nullable(Instant),
  former_keys: Type.Integer(),
  tiers: Type.Array(Tier),
  waiting: Nullable(Type.Object({ key: PlainText, script: Script, ...Asked })),
  /** The coin has no key, and its first one would be delayed, because another coin is live. */
  first_key_waits: Type.Boolean(),
});

/** A token that the merchant can turn on: it arrives at the addresses of the wallet of its chain. */
const TokenCard = Type.Object({
  /** Names the token on its network, for `POST /wallets/tokens`. */
  coin: CoinName,
  currency: PlainText,
  name: PlainText,
  network: PlainText,
  on: Type.Boolean(),
  /** Whether a source is connected that shows payments on its network. */
  connected: Type.Boolean(),
  /** What customers usually pay its network for a transfer. */
  fee_usd: Nullable(PlainText),
  /** Whether its issuer is authorized in the European Union; null for what MiCA does not ask that of. */
  mica: Nullable(literals(['authorized', 'not_authorized', 'unknown'] as const)),
  /** Null while it is off. */
  readiness: Nullable(Readiness),
});
const tokenBody = (coin: Coin) => {
  const { asset, name } = COIN[coin];
  return { coin, currency: asset, name, network: chainOf(coin).name, mica: ASSET[asset].mica ?? null };
};

const LIGHTNING_KINDS = ['address', 'lnd', 'cln', 'phoenixd', 'lnbits', 'nwc'] as const;
/** What takes Lightning payments. */
const Lightning = Type.Object({
  kind: literals(LIGHTNING_KINDS),
  name: PlainText,
  node: Nullable(PlainText),
  open_invoices: Type.Integer(),
  /** Why the last request to it failed, and whether customers are not offered it because of that. */
  last_failure: Nullable(PlainText),
  away: Type.Boolean(),
  /** When a test payment arrived. */
  tested_at: Nullable(Instant),
});
async function lightningBody(call: MemberCall, owner: { merchantId: string }) {
  const [state, waiting] = await Promise.all([readLightning(call.ctx, owner), readWaitingLightning(call.ctx, owner)]);
  return {
    lightning: state && {
      ...{ kind: state.kind, name: state.name, node: state.payee, open_invoices: state.openInvoices, last_failure: state.failure },
      ...{ away: state.isAway, tested_at: state.testedAt?.toISOString() ?? null },
    },
    lightning_waiting: waiting && { kind: waiting.kind, name: waiting.name, ...askedBody(call, waiting) },
  };
}

/** Errors: live_mode_only. */
const liveOnly = (call: MemberCall): { merchantId: string } => {
  if (call.mode !== 'live') throw new Problem('live_mode_only');
  return { merchantId: call.member.merchantId };
};
const coinIn = (text: string): Coin => {
  const coin = NATIVE_COINS.find((one) => one === text);
  if (coin === undefined) throw new Problem('wallet_not_found', { coin: text.slice(0, 10) });
  return coin;
};

export const WALLETS: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/wallets',
    action: 'wallets.read',
    reply: Type.Object({
      success: Type.Boolean(),
      wait_hours: Type.Integer(),
      /** Whether key changes skip the delay, or will from a given time on. */
      wait_off: Nullable(Type.Object({ is_off: Type.Boolean(), ...Asked })),
      owners: Type.Integer(),
      wallets: Type.Array(Card),
      tokens: Type.Array(TokenCard),
      lightning: Nullable(Lightning),
      lightning_waiting: Nullable(Type.Object({ kind: literals(LIGHTNING_KINDS), name: PlainText, ...Asked })),
    }),
    handle: async (call) => {
      const owner = { merchantId: call.member.merchantId };
      // Test mode has no wallets; the page says so.
      if (call.mode === 'test') {
        const { settings } = await getMerchant(call.ctx, owner);
        const tokens = tokensFor(call.ctx).map((coin) => ({
          ...tokenBody(coin),
          ...{ on: isOffered(settings, coin, 'test'), connected: true, fee_usd: null, readiness: null },
        }));
        const none = { lightning: null, lightning_waiting: null };
        return { success: true, wait_hours: CHANGE_WAIT_HOURS, wait_off: null, owners: 0, wallets: [], tokens, ...none };
      }
      const [cards, merchant, readiness, waitOff, fees, [counted]] = await Promise.all([
        listWallets(call.ctx, owner),
        getMerchant(call.ctx, owner),
        readPayableCoins(call.ctx, { ...owner, mode: 'live' }),
        readWaitOff(call.ctx.db.sql, owner),
        readLiveFees(call.ctx),
        call.ctx.db.sql<{ owners: number }[]>`
          select count(*)::int as owners from members where merchant_id = ${owner.merchantId} and role = 'owner'`,
      ]);
      return {
        success: true,
        wait_hours: CHANGE_WAIT_HOURS,
        wait_off: waitOff && { is_off: waitOff.isOff, ...askedBody(call, waitOff) },
        owners: counted!.owners,
        ...(await lightningBody(call, owner)),
        wallets: cards.map((card) => ({
          currency: card.coin,
          state: card.state,
          key: card.key,
          fingerprint: card.fingerprint,
          signers: card.signers,
          script: card.script,
          path: card.path,
          network: card.network,
          readiness: readinessBody(readiness.find(({ coin }) => coin === card.coin)!),
          next_index: Number(card.nextIndex),
          unused_run: Number(card.unusedRun),
          usual_gap_limit: GAP_LIMIT,
          gap_limit: card.gapLimit === null ? null : Number(card.gapLimit),
          amount_received: formatUnits(card.coin, card.receivedUnits),
          amount_received_is_all: card.receivedIsAll,
          last_deposit_at: card.lastDepositAt?.toISOString() ?? null,
          former_keys: card.formerKeys,
          tiers: tiersOf(call.ctx, merchant.settings, card.coin).map(tierBody),
          waiting: card.waiting && {
            key: card.waiting.key,
            script: card.waiting.script,
            ...askedBody(call, card.waiting),
          },
          first_key_waits: card.firstKeyWaits,
        })),
        tokens: tokensFor(call.ctx).map((coin) => {
          const ready = readiness.find((one) => one.coin === coin);
          const feeCents = feeCentsOf(coin, fees);
          return {
            ...{ ...tokenBody(coin), on: ready !== undefined },
            connected: call.ctx.chains.get(COIN[coin].chain)?.follows ?? false,
            fee_usd: feeCents === null ? null : formatUsd(BigInt(feeCents)),
            readiness: ready ? readinessBody(ready) : null,
          };
        }),
      };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/wallets/tokens',
    action: 'settings.write',
    body: Type.Object({ tokens: Type.Array(CoinName, { maxItems: 50 }) }),
    reply: Done,
    handle: async (call) => {
      const owner = { merchantId: call.member.merchantId };
      const tokens = readTokens(call.ctx, call.body.tokens);
      const change = call.mode === 'test' ? { testTokens: tokens } : { tokens };
      await changeOwnSettings(call.ctx, { ...owner, change, actor: call.actor, isRecent: call.signedIn.isRecent });
      return { success: true };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/wallets/preview',
    action: 'wallets.change',
    body: Type.Object({ currency: CoinName, key: Key, script: Type.Optional(Script) }),
    reply: Type.Object({
      success: Type.Boolean(),
      network: Network,
      script: Script,
      scripts: Type.Array(Script),
      depth: Type.Integer(),
      path: PlainText,
      fingerprint: Nullable(PlainText),
      signers: Signers,
      standing: literals(['new', 'active', 'known', 'foreign'] as const),
      /** Why payments would use it only after a delay; null: it would be used immediately. */
      waits: Nullable(literals(['changed_key', 'further_coin'] as const)),
      addresses: Type.Array(Type.Object({ path: PlainText, address: PlainText })),
    }),
    handle: async (call) => {
      const { currency, key, script } = call.body;
      const preview = await previewAccountKey(call.ctx, {
        ...liveOnly(call),
        coin: coinIn(currency),
        accountKey: key,
        script: script ?? null,
      });
      // Only account keys are read.
      return { success: true, depth: 3, ...preview };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/wallets',
    action: 'wallets.change',
    recent: true,
    body: Type.Object({ currency: CoinName, key: Key, script: Script, ends: Type.String({ minLength: 6, maxLength: 6 }) }),
    reply: Type.Object({ success: Type.Boolean(), due_at: Nullable(Instant) }),
    handle: async (call) => {
      const { currency, key, script, ends } = call.body;
      const { dueAt } = await importAccountKey(call.ctx, {
        ...liveOnly(call),
        ...{ coin: coinIn(currency), accountKey: key, script, ends, actor: call.actor },
      });
      return { success: true, due_at: dueAt?.toISOString() ?? null };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/wallets/:currency/policy',
    // Members who sign need it. It has whole keys, as signing files do.
    action: 'sweeps.read',
    recent: true,
    reply: NoFields,
    /** Errors: wallet_not_found, account_key_invalid. */
    handle: async (call) => {
      const coin = coinIn(call.params.currency);
      const text = `${JSON.stringify(await readWalletPolicy(call.ctx, { ...liveOnly(call), coin }), null, 2)}\n`;
      return { name: `wallet-policy-${coin}.json`, type: 'application/json', parts: inOnePart(text) };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/wallets/:currency/state',
    action: 'wallets.change',
    recent: true,
    body: Type.Object({ paused: Type.Boolean() }),
    reply: Done,
    handle: async (call) => {
      await pauseWallet(call.ctx, { ...liveOnly(call), coin: coinIn(call.params.currency), paused: call.body.paused, actor: call.actor });
      return { success: true };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/wallets/:currency/change/confirm',
    action: 'wallets.confirm',
    recent: true,
    body: NoFields,
    reply: Done,
    handle: async (call) => {
      await confirmChange(call.ctx, { ...liveOnly(call), coin: coinIn(call.params.currency), actor: call.actor });
      return { success: true };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/wallets/:currency/change/drop',
    action: 'wallets.change',
    body: NoFields,
    reply: Done,
    handle: async (call) => {
      await dropChange(call.ctx, { ...liveOnly(call), coin: coinIn(call.params.currency), actor: call.actor });
      return { success: true };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/wallets/wait',
    action: 'wallets.wait',
    recent: true,
    body: Type.Object({ waits: Type.Boolean() }),
    reply: Type.Object({ success: Type.Boolean(), due_at: Nullable(Instant) }),
    handle: async (call) => {
      const { dueAt } = await setWait(call.ctx, { ...liveOnly(call), waits: call.body.waits, actor: call.actor });
      return { success: true, due_at: dueAt?.toISOString() ?? null };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/wallets/wait/confirm',
    action: 'wallets.wait',
    recent: true,
    body: NoFields,
    reply: Done,
    handle: async (call) => {
      await confirmWaitOff(call.ctx, { ...liveOnly(call), actor: call.actor });
      return { success: true };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/wallets/lightning',
    action: 'wallets.change',
    recent: true,
    body: Type.Object({
      kind: literals(LIGHTNING_KINDS),
      address: Type.String({ maxLength: 500 }),
      credential: Type.String({ maxLength: 10_000 }),
      certificate: Type.Optional(Nullable(Type.String({ maxLength: 20_000 }))),
    }),
    reply: Type.Object({ success: Type.Boolean(), due_at: Nullable(Instant) }),
    handle: async (call) => {
      const { kind, address, credential, certificate } = call.body;
      const access = { kind, address: address.trim(), credential: credential.trim(), certificate: certificate ?? null };
      const { dueAt } = await changeLightning(call.ctx, { ...liveOnly(call), actor: call.actor, access });
      return { success: true, due_at: dueAt?.toISOString() ?? null };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/wallets/lightning/check',
    action: 'wallets.change',
    body: NoFields,
    reply: Done,
    handle: async (call) => {
      await checkLightning(call.ctx, liveOnly(call));
      return { success: true };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/wallets/lightning/test',
    action: 'wallets.change',
    body: NoFields,
    reply: Type.Object({ success: Type.Boolean(), invoice: PlainText, qr: PlainText, sat: PlainText, token: PlainText }),
    handle: async (call) => {
      const made = await testLightning(call.ctx, liveOnly(call));
      const svg = svgOf(`lightning:${made.invoice.toUpperCase()}`, 'QR code of the test invoice');
      return { success: true, ...made, qr: `data:image/svg+xml;base64,${Buffer.from(svg).toString('base64')}` };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/wallets/lightning/test/look',
    action: 'wallets.change',
    body: Type.Object({ token: Type.String({ maxLength: 4_000 }) }),
    reply: Type.Object({ success: Type.Boolean(), paid: Type.Boolean() }),
    handle: async (call) => {
      const { isPaid } = await lookAtTest(call.ctx, { ...liveOnly(call), token: call.body.token });
      return { success: true, paid: isPaid };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/wallets/lightning/remove',
    action: 'wallets.change',
    recent: true,
    body: NoFields,
    reply: Done,
    handle: async (call) => {
      await removeLightning(call.ctx, { ...liveOnly(call), actor: call.actor });
      return { success: true };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/wallets/lightning/change/confirm',
    action: 'wallets.confirm',
    recent: true,
    body: NoFields,
    reply: Done,
    handle: async (call) => {
      await confirmLightning(call.ctx, { ...liveOnly(call), actor: call.actor });
      return { success: true };
    },
  }),
  memberRoute({
    method: 'POST',
    path: '/wallets/lightning/change/drop',
    action: 'wallets.change',
    body: NoFields,
    reply: Done,
    handle: async (call) => {
      await dropLightning(call.ctx, { ...liveOnly(call), actor: call.actor });
      return { success: true };
    },
  }),
];
