/** The document around every state: head, style, security policy, language switch; or only the fragment for a page that is open. */

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { LOCALES, TAGS } from '#core/locales';
import { sendText } from '#transport';
import { Html, html } from '../html.ts';
import { SIGNS } from './parts.ts';
import type { Language } from './words.ts';

/** Browsers without scripts reload a page to show changes. */
export const REFRESH_SECONDS = 5;

/** A script as browsers receive it. Its first line, which says that it is generated, is left out. */
export function browserScript(name: 'page' | 'modal' | 'embed' | 'docs'): string {
  const text = readFileSync(join(import.meta.dirname, `../generated/${name}.js`), 'utf8');
  return text.slice(text.indexOf('\n') + 1).trimEnd();
}
export const SCRIPT = browserScript('page');
export const SCRIPT_PATH = `/pay/assets/${createHash('sha256').update(SCRIPT).digest('hex').slice(0, 16)}.js`;

export type HtmlDocument = {
  status?: number;
  title: string;
  main: Html;
  language: Language;
  /** Language the payer chose; the switch shows the current one. */
  id?: string | null;
  theme?: 'system' | 'light' | 'dark';
  accent?: string | null;
  /** Origins that may show the page in a frame; empty forbids all. */
  origins?: readonly string[];
  /** Whether the page waits for something: that of a payment subscribes to updates, that of a link checks again. */
  live?: boolean;
  /** Seconds after which a browser without scripts reloads it. */
  refresh?: number | null;
  /** Where the language switch leads. */
  path?: string;
};

/** The icon is inlined, which saves a request. */
export const ICON = new Html(
  `<link rel="icon" href="data:image/svg+xml,${encodeURIComponent('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="8" cy="8" r="8" fill="#1b4fd6"/><path d="M6 12V4h5M6 8h4" fill="none" stroke="#fff" stroke-width="2"/></svg>')}">`,
);

const policies = new Map<string, string>();
function policy(styles: string, origins: readonly string[]): string {
  const ancestors = origins.length > 0 ? origins.join(' ') : "'none'";
  const key = `${styles} ${ancestors}`;
  let made = policies.get(key);
  if (!made) {
    made = `default-src 'none'; script-src 'self'; style-src ${styles}; connect-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors ${ancestors}`;
    if (policies.size > 10_000) policies.clear();
    policies.set(key, made);
  }
  return made;
}

/** Sends a page. `secure`: whether the pages are served over HTTPS. */
export function sendDocument(
  request: FastifyRequest,
  reply: FastifyReply,
  page: HtmlDocument,
  { secure }: { secure: boolean },
): FastifyReply {
  const { words, tag, dir } = page.language;
  const { origins = [] } = page;
  const accent = page.accent ? accentSheet(page.accent) : null;
  reply.code(page.status ?? 200).headers({
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': policy(accent ? `${BASE.hash} ${accent.hash}` : BASE.hash, origins),
    'cache-control': 'no-store',
    vary: 'x-fragment, accept-language, accept-encoding',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'x-robots-tag': 'noindex, nofollow',
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': origins.length > 0 ? 'cross-origin' : 'same-origin',
    'permissions-policy': 'clipboard-write=(self), camera=(), microphone=(), geolocation=()',
    ...(secure && { 'strict-transport-security': 'max-age=31536000' }),
  });
  if (request.headers['x-fragment'] === '1') return sendText(request, reply, html`<title>${page.title}</title>${page.main}`.text);
  const { theme = 'system', id = null } = page;
  const forced = theme !== 'system' && html` data-theme="${theme}"`;
  const refresh = page.refresh != null && html`<noscript><meta http-equiv="refresh" content="${page.refresh}"></noscript>`;
  const own = html`${id !== null && html` data-id="${id}"`}${origins.length > 0 && html` data-origins="${origins.join(' ')}"`}`;
  const document = html`<!doctype html><html lang="${tag}" dir="${dir}"${forced}><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="robots" content="noindex">
<meta name="color-scheme" content="${theme === 'system' ? 'light dark' : theme}"><title>${page.title}</title>
${ICON}${BASE.style}${accent?.style}<script src="${SCRIPT_PATH}" defer></script>${refresh}</head>
<body data-copied="${words.copied}" data-hours="${page.language.hours.join('|')}"${own}${page.live && new Html(' data-live')}>
<p class="banner off1" role="status">${words.offline}</p><p class="banner off2" role="status">${words.brokenText}</p>
${page.main}${page.path !== undefined && languageSwitch(page.language, id, page.path)}
<div id="live" class="sr" aria-live="polite"></div></body></html>`;
  return sendText(request, reply, document.text);
}

