/** Calls of the original that Florin does not have, and what to use instead. Never 404: plugins read it as "make a new one". */
const NOT_THERE: readonly [call: RegExp, message: string][] = [
  [
    /\/lightning\b|LightningNetwork|-LN\b/i,
    'Florin receives payments on blockchains only. Remove Lightning from the settings of the plugin.',
  ],
  [/\/payouts\b|\/payout-processors\b/, 'Florin holds no key that can spend, so it sends no payouts. Refund customers from the dashboard.'],
  [/\/refund$/, 'Refund this payment in the dashboard, or create a pull payment.'],
  [/\/pull-payments\b/, 'Only creating a pull payment is supported. Manage refunds in the dashboard.'],
  [/\/payment-requests\b/, 'Use payment links in the dashboard instead of payment requests.'],
  [/\/users\b/, 'Manage members in the dashboard, under Team.'],
  [/\/apps\b/, 'There are no apps. Use payment links in the dashboard instead.'],
  [/\/wallet\b|\/wallets\b|\/onchain\b/i, 'Manage wallets in the dashboard. Florin holds no key that can spend.'],
  [/\/rates\b/, 'Florin uses the median of several exchanges. GET /api/crypto/price shows its prices.'],
];
const ANY = 'Florin does not have this call. The guide about shops in its documentation lists what plugins can use.';

export const whatInstead = (path: string): string => NOT_THERE.find(([call]) => call.test(path))?.[1] ?? ANY;
