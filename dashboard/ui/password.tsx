/** A password field, for the current password or for choosing a new one. */
import { Field } from './field.tsx';

export const PasswordField = ({
  label = 'Password',
  chosen = false,
  value,
  onChange,
  fault,
}: {
  label?: string;
  /** A new password, for the browser to suggest and save. */
  chosen?: boolean;
  value: string;
  onChange: (value: string) => void;
  fault?: string | null | undefined;
}) => (
  <Field
    label={label}
    type="password"
    autoComplete={chosen ? 'new-password' : 'current-password'}
    required
    {...(chosen && { minLength: 12, maxLength: 128, hint: 'At least 12 characters.' })}
    value={value}
    onChange={(event) => onChange(event.target.value)}
    fault={fault}
  />
);
