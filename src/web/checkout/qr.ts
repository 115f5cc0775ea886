/** QR codes as SVG, generated on the server: level M, four modules of quiet zone, black on white in every theme (ISO/IEC 18004). */
import { encode } from 'uqr';
import { escapeHtml, Html } from '../html.ts';

const QUIET = 4;

/** One path of all dark modules. */
export function drawQr(text: string, label: string): Html {
  const { data, size } = encode(text, { ecc: 'M', border: 0 });
  let path = '';
  data.forEach((row, y) => {
    for (let x = 0; x < size; x++) {
      if (!row[x]) continue;
      const start = x;
      while (x + 1 < size && row[x + 1]) x++;
      path += `M${start + QUIET} ${y + QUIET}h${x - start + 1}v1h-${x - start + 1}z`;
    }
  });
  const side = size + 2 * QUIET;
  return new Html(
    `<svg role="img" aria-label="${escapeHtml(label)}" viewBox="0 0 ${side} ${side}" shape-rendering="crispEdges"><rect width="${side}" height="${side}" fill="#fff"/><path d="${path}" fill="#000"/></svg>`,
  );
}

/** The QR code as an SVG file. */
export const svgOf = (text: string, label: string): string =>
  drawQr(text, label).text.replace('<svg ', '<svg xmlns="http://www.w3.org/2000/svg" ');
