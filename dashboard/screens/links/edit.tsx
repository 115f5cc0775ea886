/** The form of a payment link: a new one, or changes to one that exists. */
import { type FormEvent, useState } from 'react';
import { ApiError, type Reply } from '../../lib/api.ts';
import { useAct } from '../../lib/hooks.ts';
import { AmountField } from '../../ui/amount.tsx';
import { Button } from '../../ui/button.tsx';
import { Dialog, Foot } from '../../ui/dialog.tsx';
import { Field } from '../../ui/field.tsx';
import { Choice, Tick } from '../../ui/form.tsx';

export type Link = Reply<'GET /:mode/links'>['data'][number];
/** Why customers could not pay a new link now. */
export type LinkWarning = Reply<'POST /:mode/links'>['link']['warnings'][number];
const SHOWN = ['name', 'amount', 'currency', 'return_url'];

export function EditLink({
  link,
  onClose,
  onDone,
}: {
  link: Link | null;
  onClose: () => void;
  /** `warnings`: null for a link that existed. */
  onDone: (link: Link, warnings: readonly LinkWarning[] | null) => void;
}) {
  const create = useAct('POST /:mode/links', { refreshes: [['links']], done: 'Link created', quiet: true });
  const change = useAct('POST /:mode/links/:id', { refreshes: [['links']], done: 'Link updated', quiet: true });
  const [name, setName] = useState(link?.name ?? '');
  const [open, setOpen] = useState(link !== null && link.amount === null);
  const [amount, setAmount] = useState(link?.amount ?? '');
  const [currency, setCurrency] = useState<Link['currency']>(link?.currency ?? 'USD');
  const [reusable, setReusable] = useState(link?.reusable ?? true);
  const [asksEmail, setAsksEmail] = useState(link?.ask_email ?? false);
  const [back, setBack] = useState(link?.return_url ?? '');
  const error = link === null ? create.error : change.error;
  const fault = error instanceof ApiError ? error : null;
  const at = (param: string) => (fault?.param === param ? fault.message : null);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const body = {
      name: name.trim(),
      currency,
      reusable,
      ask_email: asksEmail,
      amount: open ? null : amount.trim(),
      return_url: back.trim() || null,
    };
    if (link === null) {
      const made = await create.mutateAsync({ body }).catch(() => null);
      if (made) onDone(made.link, made.link.warnings);
    } else {
      const changed = await change.mutateAsync({ params: { id: link.id }, body }).catch(() => null);
      if (changed) onDone(changed.link, null);
    }
  };
  return (
    <Dialog open onClose={onClose} title={link === null ? 'New payment link' : 'Edit payment link'}>
      <form onSubmit={submit} className="grid gap-4">
        <Field
          label="Name"
          required
          maxLength={200}
          value={name}
          onChange={(event) => setName(event.target.value)}
          hint="What it is for. Customers see this."
          fault={at('name')}
        />
        <Choice
          label="Price"
          value={open ? 'open' : 'fixed'}
          onChange={(event) => setOpen(event.target.value === 'open')}
          options={[
            { value: 'fixed', label: 'Fixed amount' },
            { value: 'open', label: 'Customer chooses the amount' },
          ]}
        />
        <AmountField
          {...(open ? {} : { amount })}
          onAmount={setAmount}
          currency={currency}
          onCurrency={(chosen) => setCurrency(chosen as Link['currency'])}
          fault={at('amount') ?? at('currency')}
        />
        <Choice
          label="Number of payments"
          value={reusable ? 'many' : 'one'}
          onChange={(event) => setReusable(event.target.value === 'many')}
          options={[
            { value: 'many', label: 'Unlimited' },
            { value: 'one', label: 'One' },
          ]}
          hint={
            reusable
              ? undefined
              : 'Everyone who opens the link sees the same payment until it is paid. If it expires unpaid, the link creates a new one.'
          }
        />
        <Tick label="Ask the customer for an email address" checked={asksEmail} onChange={(event) => setAsksEmail(event.target.checked)} />
        <Field
          label="Return URL (optional)"
          type="url"
          placeholder="https://shop.example/thanks"
          value={back}
          onChange={(event) => setBack(event.target.value)}
          fault={at('return_url')}
        />
        {link !== null && <p className="text-sm text-soft">Changes apply to new payments. Payments made so far stay as they are.</p>}
        {fault && !SHOWN.includes(fault.param ?? '') && (
          <p role="alert" className="text-sm text-bad">
            {fault.message}
          </p>
        )}
        <Foot onBack={onClose}>
          <Button type="submit" look="main" busy={create.isPending || change.isPending}>
            {link === null ? 'Create link' : 'Save changes'}
          </Button>
        </Foot>
      </form>
    </Dialog>
  );
}
