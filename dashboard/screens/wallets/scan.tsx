/** Reading an account key with the camera, in one code or in a series of codes. */
import { useState } from 'react';
import { readCode, readSeries } from '../../lib/account-code.ts';
import { createSeriesReader } from '../../lib/code-series.ts';
import { CodesRead, type Look, Scanner } from '../../ui/scanner.tsx';

export function Scan({ onKey, onPrivate, onClose }: { onKey: (text: string) => void; onPrivate: () => void; onClose: () => void }) {
  const [reader] = useState(() => createSeriesReader());
  const [progress, setProgress] = useState<{ have: number; total: number } | null>(null);
  const take = async (code: string): Promise<Look> => {
    try {
      const series = await reader.add(code);
      setProgress(series !== null && series.total > 1 ? series : null);
      const given = series === null ? readCode(code) : readSeries(series);
      if (given === null) return {};
      if (given.kind === 'other') return { why: given.why };
      if (given.kind === 'key') onKey(given.text);
      else onPrivate();
      return { done: true };
    } catch (error) {
      return { why: error instanceof Error ? error.message : 'The codes could not be read.' };
    }
  };
  return (
    <Scanner
      title="Scan the account key"
      lead={
        <>
          Hold the QR code of the account’s <b className="text-ink">extended public key</b> (xpub) or descriptor in front of the camera,
          also an animated one. The picture never leaves this browser.
        </>
      }
      instead="paste the account key"
      back="Paste instead"
      status={progress && <CodesRead {...progress} />}
      onCode={take}
      onClose={onClose}
    />
  );
}
