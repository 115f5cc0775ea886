/** The single style sheet of the payment page, inlined. Mobile first; light, dark, forced colors, right-to-left, print. */
import { createHash } from 'node:crypto';
import { Html } from '../html.ts';
import { type Accent, accentFor } from './accent.ts';

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
.seg{display:grid;grid-template-columns:1fr 1fr;gap:.4rem;margin-block-start:.6rem}.seg label{display:flex;align-items:center;justify-content:center;gap:.4rem;min-height:2.75rem;padding:.3rem .4rem;border:1px solid var(--line);border-radius:.7rem;font-size:.8125rem;line-height:1.25;cursor:pointer}.seg label:has(:checked){border-color:var(--brand)}
#qr-address{display:none}.qr:has(#qr-a:checked) #qr-address{display:block}.qr:has(#qr-a:checked) #qr-request{display:none}
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
export const BASE = sheet(STYLE);

const vars = ({ brand, on }: Accent) => `--brand:${brand};--on:${on}`;
const accents = new Map<string, Sheet>();
/** The few rules that apply a merchant's color, with their hash for the security policy. */
export function accentSheet(accent: string): Sheet {
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