/** A plain form: it works without scripts, and the choice stays in the URL. */
function languageSwitch({ tag, words }: Language, id: string | null, path: string): Html {
  const options = TAGS.map(
    (other) => html`<option value="${other}" lang="${other}"${other === tag && new Html(' selected')}>${LOCALES[other]}</option>`,
  );
  return html`<footer class="page noprint"><details>
<summary>${SIGNS.globe}<span class="sr">${words.language}: </span><span lang="${tag}">${LOCALES[tag]}</span></summary>
<form action="${path}">${id !== null && html`<input type="hidden" name="id" value="${id}">`}
<select name="lang" aria-label="${words.language}">${options}</select><button>${words.continue}</button></form></details></footer>`;
}

// The single style sheet of the payment page, inlined. Mobile first; light, dark, forced colors, right-to-left, print.

// A merchant's accent color, adjusted until it is readable: WCAG 2.2 contrast of 4.5 on both backgrounds of each theme.

type Rgb = readonly [number, number, number];
type Accent = { brand: string; on: string };

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

const LIGHT =
  '--ink:#101820;--dim:#556170;--line:#dfe4ea;--card:#fff;--back:#f4f6f9;--soft:#f4f6f9;--brand:#1b4fd6;--on:#fff;--good:#0a7440;--warn:#7d4600;--warnback:#fff5e2;--bad:#b3261e';
const DARK =
  '--ink:#e9eef4;--dim:#a6b1be;--line:#2d3742;--card:#161c24;--back:#0d1218;--soft:#1d2530;--brand:#8ab4ff;--on:#0b1220;--good:#5fd594;--warn:#ffca7a;--warnback:#2c2310;--bad:#ff9a92';

/**
 * The closed language list is sized by its one visible name: browsers lay out the options for autofill, and measuring names in
 * twenty scripts took a slow phone longer than the rest of the page.
 */
