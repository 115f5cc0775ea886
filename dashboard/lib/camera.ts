/** The camera of a page: opening it, why it did not open, and reading QR codes from its picture. */
import type decodeQr from 'qr/decode.js';

/** The pause between two looks at the picture. */
export const BETWEEN_LOOKS_MS = 120;

/** Opens the camera. Rejects when the person, the browser or the machine does not allow it. */
export async function openCamera(): Promise<MediaStream> {
  // Absent where the browser does not allow a camera at all.
  const devices = navigator.mediaDevices as MediaDevices | undefined;
  if (devices === undefined) throw new Error('This browser does not allow the camera on this page.');
  return devices.getUserMedia({ video: { facingMode: { ideal: 'environment' }, width: { ideal: 1280 } } });
}

/** Why there is no picture, by the name of what was thrown (W3C Media Capture), and what to do. `instead` ends a sentence. */
export function cameraFault(error: unknown, instead: string): string {
  switch (error instanceof Error ? error.name : '') {
    case 'NotAllowedError':
    case 'SecurityError':
      return `The browser blocked the camera. Allow it in the address bar and try again, or ${instead}.`;
    case 'NotFoundError':
    case 'OverconstrainedError':
      return `No camera was found. Connect one and try again, or ${instead}.`;
    case 'NotReadableError':
    case 'AbortError':
      return `The camera could not start; another app may be using it. Close that app and try again, or ${instead}.`;
    default:
      return `The camera is not available here. To continue, ${instead}.`;
  }
}

export type PictureReader = (video: HTMLVideoElement) => Promise<string | null>;

/** A code of a descriptor is read well at this size, and in a few dozen milliseconds on a telephone. */
const LONGEST_SIDE = 900;

/** Reads the code in the picture. The page brings the decoder, which is large. */
export function createReader(decode: typeof decodeQr): PictureReader {
  const canvas = document.createElement('canvas');
  const context = canvas.getContext('2d', { willReadFrequently: true })!;
  let isInverted = false;
  return async (video) => {
    if (video.readyState < video.HAVE_CURRENT_DATA || video.videoWidth === 0) return null;
    const scale = Math.min(1, LONGEST_SIDE / Math.max(video.videoWidth, video.videoHeight));
    canvas.width = Math.round(video.videoWidth * scale);
    canvas.height = Math.round(video.videoHeight * scale);
    context.drawImage(video, 0, 0, canvas.width, canvas.height);
    const picture = context.getImageData(0, 0, canvas.width, canvas.height);
    // Wallets in their dark theme show codes light on dark: every other look is for those, until one of them finds a code.
    if (isInverted) for (let at = 0; at < picture.data.length; at++) picture.data[at]! ^= 0xff;
    try {
      return decode(picture, { effort: 8, timeLimit: 150 });
    } catch {
      // There is no code, or only something that resembles one. The next picture may have one.
      isInverted = !isInverted;
      return null;
    }
  };
}
