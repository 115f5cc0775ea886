/** CSV files, streamed: the filtered payments, and the reports of a date range. Exports are written to the audit log. */
import Type from 'typebox';
import { literals } from '../../http/schema-fields.ts';
import { getMerchant } from '../../merchants/merchants.ts';
import { bookPeriod } from '../../money-out/book-periods.ts';
import { exportDays, exportFees, exportPayments, exportTransfers, paymentColumns } from '../../payments/exports.ts';
import { NO_FILTER } from '../../payments/search.ts';
import { BOOK_REPORTS, logExport } from './books-api.ts';
import { readDisplay } from './display.ts';
import { Done, NoFields, PlainText } from './fields.ts';
import { DayName } from './home-api.ts';
import { FILTERS, filterOf } from './payments-api.ts';
import { type DashboardRoute, type MemberCall, memberRoute, ownerOfCall } from './route.ts';

const File = Type.Object({}, { description: 'CSV, not JSON.' });
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
        days: () => exportDays(call.ctx, { ...of, from, until, display }),
        // At its own time each transfer was worth what the file says; a current rate would be wrong for taxes.
        tax: () => exportTransfers(call.ctx, { ...of, ...range, timeZone }),
        fees: () => exportFees(call.ctx, { ...of, filter, display, timeZone }),
      }[kind as (typeof KINDS)[number]];
      return { name: `${kind}-${call.mode}-${from}-${until}.csv`, parts: parts() };
    },
  }),
  ...BOOK_REPORTS,
];
