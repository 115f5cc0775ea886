/** Named filters, saved for the member. */
import { type FormEvent, useState } from 'react';
import { useAct } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Field } from '../../ui/field.tsx';
import { Icon } from '../../ui/icon.tsx';
import { type Filter, KEYS } from './filter.ts';

type View = { name: string; query: string };
const NONE = Object.fromEntries(KEYS.map((key) => [key, ''])) as Filter;

export function Views({ views, filters, open: show }: { views: readonly View[]; filters: Filter; open: (filters: Filter) => void }) {
  const [open, setOpen] = useState(false);
  const [name, setName] = useState('');
  const keep = useAct('POST /:mode/preferences', { refreshes: [['preferences']] });
  const query = new URLSearchParams(KEYS.flatMap((key) => (filters[key] === '' ? [] : [[key, filters[key]]]))).toString();
  const save = (event: FormEvent) => {
    event.preventDefault();
    const named = name.trim();
    if (named === '') return;
    keep.mutate(
      { body: { views: [...views.filter((view) => view.name !== named), { name: named, query }].slice(-30) } },
      { onSuccess: () => setName('') },
    );
  };
  return (
    <>
      <Button onClick={() => setOpen(true)}>Views</Button>
      <Dialog open={open} onClose={() => setOpen(false)} title="Saved views">
        {views.length === 0 ? (
          <p className="text-sm text-soft">No saved views. Set filters in the list, then save them here.</p>
        ) : (
          <ul className="grid gap-1">
            {views.map((view) => (
              <li key={view.name} className="flex items-center gap-2">
                <button
                  type="button"
                  className="flex-1 rounded-lg px-3 py-2 text-left font-medium text-link hover:bg-raised"
                  onClick={() => {
                    show({ ...NONE, ...(Object.fromEntries(new URLSearchParams(view.query)) as Partial<Filter>) });
                    setOpen(false);
                  }}
                >
                  {view.name}
                </button>
                <button
                  type="button"
                  aria-label={`Delete the view ${view.name}`}
                  className="rounded p-1.5 text-soft hover:bg-raised hover:text-ink"
                  onClick={() => keep.mutate({ body: { views: views.filter((one) => one.name !== view.name) } })}
                >
                  <Icon name="close" className="size-4" />
                </button>
              </li>
            ))}
          </ul>
        )}
        <form onSubmit={save} className="grid gap-3 border-t border-line pt-4">
          <Field
            label="Save the current filters as"
            placeholder="Name of the view"
            maxLength={60}
            value={name}
            onChange={(event) => setName(event.target.value)}
            hint={query === '' ? 'No filters are set, so this view shows all payments.' : undefined}
          />
          <div className="flex justify-end">
            <Button look="main" type="submit" busy={keep.isPending} disabled={name.trim() === ''}>
              Save view
            </Button>
          </div>
        </form>
      </Dialog>
    </>
  );
}
