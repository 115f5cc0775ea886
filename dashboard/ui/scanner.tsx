/** Reading QR codes with the camera, which is on only while this dialog is open. */
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { BETWEEN_LOOKS_MS, cameraFault, createReader, openCamera, type PictureReader } from '../lib/camera.ts';
import { Button } from './button.tsx';
import { Dialog } from './dialog.tsx';
import { Note } from './form.tsx';

/** The decoder is loaded only when a camera is there. */
const loadReader = async (): Promise<PictureReader> => createReader((await import('qr/decode.js')).default);

const INSECURE = 'Browsers allow the camera on HTTPS pages only, and this page was opened over HTTP.';

/** Opens the camera for as long as it is shown; null until there is a picture. */
function useCamera(again: number, instead: string, onFault: (fault: string) => void): MediaStream | null {
  const [stream, setStream] = useState<MediaStream | null>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: only another try opens it again
  useEffect(() => {
    let gone = false;
    let opened: MediaStream | null = null;
    const stop = () => {
      for (const track of opened?.getTracks() ?? []) track.stop();
    };
    const open = async () => {
      if (!isSecureContext) return onFault(`${INSECURE} To continue, ${instead}.`);
      try {
        opened = await openCamera();
      } catch (error) {
        if (!gone) onFault(cameraFault(error, instead));
        return;
      }
      // Left while the browser was asking.
      if (gone) return stop();
      opened.getVideoTracks()[0]!.onended = () => onFault(`The camera was turned off. Try again, or ${instead}.`);
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

/** What a code gave: `done` closes the camera's work, `why` is shown, and without either the camera looks for the next code. */
export type Look = { done?: boolean; why?: string };

/** How much of a series of codes was read. */
export const CodesRead = ({ have, total }: { have: number; total: number }) => (
  <p className="text-sm tabular-nums">
    {have} of {total} codes read
  </p>
);

/**
 * `instead`: what to do without a camera, as the end of a sentence. `status`: what was read so far. `onCode` runs for one code at a time.
 */
export function Scanner({
  title,
  lead,
  instead,
  back,
  status = null,
  onCode,
  onClose,
}: {
  title: string;
  lead: ReactNode;
  instead: string;
  back: string;
  status?: ReactNode;
  onCode: (code: string) => Promise<Look>;
  onClose: () => void;
}) {
  const [again, setAgain] = useState(0);
  const [fault, setFault] = useState<string | null>(null);
  const [why, setWhy] = useState<string | null>(null);
  const stream = useCamera(again, instead, setFault);
  const video = useRef<HTMLVideoElement>(null);
  const found = useRef(onCode);
  found.current = onCode;
  useEffect(() => {
    const picture = video.current;
    if (!stream || !picture) return;
    picture.srcObject = stream;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let gone = false;
    const look = async (read: PictureReader): Promise<void> => {
      const code = await read(picture);
      if (gone) return;
      if (code !== null) {
        const given = await found.current(code);
        if (gone || given.done) return;
        setWhy(given.why ?? null);
      }
      timer = setTimeout(() => void look(read), BETWEEN_LOOKS_MS);
    };
    loadReader().then(look, () => setFault(`The code reader could not be loaded. Try again, or ${instead}.`));
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [stream, instead]);
  return (
    <Dialog open onClose={onClose} title={title}>
      {fault === null ? (
        <>
          <p className="text-sm text-soft">{lead}</p>
          <div className="grid aspect-square place-items-center overflow-hidden rounded-lg bg-raised">
            {stream ? (
              <video ref={video} autoPlay muted playsInline aria-label="Camera preview" className="size-full object-cover" />
            ) : (
              <p className="late px-6 text-center text-sm text-soft">Waiting for the camera. Your browser may ask for permission.</p>
            )}
          </div>
          <div aria-live="polite" className="grid gap-2">
            {status}
            {why !== null && <Note tone="warn">{why}</Note>}
          </div>
        </>
      ) : (
        <div role="alert">
          <Note tone="warn">{fault}</Note>
        </div>
      )}
      <div className="flex flex-wrap justify-end gap-2">
        <Button onClick={onClose}>{back}</Button>
        {fault !== null && !fault.startsWith(INSECURE) && (
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
