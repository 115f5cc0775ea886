/** The books as files: the statement of a period, and what crypto tax and accounting services import. */
import type { Context } from '#context';
import { ASSET, apiNamesOf, CHAIN, COIN, type Coin, type Mode } from '#core/coin';
import { checkTimeZone, DAY_MS, localTime, readDay } from '#core/dates';
import { formatFiat, usdCentsToFiat } from '#core/fiat';
import { formatDecimal, formatUnits, formatUsd } from '#core/money';
import { Problem } from '#core/problem';
import { csvLine } from '#core/text';
import {
  ACCOUNT_NAMES,
  type Account,
  type BookEntry,
  type BooksOwner,
  type Display,
  type EntryKind,
  MOVEMENTS,
  readEntries,
  readStatement,
  type Scope,
  type ShownLine,
  withTrialBalance,
} from './books.ts';

export type FileWish = BooksOwner & { period: Period; display: Display };

/** What counts up when the merchant earns, owes or has more. */
const CREDIT_SIDE: ReadonlySet<ShownLine['account']> = new Set(['held_for_review', 'overpayments', 'sales']);
/** An amount of an account as people expect it: sales and what is owed are positive. */
export const naturalSign = (account: ShownLine['account'], value: bigint): bigint => (CREDIT_SIDE.has(account) ? -value : value);

const STEPS = ['opening', ...MOVEMENTS, 'closing'] as const;

/** One line for each coin and account: amounts in the coin, and the opening and closing balance in US dollars. */
function statementCsv(lines: readonly ShownLine[], { mode, display }: { mode: Mode; display: Display }): string {
  const names = ['currency', 'network', 'account', ...STEPS, 'opening_usd', 'closing_usd'];
  const more = display === null ? [] : ['display_currency', 'display_rate', 'closing_display'];
  const rows = lines.map((line) => {
    const { coin, account } = line;
    const { currency, network } = apiNamesOf(coin);
    const units = STEPS.map((step) => formatUnits(coin, naturalSign(account, line[step].units)));
    const cents = [line.opening, line.closing].map((sum) => naturalSign(account, sum.cents));
    const shown = display && [
      display.currency,
      formatDecimal(display.rateE8, 8),
      formatFiat(display.currency, usdCentsToFiat(display.currency, cents[1]!, display.rateE8)),
    ];
    return csvLine([currency, network, ACCOUNT_NAMES[account], ...units, ...cents.map(formatUsd), ...(shown ?? []), mode]);
  });
  return csvLine([...names, ...more, 'mode']) + rows.join('');
}

export async function* exportStatement(ctx: Context, { period, display, ...owner }: FileWish): AsyncGenerator<string> {
  yield statementCsv(withTrialBalance(await readStatement(ctx, { ...owner, from: period.start, until: period.end })), {
    mode: owner.mode,
    display,
  });
}

/** Money that came in or went out, seen from the wallets of an export. */
type Flow = Omit<BookEntry, 'debit' | 'credit'> & {
  mode: Mode;
  incoming: boolean;
  /** Held money that goes back was never income. */
  isReturned: boolean;
};

const WALLETS: Readonly<Record<Scope, ReadonlySet<Account>>> = {
  all: new Set(['deposit_addresses', 'destination_wallet']),
  deposits: new Set(['deposit_addresses']),
};

function flowOf(entry: BookEntry, { scope, mode }: { scope: Scope; mode: Mode }): Flow | null {
  const [incoming, outgoing] = [WALLETS[scope].has(entry.debit), WALLETS[scope].has(entry.credit)];
  return incoming === outgoing ? null : { ...entry, mode, incoming, isReturned: entry.debit === 'held_for_review' };
}
/** The parts of one refund are entries of their own: those that were sold are one flow. */
const isSame = (a: Flow, b: Flow): boolean =>
  a.isReturned === b.isReturned && a.kind === b.kind && a.ref === b.ref && a.coin === b.coin && a.paymentId === b.paymentId;

const sum = (a: Flow, b: Flow): Flow => {
  const displayed = a.displayed === null || b.displayed === null ? null : a.displayed + b.displayed;
  return { ...b, units: a.units + b.units, cents: a.cents + b.cents, displayed };
};

/** The flows of a period, oldest first, a page at a time. */
async function* readFlows(ctx: Context, { period, scope, display, ...owner }: FileWish & { scope: Scope }): AsyncGenerator<Flow[]> {
  let last = null as Flow | null;
  for await (const page of readEntries(ctx, { ...owner, display, wallets: scope, from: period.start, until: period.end })) {
    const flows: Flow[] = [];
    for (const entry of page) {
      const flow = flowOf(entry, { scope, mode: owner.mode });
      if (flow === null) continue;
      const before: Flow | null = last;
      if (before !== null && isSame(before, flow)) last = sum(before, flow);
      else {
        if (before !== null) flows.push(before);
        last = flow;
      }
    }
    yield flows;
  }
  if (last !== null) yield [last];
}

