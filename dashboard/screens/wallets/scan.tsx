/** Reading an account key with the camera. */
import { readCode } from '../../lib/account-key.ts';
import { type Look, Scanner } from '../../ui/scanner.tsx';

export function Scan({ onKey, onPrivate, onClose }: { onKey: (text: string) => void; onPrivate: () => void; onClose: () => void }) {
  const take = async (code: string): Promise<Look> => {
    const given = await readCode(code);
    if (given.kind === 'other') return { why: given.why };
    if (given.kind === 'key') onKey(given.text);
    else onPrivate();
    return { done: true };
  };
  return (
    <Scanner
      title="Scan the account key"
      lead={
        <>
          Hold the QR code of the account’s <b className="text-ink">extended public key</b> (xpub) in front of the camera. The picture never
          leaves this browser.
        </>
      }
      instead="paste the account key"
      back="Paste instead"
      onCode={take}
      onClose={onClose}
    />
  );
}
