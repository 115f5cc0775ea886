/** The signed file as animated QR codes (BBQr), for a computer without a network and without a drive. */
import encode from 'qr';
import { splitBbqr } from '../dashboard/lib/bbqr.ts';

const FRAME_MS = 250;
const SVG = 'http://www.w3.org/2000/svg';

/** Draws a code in `picture`. */
function draw(picture: SVGElement, code: string): void {
  const rows = encode(code, 'raw', { ecc: 'low', encoding: 'alphanumeric', border: 4 });
  const side = String(rows.length);
  picture.setAttribute('viewBox', `0 0 ${side} ${side}`);
  const path = rows.map((row, y) => row.map((isDark, x) => (isDark ? `M${x} ${y}h1v1h-1z` : '')).join('')).join('');
  picture.replaceChildren(make('rect', { width: side, height: side, fill: '#fff' }), make('path', { d: path, fill: '#000' }));
}
function make(name: string, attributes: Record<string, string>): SVGElement {
  const element = document.createElementNS(SVG, name) as SVGElement;
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

/** Shows the codes of a text in `place` one after another until the returned function is called. Null when the text is too large. */
export function showCodes(text: string, place: HTMLElement): (() => void) | null {
  const codes = splitBbqr({ type: 'J', bytes: new TextEncoder().encode(text) });
  if (codes === null) return null;
  const picture = make('svg', { 'shape-rendering': 'crispEdges', role: 'img' });
  place.replaceChildren(picture);
  let at = 0;
  const show = () => {
    draw(picture, codes[at]!);
    picture.setAttribute('aria-label', `QR code ${at + 1} of ${codes.length} of the signed file`);
    at = (at + 1) % codes.length;
  };
  show();
  const timer = setInterval(show, FRAME_MS);
  return () => {
    clearInterval(timer);
    place.replaceChildren();
  };
}