const exact = (coin: Coin, units: bigint): string => formatDecimal(units, COIN[coin].decimals, 0);
const on = (coin: Coin): string => (ASSET[COIN[coin].asset].par === undefined ? '' : ` on ${CHAIN[COIN[coin].chain].name}`);
const TEXT: Readonly<Record<EntryKind, (flow: Flow) => string>> = {
  received: ({ paymentId }) => `Payment ${paymentId}`,
  sale: ({ paymentId }) => `Payment ${paymentId}`,
  overpayment: ({ paymentId }) => `Overpayment of ${paymentId}`,
  reversed: ({ paymentId }) => `Reversal of ${paymentId}`,
  restored: ({ paymentId }) => `Payment ${paymentId}, back after its reversal`,
  refund: ({ paymentId, ref }) => `Refund ${ref} of ${paymentId}`,
  marked_refunded: ({ paymentId }) => `Refund of ${paymentId}`,
  payout: ({ ref }) => `Payout ${ref}`,
  swept: ({ ref, purpose }) => (purpose === 'refund' || purpose === 'payout' ? `Change of ${purpose} file ${ref}` : `Sweep ${ref}`),
  moved_elsewhere: ({ paymentId, ref }) =>
    paymentId === null ? `Moved by another transaction than ${ref}` : `Deposit of ${paymentId}, moved by another wallet`,
  network_fee: ({ ref, purpose }) => `Network fee of ${purpose ?? 'sweep'} ${ref}`,
  provider_fee: ({ paymentId }) => `Lightning fee of ${paymentId}`,
};
/** Starts what is written about money that is not real. */
export const testPrefix = (mode: Mode): string => (mode === 'test' ? 'TEST: ' : '');
const textOf = (flow: Flow): string => testPrefix(flow.mode) + TEXT[flow.kind](flow) + on(flow.coin);

/** Null: no line. */
type Cells = (flow: Flow) => readonly (string | null)[] | null;
async function* lines(
  ctx: Context,
  { header, cells, ...wish }: FileWish & { scope: Scope; header: readonly string[]; cells: Cells },
): AsyncGenerator<string> {
  yield csvLine(header);
  for await (const flows of readFlows(ctx, wish)) {
    const rows = flows.map(cells).filter((row) => row !== null);
    yield rows.map(csvLine).join('');
  }
}

const KOINLY = [
  ...['Date', 'Sent Amount', 'Sent Currency', 'Received Amount', 'Received Currency', 'Fee Amount', 'Fee Currency'],
  ...['Net Worth Amount', 'Net Worth Currency', 'Label', 'Description', 'TxHash'],
];
/** Koinly's label; null: none, which Koinly takes for a transfer. */
const koinlyLabel = ({ kind, counts, isReturned }: Flow): string | null =>
  kind === 'received' || kind === 'restored'
    ? counts
      ? 'other income'
      : null
    : kind === 'swept' || kind === 'moved_elsewhere' || isReturned
      ? null
      : 'cost';

/** Koinly's universal format. Times are in UTC. */
export const exportKoinly = (ctx: Context, wish: FileWish & { scope: Scope }): AsyncGenerator<string> => {
  const local = localTime('UTC');
  const cells: Cells = (flow) => {
    const { day, time } = local(flow.at);
    const side = [exact(flow.coin, flow.units), COIN[flow.coin].asset];
    const none = [null, null];
    const worth = flow.cents === 0n ? none : [formatUsd(flow.cents), 'USD'];
    return [
      `${day} ${time} UTC`,
      ...(flow.incoming ? none : side),
      ...(flow.incoming ? side : none),
      ...none,
      ...worth,
      koinlyLabel(flow),
      textOf(flow),
      flow.txid,
    ];
  };
  return lines(ctx, { ...wish, header: KOINLY, cells });
};

const COINTRACKING = [
  ...['Type', 'Buy Amount', 'Buy Currency', 'Sell Amount', 'Sell Currency', 'Fee', 'Fee Currency', 'Exchange', 'Trade-Group'],
  ...['Comment', 'Date', 'Tx-ID'],
];
function coinTrackingType({ kind, counts, isReturned }: Flow): string {
  if (kind === 'received' || kind === 'restored') return counts ? 'Income' : 'Deposit';
  if (kind === 'swept' || kind === 'moved_elsewhere' || isReturned) return 'Withdrawal';
  return kind === 'network_fee' || kind === 'provider_fee' ? 'Other Fee' : 'Spend';
}

