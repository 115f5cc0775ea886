/** What the CSV file of the list holds: every payment that the filters find, in the columns chosen here. */
import { useState } from 'react';
import { useApi, useMode } from '../../lib/hooks.ts';
import { Dialog, Foot } from '../../ui/dialog.tsx';
import { Download } from '../../ui/download.tsx';
import { Pending } from '../../ui/states.tsx';

export function Export({ asked, filtered, onClose }: { asked: URLSearchParams; filtered: boolean; onClose: () => void }) {
  const mode = useMode();
  const query = useApi('GET /:mode/exports/columns', ['exports', 'columns'], {});
  const [left, setLeft] = useState<ReadonlySet<string>>(new Set());
  // Test and live are told apart in every file.
  const all = (query.data?.columns ?? []).filter((column) => column !== 'mode');
  const chosen = all.filter((column) => !left.has(column));
  const parameters = new URLSearchParams(asked);
  if (left.size > 0) parameters.set('columns', chosen.join(','));
  return (
    <Dialog open onClose={onClose} title="Export CSV">
      <p className="text-sm text-soft">
        {filtered ? 'Every payment that the filters find' : 'Every payment'}, newest first. Times are UTC, amounts exact decimal numbers;
        the first column is always the mode.
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
