/** A stacked bar chart. Its label says what it shows; the exact numbers are in the table below. */
export function Bars({
  label,
  series,
  rows,
  format,
}: {
  label: string;
  series: readonly { name: string; fill: string; dot: string }[];
  rows: readonly { key: string; label: string; values: readonly number[] }[];
  format: (value: number) => string;
}) {
  const HEIGHT = 120;
  const STEP = 30;
  const top = Math.max(1, ...rows.map((row) => row.values.reduce((sum, value) => sum + value, 0)));
  return (
    <div className="grid gap-2 p-4">
      <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-1 text-xs text-soft">
        <ul className="flex flex-wrap gap-3">
          {series.map((one) => (
            <li key={one.name} className="inline-flex items-center gap-1.5">
              <span className={`size-2.5 rounded-sm ${one.dot}`} aria-hidden="true" />
              {one.name}
            </li>
          ))}
        </ul>
        <span className="tabular-nums">Highest: {format(top)}</span>
      </div>
      <svg viewBox={`0 0 ${rows.length * STEP} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label} className="h-32 w-full">
        <path d={`M0 ${HEIGHT - 0.5}H${rows.length * STEP}`} className="stroke-line" vectorEffect="non-scaling-stroke" />
        {rows.map((row, place) => {
          let under = 0;
          return row.values.map((value, i) => {
            // A single failure among thousands must stay visible.
            const height = value === 0 ? 0 : Math.max(2, (value / top) * (HEIGHT - 4));
            under += height;
            return (
              height > 0 && (
                <rect
                  key={`${row.key} ${series[i]!.name}`}
                  x={place * STEP + 4}
                  y={HEIGHT - under}
                  width={STEP - 8}
                  height={height}
                  className={series[i]!.fill}
                >
                  <title>{`${row.label}: ${format(value)} ${series[i]!.name.toLowerCase()}`}</title>
                </rect>
              )
            );
          });
        })}
      </svg>
      <p className="flex justify-between text-xs tabular-nums text-soft" aria-hidden="true">
        <span>{rows[0]?.label}</span>
        <span>{rows[Math.floor(rows.length / 2)]?.label}</span>
        <span>{rows.at(-1)?.label}</span>
      </p>
    </div>
  );
}
