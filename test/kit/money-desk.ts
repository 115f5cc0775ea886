/**
 * A process of the service that also does what members do in the dashboard, when the test asks for it: so that a test can kill it in the
 * middle of that.
 */
import { inspect } from 'node:util';
import { HDKey } from '@scure/bip32';
import { type Role, startApp } from '../../src/app.ts';
import { trialBalance } from '../../src/books/books.ts';
import { readConfig } from '../../src/config.ts';
import type { Context } from '../../src/context.ts';
import { COIN, type Coin, isToken, kindOf } from '../../src/core/coin.ts';
import { Problem } from '../../src/core/problem.ts';
import type { MemberRole } from '../../src/core/roles.ts';
import { signingFileText } from '../../src/core/signing-file.ts';
import { createLog } from '../../src/log.ts';
import { changeSettings, createMerchant } from '../../src/merchants/merchants.ts';
import { approveOutgoing, cancelOutgoing, markOutgoingSent } from '../../src/outgoing/decisions.ts';
import type { OutgoingKind } from '../../src/outgoing/outgoing-payments.ts';
import { changeRole } from '../../src/people/team.ts';
import { DEFAULT_WISH, readHoldings, readWallets } from '../../src/signing/holdings.ts';
import { makePayoutFile } from '../../src/signing/payout-files.ts';
import { makeRefundFile } from '../../src/signing/refund-files.ts';
import { acceptSigned, cancelSweep, makeSweep, readSigningFileOf, replaceSweep } from '../../src/signing/signing-files.ts';
import { setDestination } from '../../src/wallets/destinations.ts';
import { setWallet } from '../../src/wallets/wallets.ts';
import { departing } from '../../src/web/dashboard/team-api.ts';
import { base58check } from './base58.ts';
import { checkBooks, EVER } from './books.ts';
import { type Books, MEMBERS } from './money-ground.ts';

const actor = { userId: '', name: 'Test', ip: '' };
type By = { by?: number };
type Of = By & { merchantId: string; id: string };
type OfKind = Of & { kind: OutgoingKind };
type InCoin = { merchantId: string; coin: Coin };
const idOf = (merchantId: string, member: number) => `usr_${merchantId.slice(4)}${member}`;
const actorOf = (merchantId: string, member: number) => ({ userId: idOf(merchantId, member), name: `Member ${member}`, ip: '' });
const owned = ({ merchantId, id, by = 0 }: Of) => ({ merchantId, id, mode: 'live', actor: actorOf(merchantId, by) }) as const;
const unread = { idempotency: null, render: () => ({ status: 200, body: '' }) };
const nothing = (): null => null;
/** SQLSTATE of a lock that was not free in time. */
const LOCK_TIMEOUT = '55P03';

