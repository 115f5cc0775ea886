/** A shop that accepts a coin through real nodes on regtest, with the service in a separate process. */
import assert from 'node:assert/strict';
import { HDKey } from '@scure/bip32';
import { eventually } from './app.ts';
import { base58check } from './base58.ts';
import type { TestNode } from './nodes.ts';
import { type Service, startService } from './service.ts';

/** 25 USD at the price of the test. */
export const AMOUNT = '0.02500000';
const PATHS = { BTC: "m/84'/1'/0'", LTC: "m/84'/1'/1'" };

export type NodeShop = {
  service: Service;
  open(): Promise<{ id: string; address: string }>;
  detail(id: string): Promise<any>;
  reach(id: string, wanted: string | ((detail: any) => boolean), timeoutMs?: number): Promise<any>;
  ready(): Promise<any>;
  /** Waits until the follower has started. */
  begun(): Promise<unknown>;
};

/** Payments of 25 USD that complete after two confirmations. The first node is preferred. `t`: a test, or several that end it themselves. */
export async function openNodeShop(
  t: { after(close: () => Promise<void>): unknown },
  nodes: readonly TestNode[],
  coin: 'BTC' | 'LTC' = 'BTC',
): Promise<NodeShop> {
  const service = await startService({
    environment: {
      [`${coin}_NODE_URL`]: nodes.map(({ url }) => url).join(','),
      [`${coin}_NETWORK`]: 'regtest',
      [`${coin}_CONFIRMATIONS`]: '2',
      PRICES: `static:${coin}=1000.00`,
      FIAT_RATES: 'static:EUR=0.90',
    },
  });
  t.after(() => service.destroy());
  const { publicExtendedKey } = HDKey.fromMasterSeed(new Uint8Array(32).fill(7)).derive(PATHS[coin]);
  await service.florin(
    ...['wallet', 'set', '--merchant', service.merchantId, '--coin', coin, '--mode', 'live'],
    ...['--key', base58check.respell(publicExtendedKey, 0x043587cf), '--script', 'p2wpkh'],
  );
  const detail = async (id: string) => (await service.live.get(`/api/payment/${id}`)).json;
  const ready = async () => (await fetch(`${service.url}/readyz`)).json() as Promise<any>;
  return {
    service,
    detail,
    ready,
    open: async () => {
      const made = await service.live.post('/v1/transactions/create', { crypto: coin, amount: 25, currency_fiat: 'USD' });
      assert.equal(made.status, 201, made.text);
      assert.equal(made.json.amount, AMOUNT);
      return { id: made.json.transaction_id, address: made.json.payment_address };
    },
    reach: (id, wanted, timeoutMs = 60_000) =>
      eventually(() => detail(id), typeof wanted === 'string' ? (d) => d.status === wanted : wanted, timeoutMs),
    begun: () => eventually(ready, (state) => state.followers?.[coin] !== undefined, 60_000),
  };
}
