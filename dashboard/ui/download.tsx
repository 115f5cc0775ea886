/** A download link. The server may ask the user to confirm their identity first, which a plain link cannot do. */
import type { ReactNode } from 'react';
import { useAct } from '../lib/hooks.ts';
import { buttonClass } from './button.tsx';

export function Download({
  href,
  look = 'plain',
  onStarted,
  children,
}: {
  href: string;
  look?: Parameters<typeof buttonClass>[0];
  onStarted?: () => void;
  children: ReactNode;
}) {
  const confirm = useAct('POST /:mode/exports/confirm');
  return (
    <a
      href={href}
      download
      className={buttonClass(look)}
      onClick={async (event) => {
        event.preventDefault();
        if (!(await confirm.mutateAsync({ body: {} }).catch(() => null))) return;
        const link = document.createElement('a');
        link.href = href;
        link.download = '';
        link.click();
        onStarted?.();
      }}
    >
      {children}
    </a>
  );
}
