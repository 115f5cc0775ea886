/** More form controls: a select and a text area with a visible label, a checkbox, a colored note, segmented buttons. */
import { type InputHTMLAttributes, type ReactNode, type SelectHTMLAttributes, type TextareaHTMLAttributes, useId } from 'react';
import { withLabel } from '../lib/field-fault.ts';
import { Icon, type IconName } from './icon.tsx';

const BOX = 'w-full min-h-10 rounded-lg border border-line bg-card px-3 py-2 text-ink placeholder:text-soft';
const Label = ({ id, children }: { id: string; children: ReactNode }) => (
  <label htmlFor={id} className="text-sm font-medium">
    {children}
  </label>
);
const More = ({ id, hint, fault }: { id: string; hint?: ReactNode; fault?: string | null | undefined }) =>
  hint || fault ? (
    <p id={`${id}-more`} className={`text-sm ${fault ? 'text-bad' : 'text-soft'}`}>
      {fault ?? hint}
    </p>
  ) : null;

export function Choice({
  label,
  hint,
  options,
  ...rest
}: SelectHTMLAttributes<HTMLSelectElement> & { label: string; hint?: ReactNode; options: readonly { value: string; label: string }[] }) {
  const id = useId();
  return (
    <div className="grid content-start gap-1.5">
      <Label id={id}>{label}</Label>
      <select {...rest} id={id} className={BOX} aria-describedby={hint ? `${id}-more` : undefined}>
        {options.map((option) => (
          <option key={option.value} value={option.value}>
            {option.label}
          </option>
        ))}
      </select>
      <More id={id} hint={hint} />
    </div>
  );
}

export function Area({
  label,
  hint,
  fault,
  ...rest
}: TextareaHTMLAttributes<HTMLTextAreaElement> & { label: string; hint?: ReactNode; fault?: string | null | undefined }) {
  const id = useId();
  return (
    <div className="grid content-start gap-1.5">
      <Label id={id}>{label}</Label>
      <textarea
        {...rest}
        id={id}
        className={`${BOX} ${fault ? 'border-bad' : ''}`}
        aria-invalid={Boolean(fault)}
        aria-describedby={hint || fault ? `${id}-more` : undefined}
      />
      <More id={id} hint={hint} fault={fault && withLabel(fault, label)} />
    </div>
  );
}

export function Tick({ label, hint, ...rest }: InputHTMLAttributes<HTMLInputElement> & { label: string; hint?: ReactNode }) {
  const id = useId();
  return (
    <div className="flex items-start gap-3">
      <input
        type="checkbox"
        {...rest}
        id={id}
        className="mt-1 size-4 shrink-0 accent-accent"
        aria-describedby={hint ? `${id}-more` : undefined}
      />
      <div className="grid gap-0.5">
        <Label id={id}>{label}</Label>
        <More id={id} hint={hint} />
      </div>
    </div>
  );
}

const TONES = {
  warn: 'bg-warn-wash text-warn',
  info: 'bg-info-wash text-info',
  bad: 'bg-bad-wash text-bad',
  good: 'bg-good-wash text-good',
} as const;
/** An important message, with what to do about it. */
export const Note = ({ tone, icon = 'alert', children }: { tone: keyof typeof TONES; icon?: IconName; children: ReactNode }) => (
  <div className={`words flex items-start gap-2.5 rounded-lg px-3 py-2.5 text-sm ${TONES[tone]}`}>
    <Icon name={icon} className="mt-0.5 size-4" />
    <div className="min-w-0">{children}</div>
  </div>
);

/** Why an action failed, announced by screen readers. Nothing while it has not failed. */
export const ErrorNote = ({ error }: { error: Error | null }) =>
  error && (
    <div role="alert">
      <Note tone="bad">{error.message}</Note>
    </div>
  );

/** Segmented buttons: exactly one is pressed. */
export const Segments = <V extends string>({
  label,
  value,
  options,
  onChange,
}: {
  label: string;
  value: V;
  /** `count`: how many things the option shows. */
  options: readonly { value: V; label: string; count?: string | undefined }[];
  onChange: (value: V) => void;
}) => (
  // biome-ignore lint/a11y/useSemanticElements: a fieldset cannot be laid out in a row everywhere
  <div
    role="group"
    aria-label={label}
    className="inline-flex w-fit max-w-full flex-wrap rounded-lg border border-line bg-card p-0.5 text-sm"
  >
    {options.map((option) => (
      <button
        key={option.value}
        type="button"
        aria-pressed={option.value === value}
        onClick={() => onChange(option.value)}
        className={`rounded-md px-3 py-1 ${option.value === value ? 'bg-raised font-medium text-ink' : 'text-soft hover:text-ink'}`}
      >
        {option.label}
        {option.count !== undefined && <span className="text-xs font-normal tabular-nums text-soft"> {option.count}</span>}
      </button>
    ))}
  </div>
);
