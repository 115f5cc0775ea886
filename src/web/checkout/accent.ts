/** A merchant's accent color, adjusted until it is readable: WCAG 2.2 contrast of 4.5 on both backgrounds of each theme. */

type Rgb = readonly [number, number, number];
export type Accent = { brand: string; on: string };

/** The backgrounds of card and page, as in the style sheet. */
export const BACKGROUNDS = { light: ['#ffffff', '#f4f6f9'], dark: ['#161c24', '#0d1218'] } as const;
const CONTRAST = 4.6;

const parse = (hex: string): Rgb => [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16)) as unknown as Rgb;
const print = (rgb: Rgb): string => `#${rgb.map((part) => Math.round(part).toString(16).padStart(2, '0')).join('')}`;

/** Relative luminance as WCAG 2.2 defines it. */
function luminance(rgb: Rgb): number {
  const [r, g, b] = rgb.map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  }) as unknown as Rgb;
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
/** Contrast of two colors given as #rrggbb, from 1 to 21. */
export function contrast(one: string, other: string): number {
  const [low, high] = [luminance(parse(one)), luminance(parse(other))].sort((a, b) => a - b) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

/** The color as used on a theme, and the text color on top of it. The hue stays; it is mixed with black or white as far as needed. */
export function accentFor(hex: string, theme: keyof typeof BACKGROUNDS): Accent {
  const [r, g, b] = parse(hex);
  const end = theme === 'light' ? 0 : 255;
  let brand = hex.toLowerCase();
  for (let share = 0; share <= 1; share += 0.02) {
    brand = print([r + (end - r) * share, g + (end - g) * share, b + (end - b) * share]);
    if (BACKGROUNDS[theme].every((back) => contrast(brand, back) >= CONTRAST)) break;
  }
  return { brand, on: contrast(brand, '#ffffff') >= contrast(brand, '#0b1220') ? '#ffffff' : '#0b1220' };
}
