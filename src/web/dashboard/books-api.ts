/** The books of a period: the statement, and files for accounting. Exports are written to the audit log. */
import Type from 'typebox';
import { apiNamesOf, coinText } from '../../core/coin.ts';
import { formatFiat, usdCentsToFiat } from '../../core/fiat.ts';
import { formatUnits, formatUsd } from '../../core/money.ts';
import { literals } from '../../http/schema-fields.ts';
import { getMerchant } from '../../merchants/merchants.ts';
import { exportCoinTracking, exportKoinly, exportStatement, exportXero, type FileWish, naturalSign } from '../../money-out/book-files.ts';
import { bookPeriod } from '../../money-out/book-periods.ts';
import {
  ACCOUNT_NAMES,
  ACCOUNTS,
  MOVEMENTS,
  readStatement,
  SCOPES,
  type Scope,
  type ShownLine,
  withTrialBalance,
} from '../../money-out/books.ts';
import { checkDatev, DATEV_CHARTS, type DatevChart, datevAccountsOf, exportDatev } from '../../money-out/datev.ts';
import { writeAudit } from '../../people/members.ts';
import { bookTurns } from './book-turns.ts';
import { needDisplay, readDisplay } from './display.ts';
import { PlainText } from './fields.ts';
import { DayName } from './home-api.ts';
import { type DashboardRoute, type MemberCall, memberRoute, ownerOfCall } from './route.ts';

export const logExport = (call: MemberCall, what: object) =>
  call.ctx.db.begin((tx) =>
    writeAudit(tx, { ...ownerOfCall(call), actor: call.actor, action: 'payments.export', object: 'payments', after: what }),
  );

const File = Type.Object({}, { description: 'CSV, not JSON.' });
const DAYS = {
  from: DayName,
  until: DayName,
  time_zone: Type.Optional(
    Type.String({ maxLength: 60, description: 'Time zone of the days, such as Europe/Berlin. Default: that of the business.' }),
  ),
};
const FORMATS = ['statement', 'koinly', 'cointracking', 'xero'] as const;

/** With `priced`, all amounts are in the display currency. Errors: price_unavailable. */
async function wishOf(
  call: MemberCall,
  query: { from: string; until: string; time_zone?: string },
  { priced = false }: { priced?: boolean } = {},
): Promise<FileWish> {
  const of = ownerOfCall(call);
  const { settings } = await getMerchant(call.ctx, of);
  const period = await bookPeriod(call.ctx, { from: query.from, until: query.until, timeZone: query.time_zone ?? settings.timeZone });
  return { ...of, period, display: await (priced ? needDisplay : readDisplay)(call.ctx, of) };
}

/** One account of a coin, with amounts that are positive for what a merchant has, earned, owes or spent, or the sum of all accounts. */
function lineBody(line: ShownLine, { display }: FileWish) {
  const { coin, account } = line;
  const units = (value: bigint) => formatUnits(coin, naturalSign(account, value));
  const cents = naturalSign(account, line.closing.cents);
  return {
    ...{
      currency: coinText(coin),
      network: apiNamesOf(coin).network!,
      account,
      name: ACCOUNT_NAMES[account],
      opening: units(line.opening.units),
    },
    ...Object.fromEntries(MOVEMENTS.map((movement) => [movement, units(line[movement].units)])),
    ...{ closing: units(line.closing.units), closing_usd: formatUsd(cents) },
    closing_display: display && formatFiat(display.currency, usdCentsToFiat(display.currency, cents, display.rateE8)),
  };
}

export const BOOK_REPORTS: readonly DashboardRoute[] = [
  memberRoute({
    method: 'GET',
    path: '/books/statement',
    action: 'payments.export',
    query: Type.Object(DAYS),
    reply: Type.Object({
      success: Type.Boolean(),
      lines: Type.Array(
        Type.Object({
          currency: PlainText,
          network: PlainText,
          account: literals([...ACCOUNTS, 'trial_balance'] as const),
          name: PlainText,
          opening: PlainText,
          ...Object.fromEntries(MOVEMENTS.map((movement) => [movement, PlainText])),
          closing: PlainText,
          closing_usd: PlainText,
          closing_display: Type.Union([PlainText, Type.Null()], { description: 'In the display currency, at the current rate.' }),
        }),
      ),
    }),
    handle: async (call) => {
      const wish = await wishOf(call, call.query);
      const { merchantId, mode, period } = wish;
      const wanted = { merchantId, mode, from: period.start, until: period.end };
      const lines = await bookTurns.take(merchantId, () => readStatement(call.ctx, wanted));
      return { success: true, lines: withTrialBalance(lines).map((line) => lineBody(line, wish)) };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/books/file',
    action: 'payments.export',
    recent: true,
    query: Type.Object({ ...DAYS, format: literals(FORMATS), wallets: Type.Optional(literals(SCOPES)) }),
    reply: File,
    handle: async (call) => {
      const format = call.query.format as (typeof FORMATS)[number];
      const wish = await wishOf(call, call.query, { priced: format === 'xero' });
      const { from, until } = wish.period;
      await logExport(call, { report: format, from, until });
      const scoped = { ...wish, scope: (call.query.wallets ?? 'all') as Scope };
      const parts = {
        statement: () => exportStatement(call.ctx, wish),
        koinly: () => exportKoinly(call.ctx, scoped),
        cointracking: () => exportCoinTracking(call.ctx, scoped),
        xero: () => exportXero(call.ctx, scoped),
      }[format];
      return { name: `${format}-${call.mode}-${from}-${until}.csv`, parts: await bookTurns.file(wish.merchantId, parts) };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/books/datev',
    action: 'payments.export',
    recent: true,
    query: Type.Object({
      ...DAYS,
      chart: literals(DATEV_CHARTS),
      consultant: Type.String({ maxLength: 7 }),
      client: Type.String({ maxLength: 5 }),
      fiscal_year: DayName,
      accounts: Type.Optional(
        Type.String({ maxLength: 300, description: 'Account numbers that differ from the chart: `sales=8400,refunds=8720`.' }),
      ),
    }),
    reply: File,
    handle: async (call) => {
      const wish = await wishOf(call, call.query, { priced: true });
      const { chart, consultant, client, fiscal_year: fiscalYear, accounts } = call.query;
      const datev = {
        ...{ chart: chart as DatevChart, consultant: Number(consultant), client: Number(client), fiscalYear },
        accounts: datevAccountsOf(accounts ?? ''),
      };
      checkDatev(wish, datev);
      const { from, until } = wish.period;
      await logExport(call, { report: 'datev', from, until });
      // DATEV only reads files whose names begin so.
      const name = `EXTF_Florin_${from}_${until}.csv`;
      const parts = await bookTurns.file(wish.merchantId, () => exportDatev(call.ctx, wish, datev));
      return { name, type: 'text/csv; charset=windows-1252', parts };
    },
  }),
];
