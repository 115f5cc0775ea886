/** CSV files, streamed: the filtered payments, and the reports of a date range. Exports are written to the audit log. */
import Type from 'typebox';
import { literals } from '../../http/schema-fields.ts';
import { exportDays, exportFees, exportPayments, exportTransfers, paymentColumns } from '../../payments/exports.ts';
import { NO_FILTER } from '../../payments/search.ts';
import { BOOK_REPORTS, logExport } from './books-api.ts';
import { readDisplay } from './display.ts';
import { Done, NoFields, PlainText } from './fields.ts';
import { DayName, rangeOf } from './home-api.ts';
import { FILTERS, filterOf } from './payments-api.ts';
import { memberRoute, ownerOf, type Route } from './route.ts';

const File = Type.Object({}, { description: 'CSV, not JSON.' });
const KINDS = ['payments', 'days', 'tax', 'fees'] as const;

export const REPORTS: readonly Route[] = [
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
      const of = ownerOf(call);
      await logExport(call, { ...call.query });
      const columns = call.query.columns?.split(',') ?? null;
      return {
        name: `payments-${call.mode}.csv`,
        parts: exportPayments(call.ctx, { ...of, filter: filterOf(call.query), columns, display: await readDisplay(call.ctx, of) }),
      };
    },
  }),
  memberRoute({
    method: 'GET',
    path: '/exports/columns',
    action: 'payments.export',
    reply: Type.Object({ success: Type.Boolean(), columns: Type.Array(PlainText) }),
    handle: async (call) => ({ success: true, columns: paymentColumns(await readDisplay(call.ctx, ownerOf(call))) }),
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
      const { from, until } = rangeOf(call.query);
      const of = ownerOf(call);
      await logExport(call, { report: kind, from, until });
      const range = { from: new Date(from), until: new Date(Date.parse(until) + 86_400_000) };
      const filter = { ...NO_FILTER, ...range };
      const display = await readDisplay(call.ctx, of);
      const parts = {
        payments: () => exportPayments(call.ctx, { ...of, filter, columns: null, display }),
        days: () => exportDays(call.ctx, { ...of, from, until, display }),
        // At its own time each transfer was worth what the file says; a current rate would be wrong for taxes.
        tax: () => exportTransfers(call.ctx, { ...of, ...range }),
        fees: () => exportFees(call.ctx, { ...of, filter, display }),
      }[kind as (typeof KINDS)[number]];
      return { name: `${kind}-${call.mode}-${from}-${until}.csv`, parts: parts() };
    },
  }),
  ...BOOK_REPORTS,
];
