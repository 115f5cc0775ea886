/** Who has to sign for a wallet of several keys. */

/** `has_signed` only where something waits for signatures. */
type Signer = { fingerprint: string | null; path: string; has_signed?: boolean };

export function Signers({ required, signers }: { required: number; signers: readonly Signer[] }) {
  return (
    <div className="grid gap-1">
      <span>
        {required} of {signers.length} keys must sign
      </span>
      <ul className="grid gap-1 text-sm text-soft">
        {signers.map(({ fingerprint, path, has_signed: hasSigned }, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: signers keep their order
          <li key={i}>
            <code>{fingerprint ?? `Key ${i + 1}`}</code> at <code>{path}</code>
            {hasSigned !== undefined && (hasSigned ? ' has signed' : ' has not signed')}
          </li>
        ))}
      </ul>
    </div>
  );
}
