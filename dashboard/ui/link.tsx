/** A link within the current mode, or within a given one: `<ModeLink to="payments/pay_…">`. */
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Mode } from '../generated/api.ts';
import { useMode } from '../lib/hooks.ts';

export const ModeLink = ({
  to,
  mode,
  className = 'font-medium hover:underline',
  onFollow,
  children,
}: {
  to: string;
  mode?: Mode | null;
  className?: string;
  onFollow?: () => void;
  children: ReactNode;
}) => {
  const here = useMode();
  return (
    <Link to={`/${mode ?? here}/${to}`} className={className} {...(onFollow && { onClick: onFollow })}>
      {children}
    </Link>
  );
};
