/** Rows that arrived since a list was opened wait above it until they are asked for, so that nothing moves under the pointer. */
import { useState } from 'react';

export function useNewest<R extends { id: string }>({
  rows,
  isPlaceholderData,
}: {
  rows: readonly R[];
  /** They are those of other filters: none of them is where this list begins. */
  isPlaceholderData: boolean;
}): { shown: readonly R[]; waiting: number; show: () => void; reset: () => void } {
  const [top, setTop] = useState<string | null>(null);
  const newest = rows[0]?.id ?? null;
  const waiting =
    top === null
      ? 0
      : Math.max(
          0,
          rows.findIndex((row) => row.id === top),
        );
  if (top === null && newest !== null && !isPlaceholderData) setTop(newest);
  return { shown: rows.slice(waiting), waiting, show: () => setTop(newest), reset: () => setTop(null) };
}