const actsOf = (ctx: Context) => ({
  openMerchant: async ({
    secret,
    destination,
    coins,
    limit,
  }: {
    secret: string;
    destination: string;
    coins: Coin[];
    limit: number | null;
  }) => {
    const { merchantId, keys } = await createMerchant(ctx, { name: 'Test shop' });
    const coin = COIN[coins[0]!].family;
    const accountKey = base58check.respell(HDKey.fromExtendedKey(secret).publicExtendedKey, 0x043587cf);
    await setWallet(ctx, { merchantId, coin, accountKey, ...(kindOf(coin) !== 'ethereum' && { script: 'p2wpkh' }) });
    await setDestination(ctx, { merchantId, coin, address: destination, ends: destination.slice(-6), actor: null });
    await changeSettings(ctx, { merchantId, settings: { tokens: coins.filter(isToken), refundLimitUsdCents: limit } });
    for (let member = 0; member < MEMBERS; member++) {
      const [id, role] = [idOf(merchantId, member), member === MEMBERS - 1 ? 'owner' : 'finance'];
      await ctx.db.sql`insert into users (id, name, email) values (${id}, ${`Member ${member}`}, ${`${id}@shop.example`})`;
      await ctx.db.sql`
        insert into members (merchant_id, user_id, role, role_since) values (${merchantId}, ${id}, ${role}, clock_timestamp() - interval '25 hours')`;
    }
    return { merchantId, key: keys.liveSecret };
  },
  approve: ({ kind, ...of }: OfKind) => approveOutgoing(ctx, { kind, ...owned(of) }).then(nothing),
  cancel: ({ kind, ...of }: OfKind) => cancelOutgoing(ctx, { kind, ...owned(of), ...unread }).then(nothing),
  markSent: ({ kind, txid, ...of }: OfKind & { txid: string }) => markOutgoingSent(ctx, { kind, ...owned(of), txid }).then(nothing),
  changeRole: ({ merchantId, member, role }: { merchantId: string; member: number; role: MemberRole }) =>
    changeRole(ctx, {
      ...{ manager: { merchantId, actor: actorOf(merchantId, MEMBERS - 1) }, userId: idOf(merchantId, member), role },
      departing: departing(ctx, []),
    }).then(nothing),
  makeRefundFile: (of: InCoin) => makeRefundFile(ctx, { ...of, speed: 'normal', actor }).then(({ sweep }) => sweep.id),
  makePayoutFile: (of: InCoin) => makePayoutFile(ctx, { ...of, speed: 'normal', actor }).then(({ sweep }) => sweep.id),
  makeSweep: (of: InCoin) => makeSweep(ctx, { ...of, walletId: null, wish: DEFAULT_WISH, actor }).then(({ sweep }) => sweep.id),
  cancelSweep: (of: Of) => cancelSweep(ctx, owned(of)).then(nothing),
  replaceSweep: (of: Of) => replaceSweep(ctx, { ...owned(of), speed: 'fast' }).then(nothing),
  readFile: async (of: Of) => signingFileText(await readSigningFileOf(ctx, owned(of))),
  upload: ({ merchantId, content }: { merchantId: string; content: string }) =>
    acceptSigned(ctx, { merchantId, content, actor }).then(nothing),
  /** What the books say in each coin, after they were checked, and the money that sweeps list. */
  readBooks: async ({ merchantId, coins }: { merchantId: string; coins: readonly Coin[] }): Promise<(readonly [Coin, Books])[]> => {
    const owner = { merchantId, mode: 'live' } as const;
    const walletId = (await readWallets(ctx, owner))[0]!.id;
    await checkBooks(ctx, owner, { walletOf: () => walletId });
    const lines = await trialBalance(ctx, { ...owner, until: EVER });
    return Promise.all(
      coins.map(async (coin) => {
        const { holdings } = await readHoldings(ctx, { ...owner, walletId, coin });
        const listed = holdings.map(({ ref, address }) => ({ ref, address }));
        const accounts = lines.flatMap((one) => (one.coin === coin ? [[one.account, one.units.toString()]] : []));
        return [coin, { listed, accounts: Object.fromEntries(accounts) }] as const;
      }),
    );
  },
});
export type Acts = ReturnType<typeof actsOf>;
export type Asked = { id: number; act: keyof Acts; given: unknown };
/** `refused`: the code of a documented error. */
export type Answer = { id: number; done?: unknown; refused?: string; failed?: string };

const app = await startApp(readConfig(process.env), {
  log: createLog('error'),
  roles: process.argv.slice(2) as Role[],
  starts: () => null,
});
const acts = actsOf(app.ctx);
process.on('message', async ({ id, act, given }: Asked) => {
  const answer = (what: Omit<Answer, 'id'>) => process.send!({ id, ...what } satisfies Answer);
  try {
    answer({ done: await (acts[act] as (given: unknown) => Promise<unknown>)(given) });
  } catch (error) {
    // A request that waits too long for a lock gets 503 over HTTP, and nothing was written.
    const isBusy = (error as { code?: unknown }).code === LOCK_TIMEOUT;
    if (error instanceof Problem || isBusy) answer({ refused: isBusy ? 'unavailable' : (error as Problem).code });
    else answer({ failed: inspect(error) });
  }
});
process.on('disconnect', () => process.exit());
process.send!({ url: app.url });
