/** A receipt to print: what was bought, what was paid, at which rate and when. */
import { COIN } from '#core/coin';
import type { CustomerView } from '#core/payment-view';
import { Html, html } from '../html.ts';
import {
  amountOf,
  dayOf,
  fiatNote,
  itemPrice,
  listedTransfers,
  logo,
  more,
  type PageOptions,
  priceText,
  txLink,
  unlisted,
} from './parts.ts';

export function renderReceipt(view: CustomerView, options: PageOptions): { title: string; main: Html } {
  const { words, rate, count } = options.language;
  const { settlement: s, request, facts } = view;
  const row = (name: string | Html, value: string | Html | null, sum = false) =>
    value !== null && html`<tr${sum && new Html(' class="sum"')}><th scope="row">${name}</th><td>${value}</td></tr>`;
  const cents = (value: bigint) => html`<bdi>${itemPrice(view, value, options.language)}</bdi>`;
  const rateE8 = view.quote?.rateE8 ?? null;
  const items = request.items?.map((item) =>
    row(html`${count(Number(item.quantity))} × <bdi>${item.name}</bdi>`, cents(item.quantity * item.unitPriceMinor)),
  );
  const transactions = listedTransfers(view).map(
    (t) => t.txid !== null && t.conflict === null && row(words.transaction, txLink(view, t.coin, t.txid, options)),
  );
  return {
    title: `${words.receipt} – ${view.merchant.name}`,
    main: html`<main id="main" data-state="receipt">${facts.mode === 'test' && html`<p class="stripe">${words.testStripe}</p>`}
<header class="top"><div class="who">${logo(view)}<h1>${words.receipt}</h1></div>
<p class="usd"><bdi>${priceText(view, options.language)}</bdi></p></header>${fiatNote(view, options.language)}<table><tbody>
${row(words.merchant, view.merchant.name)}${row(words.paidOn, s.completedAt && dayOf(s.completedAt, options.language))}
${request.description && row(words.order, request.description)}${items}
${request.taxMinor !== null && row(words.tax, cents(request.taxMinor))}${row(words.total, html`<bdi>${priceText(view, options.language)}</bdi>`, true)}
${s.coin && row(words.arrived, amountOf(s.coin, s.receivedUnits))}
${s.coin && rateE8 !== null && row(words.rate, html`<bdi>1 ${COIN[s.coin].asset} = ${rate(rateE8)}</bdi>`)}
${transactions}${unlisted(view) > 0 && row(words.transaction, more(view, options.language))}
${row(words.number, html`<bdi class="mono">${facts.id}</bdi>`)}</tbody></table>
<p class="noprint js"><button type="button" class="main" id="print">${words.print}</button></p>
<p class="noprint"><a href="/pay/receipt.pdf?id=${facts.id}" id="pdf" download>${words.receipt} (PDF)</a></p></main>`,
  };
}
