/** A table with a sticky head, cards on narrow screens, and a button for more rows. */
import { memo, type ReactNode } from 'react';
import { Button } from './button.tsx';

export type Column<R> = { name: string; cell: (row: R) => ReactNode; right?: boolean };

/** Memoized, because a list may have a thousand rows. */
const Row = memo(({ row, columns }: { row: unknown; columns: readonly Column<never>[] }) => (
  <tr className="block border-b border-line py-2 last:border-b-0 hover:bg-page sm:table-row sm:py-0">
    {columns.map((column) => (
      <td
        key={column.name}
        className={`flex justify-between gap-4 px-4 py-1 sm:table-cell sm:border-b sm:border-line sm:py-2.5 sm:in-[tr:last-child]:border-b-0 ${column.right ? 'sm:text-right' : ''}`}
      >
        <span className="text-soft sm:hidden">{column.name}</span>
        <span className="min-w-0">{column.cell(row as never)}</span>
      </td>
    ))}
  </tr>
));

/** The first cell must contain a link to the page of the row. */
export function Table<R extends { id: string }>({
  label,
  columns,
  rows,
  hasMore = false,
  onMore,
  more = 'Show more',
  busy = false,
}: {
  label: string;
  columns: readonly Column<R>[];
  rows: readonly R[];
  hasMore?: boolean;
  onMore?: () => void;
  more?: string;
  busy?: boolean;
}) {
  return (
    <>
      <table aria-label={label} aria-busy={busy} className="block w-full border-separate border-spacing-0 text-sm sm:table">
        <thead className="hidden sm:table-header-group">
          <tr>
            {columns.map((column) => (
              <th
                key={column.name}
                scope="col"
                className={`sticky top-(--stripe) z-10 border-b border-line bg-card px-4 py-2.5 font-medium text-soft ${column.right ? 'text-right' : 'text-left'}`}
              >
                {column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody className="block sm:table-row-group">
          {rows.map((row) => (
            <Row key={row.id} row={row} columns={columns as readonly Column<never>[]} />
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
