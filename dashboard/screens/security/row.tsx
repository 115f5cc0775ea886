/** A row in a list of the account: a passkey, a session, a trusted device. */
import type { ReactNode } from 'react';
import { Badge } from '../../ui/values.tsx';

export const Row = ({
  title,
  current = false,
  acts,
  children,
}: {
  title: string;
  /** Whether it is the browser that shows this page. */
  current?: boolean;
  acts: ReactNode;
  children: ReactNode;
}) => (
  <li className="flex flex-wrap items-center justify-between gap-3 border-b border-line px-4 py-3 last:border-b-0">
    <div className="min-w-0">
      <p className="flex flex-wrap items-center gap-2 font-medium">
        <span className="min-w-0 break-words">{title}</span>
        {current && <Badge tone="good">This browser</Badge>}
      </p>
      <div className="text-sm break-words text-soft">{children}</div>
    </div>
    <div className="flex gap-2">{acts}</div>
  </li>
);
