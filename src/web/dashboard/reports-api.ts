/** CSV files, streamed: the filtered payments, and the reports of a date range. Exports are written to the audit log. */
import { createWriteStream } from 'node:fs';
import { mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import Type from 'typebox';
import {
  ACCOUNT_NAMES,
  ACCOUNTS,
  bookPeriod,
  checkDatev,
  DATEV_CHARTS,
  type DatevChart,
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
  type Scope,
  type ShownLine,
  withTrialBalance,
} from '#books';
import { apiNamesOf, coinText } from '#core/coin';
import { formatFiat, usdCentsToFiat } from '#core/fiat';
import { formatUnits, formatUsd } from '#core/money';
import { Problem } from '#core/problem';
import { literals } from '#http';
import { getMerchant } from '#merchants';
import { writeAudit } from '#people';
import { exportDays, exportFees, exportPayments, exportTransfers, NO_FILTER, paymentColumns } from '#queries';
import { Done, NoFields, needDisplay, PlainText, readDisplay } from './fields.ts';
import { DayName } from './home-api.ts';
import { FILTERS, filterOf } from './payments-api.ts';
import { type DashboardRoute, type MemberCall, memberRoute, ownerOfCall } from './route.ts';

// The books of a period: the statement, and files for accounting. Exports are written to the audit log.

// Turns at the books. Each statement and file reads the whole history of a merchant, so only a few are computed at a time. A file is
// written to the disk before it is sent: a client that reads slowly keeps no database connection.

const RETRY_SECONDS = 10;
const DOWNLOAD_MINUTES = 30;
const LIMITS = { running: 2, waiting: 20, waitingPerMerchant: 4, downloads: 20 };

const busy = () => new Problem('overloaded', { seconds: RETRY_SECONDS }, { retryAfterSeconds: RETRY_SECONDS });

type Waiting = { merchantId: string; start(): void };
export class BookTurns {
  readonly #running = new Set<string>();
  readonly #downloads = new Set<string>();
  #waiting: Waiting[] = [];

  /** Runs `work` when no other work of the merchant, and little of others, is running. Errors: overloaded. */
  async take<T>(merchantId: string, work: () => Promise<T>): Promise<T> {
    if (this.#isFree(merchantId)) this.#running.add(merchantId);
    else {
      const mine = this.#waiting.filter((other) => other.merchantId === merchantId).length;
      if (mine >= LIMITS.waitingPerMerchant || this.#waiting.length >= LIMITS.waiting) throw busy();
      await new Promise<void>((start) => this.#waiting.push({ merchantId, start }));
    }
    try {
      return await work();
    } finally {
      this.#running.delete(merchantId);
      this.#startNext();
    }
  }

  /**
   * The whole file, ready to be sent. A merchant downloads one at a time, and a download ends after half an hour.
   * Errors: overloaded, and those of `parts`.
   */
  async file(merchantId: string, parts: () => AsyncIterable<string | Uint8Array>): Promise<Readable> {
    if (this.#downloads.has(merchantId) || this.#downloads.size >= LIMITS.downloads) throw busy();
    this.#downloads.add(merchantId);
    const release = () => void this.#downloads.delete(merchantId);
    try {
      const file = await this.take(merchantId, () => spool(parts()));
      const timer = setTimeout(() => file.destroy(), DOWNLOAD_MINUTES * 60_000).unref();
      return file.once('end', release).once('close', () => {
        clearTimeout(timer);
        release();
      });
    } catch (error) {
      release();
      throw error;
    }
  }

  #isFree(merchantId: string): boolean {
    return this.#running.size < LIMITS.running && !this.#running.has(merchantId);
  }

  #startNext(): void {
    const next = this.#waiting.find(({ merchantId }) => this.#isFree(merchantId));
    if (!next) return;
    this.#waiting = this.#waiting.filter((other) => other !== next);
    this.#running.add(next.merchantId);
    next.start();
  }
}

/** Writes a file without a name; it disappears when the stream is closed, or the process ends. */
async function spool(parts: AsyncIterable<string | Uint8Array>): Promise<Readable> {
  const folder = await mkdtemp(join(tmpdir(), 'florin-books-'));
  try {
    const path = join(folder, 'file');
    await pipeline(Readable.from(parts, { objectMode: false }), createWriteStream(path, { mode: 0o600 }));
    return (await open(path, 'r')).createReadStream();
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** For all merchants of this process. */
const bookTurns = new BookTurns();

const logExport = (call: MemberCall, what: object) =>
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

const BOOK_REPORTS: readonly DashboardRoute[] = [
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

/** What a file shows beside the payments themselves: amounts in the display currency, and days in the merchant's time zone. */
async function looksOf(call: MemberCall) {
  const of = ownerOfCall(call);
  const { settings } = await getMerchant(call.ctx, of);
  return { display: await readDisplay(call.ctx, of), timeZone: settings.timeZone };
}
const KINDS = ['payments', 'days', 'tax', 'fees'] as const;

export const REPORTS: readonly DashboardRoute[] = [
  // A file is opened by a link, which cannot ask the user to authenticate, so the dashboard checks here first.
  memberRoute({
    method: 'POST',
    path: '/exports/confirm',
    action: 'payments.export',
    recent: true,
    body: NoFields,
    reply: Done,
    handle: async () => ({ success: true }),
  }),
  memberRoute({
    method: 'GET',
    path: '/exports/payments',
    action: 'payments.export',
    recent: true,
    query: Type.Object({ ...FILTERS, columns: Type.Optional(Type.String({ maxLength: 1000 })) }),
    reply: File,
    handle: async (call) => {
      const of = ownerOfCall(call);
      await logExport(call, { ...call.query });
      const columns = call.query.columns?.split(',') ?? null;
      return {
        name: `payments-${call.mode}.csv`,
        parts: exportPayments(call.ctx, { ...of, filter: await filterOf(call), columns, ...(await looksOf(call)) }),
      };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/exports/columns',
    action: 'payments.export',
    reply: Type.Object({ success: Type.Boolean(), columns: Type.Array(PlainText) }),
    handle: async (call) => ({ success: true, columns: paymentColumns(await looksOf(call)) }),
  }),
  memberRoute({
    method: 'GET',
    path: '/reports/file',
    action: 'payments.export',
    recent: true,
    query: Type.Object({ kind: literals(KINDS), from: DayName, until: DayName }),
    reply: File,
    handle: async (call) => {
      const { kind } = call.query;
      const of = ownerOfCall(call);
      const { display, timeZone } = await looksOf(call);
      const { from, until, start, end } = await bookPeriod(call.ctx, { ...call.query, timeZone });
      await logExport(call, { report: kind, from, until, time_zone: timeZone });
      const range = { from: start, until: end };
      const filter = { ...NO_FILTER, ...range };
      const parts = {
        payments: () => exportPayments(call.ctx, { ...of, filter, columns: null, display, timeZone }),
        days: () => exportDays(call.ctx, { ...of, from, until, display, timeZone }),
        // At its own time each transfer was worth what the file says; a current rate would be wrong for taxes.
        tax: () => exportTransfers(call.ctx, { ...of, ...range, timeZone }),
        fees: () => exportFees(call.ctx, { ...of, filter, display, timeZone }),
      }[kind as (typeof KINDS)[number]];
      return { name: `${kind}-${call.mode}-${from}-${until}.csv`, parts: parts() };
    },
  }),
  ...BOOK_REPORTS,
];
