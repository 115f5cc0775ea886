/** A link as a QR code and as a text to copy, with what else can be done with it. */
import type { ReactNode } from 'react';
import { buttonClass } from './button.tsx';
import { CopyButton } from './values.tsx';

type LinkCode = { url: string; qr: string; copy: string; open: string; children: ReactNode };
/** `qr`: the address of the image. `copy` and `open`: the names of these two buttons. `children`: the buttons after them. */
export const LinkCode = ({ url, qr, copy, open, children }: LinkCode) => (
  <>
    <img src={qr} alt="QR code of the payment link" className="size-52 rounded-lg border border-line" />
    <p className="flex max-w-full items-center gap-1 text-sm">
      <span className="min-w-0 break-all">{url}</span>
      <CopyButton value={url} label={copy} />
    </p>
    <div className="flex flex-wrap justify-center gap-2">
      <a href={url} target="_blank" rel="noreferrer" className={buttonClass('main')}>
        {open}
      </a>
      {children}
    </div>
  </>
);
