/** The style sheet of the documentation: sidebar, document, table of contents; light and dark, one column on a phone. */
const LIGHT =
  '--ink:#1c2430;--dim:#55606e;--line:#dfe4ea;--back:#fff;--soft:#f4f6f9;--link:#0b57b7;--k:#9a2a6b;--s:#0a6640;--n:#8a4b00;--c:#5f6b7a';
const DARK =
  '--ink:#e6eaf0;--dim:#a2adba;--line:#2d3742;--back:#12161c;--soft:#1b222b;--link:#8ab8ff;--k:#f5a3d0;--s:#7fdcae;--n:#ffca7a;--c:#98a5b3';

export const STYLE = `
:root{color-scheme:light dark;${LIGHT}}@media(prefers-color-scheme:dark){:root{${DARK}}}
*{box-sizing:border-box}html{font:16px/1.6 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;color:var(--ink);background:var(--back);scroll-padding-top:4.5rem}
body{margin:0}a{color:var(--link);text-underline-offset:.15em}:focus-visible{outline:2px solid var(--link);outline-offset:2px;border-radius:3px}
.skip{position:absolute;left:-99rem}.skip:focus{left:1rem;top:1rem;z-index:3;background:var(--back);padding:.5rem 1rem}
.bar{position:sticky;top:0;z-index:2;display:flex;flex-wrap:wrap;align-items:center;gap:.5rem 1.5rem;padding:.6rem 1.25rem;background:var(--back);border-bottom:1px solid var(--line)}
.bar>a{font-weight:650;color:var(--ink);text-decoration:none}.bar form{flex:1 1 14rem;max-width:26rem;margin:0 auto;position:relative}
.bar input{width:100%;min-height:2.5rem;font:inherit;font-size:.9375rem;padding:.35rem .8rem;color:inherit;background:var(--soft);border:1px solid var(--line);border-radius:.6rem}
.frame{display:grid;grid-template-columns:15rem minmax(0,46rem) 13rem;gap:3rem;max-width:84rem;margin:0 auto;padding:0 1.25rem}
.side,.toc{position:sticky;top:3.9rem;align-self:start;max-height:calc(100vh - 3.9rem);overflow-y:auto;padding:1.75rem 0;font-size:.9375rem}
.side h2,.toc h2{margin:0 0 .35rem;font-size:.8125rem;font-weight:650;color:var(--ink)}.side ul,.toc ul{list-style:none;margin:0 0 1.25rem;padding:0}.side li,.toc li{margin:0}
.side a,.toc a{display:block;padding:.22rem .6rem;border-radius:.4rem;color:var(--dim);text-decoration:none}.side a:hover,.toc a:hover{color:var(--ink)}.side a[aria-current]{background:var(--soft);color:var(--link);font-weight:600}.toc .l3{padding-left:1.25rem}.toc a{overflow-wrap:anywhere}
.all{display:none;border-bottom:1px solid var(--line);font-size:.9375rem}.all summary{cursor:pointer;padding:.8rem 0;font-weight:600}.all h2{margin:.5rem 0 .25rem;font-size:.8125rem}.all ul{list-style:none;margin:0;padding:0}.all li{margin:0}.all a{display:block;padding:.45rem .6rem;color:inherit;text-decoration:none}.all a[aria-current]{color:var(--link);font-weight:600}
.sr{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
main{min-width:0;padding:1.75rem 0 4rem}h1,h2,h3,h4{line-height:1.25;text-wrap:balance}h1{margin:0 0 1rem;font-size:2rem}h2{margin:2.75rem 0 .75rem;font-size:1.4rem}h3{margin:2rem 0 .5rem;font-size:1.1rem}
.here{color:var(--dim);text-decoration:none;font-weight:400;opacity:0}.here:focus-visible,:is(h2,h3,h4):hover .here{opacity:1}@media(hover:none){.here{opacity:.6}}
p,ul,ol{margin:.75rem 0;overflow-wrap:anywhere}li{margin:.35rem 0}code{background:var(--soft);border-radius:4px;padding:.1em .35em;font:.875em/1.5 ui-monospace,"SF Mono",Menlo,Consolas,monospace;overflow-wrap:anywhere}
.code{position:relative;margin:1rem 0}pre{margin:0;background:var(--soft);border:1px solid var(--line);border-radius:.6rem;padding:.9rem 1rem;overflow-x:auto}pre code{background:none;padding:0;overflow-wrap:normal}
.copy{position:absolute;top:.45rem;right:.45rem;font:inherit;font-size:.8125rem;min-height:2rem;padding:.15rem .7rem;color:var(--dim);background:var(--back);border:1px solid var(--line);border-radius:.4rem;cursor:pointer}.copy:hover{color:var(--ink)}
.tab{margin:0 0 .35rem;font-weight:600;font-size:.875rem}.tabs{margin:1rem 0}.tabs .code{margin:.35rem 0 1rem}.tablist{display:flex;flex-wrap:wrap;gap:.25rem;border-bottom:1px solid var(--line)}.tablist button{font:inherit;font-size:.9375rem;min-height:2.5rem;padding:.35rem .8rem;color:var(--dim);background:none;border:0;border-bottom:2px solid transparent;cursor:pointer}.tablist [aria-selected=true]{color:var(--link);border-color:var(--link)}
main p>[loading]{max-width:100%;height:auto;margin:1rem 0;border:1px solid var(--line);border-radius:.6rem}.wide{overflow-x:auto;margin:1rem 0}table{border-collapse:collapse;width:100%;min-width:30rem;font-size:.9375rem}th,td{text-align:left;vertical-align:top;padding:.5rem .9rem .5rem 0;border-bottom:1px solid var(--line)}td:first-child code,td code{overflow-wrap:normal}td:first-child code{white-space:nowrap}
:target{scroll-margin-top:4.5rem}h2:target,h3:target{text-decoration:underline var(--link) 2px;text-underline-offset:.3em}
.next{display:flex;flex-wrap:wrap;justify-content:space-between;gap:1rem;margin-top:3.5rem;padding-top:1.25rem;border-top:1px solid var(--line)}.next a{text-decoration:none}.next span{display:block;font-size:.8125rem;color:var(--dim)}.next a:last-child:not(:first-child){margin-left:auto;text-align:right}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(15rem,1fr));gap:.9rem;padding:0;list-style:none}.cards li{margin:0}.cards a{display:block;height:100%;padding:.9rem 1.1rem;border:1px solid var(--line);border-radius:.7rem;color:inherit;text-decoration:none}.cards a:hover{border-color:var(--link)}.cards b{display:block;color:var(--link)}.cards span{font-size:.9375rem;color:var(--dim)}
.results{list-style:none;padding:0}.results li{margin:0}.results a{display:block;padding:.7rem .9rem;border-radius:.6rem;color:inherit;text-decoration:none}.results a:hover,.results a:focus-visible{background:var(--soft)}.results b{color:var(--link)}.results small{color:var(--dim)}.results span{display:block;font-size:.9375rem;color:var(--dim);overflow-wrap:anywhere}
.bar .results{position:absolute;top:100%;left:0;right:0;margin:.35rem 0 0;max-height:70vh;overflow-y:auto;background:var(--back);border:1px solid var(--line);border-radius:.7rem;box-shadow:0 .5rem 1.5rem #0003;padding:.35rem}
.hljs-keyword,.hljs-built_in,.hljs-literal,.hljs-section,.hljs-name{color:var(--k)}.hljs-string,.hljs-regexp{color:var(--s)}.hljs-number,.hljs-attr,.hljs-attribute,.hljs-variable,.hljs-title,.hljs-symbol{color:var(--n)}.hljs-comment,.hljs-meta{color:var(--c)}
@media(max-width:75rem){.frame{grid-template-columns:15rem minmax(0,1fr)}.toc{display:none}}
@media(max-width:52rem){.bar form{position:static}.bar .results{left:.75rem;right:.75rem}.frame{display:block}.side,.bar>a:last-child{display:none}.all{display:block}h1{font-size:1.65rem}}
@media print{.bar,.side,.all,.toc,.next,.copy,.here{display:none}.frame{display:block}}
`.trim();
