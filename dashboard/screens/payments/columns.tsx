/** Which columns the list shows, saved for the member; and the row height of all tables. */
import { useState } from 'react';
import { density, setDensity } from '../../lib/density.ts';
import { useAct } from '../../lib/hooks.ts';
import { useStore } from '../../lib/store.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Segments } from '../../ui/form.tsx';

/** In the order of the list. The first column holds the link and is always shown. */
export const shownColumns = <C extends { key: string }>(all: readonly C[], keys: readonly string[]): C[] =>
  all.filter((column, i) => i === 0 || keys.includes(column.key));

export function Columns({ all, shown: kept }: { all: readonly { key: string; name: string }[]; shown: readonly string[] }) {
  const [open, setOpen] = useState(false);
  const rows = useStore(density);
  const keep = useAct('POST /:mode/preferences', { refreshes: [['preferences']] });
  // A choice shows before it is saved, and is undone when saving fails.
  const [chosen, setChosen] = useState<readonly string[] | null>(null);
  const shown = (!keep.isError && chosen) || kept;
  const toggle = (key: string, on: boolean) => {
    const columns = all.map((column) => column.key).filter((one) => (one === key ? on : shown.includes(one)));
    setChosen(columns);
    keep.mutate({ body: { columns } });
  };
  return (
    <>
      <Button onClick={() => setOpen(true)}>Columns</Button>
      <Dialog open={open} onClose={() => setOpen(false)} title="Columns and rows">
        <fieldset className="grid gap-1">
          <legend className="pb-2 text-sm text-soft">Columns of the payments list. Only you see this choice.</legend>
          {all.map((column, i) => (
            <label key={column.key} className="flex items-center gap-3 rounded-lg px-2 py-1.5 hover:bg-raised">
              <input
                type="checkbox"
                className="size-4 accent-accent"
                checked={shown.includes(column.key)}
                disabled={i === 0 || keep.isPending}
                onChange={(event) => toggle(column.key, event.target.checked)}
              />
              {column.name}
            </label>
          ))}
        </fieldset>
        <div className="grid gap-2 border-t border-line pt-4">
          <p className="text-sm text-soft">Row height in all tables, in this browser.</p>
          <Segments
            label="Rows"
            value={rows}
            onChange={setDensity}
            options={[
              { value: 'comfortable', label: 'Comfortable' },
              { value: 'compact', label: 'Compact' },
            ]}
          />
        </div>
      </Dialog>
    </>
  );
}
