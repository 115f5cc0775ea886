/** The wallet policy of a multisig wallet (BIP-388), for those who sign with hardware wallets. */
import { useMay } from '../../lib/hooks.ts';
import { Download } from '../../ui/download.tsx';

export function Policy({ currency }: { currency: string }) {
  const may = useMay('sweeps.read');
  if (!may) return null;
  return (
    <div className="grid gap-2">
      <p className="text-sm text-soft">
        Before a hardware wallet signs for a multisig wallet, it needs the policy of that wallet (BIP-388). Register it once on each device,
        and compare the keys on its screen.
      </p>
      <div>
        <Download href={`/dashboard/api/live/wallets/${currency}/policy`}>Download wallet policy</Download>
      </div>
    </div>
  );
}
