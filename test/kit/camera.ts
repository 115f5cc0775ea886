/**
 * A camera for Chromium that sees a QR code: an uncompressed film (YUV4MPEG2) that the browser plays from the start each time it is
 * opened.
 */
import { renameSync, writeFileSync } from 'node:fs';
import { encode } from 'uqr';

const [WIDTH, HEIGHT, LARGEST_MODULE] = [640, 480, 6];
const [DARK, BRIGHT, GREY] = [16, 235, 128];

/** The arguments for starting the browser. The test grants or denies the permission. */
export const cameraFlags = (film: string): string[] => ['--use-fake-device-for-media-stream', `--use-file-for-fake-video-capture=${film}`];

/** The brightness of every point of a picture with this code. */
function pictureOf(text: string | null, dark: boolean): Buffer {
  const picture = Buffer.alloc(WIDTH * HEIGHT, dark ? DARK : BRIGHT);
  if (text === null) return picture;
  const { data, size } = encode(text, { border: 0, ecc: 'L' });
  // A quiet zone of four modules is left on each side.
  const module = Math.min(LARGEST_MODULE, Math.floor(HEIGHT / (size + 8)));
  if (module < 4) throw new Error('the code is larger than the picture');
  const [left, top] = [(WIDTH - size * module) >> 1, (HEIGHT - size * module) >> 1];
  for (let y = 0; y < size * module; y++)
    for (let x = 0; x < size * module; x++)
      picture[(top + y) * WIDTH + left + x] = data[Math.floor(y / module)]![Math.floor(x / module)] !== dark ? DARK : BRIGHT;
  return picture;
}

/**
 * From now on the camera sees this text as a code, several texts as codes one after another, or with null a wall. `dark`: light modules on
 * dark, as some wallets show at night.
 */
export function showToCamera(film: string, shown: string | null | readonly string[], { dark = false }: { dark?: boolean } = {}): void {
  const frames = (typeof shown === 'string' || shown === null ? [shown] : shown).flatMap((text) => {
    const frame = Buffer.concat([Buffer.from('FRAME\n'), pictureOf(text, dark), Buffer.alloc((WIDTH * HEIGHT) / 2, GREY)]);
    return Array.from({ length: 5 }, () => frame);
  });
  const head = Buffer.from(`YUV4MPEG2 W${WIDTH} H${HEIGHT} F10:1 Ip A1:1 C420\n`);
  // Atomically, so that nobody plays half a film.
  writeFileSync(`${film}.new`, Buffer.concat([head, ...frames]));
  renameSync(`${film}.new`, film);
}
