/** A file that a wallet shows as one QR code after another, whichever of the two standards it uses: BBqr or Uniform Resources. */
import { createUrReader } from './animated-ur.ts';
import { createBbqrReader } from './bbqr.ts';

/** `type`: as the standard names it, such as P or crypto-psbt. `bytes`: null until all parts were read; CBOR of a resource. */
export type CodeSeries = { form: 'bbqr' | 'ur'; type: string; have: number; total: number; bytes: Uint8Array<ArrayBuffer> | null };

/** Collects the parts of a series in any order, with repeats. Another series starts over. */
export function createSeriesReader() {
  const [bbqr, ur] = [createBbqrReader(), createUrReader()];
  return {
    /** What was read so far, or null when the code is not a part of a series. Errors: BbqrError, UrError. */
    async add(code: string): Promise<CodeSeries | null> {
      const resource = ur.add(code);
      if (resource !== null) return { form: 'ur', ...resource };
      const read = bbqr.add(code);
      if (read === null) return null;
      const file = read.have < read.total ? null : await bbqr.file();
      return { form: 'bbqr', type: code[3]!, ...read, bytes: file?.bytes ?? null };
    },
  };
}
