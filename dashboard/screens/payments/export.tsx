/** The CSV file of the list: every payment that matches the filters, in the columns selected here. */
import { useState } from 'react';
import { useApi, useMe, useMode } from '../../lib/hooks.ts';
import { Dialog, Foot } from '../../ui/dialog.tsx';
import { Download } from '../../ui/download.tsx';
import { Pending } from '../../ui/states.tsx';

export function Export({ asked, filtered, onClose }: { asked: URLSearchParams; filtered: boolean; onClose: () => void }) {
  const mode = useMode();
  const zone = useMe()?.time_zone ?? 'UTC';
  const query = useApi('GET /:mode/exports/columns', ['exports', 'columns'], {});
  const [left, setLeft] = useState<ReadonlySet<string>>(new Set());
  // Every file says whether it is of test or live mode.
  const all = (query.data?.columns ?? []).filter((column) => column !== 'mode');
  const chosen = all.filter((column) => !left.has(column));
  const parameters = new URLSearchParams(asked);
  if (left.size > 0) parameters.set('columns', chosen.join(','));
  return (
    <Dialog open onClose={onClose} title="Export CSV">
      <p className="text-sm text-soft">
        {filtered ? 'All payments that match the filters' : 'All payments'}, newest first. Times are in UTC
        {zone === 'UTC' ? '' : `, days in ${zone}`}, and amounts are exact. The first column is the mode.
      </p>
      {!query.data ? (
        <Pending of={query} />
      ) : (
        <fieldset className="grid gap-2">
          <legend className="sr-only">Columns</legend>
          <label className="flex items-center gap-3 border-b border-line pb-2 text-sm">
            <input
              type="checkbox"
              className="size-4 accent-accent"
              checked={left.size === 0}
              onChange={(event) => setLeft(new Set(event.target.checked ? [] : all))}
            />
            All columns
          </label>
          <div className="grid max-h-72 gap-1 overflow-y-auto sm:grid-cols-2">
            {all.map((column) => (
              <label key={column} className="flex items-center gap-3 rounded-lg py-1 text-sm">
                <input
                  type="checkbox"
                  className="size-4 shrink-0 accent-accent"
                  checked={!left.has(column)}
                  onChange={(event) => {
                    const next = new Set(left);
                    if (event.target.checked) next.delete(column);
                    else next.add(column);
                    setLeft(next);
                  }}
                />
                <code className="text-xs break-all">{column}</code>
              </label>
            ))}
          </div>
        </fieldset>
      )}
      <Foot onBack={onClose}>
        {chosen.length > 0 && (
          <Download href={`/dashboard/api/${mode}/exports/payments?${parameters}`} look="main" onStarted={onClose}>
            Download CSV
          </Download>
        )}
      </Foot>
    </Dialog>
  );
}
