/** The items of a payment that is created by hand, edited row by row. */
import { typedAmount } from '../../lib/language.ts';
import { Button } from '../../ui/button.tsx';
import { SMALL_INPUT, TakeAway } from '../../ui/pairs.tsx';

export type Item = { key: number; name: string; quantity: string; price: string };
export const newItem = (key: number): Item => ({ key, name: '', quantity: '1', price: '' });

const MOST = 100;
const ROW = 'grid grid-cols-[minmax(0,1fr)_3.5rem_5.5rem_2rem] items-center gap-1.5';

export function Items({ items, setItems, fiat }: { items: readonly Item[]; setItems: (items: Item[]) => void; fiat: string }) {
  const change = (key: number, values: Partial<Item>) => setItems(items.map((one) => (one.key === key ? { ...one, ...values } : one)));
  return (
    <div className="grid gap-2">
      {/* Each field has its own label for screen readers. */}
      <p className={`${ROW} text-sm font-medium`} aria-hidden="true">
        <span>Item</span>
        <span>Qty</span>
        <span>Price</span>
      </p>
      {items.map((one, i) => (
        <div key={one.key} className={ROW}>
          <input
            className={SMALL_INPUT}
            aria-label={`Name of item ${i + 1}`}
            required
            value={one.name}
            onChange={(event) => change(one.key, { name: event.target.value })}
          />
          <input
            className={SMALL_INPUT}
            aria-label={`Quantity of item ${i + 1}`}
            required
            type="number"
            min="1"
            value={one.quantity}
            onChange={(event) => change(one.key, { quantity: event.target.value })}
          />
          <input
            className={SMALL_INPUT}
            aria-label={`Price of item ${i + 1}, in ${fiat}`}
            required
            inputMode="decimal"
            placeholder="12.50"
            value={one.price}
            onChange={(event) => change(one.key, { price: typedAmount(event.target.value) })}
          />
          <TakeAway
            label={`Remove item ${i + 1}`}
            disabled={items.length === 1}
            onClick={() => setItems(items.filter((other) => other.key !== one.key))}
          />
        </div>
      ))}
      <div>
        <Button
          look="ghost"
          disabled={items.length >= MOST}
          onClick={() => setItems([...items, newItem(Math.max(...items.map((one) => one.key)) + 1)])}
        >
          Add item
        </Button>
      </div>
    </div>
  );
}
