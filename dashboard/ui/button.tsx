/** Buttons, and links that look like them. */
import type { ButtonHTMLAttributes, ReactNode } from 'react';

const LOOKS = {
  main: 'bg-accent text-accent-ink hover:brightness-110 border-transparent',
  plain: 'bg-card text-ink border-line hover:bg-raised',
  danger: 'bg-card text-bad border-line hover:bg-bad-wash',
  ghost: 'bg-transparent text-ink border-transparent hover:bg-raised',
} as const;
export type Look = keyof typeof LOOKS;
export const buttonClass = (look: Look = 'plain'): string =>
  `inline-flex min-h-9 items-center justify-center gap-2 rounded-lg border px-3.5 py-1.5 text-sm font-medium disabled:opacity-60 ${LOOKS[look]}`;

export const Button = ({
  look = 'plain',
  busy = false,
  className = '',
  children,
  ...rest
}: ButtonHTMLAttributes<HTMLButtonElement> & { look?: Look; busy?: boolean; children: ReactNode }) => (
  <button type="button" {...rest} disabled={busy || rest.disabled} aria-busy={busy} className={`${buttonClass(look)} ${className}`}>
    {children}
  </button>
);

/** The first cell of a row in a list: it opens what the row shows in a drawer. */
export const RowButton = ({ open, children }: { open: () => void; children: ReactNode }) => (
  <button type="button" className="text-left font-medium underline" onClick={open}>
    {children}
  </button>
);