const STYLE = `
:root{color-scheme:light;${LIGHT}}@media(prefers-color-scheme:dark){:root{color-scheme:dark;${DARK}}}:root[data-theme=light]{color-scheme:light;${LIGHT}}:root[data-theme=dark]{color-scheme:dark;${DARK}}
*{box-sizing:border-box}[hidden]{display:none!important}
html{font:100%/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;color:var(--ink);background:var(--back);-webkit-text-size-adjust:100%}
body{margin:0;min-height:100vh;display:flex;flex-direction:column;padding:.75rem}
main{width:100%;max-width:27rem;margin:0 auto;padding:1.25rem;background:var(--card);border:1px solid var(--line);border-radius:1rem}
p{margin:.75rem 0;text-wrap:pretty}h1,h2{margin:0;line-height:1.25;overflow-wrap:anywhere;text-wrap:balance}h1{font-size:1.25rem;outline:0}h2{font-size:1rem}:lang(ja){word-break:auto-phrase}:lang(ko){word-break:keep-all}
a{color:var(--brand);text-underline-offset:.15em}bdi{font-variant-numeric:tabular-nums}
.stripe{margin:-1.25rem -1.25rem 1.25rem;padding:.4rem 1rem;background:#ffc53d;color:#3a2600;font-weight:650;font-size:.875rem;text-align:center;border-radius:.9rem .9rem 0 0}.stripe a{color:inherit;white-space:nowrap}
.sim{margin:1.25rem -1.25rem -1.25rem;padding:.25rem 1.25rem .75rem;background:var(--soft);border-block-start:4px solid #ffc53d;border-radius:0 0 .9rem .9rem;font-size:.9375rem}.sim:not([open]){padding-block-end:.25rem}.sim p{margin:0 0 .5rem}.sim .field{margin:0}.sim .field>span{font-size:.8125rem}.sim .main{min-height:2.75rem;margin-block:.75rem .25rem}
.top{display:flex;flex-wrap:wrap;align-items:center;gap:.5rem .75rem;margin-block-end:1.25rem}.top .who{flex:1 1 11rem;display:flex;align-items:center;gap:.75rem;min-width:0}
.logo{flex:none;width:2.5rem;height:2.5rem;border-radius:.6rem;object-fit:contain;background:#fff}.letter{display:grid;place-items:center;background:var(--brand);color:var(--on);font-weight:700;font-size:1.15rem}
.usd{margin:0;font-size:1.5rem;font-weight:700;letter-spacing:-.01em}
.hero{text-align:center;margin:.75rem 0 1.25rem}.hero .usd{margin-block-start:.35rem;font-size:1rem;font-weight:400;letter-spacing:0;color:var(--dim)}
.mark{width:4rem;height:4rem;margin-block-end:.75rem;fill:none;stroke:currentColor;stroke-width:3;stroke-linecap:round;stroke-linejoin:round;color:var(--dim)}.mark circle{fill:currentColor;fill-opacity:.1;stroke-width:0}
.good .mark{color:var(--good)}.busy .mark{color:var(--brand)}.warn .mark{color:var(--warn)}
.lead{color:var(--dim);margin-block:0 1rem}.result .lead,.beside{text-align:center}
.note,.fault{display:flex;gap:.6rem;padding:.65rem .8rem;border-radius:.7rem;background:var(--warnback);color:var(--warn);font-size:.9375rem}.fault{display:block;margin:.35rem 0 0;padding:0;background:none;color:var(--bad)}.tip{display:flex;gap:.6rem;color:var(--dim);font-size:.875rem}
.sign{flex:none;width:1.25rem;height:1.25rem;fill:none;stroke:currentColor;stroke-width:1.6;stroke-linecap:round;stroke-linejoin:round}.tip .sign,.note .sign{margin-block-start:.1rem}
fieldset{border:0;padding:0;margin:0;min-width:0}legend{padding:0;margin-block-end:.6rem;font-weight:600}legend.sr{margin:-1px}legend .est{font-weight:400;font-size:.875rem;color:var(--dim)}
.coin{display:flex;align-items:center;gap:.65rem;min-height:3.5rem;padding:.55rem .75rem;border:1px solid var(--line);border-radius:.8rem;margin-block-end:.5rem;cursor:pointer}.coin:hover{border-color:var(--dim)}
.coin:has(:checked){border-color:var(--brand);box-shadow:inset 0 0 0 1px var(--brand)}.coin.off{cursor:default;border-style:dashed;color:var(--dim)}.coin.off .ci{opacity:.45;filter:grayscale(1)}
.ci{flex:none;width:2rem;height:2rem;forced-color-adjust:none}.what{flex:1;display:flex;flex-wrap:wrap;align-items:center;justify-content:space-between;gap:0 .6rem;min-width:0}.coin b{font-weight:600}.coin .est{color:var(--dim);font-size:.875rem}.coin b .est{display:block;font-size:.75rem;font-weight:400;line-height:1.2}
.nets{display:none;margin:-.1rem 0 .9rem;padding-inline-start:1.25rem;border-inline-start:2px solid var(--brand);margin-inline-start:.85rem}.coin:has(:checked)+.nets{display:block}.nets legend{float:inline-start;width:100%;margin-block-end:.4rem;font-size:.9375rem}.nets .coin{clear:both;min-height:3rem;padding-block:.4rem}.nets .ci{width:1.6rem;height:1.6rem}.net .what{display:block}.net .what>*{display:block}
.only{align-items:center;margin-block:0 1rem}.only .ci,.on .ci{overflow:visible}.on{display:flex;align-items:center;justify-content:center;gap:.6rem;margin:.6rem 0 0}
#wallets{display:grid;gap:.5rem;margin-block-start:1rem}#wallets .main{margin:0}
input[type=radio]{flex:none;width:1.15rem;height:1.15rem;margin:0;accent-color:var(--brand)}
button,.main,select,input[type=text],input[type=email]{font:inherit;min-height:2.75rem;border-radius:.7rem;border:1px solid var(--line);background:var(--card);color:var(--ink);padding:.5rem .9rem}select,input[type=text],input[type=email]{width:100%;border-color:var(--dim)}
button{cursor:pointer}button:hover{border-color:var(--dim)}:disabled{opacity:.5;cursor:not-allowed}
.main{display:flex;align-items:center;justify-content:center;gap:.6rem;width:100%;min-height:3.15rem;margin-block:1rem .5rem;text-align:center;text-decoration:none;font-weight:650;background:var(--brand);border-color:var(--brand);color:var(--on)}.main:hover{border-color:var(--ink)}.second{background:var(--card);border-color:var(--line);color:var(--brand)}p:has(>.main){margin-block:0}
.quiet{border:0;background:none;color:var(--brand);padding-inline:.25rem;text-decoration:underline;text-underline-offset:.15em}
:focus-visible{outline:3px solid var(--brand);outline-offset:2px}.coin:has(:focus-visible){outline:3px solid var(--brand);outline-offset:2px}.coin :focus-visible{outline:0}
.field{display:block;margin-block:.85rem}.field>span{display:block;margin-block-end:.3rem;font-weight:600;font-size:.9375rem}[aria-invalid=true]{border-color:var(--bad)!important;box-shadow:inset 0 0 0 1px var(--bad)}
.clock{display:flex;gap:.6rem;margin:0 0 1rem;padding:.6rem .8rem;background:var(--soft);border-radius:.7rem;font-size:.9375rem}.clock .sign{margin-block-start:.1rem}.clock>span{min-width:0}.clock b{font-variant-numeric:tabular-nums}.clock small{display:flex;flex-wrap:wrap;gap:0 .75rem;font-size:.8125rem;color:var(--dim)}
dl{margin:0}dt,.dt{display:block;color:var(--dim);font-size:.875rem}dd{margin:0}.row{display:flex;flex-wrap:wrap;align-items:center;gap:.5rem .75rem;padding-block:.75rem;border-block-end:1px solid var(--line)}.row>div{flex:1 1 10rem;min-width:0}.row:first-child,.top+.row{padding-block-start:0}
.copy{display:inline-flex;align-items:center;gap:.4rem;font-size:.875rem;white-space:nowrap;padding-inline:.7rem}.big{font-size:1.375rem;font-weight:700;letter-spacing:-.01em;overflow-wrap:anywhere}
.mono{font-family:ui-monospace,"SF Mono",Menlo,Consolas,monospace;overflow-wrap:anywhere}.address{font-size:.9375rem;line-height:1.7}.address span{display:inline-block;margin-inline-end:.3em}.ends{font-size:.8125rem;color:var(--dim);margin:.2rem 0 0}.ends b{color:var(--ink);white-space:nowrap}
.qr{max-width:17rem;margin:1.25rem auto 1rem;text-align:center}.qr svg{display:block;width:100%;height:auto;border-radius:.8rem;forced-color-adjust:none}.box{border:1px solid var(--line);border-radius:.85rem;overflow:hidden}
.qr .on svg{width:2rem;height:2rem;border-radius:0}
.seg{display:grid;grid-template-columns:1fr 1fr;gap:.4rem;margin-block-end:.6rem}.hint{margin:.6rem 0 0;font-size:.8125rem;color:var(--dim)}.seg label{display:flex;align-items:center;justify-content:center;gap:.4rem;min-height:2.75rem;padding:.3rem .4rem;border:1px solid var(--line);border-radius:.7rem;font-size:.8125rem;line-height:1.25;cursor:pointer}.seg label:has(:checked){border-color:var(--brand)}
#qr-address,#qr-invoice{display:none}.qr:has(#qr-a:checked) #qr-address,.qr:has(#qr-l:checked) #qr-invoice{display:block}.qr:has(#qr-a:checked,#qr-l:checked) :is(#qr-request,#qr-request~.hint){display:none}.seg label:has(#qr-l){grid-column:1/-1}.qr .copy svg{width:1.1rem;border-radius:0}
details{margin-block:.75rem;border-block-start:1px solid var(--line)}summary{cursor:pointer;min-height:2.75rem;padding-block:.4rem;display:flex;align-items:center;gap:.5rem;font-weight:600;list-style:none}summary::-webkit-details-marker{display:none}summary::after{content:"";width:.45rem;height:.45rem;margin-inline-start:auto;border:solid var(--dim);border-width:0 2px 2px 0;transform:rotate(45deg)}[open]>summary::after{transform:rotate(225deg)}
.sent{border:0}.sent>.main::after{margin-inline-start:0;border-color:currentColor}.top+details{border:0;margin-block:-.5rem .75rem}
table{width:100%;border-collapse:collapse;font-size:.9375rem}td,th{padding:.4rem 0;text-align:start;vertical-align:top;border-block-end:1px solid var(--line);overflow-wrap:anywhere;font-weight:400}th{width:34%;color:var(--dim);padding-inline-end:1rem;overflow-wrap:normal}th bdi{overflow-wrap:anywhere}td.num{text-align:end;white-space:nowrap;padding-inline-start:1rem}.sum td,.sum th{font-weight:650;color:var(--ink)}
.sums{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(11rem,100%),1fr));gap:.5rem;margin-block:1rem}.sums>div{display:flex;flex-wrap:wrap;align-items:baseline;justify-content:space-between;gap:0 .75rem;padding:.6rem .8rem;background:var(--soft);border-radius:.7rem;min-width:0;overflow-wrap:anywhere}.sums dd{font-weight:650}.sums .due{background:var(--warnback);color:var(--warn)}.sums .due dt{color:inherit}
.tx{padding:.6rem .8rem;background:var(--soft);border-radius:.7rem;font-size:.875rem}.tx .mono{font-size:.8125rem}.tx span{color:var(--dim);display:block}.mono{font-size:.875rem}progress{display:block;width:100%;height:.5rem;margin-block-end:.4rem;accent-color:var(--brand)}.wait{color:var(--dim);font-size:.9375rem;text-align:center}.wait::before{content:"";display:inline-block;margin-inline-end:.6rem;width:.6rem;height:.6rem;border-radius:50%;background:var(--good)}
.foot{margin-block-start:1.25rem;padding-block-start:.75rem;border-block-start:1px solid var(--line);font-size:.875rem;color:var(--dim)}.foot p{margin:.35rem 0}.foot .number{display:flex;flex-wrap:wrap;align-items:center;justify-content:space-between}.number .mono{flex-basis:100%}.foot .copy{padding-inline:0;border-color:transparent;background:none}.foot .stop{border:0;margin:0}
.page{width:100%;max-width:27rem;margin:.5rem auto 0;font-size:.875rem;color:var(--dim)}.page details{border:0;margin:0}.page summary{font-weight:400;justify-content:center}.page summary::after{margin-inline-start:0}.page form{display:flex;gap:.5rem}.page select{field-sizing:content}
.prep{display:none}.wait4 .prep{display:block}.wait4 .coins,.wait4 .main{display:none}.prep i{display:block;height:1.1rem;margin:.75rem auto;border-radius:.5rem;background:var(--soft)}.prep i:nth-of-type(1){width:14rem;height:14rem;max-width:100%}.prep i:nth-of-type(2){width:60%}
[aria-busy=true]{opacity:.6;pointer-events:none}.sr{position:absolute;width:1px;height:1px;margin:-1px;padding:0;overflow:hidden;clip-path:inset(50%);white-space:nowrap;border:0}
.banner{display:none;width:100%;max-width:27rem;margin:0 auto .75rem;padding:.65rem .8rem;border-radius:.7rem;background:var(--warnback);color:var(--warn)}.offline .off1,.broken .off2{display:block}
time{display:inline-grid}time>bdi,time::after{grid-area:1/1}time::after{content:attr(data-widest);padding-inline-end:2px;visibility:hidden}
@media(scripting:none){.js{display:none!important}}@media(scripting:enabled){.tz{display:none}}
@media(min-width:40rem){body{padding:3rem 1.5rem 1.5rem}main{padding:2rem}.stripe{margin:-2rem -2rem 1.5rem}.sim{margin:1.5rem -2rem -2rem;padding-inline:2rem}}
@media(min-width:50rem){main.wide,main.wide~.page{max-width:48rem}.two{display:grid;grid-template-columns:minmax(0,1fr) 16rem;gap:2.25rem;align-items:start}.two .qr{margin:0;width:100%}#wallet{background:var(--card);border-color:var(--line);color:var(--brand)}}
@media(min-width:75rem){.stripe a{display:none}.sim{position:fixed;inset-block:0;inset-inline-end:0;width:20rem;margin:0;padding:1.25rem;background:var(--card);border:0;border-inline-start:4px solid #ffc53d;border-radius:0}.sim:not([open]){inset-block-start:auto;padding-block:.25rem}body:has(.stripe a):not(:has(.sim:not([open]))){padding-inline-end:21.5rem}.sim:not([open]){inset:auto 0 0 auto;width:auto;padding:.25rem 1rem;border-start-start-radius:.9rem;border-block-start:1px solid var(--line)}}
.framed body{padding:0;min-height:0}.framed main{border:0;border-radius:0;max-width:none}
@media(prefers-reduced-motion:no-preference){.busy .mark,.wait::before,.prep i{animation:b 1.4s ease-in-out infinite alternate}@keyframes b{to{opacity:.45}}}
@media(forced-colors:active){.coin:has(:checked),.seg label:has(:checked){border:2px solid Highlight}.main{border:2px solid ButtonText}.mark circle{fill:none;stroke-width:2}.wait::before{background:CanvasText}}
@media print{:root,:root[data-theme]{color-scheme:light;${LIGHT};--back:#fff}body{padding:0}main{border:0;max-width:none}.page,.copy,.noprint{display:none!important}}
`.replaceAll('\n', '');

type Sheet = { style: Html; hash: string };
const sheet = (text: string): Sheet => ({
  style: new Html(`<style>${text}</style>`),
  hash: `'sha256-${createHash('sha256').update(text).digest('base64')}'`,
});
const BASE = sheet(STYLE);

const vars = ({ brand, on }: Accent) => `--brand:${brand};--on:${on}`;
const accents = new Map<string, Sheet>();
/** The few rules that apply a merchant's color, with their hash for the security policy. */
function accentSheet(accent: string): Sheet {
  let made = accents.get(accent);
  if (!made) {
    const light = vars(accentFor(accent, 'light'));
    const dark = vars(accentFor(accent, 'dark'));
    made = sheet(
      `:root,:root[data-theme=light]{${light}}@media(prefers-color-scheme:dark){:root:not([data-theme=light]){${dark}}}:root[data-theme=dark]{${dark}}`,
    );
    if (accents.size > 10_000) accents.clear();
    accents.set(accent, made);
  }
  return made;
}
