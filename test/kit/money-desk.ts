/**
 * A process of the service that also does what members do in the dashboard, when the test asks for it: so that a test can kill it in the
 * middle of that.
 */
import { inspect } from 'node:util';
import { HDKey } from '@scure/bip32';
import { type Role, startApp } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import type { Context } from '../../src/context.ts';
import { Problem } from '../../src/core/problem.ts';
import { signingFileText } from '../../src/core/signing-file.ts';
import { createLog } from '../../src/log.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import { type Account, trialBalance } from '../../src/money-out/books.ts';
import { setDestination } from '../../src/money-out/destinations.ts';
import { DEFAULT_WISH, readHoldings, readWallets } from '../../src/money-out/holdings.ts';
import { makePayoutFile } from '../../src/money-out/payout-files.ts';
import { approvePayouts, cancelPayout, markPayoutSent } from '../../src/money-out/payouts.ts';
import { makeRefundFile } from '../../src/money-out/refund-files.ts';
import { approveRefund, cancelRefund, markRefundSent } from '../../src/money-out/refunds.ts';
import { acceptSigned, cancelSweep, makeSweep, readSigningFileOf, replaceSweep } from '../../src/money-out/sweeps.ts';
import { setWallet } from '../../src/wallets/wallets.ts';
import { base58check } from './base58.ts';
import { checkBooks, EVER } from './books.ts';

const actor = { userId: '', name: 'Test', ip: '' };
type Of = { merchantId: string; id: string };
const owned = ({ merchantId, id }: Of) => ({ merchantId, id, mode: 'live', actor }) as const;
const unread = { idempotency: null, render: () => ({ status: 200, body: '' }) };
const nothing = (): null => null;
/** SQLSTATE of a lock that was not free in time. */
const LOCK_TIMEOUT = '55P03';

const actsOf = (ctx: Context) => ({
  openMerchant: async ({ secret, destination }: { secret: string; destination: string }) => {
    const { merchantId, keys } = await createMerchant(ctx, { name: 'Test shop' });
    const accountKey = base58check.respell(HDKey.fromExtendedKey(secret).publicExtendedKey, 0x043587cf);
    await setWallet(ctx, { merchantId, coin: 'BTC', accountKey, script: 'p2wpkh' });
    await setDestination(ctx, { merchantId, coin: 'BTC', address: destination, ends: destination.slice(-6), actor: null });
    return { merchantId, key: keys.liveSecret };
  },
  approveRefund: (of: Of) => approveRefund(ctx, owned(of)).then(nothing),
  cancelRefund: (of: Of) => cancelRefund(ctx, { ...owned(of), ...unread }).then(nothing),
  markRefundSent: ({ txid, ...of }: Of & { txid: string }) => markRefundSent(ctx, { ...owned(of), txid }).then(nothing),
  approvePayout: (of: Of) => approvePayouts(ctx, { ...owned(of), which: { id: of.id } }).then(nothing),
  cancelPayout: (of: Of) => cancelPayout(ctx, { ...owned(of), ...unread }).then(nothing),
  markPayoutSent: ({ txid, ...of }: Of & { txid: string }) => markPayoutSent(ctx, { ...owned(of), txid }).then(nothing),
  makeRefundFile: ({ merchantId }: { merchantId: string }) =>
    makeRefundFile(ctx, { merchantId, coin: 'BTC', speed: 'normal', actor }).then(({ sweep }) => sweep.id),
  makePayoutFile: ({ merchantId }: { merchantId: string }) =>
    makePayoutFile(ctx, { merchantId, coin: 'BTC', speed: 'normal', actor }).then(({ sweep }) => sweep.id),
  makeSweep: ({ merchantId }: { merchantId: string }) =>
    makeSweep(ctx, { merchantId, coin: 'BTC', walletId: null, wish: DEFAULT_WISH, actor }).then(({ sweep }) => sweep.id),
  cancelSweep: (of: Of) => cancelSweep(ctx, owned(of)).then(nothing),
  replaceSweep: (of: Of) => replaceSweep(ctx, { ...owned(of), speed: 'fast' }).then(nothing),
  readFile: async (of: Of) => signingFileText(await readSigningFileOf(ctx, owned(of))),
  upload: ({ merchantId, content }: { merchantId: string; content: string }) =>
    acceptSigned(ctx, { merchantId, content, actor }).then(nothing),
  /** What the books say in BTC, after they were checked, and the outputs that sweeps list. */
  readBooks: async ({ merchantId }: { merchantId: string }) => {
    const owner = { merchantId, mode: 'live' } as const;
    const walletId = (await readWallets(ctx, owner))[0]!.id;
    await checkBooks(ctx, owner, { walletOf: () => walletId });
    const lines = await trialBalance(ctx, { ...owner, until: EVER });
    const of = (account: Account) => lines.find((one) => one.account === account)?.units ?? 0n;
    const { holdings } = await readHoldings(ctx, { ...owner, walletId, coin: 'BTC' });
    return {
      listed: holdings.map(({ ref }) => ref),
      balances: {
        deposit_addresses: of('deposit_addresses').toString(),
        network_fees: of('network_fees').toString(),
        destination_wallet: of('destination_wallet').toString(),
        out: (of('refunds') + of('payouts') + of('overpayments')).toString(),
      },
    };
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
