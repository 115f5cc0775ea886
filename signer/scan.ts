/** Reads a signing file from animated QR codes (BBQr) with the camera, which is on only until the file is read. */
import decode from 'qr/decode.js';
import { BbqrError, createBbqrReader } from '../dashboard/lib/bbqr.ts';
import { BETWEEN_LOOKS_MS, cameraFault, createReader, openCamera } from '../dashboard/lib/camera.ts';

const INSTEAD = 'choose the file or paste its text';

/** Returns what turns the camera off. `tell`: how far it is. `done`: the text of the file. `fail`: why there is no picture. */
export function startScan(
  video: HTMLVideoElement,
  { tell, done, fail }: Record<'tell' | 'done' | 'fail', (text: string) => void>,
): () => void {
  const series = createBbqrReader();
  let stream: MediaStream | null = null;
  let isOver = false;
  const stop = () => {
    isOver = true;
    for (const track of stream?.getTracks() ?? []) track.stop();
    video.srcObject = null;
  };
  const end = (report: (text: string) => void, text: string) => {
    if (isOver) return;
    stop();
    report(text);
  };
  const take = async (code: string): Promise<string | null> => {
    try {
      return await read(code);
    } catch (error) {
      if (!(error instanceof BbqrError)) throw error;
      tell(error.message);
      return null;
    }
  };
  /** The file, once it is whole. */
  const read = async (code: string): Promise<string | null> => {
    const seen = series.add(code);
    if (seen === null) {
      tell('This code is not a part of a signing file. Choose “Signing file” beside the codes in the dashboard.');
      return null;
    }
    tell(`${seen.have} of ${seen.total} codes read`);
    if (seen.have < seen.total) return null;
    const { type, bytes } = await series.file();
    if (type === 'J' || type === 'U') return new TextDecoder().decode(bytes);
    tell('These codes are not a signing file. Choose “Signing file” beside the codes in the dashboard.');
    return null;
  };
  const run = async () => {
    stream = await openCamera();
    // Stopped while the browser was asking.
    if (isOver) return stop();
    stream.getVideoTracks()[0]!.onended = () => end(fail, `The camera was turned off. Try again, or ${INSTEAD}.`);
    video.srcObject = stream;
    const look = createReader(decode);
    while (!isOver) {
      const code = await look(video);
      const file = code === null ? null : await take(code);
      if (file !== null) return end(done, file);
      await new Promise((resolve) => setTimeout(resolve, BETWEEN_LOOKS_MS));
    }
  };
  run().catch((error: unknown) => end(fail, cameraFault(error, INSTEAD)));
  return stop;
}
