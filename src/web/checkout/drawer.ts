/** The drawer beside the page of a test payment, in which the tester picks what the payer does next instead of sending real money. */
import type { Scenario } from '../../chains/simulated.ts';
import type { CustomerView } from '../../payments/view.ts';
import { Html, html } from '../html.ts';
import type { Words } from './words.ts';

const NAMES = {
  success: 'playFull',
  slow: 'playSlow',
  failed: 'playFail',
  underpaid: 'playPart',
  overpaid: 'playOver',
  late: 'playLate',
  reorg: 'playReorg',
  replaced: 'playReplaced',
  expired: 'playNone',
  reversed: 'playReversed',
  wrong_network: 'playWrongNetwork',
  wrong_token: 'playWrongToken',
} as const satisfies Readonly<Record<Scenario, keyof Words>>;

/**
 * Never part of a live page. A plain form, so that it works without scripts; `hidden` ties it to the payment. On a phone it is below
 * the card, and a link at the top of the page leads to its content, which opens it.
 */
export function drawer(view: CustomerView, words: Words, hidden: Html): Html {
  const content = view.quote
    ? picker(view, words, hidden)
    : html`<p>${view.facts.status === 'pending' ? words.simulateFirst : words.simulateDone}</p>`;
  return html`<details class="sim noprint" open><summary>${words.simulate}</summary><div id="sim">${content}</div></details>`;
}

function picker(view: CustomerView, words: Words, hidden: Html): Html {
  if (view.nextScenarios.length === 0) return html`<p>${words.simulateDone}</p>`;
  const given = view.scenario?.name;
  const options = view.nextScenarios.map(
    (name) => html`<option value="${name}"${name === given && new Html(' selected')}>${words[NAMES[name]]}</option>`,
  );
  return html`<p>${words.testText}</p><form method="post" action="/pay/simulate" data-frag>${hidden}
<label class="field"><span>${words.scenario}</span><select name="scenario" id="scenario">${options}</select></label>
<button class="main" id="simulate">${words.simulate}</button></form>`;
}