/** CoinTracking's import format. Times are in UTC. */
export const exportCoinTracking = (ctx: Context, wish: FileWish & { scope: Scope }): AsyncGenerator<string> => {
  const local = localTime('UTC');
  const cells: Cells = (flow) => {
    const { day, time } = local(flow.at);
    const side = [exact(flow.coin, flow.units), COIN[flow.coin].asset];
    const none = [null, null];
    const sides = flow.incoming ? [...side, ...none] : [...none, ...side];
    return [coinTrackingType(flow), ...sides, ...none, 'Florin', apiNamesOf(flow.coin).network, textOf(flow), `${day} ${time}`, flow.txid];
  };
  return lines(ctx, { ...wish, header: COINTRACKING, cells });
};

/** The value of an entry in the currency of a file. */
export const inCurrency = (display: Display, { cents, displayed }: Pick<BookEntry, 'cents' | 'displayed'>): string =>
  display === null || displayed === null ? formatUsd(cents) : formatFiat(display.currency, displayed);

/** Whether an amount of a file is less than its currency can show. */
export const isZeroAmount = (amount: string): boolean => /^[0.]*$/.test(amount);

/** A bank statement for Xero, in the display currency. Days are those of the period's time zone. A bank line has an amount. */
export const exportXero = (ctx: Context, wish: FileWish & { scope: Scope }): AsyncGenerator<string> => {
  const local = localTime(wish.period.timeZone);
  const cells: Cells = (flow) => {
    const [year, month, day] = local(flow.at).day.split('-');
    const amount = inCurrency(wish.display, flow);
    if (isZeroAmount(amount)) return null;
    const description = `${textOf(flow)}: ${exact(flow.coin, flow.units)} ${COIN[flow.coin].asset}`;
    return [`${day}/${month}/${year}`, flow.incoming ? amount : `-${amount}`, PAYEE[flow.kind], description, flow.txid ?? flow.ref];
  };
  return lines(ctx, { ...wish, header: ['*Date', '*Amount', 'Payee', 'Description', 'Reference'], cells });
};
const PAYEE: Readonly<Record<EntryKind, string>> = {
  received: 'Customer',
  sale: 'Customer',
  overpayment: 'Customer',
  reversed: 'Customer',
  restored: 'Customer',
  refund: 'Customer',
  marked_refunded: 'Customer',
  payout: 'Recipient of a payout',
  swept: 'Destination wallet',
  moved_elsewhere: 'Another wallet',
  network_fee: 'Network fee',
  provider_fee: 'Lightning provider',
};

// The period of a statement or an export: whole days in a time zone.

const LONGEST_DAYS = 366;

type Days = { from: string; until: string; timeZone: string };
type Period = Days & { start: Date; end: Date };

/** From the beginning of the day `from` to the end of the day `until`. Errors: parameter_invalid. */
export async function bookPeriod(ctx: Context, { from, until, timeZone }: Days): Promise<Period> {
  const first = Date.parse(readDay(from, 'from'));
  const days = (Date.parse(readDay(until, 'until')) - first) / DAY_MS + 1;
  if (days < 1 || days > LONGEST_DAYS)
    throw new Problem('parameter_invalid', { reason: `it must be 1 to ${LONGEST_DAYS} days after from` }, { param: 'until' });
  checkTimeZone(timeZone);
  const { start, end } = await boundsOf(ctx, { from, until, timeZone });
  return { from, until, timeZone, start: start!, end: end! };
}

/** The first instant of the day `from`, and the first one after the day `until`; null for a day that is null. */
export async function boundsOf(
  ctx: Context,
  { from, until, timeZone }: { from: string | null; until: string | null; timeZone: string },
): Promise<{ start: Date | null; end: Date | null }> {
  const { sql } = ctx.db;
  // The database knows when days begin where clocks change. Where midnight comes twice, as in Havana, it means the second one.
  const [row] = await sql<{ start: Date | null; end: Date | null }[]>`
    with days as (
      select n, day, day::timestamp at time zone ${timeZone}::text as midnight
      from (values (1, ${from}::text::date), (2, ${until}::text::date + 1)) as asked (n, day)
    ), begins as (
      select n, case when ((midnight - interval '1 hour') at time zone ${timeZone}::text)::date = day then midnight - interval '1 hour' else midnight end as at
      from days
    )
    select (select at from begins where n = 1) as start, (select at from begins where n = 2) as end`;
  return row!;
}
