/** Signing by camera: a signing file or its PSBT as animated QR codes (BBQr or UR), and the signed transaction read back. */
import { useEffect, useRef, useState } from 'react';
import { splitUr } from '../../lib/animated-ur.ts';
import { ask, READ_LIMITS_MS } from '../../lib/ask.ts';
import { base64Of } from '../../lib/base64.ts';
import { splitBbqr } from '../../lib/bbqr.ts';
import { type CodeSeries, createSeriesReader } from '../../lib/code-series.ts';
import { useAct, useMode } from '../../lib/hooks.ts';
import { readCbor } from '../../lib/uniform-resource.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Choice, Note } from '../../ui/form.tsx';
import { CodesRead, type Look, Scanner } from '../../ui/scanner.tsx';

/** The pace that hardware wallets are made for. */
const FRAME_MS = 250;
const QUIET = 4;

const bytesOf = (base64: string) => Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));

/** The forms of animated codes: two that hardware wallets read, and the whole file for the signer. */
const FORMS = {
  bbqr: 'BBQr (Coldcard Q)',
  ur: 'UR (Keystone, Passport, Jade, SeedSigner)',
  file: 'Signing file (offline signer)',
} as const;
type Form = keyof typeof FORMS;

/** The transaction that wallets read. Null when the file has several, or is of accounts. */
function psbtOf(file: string): Uint8Array<ArrayBuffer> | null {
  const { requests } = JSON.parse(file) as { requests: { psbt?: string }[] };
  const [request] = requests;
  return requests.length === 1 && request?.psbt !== undefined ? bytesOf(request.psbt) : null;
}

/** The texts of the codes for a signing file, or why there are none. */
function codesOf(file: string, form: Form): string[] | string {
  const psbt = form === 'file' ? null : psbtOf(file);
  if (form !== 'file' && psbt === null)
    return 'Wallets read one Bitcoin transaction (PSBT), and this file is of another kind or has several. Choose “Signing file” and sign it with the offline signer.';
  const codes =
    psbt === null
      ? splitBbqr({ type: 'J', bytes: new TextEncoder().encode(file) })
      : form === 'ur'
        ? splitUr(psbt)
        : splitBbqr({ type: 'P', bytes: psbt });
  return codes ?? 'This file is too large for QR codes. Download it instead.';
}

type Picture = { side: number; path: string };
async function draw(codes: readonly string[]): Promise<Picture[]> {
  const { default: encode } = await import('qr');
  return codes.map((code) => {
    const rows = encode(code, 'raw', { ecc: 'low', encoding: 'alphanumeric', border: QUIET });
    const path = rows.map((row, y) => row.map((isDark, x) => (isDark ? `M${x} ${y}h1v1h-1z` : '')).join('')).join('');
    return { side: rows.length, path };
  });
}

const UNREAD = 'The signing file could not be read. Close this window and try again.';
/** The signing file, read from the server when the dialog opens. */
function useFile(id: string): { file: string | null; fault: string | null } {
  const mode = useMode();
  const [file, setFile] = useState<string | null>(null);
  const [fault, setFault] = useState<string | null>(null);
  const { mutateAsync: confirm } = useAct('POST /:mode/exports/confirm', { quiet: true });
  // biome-ignore lint/correctness/useExhaustiveDependencies: read once for each sweep
  useEffect(() => {
    let gone = false;
    const load = async () => {
      await confirm({ body: {} });
      const { reply, text } = await ask(`/dashboard/api/${mode}/sweeps/${id}/file`, { credentials: 'same-origin' }, READ_LIMITS_MS);
      if (!reply.ok) throw new Error(`the server answered ${reply.status}`);
      if (!gone) setFile(text);
    };
    load().catch(() => !gone && setFault(UNREAD));
    return () => {
      gone = true;
    };
  }, [id, mode]);
  return { file, fault };
}

/** The pictures of the codes in a form. */
function usePictures(id: string, form: Form): { pictures: Picture[] | null; fault: string | null } {
  const { file, fault: unread } = useFile(id);
  const [drawn, setDrawn] = useState<{ form: Form; pictures: Picture[] | null; fault: string | null } | null>(null);
  useEffect(() => {
    if (file === null) return;
    let gone = false;
    const show = async () => {
      const codes = codesOf(file, form);
      const pictures = typeof codes === 'string' ? null : await draw(codes);
      if (!gone) setDrawn({ form, pictures, fault: typeof codes === 'string' ? codes : null });
    };
    show().catch(() => !gone && setDrawn({ form, pictures: null, fault: UNREAD }));
    return () => {
      gone = true;
    };
  }, [file, form]);
  const current = drawn?.form === form ? drawn : null;
  return { pictures: current?.pictures ?? null, fault: unread ?? current?.fault ?? null };
}

