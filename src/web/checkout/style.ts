/** The one style sheet of the payment page, inlined. Mobile first; light, dark, forced colours, right-to-left. */
export const STYLE = `
:root{--ink:#17202b;--dim:#56616f;--line:#d7dde5;--card:#fff;--back:#f3f5f8;--brand:#0f5bd7;--on:#fff;--good:#0a7a3d;--warn:#8a4b00;--warnback:#fff4e0}
@media(prefers-color-scheme:dark){:root{--ink:#e8edf3;--dim:#a5b0bd;--line:#323c48;--card:#1a212a;--back:#10151b;--brand:#6ea8ff;--on:#0b1420;--good:#5fd08f;--warn:#ffc56b;--warnback:#33270f}}
*{box-sizing:border-box}html{font:17px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;color:var(--ink);background:var(--back)}
body{margin:0;padding:1rem}main{max-width:46rem;margin:1rem auto;padding:1.25rem;background:var(--card);border:1px solid var(--line);border-radius:14px}
@media(min-width:40rem){main{margin:3rem auto;padding:2rem}.two{display:grid;grid-template-columns:15rem 1fr;gap:2rem}}
header{display:flex;flex-wrap:wrap;justify-content:space-between;align-items:baseline;gap:.25rem 1rem;padding-block-end:1rem;margin-block-end:1rem;border-block-end:1px solid var(--line)}
h1{font-size:1.35rem;line-height:1.25;margin:0;outline:0}.usd{font-size:1.35rem;font-weight:600;margin:0;font-variant-numeric:tabular-nums}
.good h1{color:var(--good)}.mark{display:inline-grid;place-items:center;width:1.6em;height:1.6em;margin-inline-end:.4em;border-radius:50%;border:2px solid currentColor;font-size:.8em}
.stripe{margin:-1.25rem -1.25rem 1rem;padding:.4rem 1rem;background:#ffc53d;color:#3a2600;font-weight:700;text-align:center;border-radius:13px 13px 0 0}@media(min-width:40rem){.stripe{margin:-2rem -2rem 1.5rem}}
p{margin:.75rem 0}.notice,.warn{padding:.6rem .8rem;border-radius:8px;background:var(--warnback);color:var(--warn)}.hint,.est,.number,.clock,.about,.wait{color:var(--dim)}.hint,.number{font-size:.9rem}
fieldset{border:0;padding:0;margin:0 0 1rem}legend{padding:0;font-weight:600;margin-block-end:.5rem}
.coins label{display:flex;flex-wrap:wrap;align-items:center;gap:.1rem .7rem;min-height:3.2rem;padding:.6rem .9rem;border:1px solid var(--line);border-radius:10px;margin-block-end:.5rem;cursor:pointer}
.coins label:has(:checked){border-color:var(--brand);box-shadow:inset 0 0 0 1px var(--brand)}.coins .off{opacity:.75;cursor:default}.coin{font-weight:600;flex:1 1 6rem}input[type=radio]{width:1.2rem;height:1.2rem;accent-color:var(--brand)}.est{font-variant-numeric:tabular-nums;font-size:.9rem}
button,a.main,select,.field input{font:inherit;min-height:44px;border-radius:10px;border:1px solid var(--line);background:var(--card);color:var(--ink);padding:.5rem .9rem}
button{cursor:pointer}.main,a.main{display:block;width:100%;text-align:center;text-decoration:none;font-weight:600;background:var(--brand);border-color:var(--brand);color:var(--on);line-height:1.9}
:focus-visible{outline:3px solid var(--brand);outline-offset:2px}.field{display:block;margin-block:.75rem}.field span{display:block;margin-block-end:.25rem}.field input,select{width:100%}
dl{margin:0}dt{color:var(--dim);font-size:.9rem}dd{margin:0 0 .75rem;overflow-wrap:anywhere}.big{font-size:1.5rem;font-weight:700;font-variant-numeric:tabular-nums}
.address{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:1.02rem}.address span{margin-inline-end:.32em;display:inline-block}.copy{font-size:.9rem;padding:.2rem .7rem}
.qr{max-width:17rem;margin:0 auto 1rem}.qr svg{display:block;width:100%;height:auto;border-radius:10px;forced-color-adjust:none}
details{margin-block:.75rem}summary{cursor:pointer;min-height:44px;display:flex;align-items:center;color:var(--brand)}summary::before{content:"▸";margin-inline-end:.5em}[open]>summary::before{content:"▾"}
table{width:100%;border-collapse:collapse}td,th{padding:.35rem 0;text-align:start;border-block-end:1px solid var(--line);overflow-wrap:anywhere;font-weight:400}.num{text-align:end;font-variant-numeric:tabular-nums;white-space:nowrap}
.sums{display:grid;grid-template-columns:1fr 1fr;gap:.5rem}.sums>div{padding:.6rem .8rem;border:1px solid var(--line);border-radius:10px}.sums dd{margin:0;font-weight:600;font-variant-numeric:tabular-nums}
.tx bdi,.number bdi{overflow-wrap:anywhere;font-family:ui-monospace,Menlo,Consolas,monospace;font-size:.85rem}progress{width:100%;height:.6rem;accent-color:var(--brand)}
footer{margin-block-start:1.5rem;padding-block-start:.5rem;border-block-start:1px solid var(--line)}a{color:var(--brand)}
.sr{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}.offline-note{display:none}.offline .offline-note{display:block;max-width:46rem;margin:0 auto;padding:.5rem 1rem;background:var(--warnback);color:var(--warn);border-radius:10px}
[aria-busy=true]{opacity:.6}@media(scripting:none){.js{display:none}}@media(prefers-reduced-motion:no-preference){.busy .mark{animation:b 1.6s ease-in-out infinite alternate}@keyframes b{to{opacity:.35}}}
@media print{body{padding:0;background:#fff}main{border:0}}
`.replaceAll('\n', '');
