/** A merchant with wallets and payments, used as a shop does. */
import { HDKey } from '@scure/bip32';
import { COIN, type Coin, chainCode, type Family } from '../../src/core/coin.ts';
import { setWallet } from '../../src/wallets/wallets.ts';
import { eventually, type TestApp } from './app.ts';
import { base58check } from './base58.ts';

const PATHS: Readonly<Record<Family, string>> = {
  BTC: "m/84'/0'/0'",
  LTC: "m/84'/2'/0'",
  DASH: "m/44'/5'/0'",
  DOGE: "m/44'/3'/0'",
  ETH: "m/44'/60'/0'",
};
/** The account of all test wallets; its private keys exist only in tests. */
export const account = (coin: Coin, seed = 7): HDKey =>
  HDKey.fromMasterSeed(new Uint8Array(32).fill(seed)).derive(PATHS[COIN[coin].family]);

/** Gives the merchant a wallet for the coin. */
export async function giveWallet(app: TestApp, coin: Coin, { merchantId = app.merchant.merchantId, seed = 7 } = {}): Promise<void> {
  const { publicExtendedKey } = account(coin, seed);
  const mainnet = app.config.networks[COIN[coin].chain] === 'mainnet';
  await setWallet(app.app.ctx, {
    merchantId,
    coin,
    accountKey: mainnet ? publicExtendedKey : base58check.respell(publicExtendedKey, 0x043587cf),
    ...(coin !== 'ETH' && { script: coin === 'BTC' || coin === 'LTC' ? 'p2wpkh' : 'p2pkh' }),
  });
}

/** Waits until the sources of these coins have been read: no address is issued before. */
export const beginFollowing = (app: TestApp, ...coins: Coin[]): Promise<unknown> =>
  eventually(
    async () => ((await (await fetch(`${app.url}/readyz`)).json()) as any).followers ?? {},
    (followers) => coins.every((coin) => followers[chainCode(coin)] !== undefined),
    60_000,
  );

/** A live payment in a coin, with an issued address. */
export async function openPayment(
  app: TestApp,
  coin: Coin,
  amountUsd: number,
  by = app.live,
): Promise<{ id: string; address: string; amount: string }> {
  const created = await by.post('/v1/transactions/create', { crypto: coin, amount: amountUsd, currency_fiat: 'USD' });
  if (created.status !== 201) throw new Error(`creating answered ${created.status}: ${created.text}`);
  const { transaction_id: id, payment_address: address, amount } = created.json;
  return { id, address, amount };
}

/** Waits until the payment is in the wanted state. Returns its detail. */
export const reach = (app: TestApp, id: string, wanted: (detail: any) => boolean, timeoutMs = 60_000): Promise<any> =>
  eventually(async () => (await app.live.get(`/api/payment/${id}`)).json, wanted, timeoutMs);

/** A decimal amount with eight places in base units. */
export const units = (amount: string): bigint => {
  const [whole, part = ''] = amount.split('.');
  return BigInt(whole! + part.slice(0, 8).padEnd(8, '0'));
};
