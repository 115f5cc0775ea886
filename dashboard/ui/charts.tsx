/** The charts of Home: volume by coin, conversion, failures. Each has a text description, a table view, and a CSV download. */

import { type ReactNode, useEffect, useRef, useState } from 'react';
import { COIN_KINDS } from '../generated/api.ts';
import { isSome, lessOf, moneyText, sumOf } from '../lib/amount.ts';
import type { Reply } from '../lib/api.ts';
import { partsOf } from '../lib/coin.ts';
import type { Range } from '../lib/days.ts';
import { compactDollars, countText, percentText, timeText } from '../lib/language.ts';
import { EXCEPTION_WORDS, Money } from './values.tsx';

type Home = Reply<'GET /:mode/home'>;
type Cell = string | number;

function save(name: string, head: readonly string[], rows: readonly (readonly Cell[])[]) {
  const text = [head, ...rows].map((row) => row.join(',')).join('\r\n') + '\r\n';
  const url = URL.createObjectURL(new Blob([text], { type: 'text/csv' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}

/** A chart with its table and CSV. `rows` hold raw values; `show` formats them for the table. */
export function ChartCard({
  title,
  file,
  head,
  rows,
  show = String,
  empty,
  children,
}: {
  title: string;
  file: string;
  head: readonly string[];
  rows: readonly (readonly Cell[])[];
  show?: (value: Cell, column: number) => ReactNode;
  empty: string | null;
  children: ReactNode;
}) {
  const [table, setTable] = useState(false);
  const small = 'rounded-md px-2 py-1 text-xs font-medium text-soft hover:bg-raised hover:text-ink';
  return (
    <section className="min-w-0 overflow-hidden rounded-xl border border-line bg-card">
      <div className="flex flex-wrap items-center justify-between gap-2 border-b border-line px-4 py-2">
        <h2>{title}</h2>
        {empty === null && (
          <div className="flex gap-1">
            <button type="button" className={small} aria-pressed={table} onClick={() => setTable(!table)}>
              View as table<span className="sr-only">: {title}</span>
            </button>
            <button type="button" className={small} onClick={() => save(file, head, rows)}>
              CSV<span className="sr-only">: {title}</span>
            </button>
          </div>
        )}
      </div>
      {empty !== null ? (
        <p className="px-4 py-10 text-center text-sm text-soft">{empty}</p>
      ) : table ? (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable by keyboard
        <section className="max-h-80 overflow-auto" tabIndex={0} aria-label={`${title}, table`}>
          <table className="w-full text-sm" aria-label={title}>
            <thead>
              <tr>
                {head.map((name, i) => (
                  <th
                    key={name}
                    scope="col"
                    className={`sticky top-0 bg-card px-4 py-2 font-medium text-soft ${i === 0 ? 'text-left' : 'text-right'}`}
                  >
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <tr key={row[0]} className="border-t border-line">
                  {row.map((value, i) => (
                    <td key={head[i]} className={`px-4 py-1.5 tabular-nums ${i === 0 ? '' : 'text-right'}`}>
                      {show(value, i)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      ) : (
        <div className="p-4">{children}</div>
      )}
    </section>
  );
}

/** The colors of assets: of a bar, and of its dot in the legend. */
const LOOKS: Readonly<Record<string, readonly [fill: string, dot: string]>> = {
  BTC: ['fill-btc', 'bg-btc'],
  ETH: ['fill-eth', 'bg-eth'],
  LTC: ['fill-ltc', 'bg-ltc'],
  DASH: ['fill-dash', 'bg-dash'],
  DOGE: ['fill-doge', 'bg-doge'],
  USDC: ['fill-usdc', 'bg-usdc'],
  USDT: ['fill-usdt', 'bg-usdt'],
  EURC: ['fill-eurc', 'bg-eurc'],
  PYUSD: ['fill-pyusd', 'bg-pyusd'],
  DAI: ['fill-dai', 'bg-dai'],
};
const PLAIN = ['fill-accent', 'bg-accent'] as const;
const ASSETS = [...new Set(Object.keys(COIN_KINDS).map((coin) => partsOf(coin).asset))];
/** The volume of a day in an asset, on all of its networks. */
const volumeIn = (day: Home['days'][number], asset: string): string =>
  sumOf(['0.00', ...day.coins.flatMap((one) => (partsOf(one.currency).asset === asset ? [one.volume_usd] : []))]);
/** A bar has no height below zero, where more was reversed than sold. */
const drawn = (day: Home['days'][number], asset: string): string => {
  const volume = volumeIn(day, asset);
  return volume.startsWith('-') ? '0.00' : volume;
};
const DAY = { day: 'numeric', month: 'short', timeZone: 'UTC' } as const;
const shortDay = (day: string): string => timeText(new Date(day), DAY);

/** The available width, so that chart text keeps its size on a phone. */
function useWidth() {
  const place = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(960);
  useEffect(() => {
    if (!place.current) return;
    const watch = new ResizeObserver(([entry]) => entry && entry.contentRect.width > 0 && setWidth(Math.round(entry.contentRect.width)));
    watch.observe(place.current);
    return () => watch.disconnect();
  }, []);
  return { place, width };
}
const HEIGHT = 240;
const LEFT = 56;
const BOTTOM = 24;

/** About four round numbers from 0 to at least `most`. */
function ticksTo(most: number): number[] {
  const rough = (most || 1) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10);
  return Array.from({ length: Math.ceil((most || 1) / step) + 1 }, (_, i) => i * step);
}

function Volume({ data, range }: { data: Home; range: Range }) {
  const { place, width } = useWidth();
  const assets = ASSETS.filter((asset) => data.days.some((day) => day.coins.some(({ currency }) => partsOf(currency).asset === asset)));
  const hasReversed = data.days.some(({ reversed_usd }) => isSome(reversed_usd));
  const most = Math.max(0, ...data.days.flatMap((day) => [sumOf(assets.map((asset) => drawn(day, asset))), day.reversed_usd].map(Number)));
  const ticks = ticksTo(most);
  const y = (value: number): number => HEIGHT - BOTTOM - (value / ticks.at(-1)!) * (HEIGHT - BOTTOM - 8);
  const slot = (width - LEFT) / data.days.length;
  const middle = (i: number): number => LEFT + (i + 0.5) * slot;
  const bar = Math.min(slot * 0.8, 64);
  const every = Math.ceil(data.days.length / Math.max(2, Math.floor(width / 110)));
  const best = data.days.reduce((a, b) => (Number(b.volume_usd) > Number(a.volume_usd) ? b : a), data.days[0]!);
  const summary = `Completed volume per day, stacked by currency. ${range.days === 1 ? 'Today' : `${range.days} days`}: ${moneyText(data.now.volume_usd)} in ${data.now.completed} payments; highest on ${shortDay(best.day)} with ${moneyText(best.volume_usd)}${hasReversed ? `; reversed: ${moneyText(data.now.reversed_usd)}` : ''}.`;
  return (
    <ChartCard
      title="Volume per day"
      file={`volume-${range.from}-${range.until}.csv`}
      head={['Day', 'Completed', 'USD', ...assets, ...(hasReversed ? ['Reversed'] : [])]}
      rows={data.days.map((day) => [
        ...[day.day, day.completed, day.volume_usd, ...assets.map((asset) => volumeIn(day, asset))],
        ...(hasReversed ? [lessOf('0.00', day.reversed_usd)] : []),
      ])}
      show={(value, column) =>
        column < 2 ? (
          value
        ) : (
          <Money amount={String(value)} className={column === assets.length + 3 && isSome(String(value)) ? 'text-bad' : ''} />
        )
      }
      empty={most === 0 ? 'No completed payments in this period.' : null}
    >
      <div ref={place}>
        <svg role="img" aria-label={summary} viewBox={`0 0 ${width} ${HEIGHT}`} className="block h-auto w-full">
          {ticks.map((tick) => (
            <g key={tick}>
              <line x1={LEFT} x2={width} y1={y(tick)} y2={y(tick)} className="stroke-line" strokeWidth="1" />
              <text x={LEFT - 8} y={y(tick) + 4} textAnchor="end" className="fill-soft text-[12px]">
                {compactDollars(tick)}
              </text>
            </g>
          ))}
          {data.days.map(
            (day, i) =>
              i % every === 0 && (
                <text key={day.day} x={middle(i)} y={HEIGHT - 6} textAnchor="middle" className="fill-soft text-[12px]">
                  {shortDay(day.day)}
                </text>
              ),
          )}
          {data.days.map((day, i) => {
            let below = 0;
            return assets.map((asset) => {
              const from = below;
              const volume = drawn(day, asset);
              // A number only to draw with.
              below += Number(volume);
              const height = y(from) - y(below);
              return (
                height > 0 && (
                  <rect
                    key={day.day + asset}
                    x={middle(i) - bar / 2}
                    y={y(below)}
                    width={bar}
                    height={height}
                    className={(LOOKS[asset] ?? PLAIN)[0]}
                  >
                    <title>{`${shortDay(day.day)}: ${moneyText(volume)} in ${asset}`}</title>
                  </rect>
                )
              );
            });
          })}
          {data.days.map((day, i) => {
            const height = y(0) - y(Number(day.reversed_usd));
            return (
              height > 0 && (
                <rect key={day.day} x={middle(i) - bar / 8} y={y(0) - height} width={bar / 4} height={height} className="fill-bad">
                  <title>{`${shortDay(day.day)}: ${moneyText(day.reversed_usd)} reversed`}</title>
                </rect>
              )
            );
          })}
        </svg>
      </div>
      <ul className="flex flex-wrap gap-x-4 gap-y-1 pt-3 text-xs text-soft">
        {assets.map((asset) => (
          <li key={asset} className="flex items-center gap-1.5">
            <span className={`size-2.5 rounded-sm ${(LOOKS[asset] ?? PLAIN)[1]}`} />
            {asset}
          </li>
        ))}
        {hasReversed && (
          <li className="flex items-center gap-1.5 text-bad">
            <span className="size-2.5 rounded-sm bg-bad" />
            Reversed
          </li>
        )}
      </ul>
    </ChartCard>
  );
}

/** Horizontal bars with their name and number as text. */
function Bars({ label, rows, of }: { label: string; rows: readonly { name: string; value: number; note?: string }[]; of: number }) {
  return (
    <div role="img" aria-label={label} className="grid gap-3">
      {rows.map(({ name, value, note }) => (
        <div key={name} className="grid gap-1 text-sm" aria-hidden="true">
          <div className="flex justify-between gap-4">
            <span>{name}</span>
            <span className="tabular-nums">
              {countText(value)} {note && <span className="text-soft">{note}</span>}
            </span>
          </div>
          <svg viewBox="0 0 100 4" preserveAspectRatio="none" className="h-2 w-full overflow-hidden rounded-full" aria-hidden="true">
            <rect width="100" height="4" className="fill-raised" />
            <rect width={(value / (of || 1)) * 100} height="4" className="fill-accent" />
          </svg>
        </div>
      ))}
    </div>
  );
}

const STEPS: Readonly<Record<Home['funnel'][number]['step'], string>> = {
  created: 'Created',
  opened: 'Opened',
  chosen: 'Coin chosen',
  seen: 'Transfer detected',
  paid: 'Completed',
};
const REASONS: Readonly<Record<string, string>> = {
  ...EXCEPTION_WORDS,
  expired: 'Expired, unpaid',
  failed: 'Failed',
  cancelled: 'Canceled, unpaid',
};

export function Charts({ data, range }: { data: Home; range: Range }) {
  const created = data.funnel[0]?.payments ?? 0;
  const share = (value: number) => (created === 0 ? '' : percentText(Math.round((value / created) * 100)));
  const funnel = data.funnel.map(({ step, payments }) => ({ name: STEPS[step], value: payments, note: share(payments) }));
  const failures = data.failures.map(({ reason, payments }) => ({ name: REASONS[reason] ?? reason, value: payments }));
  const lost = failures.reduce((sum, one) => sum + one.value, 0);
  const words = (rows: readonly { name: string; value: number }[]) => rows.map(({ name, value }) => `${name} ${value}`).join(', ');
  return (
    <>
      <Volume data={data} range={range} />
      <div className="grid items-start gap-6 lg:grid-cols-2">
        <ChartCard
          title="Conversion"
          file={`funnel-${range.from}-${range.until}.csv`}
          head={['Step', 'Payments']}
          rows={funnel.map(({ name, value }) => [name, value])}
          empty={created === 0 ? 'No payments created in this period.' : null}
        >
          <Bars label={`Payments by step: ${words(funnel)}.`} rows={funnel} of={created} />
        </ChartCard>
        <ChartCard
          title="Unpaid payments by reason"
          file={`failures-${range.from}-${range.until}.csv`}
          head={['Reason', 'Payments']}
          rows={failures.map(({ name, value }) => [`"${name}"`, value])}
          show={(value) => String(value).replaceAll('"', '')}
          empty={lost === 0 ? 'No unpaid payments in this period.' : null}
        >
          <Bars label={`Unpaid payments by reason: ${words(failures)}.`} rows={failures} of={lost} />
        </ChartCard>
      </div>
    </>
  );
}
