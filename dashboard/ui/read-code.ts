/** Reads QR codes from the picture of a camera. The decoder is loaded only now. */

type Read = (video: HTMLVideoElement) => Promise<string | null>;

/** A code of a descriptor is read well at this size, and in a few dozen milliseconds on a telephone. */
const LONGEST_SIDE = 900;

export async function createReader(): Promise<Read> {
  const { default: decode } = await import('qr/decode.js');
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
