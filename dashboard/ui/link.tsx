/** A link inside the mode one is in: `<ModeLink to="payments/pay_…">`. */
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { useMode } from '../lib/hooks.ts';

export const ModeLink = ({
  to,
  className = 'font-medium hover:underline',
  onFollow,
  children,
}: {
  to: string;
  className?: string;
  onFollow?: () => void;
  children: ReactNode;
}) => {
  const mode = useMode();
  return (
    <Link to={`/${mode}/${to}`} className={className} {...(onFollow && { onClick: onFollow })}>
      {children}
    </Link>
  );
};
