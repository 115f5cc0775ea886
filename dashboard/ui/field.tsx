/** A labeled input with its hint and its fault; a labeled select. */
import { type FormEvent, type InputHTMLAttributes, type ReactNode, type SelectHTMLAttributes, useId } from 'react';
import { withLabel } from '../lib/field-fault.ts';
import { typedAmount } from '../lib/language.ts';

const BOX = 'w-full min-h-10 rounded-lg border border-line bg-card px-3 py-2 text-ink placeholder:text-soft';

/** A message about a parameter, such as `rate_lock_minutes is invalid: ...`, under the label that people see. */
export const faultFor = (label: string, message: string): string =>
  message.replace(/^[a-z][\w.[\]]*(?= (is|must|takes|does)\b)/, () => label);

/** Puts a point in place of a comma before the decimals, where the language has one, as the service expects it. */
function asTyped({ currentTarget: input }: FormEvent<HTMLInputElement>): void {
  const text = typedAmount(input.value);
  if (text !== input.value) input.value = text;
}

export function Field({
  label,
  hint,
  fault,
  ...rest
}: InputHTMLAttributes<HTMLInputElement> & { label: string; hint?: ReactNode; fault?: string | null | undefined }) {
  const id = useId();
  return (
    <div className="grid content-start gap-1.5">
      <label htmlFor={id} className="text-sm font-medium">
        {label}
      </label>
      <input
        {...rest}
        {...(rest.inputMode === 'decimal' && { onInput: asTyped })}
        id={id}
        className={`${BOX} ${fault ? 'border-bad' : ''}`}
        aria-invalid={Boolean(fault)}
        aria-describedby={hint || fault ? `${id}-more` : undefined}
      />
      {(hint || fault) && (
        <p id={`${id}-more`} className={`text-sm ${fault ? 'text-bad' : 'text-soft'}`}>
          {fault ? withLabel(fault, label) : hint}
        </p>
      )}
    </div>
  );
}

export function Select({
  label,
  options,
  ...rest
}: SelectHTMLAttributes<HTMLSelectElement> & { label: string; options: readonly { value: string; label: string }[] }) {
  return (
    <select
      {...rest}
      aria-label={label}
      className="min-h-9 max-w-full rounded-lg border border-line bg-card px-2.5 py-1.5 text-sm text-ink"
    >
      {options.map((option) => (
        <option key={option.value} value={option.value}>
          {option.label}
        </option>
      ))}
    </select>
  );
}
