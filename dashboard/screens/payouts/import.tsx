/** Imports payouts from a CSV file: all of them or none. */
import { type FormEvent, useState } from 'react';
import { useAct } from '../../lib/hooks.ts';
import { say } from '../../lib/toasts.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, Foot } from '../../ui/dialog.tsx';
import { Field } from '../../ui/field.tsx';
import { ErrorNote } from '../../ui/form.tsx';
import { PAYOUT_READS } from './state.tsx';

export function ImportFile({ onClose, onDone }: { onClose: () => void; onDone: (batch: string) => void }) {
  const [file, setFile] = useState<File | null>(null);
  const send = useAct('POST /:mode/payout-batches', { refreshes: PAYOUT_READS, quiet: true });
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (!file) return;
    const content = await file.text();
    send.mutate(
      { body: { name: file.name, content } },
      {
        onSuccess: ({ batch, is_known: isKnown }) => {
          say(isKnown ? 'This file was imported before. Nothing was added.' : 'Payouts requested.');
          onDone(batch.id);
        },
      },
    );
  };
  return (
    <Dialog open onClose={onClose} title="Import a CSV file">
      <form onSubmit={(event) => void submit(event)} className="grid gap-4">
        <p className="text-sm text-soft">
          The first line names the columns: <code>reference</code>, <code>currency</code>, <code>amount</code> or <code>amount_usd</code>,{' '}
          <code>address</code>, and if needed <code>network</code> and <code>description</code>. A file has up to 1,000 payouts. Either all
          of them are requested or none, and the same file again adds nothing.
        </p>
        <Field
          label="CSV file"
          type="file"
          accept=".csv,text/csv"
          required
          onChange={(event) => {
            setFile(event.target.files?.[0] ?? null);
            send.reset();
          }}
        />
        <ErrorNote error={send.error} />
        <Foot onBack={onClose}>
          <Button type="submit" look="main" busy={send.isPending}>
            Import
          </Button>
        </Foot>
      </form>
    </Dialog>
  );
}
