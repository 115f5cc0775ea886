/** New rows wait above the list until the user asks for them, so that rows never move under the pointer. */
import { useState } from 'react';

export function useNewest<R extends { id: string }>({
  rows,
  isPlaceholderData,
}: {
  rows: readonly R[];
  /** The rows still belong to the previous filters, so they do not mark where this list starts. */
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
