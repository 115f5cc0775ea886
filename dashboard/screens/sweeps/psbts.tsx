/** Signing with another wallet: the PSBTs of a signing file, and what the wallet needs to find its keys. */
import { useApi, useMode } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Download } from '../../ui/download.tsx';
import { Note } from '../../ui/form.tsx';
import { Pending } from '../../ui/states.tsx';

/** How many unused addresses most wallets look ahead. */
const USUAL_GAP = 20;

export function Psbts({ id, onClose }: { id: string; onClose: () => void }) {
  const mode = useMode();
  const query = useApi('GET /:mode/sweeps/:id/psbts', ['sweeps', id, 'psbts'], { params: { id } });
  const { data } = query;
  return (
    <Dialog open onClose={onClose} title="Sign with another wallet">
      {!data ? (
        <Pending of={query} />
      ) : (
        <>
          <p className="text-sm text-soft">
            Hardware and desktop wallets sign PSBTs.{' '}
            {data.count === 1
              ? 'Download it, sign it there, and upload the signed PSBT.'
              : `This file has ${data.count} transactions. Download and sign each of them, then choose all signed PSBTs in one upload.`}
          </p>
          {!data.has_origin && (
            <Note tone="warn">
              The account key was imported without its origin, so hardware wallets may not find their keys in these PSBTs. Cancel this file,
              import the key under Wallets as a descriptor with its origin, such as [d34db33f/84'/0'/0']xpub..., and make the file again.
            </Note>
          )}
          {data.highest_index !== null && data.highest_index >= USUAL_GAP && (
            <Note tone="warn">
              This file spends from addresses up to index {data.highest_index}. Set the gap limit in your wallet to{' '}
              {Math.ceil((data.highest_index + 1) / 50) * 50} and rescan before you sign. Otherwise it shows some inputs as not yours, or
              does not sign them.
            </Note>
          )}
          <div className="flex flex-wrap gap-2">
            {Array.from({ length: data.count }, (_, i) => i + 1).map((number) => (
              <Download key={number} href={`/dashboard/api/${mode}/sweeps/${id}/psbts/${number}`}>
                {data.count === 1 ? 'Download PSBT' : `Download PSBT ${number} of ${data.count}`}
              </Download>
            ))}
          </div>
        </>
      )}
      <div className="flex justify-end">
        <Button onClick={onClose}>Close</Button>
      </div>
    </Dialog>
  );
}
