/** Name and value pairs, edited row by row. */
import { Icon } from './icon.tsx';

export const SMALL_INPUT = 'min-h-9 min-w-0 rounded-lg border border-line bg-card px-2.5 py-1.5 text-sm text-ink placeholder:text-soft';

export const TakeAway = ({ label, disabled = false, onClick }: { label: string; disabled?: boolean; onClick: () => void }) => (
  <button
    type="button"
    aria-label={label}
    disabled={disabled}
    className="rounded p-1.5 text-soft hover:bg-raised disabled:opacity-40"
    onClick={onClick}
  >
    <Icon name="close" className="size-4" />
  </button>
);

export type Pair = { key: number; name: string; value: string };
export const anotherPair = (pairs: readonly Pair[]): Pair[] => [...pairs, { key: (pairs.at(-1)?.key ?? 0) + 1, name: '', value: '' }];

/** Metadata: names of up to 40 characters, values of up to 500. */
export function Pairs({ pairs, setPairs }: { pairs: readonly Pair[]; setPairs: (pairs: Pair[]) => void }) {
  const change = (key: number, values: Partial<Pair>) => setPairs(pairs.map((pair) => (pair.key === key ? { ...pair, ...values } : pair)));
  return pairs.map((pair, i) => (
    <div key={pair.key} className="grid grid-cols-[1fr_1fr_2rem] items-center gap-1.5">
      <input
        className={SMALL_INPUT}
        aria-label={`Name of pair ${i + 1}`}
        maxLength={40}
        placeholder="Name"
        value={pair.name}
        onChange={(event) => change(pair.key, { name: event.target.value })}
      />
      <input
        className={SMALL_INPUT}
        aria-label={`Value of pair ${i + 1}`}
        maxLength={500}
        placeholder="Value"
        value={pair.value}
        onChange={(event) => change(pair.key, { value: event.target.value })}
      />
      <TakeAway label={`Remove pair ${i + 1}`} onClick={() => setPairs(pairs.filter((other) => other.key !== pair.key))} />
    </div>
  ));
}
