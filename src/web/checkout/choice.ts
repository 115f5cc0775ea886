/** The form in which the payer chooses: first the coin, one row for each asset, then its network where several are possible. */
import { type Asset, CHAIN, COIN, type Coin, chainOf, coinsOf, isAsset, isChain, isCoin, LIGHTNING } from '#core/coin';
import { formatFiat } from '#core/fiat';
import { formatDecimal, formatUnits } from '#core/money';
import type { CustomerView } from '#core/payment-view';
import { Problem } from '#core/problem';
import { Html, html } from '../html.ts';
import { chainIcon, coinIcon, hidden, type PageOptions } from './parts.ts';
import { type Language, say } from './words.ts';

type Choice = CustomerView['coins'][number];

/** No coin can carry such a small amount, and none that is away now may do it later. */
export const isTooSmall = ({ coins }: CustomerView): boolean =>
  coins.length > 0 && coins.every(({ unavailable }) => unavailable === 'small');

const fee = ({ costs }: Choice): number => costs?.feeUsdCents ?? Number.POSITIVE_INFINITY;
const seconds = ({ costs }: Choice): number => costs?.seconds ?? Number.POSITIVE_INFINITY;
/** Those that can be chosen first, then by fee, then by time. */
const byCost = (a: Choice, b: Choice): number =>
  Number(a.unavailable !== null) - Number(b.unavailable !== null) || fee(a) - fee(b) || 0 || seconds(a) - seconds(b) || 0;

/** The offered coins by asset, in the order of the table; the networks of an asset by their cost. */
export function assetsOf(view: CustomerView): readonly (readonly [Asset, readonly Choice[]])[] {
  const found = new Map<Asset, Choice[]>();
  for (const choice of view.coins) {
    const { asset } = COIN[choice.coin];
    found.set(asset, [...(found.get(asset) ?? []), choice]);
  }
  return [...found].map(([asset, choices]) => [asset, choices.toSorted(byCost)] as const);
}

/** The coin that a form names: a coin, or an asset with its network; without a network, the cheapest. Errors: currency_unknown. */
export function coinChosen(view: CustomerView, fields: URLSearchParams): Coin {
  const named = fields.get('currency');
  const network = fields.get(`network-${named}`);
  const choices = assetsOf(view).find(([asset]) => asset === named)?.[1] ?? [];
  if (network === CHAIN.lightning.chain && choices.some(({ coin }) => coin === LIGHTNING)) return LIGHTNING;
  if (isCoin(named)) return named;
  if (!isAsset(named)) throw new Problem('currency_unknown', {}, { param: 'currency' });
  const [cheapest] = choices;
  const coin = network === null ? (cheapest?.coin ?? coinsOf(named)[0]) : isChain(network) ? coinsOf(named, network)[0] : undefined;
  if (coin === undefined) throw new Problem('currency_unknown', {}, { param: 'currency' });
  return coin;
}

/** `key` keeps ids unique when the form is shown behind a coin that is already chosen. */
export function coinForm(view: CustomerView, options: PageOptions, key: string): Html {
  const { words } = options.language;
  const payable = view.coins.find((c) => c.unavailable === null);
  const first = view.settlement.coin ?? view.scenario?.coin ?? null;
  const firstAsset = first === null ? assetsOf(view).find(([, [choice]]) => choice?.unavailable === null)?.[0] : COIN[first].asset;
  const rows = assetsOf(view).map(([asset, choices]) => {
    const chosen = choices.find(({ coin, unavailable }) => coin === first && unavailable === null) ?? choices[0]!;
    const row = assetRow(choices, { id: `${key}-${asset}`, isFirst: payable !== undefined && asset === firstAsset }, options.language);
    return html`${row}${choices.length > 1 && networkRows(choices, { key, chosen: chosen.coin }, options.language)}`;
  });
  const sample = view.coins.some((c) => c.sample) && html` <span class="est">(${words.sample})</span>`;
  return html`<form method="post" action="/pay/select" data-frag>${hidden(view, options)}
<fieldset class="coins"><legend${key === 'o' && new Html(' class="sr"')}>${words.chooseCoin}${sample}</legend>${rows}</fieldset>
<div class="prep" role="status"><span class="sr">${words.preparing}</span><i></i><i></i></div>
<button class="main" id="${key}-continue">${words.continue}</button></form>`;
}

/** Why a coin cannot be chosen. One that cannot carry such a small amount says from which one on. */
function reasonOf({ unavailable, least }: Choice, { words, money }: Language): string | null {
  if (least !== null) return say(words.fromAmount, { amount: money(formatFiat(least.currency, least.minor), least.currency) });
  return unavailable && { price: words.noPrice, network: words.noNetwork, small: words.tooSmall }[unavailable];
}

/** An asset. If it has one network, and that has another name, the row says which. */
function assetRow(choices: readonly Choice[], { id, isFirst }: { id: string; isFirst: boolean }, language: Language): Html {
  const { coin, unavailable, estimateUnits } = choices[0]!;
  const { name, asset } = COIN[coin];
  const { networkName } = chainOf(coin);
  const estimate = estimateUnits !== null && html`<bdi>≈ ${shortAmount(coin, estimateUnits)} ${asset}</bdi>`;
  const state = unavailable ? new Html(' disabled') : isFirst && new Html(' checked');
  const network = choices.length === 1 && networkName !== name && html` <span class="est">${networkName.replace(`${name} `, '')}</span>`;
  return html`<label class="coin${unavailable ? ' off' : ''}">
<input type="radio" name="currency" value="${asset}" id="${id}" required${state}>${coinIcon(coin)}
<span class="what"><b>${name}${network}</b><span class="est">${reasonOf(choices[0]!, language) ?? estimate}</span></span></label>`;
}

/** The networks of an asset: shown while it is chosen. The cheapest is first and preselected. */
function networkRows(choices: readonly Choice[], { key, chosen }: { key: string; chosen: Coin }, language: Language): Html {
  const { words } = language;
  const { asset } = COIN[chosen];
  const rows = choices.map((choice) => {
    const { coin, unavailable, costs } = choice;
    const { chain, name } = chainOf(coin);
    const state = unavailable ? new Html(' disabled') : coin === chosen && new Html(' checked');
    const cost = costs && say(words.networkCost, { fee: language.usd(BigInt(costs.feeUsdCents)), time: language.duration(costs.seconds) });
    return html`<label class="coin net${unavailable ? ' off' : ''}">
<input type="radio" name="network-${asset}" value="${chain}" id="${key}-${asset}-${chain}"${state}>${chainIcon(coin)}
<span class="what"><b>${name}</b><span class="est">${reasonOf(choice, language) ?? cost}</span></span></label>`;
  });
  return html`<fieldset class="nets"><legend>${say(words.chooseNetwork, { coin: asset })}</legend>${rows}</fieldset>`;
}

/** An estimate needs at most six decimals; the amount to send is shown in full. */
export function shortAmount(coin: Coin, units: bigint): string {
  const { decimals } = COIN[coin];
  const places = Math.min(6, decimals);
  const step = 10n ** BigInt(decimals - places);
  const rounded = (units + step / 2n) / step;
  return rounded > 0n ? formatDecimal(rounded, places, 2) : formatUnits(coin, units);
}

/** Another coin, or another network, instead of the chosen one. */
export const otherCoin = (view: CustomerView, options: PageOptions): Html | null =>
  view.facts.fixed || !view.coins.some((c) => c.unavailable === null && c.coin !== view.settlement.coin)
    ? null
    : html`<details><summary>${options.language.words.changeCoin}</summary>${coinForm(view, options, 'o')}</details>`;
