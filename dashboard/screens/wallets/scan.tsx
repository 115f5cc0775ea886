/** Reading an account key with the camera, which is on only while this dialog is open. */
import { useEffect, useRef, useState } from 'react';
import { readCode } from '../../lib/account-key.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Note } from '../../ui/form.tsx';
import { createReader } from './read-code.ts';

const BETWEEN_LOOKS_MS = 120;

/** Why there is no picture, by the name of what was thrown (W3C Media Capture), and what to do. */
function faultOf(error: unknown): string {
  switch (error instanceof Error ? error.name : '') {
    case 'NotAllowedError':
    case 'SecurityError':
      return 'The browser blocked the camera. Allow it in the address bar and try again, or paste the account key.';
    case 'NotFoundError':
    case 'OverconstrainedError':
      return 'No camera was found. Connect one and try again, or paste the account key.';
    case 'NotReadableError':
    case 'AbortError':
      return 'The camera could not start; another app may be using it. Close that app and try again, or paste the account key.';
    default:
      return 'The camera is not available here. Paste the account key instead.';
  }
}
const INSECURE = 'Browsers allow the camera on HTTPS pages only, and this page was opened over HTTP. Paste the account key instead.';

/** Opens the camera for as long as it is shown; null until there is a picture. */
function useCamera(again: number, onFault: (fault: string) => void): MediaStream | null {
  const [stream, setStream] = useState<MediaStream | null>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: only another try opens it again
  useEffect(() => {
    let gone = false;
    let opened: MediaStream | null = null;
    const stop = () => {
      for (const track of opened?.getTracks() ?? []) track.stop();
    };
    const open = async () => {
      // Absent on pages that are not secure.
      const devices = navigator.mediaDevices as MediaDevices | undefined;
      if (devices === undefined) return onFault(isSecureContext ? faultOf(null) : INSECURE);
      try {
        opened = await devices.getUserMedia({ video: { facingMode: { ideal: 'environment' }, width: { ideal: 1280 } } });
      } catch (error) {
        if (!gone) onFault(faultOf(error));
        return;
      }
      // Left while the browser was asking.
      if (gone) return stop();
      opened.getVideoTracks()[0]!.onended = () => onFault('The camera was turned off. Try again, or paste the account key.');
      setStream(opened);
    };
    void open();
    return () => {
      gone = true;
      stop();
      setStream(null);
    };
  }, [again]);
  return stream;
}

export function Scan({ onKey, onPrivate, onClose }: { onKey: (text: string) => void; onPrivate: () => void; onClose: () => void }) {
  const [again, setAgain] = useState(0);
  const [fault, setFault] = useState<string | null>(null);
  const [why, setWhy] = useState<string | null>(null);
  const stream = useCamera(again, setFault);
  const video = useRef<HTMLVideoElement>(null);
  const found = useRef({ onKey, onPrivate });
  found.current = { onKey, onPrivate };
  useEffect(() => {
    const picture = video.current;
    if (!stream || !picture) return;
    picture.srcObject = stream;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let gone = false;
    const look = async (read: Awaited<ReturnType<typeof createReader>>): Promise<void> => {
      const code = await read(picture);
      const given = code === null ? null : await readCode(code);
      if (gone) return;
      if (given?.kind === 'key') return found.current.onKey(given.text);
      if (given?.kind === 'private') return found.current.onPrivate();
      if (given?.kind === 'other') setWhy(given.why);
      timer = setTimeout(() => void look(read), BETWEEN_LOOKS_MS);
    };
    createReader().then(look, () => setFault('The code reader could not be loaded. Try again, or paste the account key.'));
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [stream]);
  return (
    <Dialog open onClose={onClose} title="Scan the account key">
      {fault === null ? (
        <>
          <p className="text-sm text-soft">
            Hold the QR code of the account’s <b className="text-ink">extended public key</b> (xpub) in front of the camera. The picture
            never leaves this browser.
          </p>
          <div className="grid aspect-square place-items-center overflow-hidden rounded-lg bg-raised">
            {stream ? (
              <video ref={video} autoPlay muted playsInline aria-label="Camera preview" className="size-full object-cover" />
            ) : (
              <p className="late px-6 text-center text-sm text-soft">Waiting for the camera. Your browser may ask for permission.</p>
            )}
          </div>
          <div aria-live="polite">{why !== null && <Note tone="warn">{why}</Note>}</div>
        </>
      ) : (
        <div role="alert">
          <Note tone="warn">{fault}</Note>
        </div>
      )}
      <div className="flex flex-wrap justify-end gap-2">
        <Button onClick={onClose}>Paste instead</Button>
        {fault !== null && fault !== INSECURE && (
          <Button
            look="main"
            onClick={() => {
              setFault(null);
              setAgain(again + 1);
            }}
          >
            Try again
          </Button>
        )}
      </div>
    </Dialog>
  );
}
