/** Reads what schemas cannot express: amounts from their source text, URLs, metadata, test identifiers, query parameters. */
import Type from 'typebox';
import type { Context } from '#context';
import {
  type Asset,
  CHAIN,
  CHAINS,
  type ChainId,
  COIN,
  COINS,
  type Coin,
  coinsOf,
  isAsset,
  isChain,
  LIGHTNING,
  type Mode,
  NATIVE_ASSETS,
} from '#core/coin';
import { readTime } from '#core/dates';
import { type Fiat, fiatDecimals, isFiat } from '#core/fiat';
import { dueUnit, formatUsd, MAX_USD_CENTS, parseAmount, readAmountText } from '#core/money';
import { isLoopback } from '#core/networks';
import { Problem, type ProblemCode, type ProblemDetails } from '#core/problem';
import { SCENARIOS, scenarioFromText, scenariosOf } from '#core/simulated';
import { parseWebUrl } from '#core/text';
import { metadataFault } from '#payments';
import { type PaymentPrice, priceAt } from '#readiness';
import { type ParsedBody, writtenAt } from '#transport';
import { CreateSimple } from './schema.ts';
import { Amount } from './schema-fields.ts';

/** The text of an amount given as a number or a string, at a path of the body. */
function amountText(body: ParsedBody, path: string, given: unknown): string {
  return typeof given === 'number' ? writtenAt(body, path)! : String(given);
}

type ReadOptions = { zero?: boolean };
/** USD in cents: at most two decimals, at most 1,000,000.00, above zero unless `zero`. */
export function readUsd(body: ParsedBody, path: string, given: unknown, options?: ReadOptions): bigint {
  const cents = readUnits(body, path, given, 2, { ...options, maximum: MAX_USD });
  if (cents > MAX_USD_CENTS) throw new Problem('amount_too_large', { maximum: MAX_USD }, { param: path });
  return cents;
}
const MAX_USD = formatUsd(MAX_USD_CENTS);

/** An amount in another currency, in its smallest units: with at most its decimals, above zero unless `zero`. */
const readFiat = (body: ParsedBody, path: string, given: unknown, currency: Fiat, options?: ReadOptions): bigint =>
  readUnits(body, path, given, fiatDecimals(currency), options);

/** Units of a coin or currency with so many decimals, above zero unless `zero`. */
export function readUnits(
  body: ParsedBody,
  path: string,
  given: unknown,
  decimals: number,
  { zero = false, maximum = `the worth of ${MAX_USD} USD` }: ReadOptions & { maximum?: string } = {},
): bigint {
  const units = parseAmount(amountText(body, path, given), decimals, { isNumber: typeof given === 'number' });
  const refuse = (code: ProblemCode, details: ProblemDetails = {}) => new Problem(code, details, { param: path });
  switch (units) {
    case 'form':
      throw refuse('parameter_invalid', { reason: `it must be a decimal such as ${decimals === 2 ? '25.50' : '0.05'}` });
    case 'precision':
      throw refuse('amount_precision', { decimals });
    case 'huge':
      throw refuse('amount_too_large', { maximum });
    case 'negative':
      throw zero ? refuse('parameter_invalid', { reason: 'it must be 0 or more' }) : refuse('amount_invalid');
    case 0n:
      if (!zero) throw refuse('amount_invalid');
      return 0n;
    default:
      return units;
  }
}

/** An amount in a coin. Over Lightning, it is in whole satoshis: not all nodes make invoices for parts of one. */
export const readCoinUnits = (body: ParsedBody, path: string, given: unknown, coin: Coin): bigint => {
  const step = coin === LIGHTNING ? dueUnit(coin) : 1n;
  return readUnits(body, path, given, COIN[coin].decimals - String(step).length + 1) * step;
};

/**
 * An absolute return URL: https, in test mode also http on loopback. URLs that two parsers could read differently are refused. A host in
 * another script is returned in its ASCII form, so that look-alike letters are recognized wherever the URL is shown.
 */
