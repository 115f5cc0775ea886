/** A table with a sticky head, two or three lines per row on phones, and a button for more rows. */
import { memo, type ReactNode } from 'react';
import { useMode } from '../lib/hooks.ts';
import { Button } from './button.tsx';
import { TestLabel } from './values.tsx';

/** Where a cell is on a phone: in the first line, in the second (`wide` fills it), beside all lines, or below, with the name of the column before it. */
const PLACES = {
  title: 'order-1 sm:order-none',
  corner: 'order-2 justify-self-end text-right text-xs text-soft sm:order-none sm:text-sm sm:text-ink',
  left: 'order-3 sm:order-none',
  wide: 'order-3 col-span-2 sm:order-none',
  right: 'order-4 justify-self-end text-right sm:order-none',
  menu: 'absolute top-2.5 right-1 sm:static',
  line: 'order-5 col-span-2 flex justify-between gap-4 sm:order-none',
} as const;

export type Column<R> = {
  name: string;
  cell: (row: R) => ReactNode;
  right?: boolean;
  /** `line` by default. */
  phone?: keyof typeof PLACES;
  /** Phones leave the cell out. */
  empty?: (row: R) => boolean;
};

/** A column of menus takes no more room than they need. */
const paddingOf = (phone?: keyof typeof PLACES) => (phone === 'menu' ? 'sm:py-2.5 sm:pr-2' : 'sm:px-2 sm:py-2.5 xl:px-4');

/** Memoized, because a list may have a thousand rows. `marked`: the column with the TEST label; -1 for none. */
const Row = memo(({ row, columns, marked }: { row: unknown; columns: readonly Column<never>[]; marked: number }) => (
  <tr
    className={`grid grid-cols-[minmax(0,1fr)_auto] items-baseline gap-x-4 border-b border-line px-4 py-2.5 last:border-b-0 hover:bg-page sm:table-row ${columns.some(({ phone }) => phone === 'menu') ? 'max-sm:relative max-sm:pr-12' : ''}`}
  >
    {columns.map(({ name, cell, right = false, phone = 'line', empty }, i) => (
      <td
        key={name}
        className={`min-w-0 py-0.5 sm:table-cell sm:border-b sm:border-line ${paddingOf(phone)} sm:in-[tr:last-child]:border-b-0 ${PLACES[phone]} ${right ? 'sm:text-right' : 'sm:text-left'} ${empty?.(row as never) ? 'max-sm:hidden' : ''}`}
      >
        {phone === 'line' && <span className="text-soft sm:hidden">{name}</span>}
        {i === marked ? (
          <span className="flex min-w-0 flex-wrap items-start gap-x-2 gap-y-1 xl:flex-nowrap">
            <span className="min-w-0">{cell(row as never)}</span>
            <TestLabel />
          </span>
        ) : phone === 'line' ? (
          <span className="min-w-0">{cell(row as never)}</span>
        ) : (
          cell(row as never)
        )}
      </td>
    ))}
  </tr>
));

/** The first cell must contain a link to the page of the row. In test mode each row has a label, unless the list shows both modes, or sums. */
export function Table<R extends { id: string }>({
  label,
  columns,
  rows,
  hasMore = false,
  onMore,
  more = 'Show more',
  busy = false,
  unlabeled = false,
}: {
  label: string;
  columns: readonly Column<R>[];
  rows: readonly R[];
  hasMore?: boolean;
  onMore?: () => void;
  more?: string;
  busy?: boolean;
  unlabeled?: boolean;
}) {
  const isTest = useMode() === 'test' && !unlabeled;
  const title = columns.findIndex(({ phone }) => phone === 'title');
  const marked = isTest ? Math.max(0, title) : -1;
  return (
    <>
      <table aria-label={label} aria-busy={busy} className="block w-full border-separate border-spacing-0 text-sm sm:table">
        <thead className="hidden sm:table-header-group">
          <tr>
            {columns.map((column) => (
              <th
                key={column.name}
                scope="col"
                className={`sticky top-(--stripe) z-10 border-b border-line bg-card ${paddingOf(column.phone)} font-medium text-soft ${column.right ? 'text-right' : 'text-left'}`}
              >
                {column.phone === 'menu' ? <span className="sr-only">{column.name}</span> : column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody className="block sm:table-row-group">
          {rows.map((row) => (
            <Row key={row.id} row={row} columns={columns as readonly Column<never>[]} marked={marked} />
          ))}
        </tbody>
      </table>
      {hasMore && (
        <div className="border-t border-line p-3 text-center">
          <Button onClick={onMore} busy={busy}>
            {more}
          </Button>
        </div>
      )}
    </>
  );
}
