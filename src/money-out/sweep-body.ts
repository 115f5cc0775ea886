/** Sweeps as the dashboard and the commands show them. */
import { type Coin, feeCoinOf } from '../core/coin.ts';
import { formatUnits } from '../core/money.ts';
import type { Remainder } from './holdings.ts';
import { type Sweep, stayText } from './sweeps.ts';

/** What stays on deposit addresses, and why. */
export const remainsBody = (coin: Coin, remains: readonly Remainder[]) =>
  remains.map(({ reason, count, units }) => ({ reason, text: stayText(reason), transfers: count, amount: formatUnits(coin, units) }));

export const sweepBody = (sweep: Sweep) => ({
  ...{
    id: sweep.id,
    purpose: sweep.purpose,
    state: sweep.state,
    currency: sweep.coin,
    destination: sweep.destination,
    inputs: sweep.inputCount,
  },
  ...{ amount: formatUnits(sweep.coin, sweep.totalUnits), fee: formatUnits(feeCoinOf(sweep.coin), sweep.feeUnits) },
  ...{ fee_currency: feeCoinOf(sweep.coin), made_by: sweep.madeBy, made_at: sweep.madeAt.toISOString() },
  ...{ sent_at: sweep.sentAt?.toISOString() ?? null, ended_at: sweep.endedAt?.toISOString() ?? null, failure: sweep.failure },
});