/** `isPsbt`: whether hardware wallets can sign files of this coin. */
export function ShowCodes({ id, isPsbt, onClose }: { id: string; isPsbt: boolean; onClose: () => void }) {
  const [form, setForm] = useState<Form>(isPsbt ? 'bbqr' : 'file');
  const what = form === 'file' ? 'the signing file' : 'the transaction';
  const { pictures, fault } = usePictures(id, form);
  const [at, setAt] = useState(0);
  const [isPaused, setPaused] = useState(false);
  const count = pictures?.length ?? 0;
  useEffect(() => {
    if (count < 2 || isPaused) return;
    const timer = setInterval(() => setAt((shown) => (shown + 1) % count), FRAME_MS);
    return () => clearInterval(timer);
  }, [count, isPaused]);
  const picture = pictures?.[at % Math.max(1, count)];
  return (
    <Dialog open onClose={onClose} title="Sign by camera">
      {isPsbt && (
        <Choice
          label="Kind of codes"
          value={form}
          options={Object.entries(FORMS).map(([value, label]) => ({ value, label }))}
          onChange={(event) => setForm(event.target.value as Form)}
        />
      )}
      <p className="text-sm text-soft">
        {form === 'file' ? (
          <>
            In the offline signer, choose <b className="text-ink">Scan with the camera</b>. Sign the file there and show it as QR codes.
          </>
        ) : (
          'Scan the codes with your hardware wallet. Check the amount and the address on its screen, and sign.'
        )}{' '}
        Then choose <b className="text-ink">Scan signed transaction</b> here.
      </p>
      {fault !== null ? (
        <div role="alert">
          <Note tone="warn">{fault}</Note>
        </div>
      ) : picture ? (
        <svg
          role="img"
          aria-label={count === 1 ? `QR code of ${what}` : `QR code ${(at % count) + 1} of ${count} of ${what}`}
          viewBox={`0 0 ${picture.side} ${picture.side}`}
          shapeRendering="crispEdges"
          className="w-full rounded-lg"
        >
          <rect width={picture.side} height={picture.side} fill="#fff" />
          <path d={picture.path} fill="#000" />
        </svg>
      ) : (
        <p className="late text-sm text-soft">Preparing the codes</p>
      )}
      <div className="flex flex-wrap items-center justify-end gap-2">
        {count > 1 && (
          <>
            <span aria-hidden="true" className="mr-auto text-sm text-soft tabular-nums">
              {(at % count) + 1} of {count}
            </span>
            <Button onClick={() => setPaused(!isPaused)}>{isPaused ? 'Play' : 'Pause'}</Button>
          </>
        )}
        <Button onClick={onClose}>Close</Button>
      </div>
    </Dialog>
  );
}

/** BCR-2020-006 renamed the type; wallets send both. */
const isPsbt = ({ type }: CodeSeries): boolean => type === 'crypto-psbt' || type === 'psbt';
/** What the server reads: a PSBT in base64, a transaction in hex, or the file of the offline signer. */
function contentOf({ form, type }: CodeSeries, bytes: Uint8Array<ArrayBuffer>): string {
  if (form === 'ur') {
    const psbt = readCbor(bytes);
    if (!(psbt instanceof Uint8Array)) throw new Error('The codes contain damaged data. Show them again in your wallet.');
    return base64Of(psbt);
  }
  if (type === 'P') return base64Of(bytes);
  if (type === 'T') return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  return new TextDecoder().decode(bytes);
}
/** Small transactions come as one plain code. */
const isPlain = (code: string): boolean => /^(?:[0-9a-f]{2}){60,}$/i.test(code) || /^cHNidP[A-Za-z0-9+/]+=*$/.test(code);

export function ScanSigned({ onContent, onClose }: { onContent: (content: string) => void; onClose: () => void }) {
  const [progress, setProgress] = useState<{ have: number; total: number } | null>(null);
  const [reader] = useState(() => createSeriesReader());
  const isDone = useRef(false);
  const take = async (code: string): Promise<Look> => {
    if (isDone.current) return { done: true };
    const finish = (content: string): Look => {
      isDone.current = true;
      onContent(content);
      return { done: true };
    };
    if (isPlain(code)) return finish(code);
    try {
      const read = await reader.add(code);
      if (read === null || (read.form === 'ur' && !isPsbt(read))) return { why: 'This code is not a signed transaction.' };
      setProgress(read);
      return read.bytes === null ? {} : finish(contentOf(read, read.bytes));
    } catch (error) {
      return { why: error instanceof Error ? error.message : 'The codes could not be read.' };
    }
  };
  return (
    <Scanner
      title="Scan signed transaction"
      lead="Hold the QR codes that your wallet shows after signing in front of the camera until all of them were read."
      instead="upload the signed file"
      back="Cancel"
      status={progress && <CodesRead {...progress} />}
      onCode={take}
      onClose={onClose}
    />
  );
}
