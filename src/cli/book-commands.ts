/** Operator commands for the books of a merchant: the statement of a period, and files for accounting. */
import { createWriteStream } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import {
  ACCOUNT_NAMES,
  bookPeriod,
  checkDatev,
  DATEV_CHARTS,
  type DatevWish,
  type Display,
  datevAccountsOf,
  exportCoinTracking,
  exportDatev,
  exportKoinly,
  exportStatement,
  exportXero,
  type FileWish,
  MOVEMENTS,
  naturalSign,
  readStatement,
  SCOPES,
  withTrialBalance,
} from '#books';
import type { Context } from '#context';
import { coinText, MODES, type Mode } from '#core/coin';
import { FIATS } from '#core/fiat';
import { formatUnits, formatUsd } from '#core/money';
import { Problem } from '#core/problem';
import { getMerchant } from '#merchants';
import { type Commands, type Flags, MERCHANT, need, type Option, oneOfOption } from './command.ts';

const FORMATS = ['statement', 'koinly', 'cointracking', 'xero', 'datev'] as const;
const PERIOD: Readonly<Record<string, Option>> = {
  merchant: MERCHANT,
  mode: { value: MODES.join('|'), about: 'Mode (default live)' },
  from: { value: 'DAY', about: 'First day, such as 2026-01-01', required: true },
  to: { value: 'DAY', about: 'Last day', required: true },
  'time-zone': { value: 'ZONE', about: 'Time zone of these days, such as Europe/Berlin (default that of the merchant)' },
};
const ownerOf = (flags: Flags): { merchantId: string; mode: Mode } => ({
  merchantId: need(flags, 'merchant'),
  mode: flags.mode === undefined ? 'live' : oneOfOption(flags.mode, MODES, 'mode'),
});

async function wishOf(ctx: Context, flags: Flags): Promise<FileWish> {
  const owner = ownerOf(flags);
  const { settings } = await getMerchant(ctx, owner);
  const days = { from: need(flags, 'from'), until: need(flags, 'to'), timeZone: flags['time-zone'] ?? settings.timeZone };
  return { ...owner, period: await bookPeriod(ctx, days), display: await displayOf(ctx, owner, flags) };
}

/** The currency of a file, with the current rate. Errors: price_unavailable. */
async function displayOf(ctx: Context, { mode }: { mode: Mode }, flags: Flags): Promise<Display> {
  const currency = flags.currency === undefined ? 'USD' : oneOfOption(flags.currency, FIATS, 'currency');
  if (currency === 'USD') return null;
  // Commands run without a feed of exchange rates, so they ask the sources once.
  await ctx.fiat.check();
  const found = mode === 'test' ? { rate: ctx.fiat.forTest(currency) } : ctx.fiat.quotable(currency);
  if (!('rate' in found)) throw new Problem('price_unavailable', { coin: currency, reason: found.reason });
  return { currency, rateE8: found.rate.rateE8 };
}

const datevOf = (flags: Flags): DatevWish => ({
  chart: flags.chart === undefined ? 'SKR03' : oneOfOption(flags.chart, DATEV_CHARTS, 'chart'),
  consultant: Number(need(flags, 'consultant')),
  client: Number(need(flags, 'client')),
  fiscalYear: flags['fiscal-year'] ?? `${need(flags, 'from').slice(0, 4)}-01-01`,
  accounts: datevAccountsOf(flags.accounts ?? ''),
});

function fileOf(ctx: Context, flags: Flags, wish: FileWish): AsyncIterable<string | Uint8Array> {
  const scoped = { ...wish, scope: flags.wallets === undefined ? ('all' as const) : oneOfOption(flags.wallets, SCOPES, 'wallets') };
  switch (oneOfOption(need(flags, 'format'), FORMATS, 'format')) {
    case 'statement':
      return exportStatement(ctx, wish);
    case 'koinly':
      return exportKoinly(ctx, scoped);
    case 'cointracking':
      return exportCoinTracking(ctx, scoped);
    case 'xero':
      return exportXero(ctx, scoped);
    case 'datev': {
      const datev = datevOf(flags);
      checkDatev(wish, datev);
      return exportDatev(ctx, wish, datev);
    }
  }
}

export const BOOK_COMMANDS: Commands = {
  'books statement': {
    about: 'Show what a merchant had, received, refunded, paid out, moved and paid in fees in a period',
    options: PERIOD,
    columns: ['currency', 'account', 'opening', ...MOVEMENTS, 'closing', 'closing_usd'],
    run: async (ctx, flags) => {
      const { period, merchantId, mode } = await wishOf(ctx, flags);
      const lines = withTrialBalance(await readStatement(ctx, { merchantId, mode, from: period.start, until: period.end }));
      return {
        statement: lines.map((line) => {
          const { coin, account } = line;
          const shown = (units: bigint) => formatUnits(coin, naturalSign(account, units));
          return {
            ...{ currency: coinText(coin), account: ACCOUNT_NAMES[account], opening: shown(line.opening.units) },
            ...Object.fromEntries(MOVEMENTS.map((movement) => [movement, shown(line[movement].units)])),
            ...{ closing: shown(line.closing.units), closing_usd: formatUsd(naturalSign(account, line.closing.cents)) },
          };
        }),
      };
    },
  },
  'books export': {
    about: 'Write the books of a period to a file for accounting',
    options: {
      ...PERIOD,
      format: { value: FORMATS.join('|'), about: 'What reads the file', required: true },
      out: { value: 'FILE', about: 'Where to write it', required: true },
      wallets: { value: SCOPES.join('|'), about: 'Koinly, CoinTracking, Xero: all money, or only that on deposit addresses (default all)' },
      currency: { value: 'CODE', about: 'Currency of the values, such as EUR (default USD); DATEV needs EUR' },
      chart: { value: DATEV_CHARTS.join('|'), about: 'DATEV: chart of accounts (default SKR03)' },
      consultant: { value: 'N', about: 'DATEV: number of the tax consultant' },
      client: { value: 'N', about: 'DATEV: number of the client' },
      'fiscal-year': { value: 'DAY', about: 'DATEV: first day of the fiscal year (default January 1)' },
      accounts: { value: 'LIST', about: 'DATEV: account numbers that differ from the chart, such as sales=8400,refunds=8720' },
    },
    notes:
      'With --currency, Xero and DATEV have the rate of each payment or the one that was stored with the money, and the current one for the rest. Koinly and CoinTracking have values in US dollars.',
    run: async (ctx, flags) => {
      const file = fileOf(ctx, flags, await wishOf(ctx, flags));
      const out = need(flags, 'out');
      await pipeline(Readable.from(file, { objectMode: false }), createWriteStream(out));
      return { file: out };
    },
  },
};