export function readReturnUrl(text: string, mode: Mode, param = 'return_url'): string {
  const bad = (reason: string) => new Problem('url_invalid', { schemes: 'https', reason }, { param });
  if (/[\s\\\u0000-\u001f\u007f]/.test(text)) throw bad('it contains spaces, backslashes or control characters');
  if (!/^https?:\/\/[^/?#]/i.test(text)) throw bad('it must start with https:// and name a host');
  if (/^https?:\/\/[^/?#]*@/i.test(text)) throw bad('it must not contain a user name or password');
  const read = parseWebUrl(text);
  if (!read) throw bad('it is not the address of a website');
  const { protocol, hostname } = read.url;
  if (hostname.endsWith('.')) throw bad('its host must not end with a dot');
  if (mode === 'live' && protocol !== 'https:') throw bad('live payments require https');
  if (protocol !== 'https:' && !isLoopback(hostname)) throw bad('http is allowed for this machine only, such as http://localhost:4000');
  return read.text;
}

/** Metadata of a create request; refused with a public key. */
export function readMetadata(given: Readonly<Record<string, string>> | undefined, kind: 'secret' | 'public'): Record<string, string> {
  if (given === undefined) return {};
  if (kind === 'public')
    throw new Problem(
      'metadata_invalid',
      { reason: 'public keys cannot set metadata; set it from your server with a secret key' },
      { param: 'metadata' },
    );
  checkMetadataKeys(given);
  const reason = metadataFault(given);
  if (reason) throw new Problem('metadata_invalid', { reason }, { param: 'metadata' });
  return { ...given };
}
const isMetadataKey = (key: string): boolean => key.length >= 1 && key.length <= 40 && !/[[\]\u0000-\u001f\u007f]/.test(key);
export function checkMetadataKeys(given: Readonly<Record<string, unknown>>): void {
  for (const key of Object.keys(given)) {
    if (!isMetadataKey(key)) {
      throw new Problem(
        'metadata_invalid',
        { reason: 'keys must have 1 to 40 characters, without brackets and control characters' },
        { param: `metadata.${key.slice(0, 40)}` },
      );
    }
  }
}

/** Test identifiers such as `test_btc_success`, in test mode only. */
export function readScenario(text: string | undefined, mode: Mode): { coin: Coin; name: string } | null {
  if (text === undefined) return null;
  if (mode === 'live') throw new Problem('test_identifier_in_live', {}, { param: 'payment_address' });
  const found = scenarioFromText(text);
  const possible: readonly string[] = found ? scenariosOf(found.coin) : SCENARIOS;
  if (!found || !possible.includes(found.name)) {
    throw new Problem(
      'parameter_invalid',
      { reason: `test_<coin>_<scenario> is expected, the scenario one of ${possible.join(', ')}` },
      { param: 'payment_address' },
    );
  }
  return found;
}

export type Query = Readonly<Record<string, unknown>>;
/** A query or path parameter that is given at most once, in text that the database can store. */
export function readQuery(query: Query, name: string): string | null {
  const value = query[name];
  if (value === undefined) return null;
  if (typeof value !== 'string') throw new Problem('parameter_invalid', { reason: 'it must be given only once' }, { param: name });
  if (value.includes('\u0000') || !value.isWellFormed())
    throw new Problem('parameter_invalid', { reason: 'it contains characters that cannot be used' }, { param: name });
  return value;
}
/** A cursor of a list; empty, as before the first page, is the same as none. */
export const readPageCursor = (query: Query, name: 'starting_after' | 'ending_before'): string | null => readQuery(query, name) || null;
export function readLimit(query: Query): number {
  const text = readQuery(query, 'limit');
  if (text === null) return 10;
  if (!/^[1-9]\d{0,2}$/.test(text) || Number(text) > 100)
    throw new Problem('parameter_invalid', { reason: 'it must be a whole number from 1 to 100' }, { param: 'limit' });
  return Number(text);
}
/** A price in USD in a query, in cents. */
export function readQueryUsd(query: Query, name: string): bigint | null {
  const text = readQuery(query, name);
  if (text === null) return null;
  const cents = readAmountText(text, 2);
  if (cents === null)
    throw new Problem(
      'parameter_invalid',
      { reason: 'it must be an amount in USD with at most two decimals, such as 25.50' },
      { param: name },
    );
  if (cents > MAX_USD_CENTS) throw new Problem('amount_too_large', { maximum: MAX_USD }, { param: name });
  return cents;
}
/** A date, which means its first instant in UTC, or a time with its offset from UTC. */
export function readQueryTime(query: Query, name: string): Date | null {
  const text = readQuery(query, name);
  return text === null ? null : readTime(text, name);
}
/** Parameters written as `name[key]=value`. */
export function readPairs(query: Query, name: string): Record<string, string> {
  const given = Object.keys(query).filter((one) => one === name || (one.startsWith(`${name}[`) && one.endsWith(']')));
  if (given.length > MOST_PAIRS)
    throw new Problem('parameter_invalid', { reason: `at most ${MOST_PAIRS} keys can be given` }, { param: name });
  return Object.fromEntries(
    given.map((param) => {
      const value = readQuery(query, param)!;
      const key = param.slice(name.length + 1, -1);
      if (!isMetadataKey(key))
        throw new Problem('parameter_invalid', { reason: `it must be written as ${name}[key]=value` }, { param: param.slice(0, 100) });
      if (value === '' || value.length > 500)
        throw new Problem('parameter_invalid', { reason: 'it must have 1 to 500 characters' }, { param });
      return [key, value];
    }),
  );
}
const MOST_PAIRS = 10;
/**
 * The coins that a request names by `currency` and `network`: those of the asset, or the one on that network. `toPay`: customers can also pay
 * over Lightning, where the request says so. Errors: parameter_invalid (param `network`) if the asset is not on it.
 */
export function readCoinNames(asset: Asset, network: ChainId | undefined, { toPay = false } = {}): readonly Coin[] {
  if (toPay && network === CHAIN.lightning.chain && asset === COIN[LIGHTNING].asset) return [LIGHTNING];
  const coins = coinsOf(asset, network);
  if (coins.length > 0) return coins;
  const known = coinsOf(asset).map((coin) => COIN[coin].chain);
  throw new Problem('parameter_invalid', { reason: `${asset} is on ${known.join(', ')}, not on ${network}` }, { param: 'network' });
}
/** The code of an asset in upper or lower case. Errors: currency_unknown. */
export function readAssetName(text: string, param: string): Asset {
  const asset = text.toUpperCase();
  if (!isAsset(asset)) throw new Problem('currency_unknown', {}, { param });
  return asset;
}
/** The one coin that is meant. Errors: parameter_missing (param `network`) if the asset is on several networks. */
export function readOneCoin(asset: Asset, network: ChainId | undefined, options?: { toPay: boolean }): Coin {
  const [coin, another] = readCoinNames(asset, network, options);
  if (another !== undefined) throw new Problem('parameter_missing', {}, { param: 'network' });
  return coin!;
}
/** A network's ID in a query, in any case. */
function readNetwork(query: Query): ChainId | undefined {
  const text = readQuery(query, 'network')?.toLowerCase();
  if (text === undefined) return undefined;
  if (!isChain(text)) throw new Problem('parameter_invalid', { reason: `it must be one of ${CHAINS.join(', ')}` }, { param: 'network' });
  return text;
}
/** The coins of a list: of the asset `currency`, of the chain `network`, of both, or null for all of them. */
export function readCoinFilter(query: Query): readonly Coin[] | null {
  const text = readQuery(query, 'currency');
  const asset = text === null ? null : readAssetName(text, 'currency');
  const network = readNetwork(query);
  if (network === CHAIN.lightning.chain && (asset ?? COIN[LIGHTNING].asset) === COIN[LIGHTNING].asset) return [LIGHTNING];
  if (asset !== null) {
    const coins = readCoinNames(asset, network);
    return network === undefined && asset === COIN[LIGHTNING].asset ? [...coins, LIGHTNING] : coins;
  }
  return network === undefined ? null : COINS.filter((coin) => COIN[coin].chain === network);
}
/** The coin of a look-up, by `currency` and, if the asset is on several networks, `network`. Codes in upper or lower case. */
export function readCoin(query: Query): Coin {
  const text = readQuery(query, 'currency');
  if (text === null || text === '') throw new Problem('parameter_missing', {}, { param: 'currency' });
  return readOneCoin(readAssetName(text, 'currency'), readNetwork(query));
}
/** The assets of a price look-up; the native coins of all chains if none are named. */
export function readAssets(query: Query): Asset[] {
  const text = readQuery(query, 'currencies');
  if (text === null) return [...NATIVE_ASSETS];
  return [...new Set(text.split(',').map((part) => readAssetName(part.trim(), 'currencies')))];
}

// Reads prices from requests: in US dollars or in another currency.

/** The schema for a body without `amount` and `currency_fiat`: `amount_usd` is required. */
export const CreateSimpleInUsd = Type.Object({ ...CreateSimple.properties, amount_usd: Amount('') });

/** Errors: fiat_unsupported. */
export function readFiatCode(given: string, param = 'currency_fiat'): Fiat {
  const text = given.toUpperCase();
  if (!isFiat(text)) throw new Problem('fiat_unsupported', {}, { param });
  return text;
}

/** `amount` in the smallest units of its currency. */
export const readMinor = (
  body: ParsedBody,
  path: string,
  given: unknown,
  currency: Fiat,
  { zero = false }: { zero?: boolean } = {},
): bigint => (currency === 'USD' ? readUsd(body, path, given, { zero }) : readFiat(body, path, given, currency, { zero }));

/** `amount` in a currency as US dollars, at the current rate. */
export function readFiatPrice(
  ctx: Context,
  { mode, body, amount, currency: text }: { mode: Mode; body: ParsedBody; amount: unknown; currency: string },
): PaymentPrice {
  const currency = readFiatCode(text);
  const minor = readMinor(body, 'amount', amount, currency);
  return priceAt(ctx, { mode, currency, minor, params: { amount: 'amount', currency: 'currency_fiat' } });
}

/** `amount_usd`, or `amount` with `currency_fiat`. */
export function readPrice(
  ctx: Context,
  { mode, body, given }: { mode: Mode; body: ParsedBody; given: { amount_usd?: unknown; amount?: unknown; currency_fiat?: string } },
): PaymentPrice {
  const { amount_usd, amount, currency_fiat } = given;
  if (amount === undefined && currency_fiat === undefined) {
    if (amount_usd === undefined) throw new Problem('parameter_missing', {}, { param: 'amount_usd' });
    return { amountUsdCents: readUsd(body, 'amount_usd', amount_usd), fiat: null };
  }
  if (amount_usd !== undefined)
    throw new Problem('parameter_invalid', { reason: 'it cannot be combined with amount and currency_fiat' }, { param: 'amount_usd' });
  if (amount === undefined) throw new Problem('parameter_missing', {}, { param: 'amount' });
  if (currency_fiat === undefined) throw new Problem('parameter_missing', {}, { param: 'currency_fiat' });
  return readFiatPrice(ctx, { mode, body, amount, currency: currency_fiat });
}
