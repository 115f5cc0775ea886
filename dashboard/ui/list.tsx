/** A list in a card, in all its states: loading, failed, empty, no matches, rows. And the button for new rows above it. */
import type { ReactNode } from 'react';
import { Button } from './button.tsx';
import { Card, Empty, Pending } from './states.tsx';
import { type Column, Table } from './table.tsx';
import { Time } from './values.tsx';

/** What `useList` returns. */
type Listed<R> = {
  rows: readonly R[];
  error: Error | null;
  isPending: boolean;
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  lookedBackTo: string | null;
  refetch: () => unknown;
  fetchNextPage: () => unknown;
};

export function ListCard<R extends { id: string }>({
  label,
  list,
  shown = list.rows,
  columns,
  none,
  unmatched,
  unlabeled = false,
}: {
  label: string;
  list: Listed<R>;
  /** The rows without the new ones that wait above. */
  shown?: readonly R[];
  columns: readonly Column<R>[];
  /** Shown when there are no rows at all: why, and the next step. */
  none: { title: string; words: ReactNode };
  /** Shown when filters are set. */
  unmatched: { title: string; clear: () => void; act?: string } | null;
  /** The rows belong to both modes, or to none. */
  unlabeled?: boolean;
}) {
  const more = () => void list.fetchNextPage();
  const { lookedBackTo, isFetchingNextPage: busy } = list;
  return (
    <Card>
      {list.rows.length === 0 && (list.error || list.isPending) ? (
        <Pending of={list} />
      ) : list.rows.length > 0 ? (
        <Table
          label={label}
          columns={columns}
          rows={shown}
          hasMore={list.hasNextPage}
          onMore={more}
          more={lookedBackTo === null ? 'Show more' : 'Search further back'}
          busy={busy}
          unlabeled={unlabeled}
        />
      ) : unmatched === null ? (
        <Empty title={none.title}>{none.words}</Empty>
      ) : (
        <Empty title={lookedBackTo === null ? unmatched.title : `${unmatched.title} so far`}>
          <span className="flex flex-wrap justify-center gap-2">
            {lookedBackTo !== null && (
              <Button look="main" busy={busy} onClick={more}>
                Search further back
              </Button>
            )}
            <Button onClick={unmatched.clear}>{unmatched.act ?? 'Clear the filters'}</Button>
          </span>
        </Empty>
      )}
      {lookedBackTo !== null && (
        <p role="status" className="border-t border-line px-4 py-3 text-center text-sm text-soft">
          Searched back to <Time at={lookedBackTo} />.
        </p>
      )}
    </Card>
  );
}

/** Shows how many new rows are waiting; a click shows them. See `useNewest`. */
export const NewRows = ({ waiting, words, show }: { waiting: number; words: string; show: () => void }) =>
  waiting > 0 && (
    <div className="text-center" role="status">
      <Button onClick={show}>{words}</Button>
    </div>
  );
