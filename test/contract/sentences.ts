/**
 * The documented interface, sentence by sentence: each paragraph, list item and table row of `test/fixtures/interface.md`, and the rows of
 * `rows.ts` that prove it.
 */
import { readFileSync } from 'node:fs';
import { FIELDS, ROWS, type RowOf, type Section } from './rows.ts';

export type Sentence = { section: string; text: string };
type RowKey = { [S in Section]: `${S} / ${RowOf<S>}` }[Section] | `${keyof typeof FIELDS} / *`;

/** All sentences of the document, in its order. A table row is one sentence; of a paragraph or a list item, each sentence is one. */
export function readSentences(): Sentence[] {
  const sentences: Sentence[] = [];
  let section = '';
  let inTable = false;
  for (const line of readFileSync(new URL('../fixtures/interface.md', import.meta.url), 'utf8').split('\n')) {
    const heading = /^#+ (.*)$/.exec(line);
    if (heading) section = heading[1]!;
    const isRow = line.startsWith('|');
    const isHead = isRow && !inTable;
    inTable = isRow;
    if (heading || isHead || line.trim() === '' || line.startsWith('|-')) continue;
    if (isRow) {
      const cells = line.slice(1, -1).split('|');
      sentences.push({
        section,
        text: cells
          .map((cell) => cell.trim())
          .filter((cell) => cell !== '')
          .join(': '),
      });
      continue;
    }
    const text = line.trim().replace(/^(?:-|\d+\.) /, '');
    for (const part of text.split(/(?<=\.) (?=[A-Z{])/)) sentences.push({ section, text: part });
  }
  return sentences;
}

/** Tables of fields in the document, and the section of rows for each of them. */
const FIELD_TABLES: Readonly<Record<string, keyof typeof FIELDS>> = {
  'Payment creation result (simple and advanced)': 'Payment creation result',
  'Legacy payment creation result (POST /payments)': 'Legacy payment creation result',
  'Payment detail (GET by payment_id)': 'Payment detail',
  'Payment list item': 'Payment list item',
};
/** Tables whose rows are named by their first cell, and the section of rows for each of them. */
const NAMED_TABLES: Readonly<Record<string, Section>> = {
  'States and transitions': 'States',
  'GET /api/payments': 'GET /api/payments',
};
/** Sentences that introduce others or define a word: there is nothing to prove. */
const FRAMING = new Set([
  'This document covers the whole service: payments, market and chain lookups, webhooks, authentication, errors, limits and versioning.',
  'It is the only document.',
  'The service is a cryptocurrency payment service over a JSON HTTP interface.',
  'General rules:',
  '{base_url} is the service base address.',
  'See Events.',
  'See Errors.',
  'Gaps:',
  'Payment status values:',
  'All paths are relative to {base_url}.',
  'Item object:',
  'Key types:',
  'Endpoint requirements:',
  'Event types:',
  'Payload:',
  'Rules:',
  'Error body:',
  'HTTP status meanings, in the order listed:',
]);

/** Every other sentence that proves itself by rows of another name. The beginning of a sentence is enough. */
const PROOFS: Readonly<Record<string, Readonly<Record<string, readonly RowKey[]>>>> = {
  'What the service does': {
    'A merchant creates a payment priced in USD': ['What the service does / 1 a payment in USD returns a payment page address'],
    'The service returns a hosted payment page': ['What the service does / 1 a payment in USD returns a payment page address'],
    'The customer opens the payment page': ['What the service does / 2 the customer picks one of five coins on the page'],
    'Supported currencies': ['What the service does / 2 the customer picks one of five coins on the page'],
    'No crypto address exists': ['What the service does / 2 no address exists before the choice'],
    'The merchant retrieves one payment': ['What the service does / 3 a secret key retrieves one payment and lists payments'],
    'Auxiliary lookups': ['What the service does / 4 prices, balances, fees and transactions are looked up'],
    'Signed webhook notifications': ['What the service does / 5 signed webhooks report payment events'],
    'A test mode simulates': ['What the service does / 6 test mode simulates the lifecycle without real funds'],
    'All requests use HTTPS': ['General rules / plain HTTP fails'],
    'Requests without valid authentication fail': ['General rules / requests without valid authentication fail'],
    'All responses are JSON': ['General rules / all responses are JSON with a status code'],
    'Two path families appear': ['General rules / two path families'],
    '{payment_page_url} stands for': ['General rules / payment pages have a host of their own'],
  },
  'Resources and their fields': {
    'Amounts in USD and crypto': [
      'General rules / amounts are decimals carried as strings',
      'Exact forms / USD has 2 decimals',
      'Exact forms / coins have 8 decimals',
      'Exact forms / never an exponent',
    ],
    'Timestamps are ISO 8601': ['General rules / timestamps are ISO 8601 UTC strings'],
  },
  'Payment creation result (simple and advanced)': {
    'For an advanced payment, amount_usd': ['Payment creation result, rules / amount_usd is the sum of quantity times unit_price plus tax'],
  },
  'Payment detail (GET by payment_id)': {
    'amount_received: string decimal': [
      'Payment detail / amount_received',
      'Payment detail, rules / amount_received counts all that the chain credits, late money too',
    ],
  },
  'Payment list item': {
    'List envelope': ['List envelope / *', 'List envelope, rules / total_count counts all matching payments'],
  },
  'Price entry': {
    Envelope: ['Price envelope / *', 'Price entry, rules / prices are keyed by currency code'],
    'Each entry': ['Price entry / *', 'Price entry, rules / change_24h may be negative and is percent'],
  },
  'Address balance': { Fields: ['Address balance / *'] },
  'Fee estimate': {
    Fields: ['Fee estimate / *', 'Fee estimate, rules / fees has the keys fast, normal and slow'],
    'Each entry': ['Fee entry / *'],
  },
  'On-chain transaction': {
    Fields: ['On-chain transaction / *', 'On-chain transaction input / *', 'On-chain transaction output / *'],
  },
  'Error object': {
    'How metadata is set': ['Resources, gaps / metadata is set at creation and by POST /v1/payments/{id}'],
    'Relationship between transaction_id': ['Resources, gaps / transaction_id and id are the same string'],
    'Unit of change_24h': ['Price entry, rules / change_24h may be negative and is percent'],
    'Values of the on-chain transaction status': ['On-chain transaction / status'],
  },
  'States and transitions': {
    'A new payment starts as pending': ['States / a new payment starts as pending'],
    'Each state has a matching': ['States / each state has a matching event'],
    'Transitions: not shown': [
      'States / pending',
      'States / processing',
      'States / completed',
      'States / expired',
      'States / cancelled',
      'States / failed',
    ],
  },
  Endpoints: {
    'Bodies of POST requests': ['Endpoints, rules / bodies are JSON with Content-Type application/json'],
    'Successful responses are JSON': ['General rules / all responses are JSON with a status code'],
  },
  'Key requirements per endpoint': {
    'POST /api/payment/create/simple': ['Key requirements / POST /api/payment/create/simple: public or secret'],
    'POST /api/payment/create/advanced': ['Key requirements / POST /api/payment/create/advanced: public or secret'],
    'GET /api/payment/{payment_id}': ['Key requirements / GET /api/payment/{payment_id}: secret only'],
    'GET /api/payments': ['Key requirements / GET /api/payments: secret only'],
    'A public key can create payments only': ['Key requirements / a public key creates payments only'],
  },
  'POST /payments (legacy creation)': {
    'Request body': [
      'POST /payments / amount is required',
      'POST /payments / amount is a decimal string',
      'POST /payments / description',
      'POST /payments / redirect_url',
    ],
    Response: ['POST /payments / answers 201 with the legacy result'],
    'When amount is not greater than 0': ['POST /payments / amount not above 0 is invalid_request with param amount'],
    'Key: secret key': ['POST /payments / takes a secret key'],
  },
  'POST /api/payment/create/simple': {
    'amount_usd: number': [
      'POST /api/payment/create/simple / amount_usd is required',
      'POST /api/payment/create/simple / amount_usd is a number in USD',
      'POST /api/payment/create/simple / amount_usd has any form of a JSON number',
    ],
    'return_url: string URL': [
      'POST /api/payment/create/simple / return_url is required',
      'POST /api/payment/create/simple / return_url is a URL',
    ],
    Response: ['POST /api/payment/create/simple / answers 201 without items_count'],
    'The customer chooses': ['What the service does / 2 the customer picks one of five coins on the page'],
  },
  'POST /api/payment/create/advanced': {
    'return_url: string URL': ['POST /api/payment/create/advanced / return_url is required'],
    'items: array': [
      'POST /api/payment/create/advanced / items is required',
      'POST /api/payment/create/advanced / items is an array of items',
    ],
    'tax: number': ['POST /api/payment/create/advanced / tax is required'],
    'invoice_id: string': [
      'POST /api/payment/create/advanced / invoice_id is optional',
      'POST /api/payment/create/advanced / what is optional may be null',
    ],
    'product_id: string': ['POST /api/payment/create/advanced / product_id is required'],
    'name: string': ['POST /api/payment/create/advanced / name is required'],
    'quantity: integer': [
      'POST /api/payment/create/advanced / quantity is required',
      'POST /api/payment/create/advanced / quantity is an integer',
    ],
    'unit_price: number': ['POST /api/payment/create/advanced / unit_price is required'],
    Response: ['POST /api/payment/create/advanced / answers 201 with items_count'],
  },
  'GET /api/payment/{payment_id}': {
    'Path parameter': ['GET /api/payment/{payment_id} / payment_id names the payment'],
    Response: ['GET /api/payment/{payment_id} / answers 200 with the payment detail'],
  },
  'GET /api/payments': {
    Response: ['GET /api/payments / has_more pages through all, newest first'],
    'Type, bounds and default of limit': [
      'GET /api/payments / limit is 1 to 100 and 10 by default',
      'GET /api/payments / has_more pages through all, newest first',
    ],
  },
  'GET /api/crypto/prices': {
    'Query parameter': ['GET /api/crypto/prices / currencies is a comma-separated list'],
    Response: ['Price entry, rules / prices are keyed by currency code'],
    'Prices are current market prices': ['GET /api/crypto/prices / prices are in USD'],
    'Behaviour when currencies is omitted': ['GET /api/crypto/prices / without currencies all five'],
  },
  'GET /api/crypto/balance': {
    'Query parameters': [
      'GET /api/crypto/balance / address is required',
      'GET /api/crypto/balance / currency is required',
      'GET /api/crypto/balance / currency is one of five',
    ],
    Response: ['GET /api/crypto/balance / answers 200 with the balance'],
  },
  'GET /api/crypto/fees': {
    'Query parameter': ['GET /api/crypto/fees / currency is required'],
    Response: ['GET /api/crypto/fees / answers 200 with fast, normal and slow'],
    'Names of the total-fee field': ['GET /api/crypto/fees / total-fee fields of other currencies'],
  },
  'GET /api/crypto/transaction/{txid}': {
    'Path parameter': ['GET /api/crypto/transaction/{txid} / txid names the transaction'],
    'Query parameter': ['GET /api/crypto/transaction/{txid} / currency is required'],
    Response: ['GET /api/crypto/transaction/{txid} / answers 200 with the transaction'],
  },
  'POST /v1/transactions/create (under the versioned base)': {
    'crypto: string': ['POST /v1/transactions/create / crypto is a coin code', 'POST /v1/transactions/create / crypto has any case'],
    'amount: number': ['POST /v1/transactions/create / amount is in the fiat currency'],
    'currency_fiat: string': ['POST /v1/transactions/create / currency_fiat is a currency code'],
    'The response has the same format': [
      'POST /v1/transactions/create / the response includes payment_url',
      'POST /v1/transactions/create / test and live responses have one format',
    ],
    'Visiting payment_url': ['POST /v1/transactions/create / visiting payment_url in test mode pays'],
    'Response fields beyond payment_url': [
      'POST /v1/transactions/create / test and live responses have one format',
      'POST /v1/transactions/create / the first event names amount and currency as the response does',
    ],
    'Which key type': ['Endpoints, gaps / look-ups take secret keys'],
    'Bounds of amount_usd': ['Endpoints, gaps / bounds of amount_usd, tax, quantity and unit_price'],
  },
  Authentication: {
    'Every request carries the header': ['Authentication / 1 Authorization: Bearer'],
    'Secret key': ['Authentication / 2 secret key: full access'],
    'Public key: client-side use': [
      'Authentication / 2 public key: a page of any site creates and reads the reply',
      'Authentication / 2 public key: creates only',
    ],
    'It may create payments': ['Authentication / 2 public key: creates only'],
    'Keys are created and managed': ['Authentication / 3 keys are created and revoked'],
    'A missing or invalid key': ['Authentication / 4 a missing or invalid key is an authentication error'],
    'Test mode has its own keys': ['Authentication / 5 test mode has its own keys'],
    'Shown prefixes': ['Authentication / 5 sk_test_, sk_live_, test_sk_ and test_pk_ prefixes'],
    'Another prefix pair': ['Authentication / 5 sk_test_, sk_live_, test_sk_ and test_pk_ prefixes'],
    'Test and live keys are switched': ['Authentication / 5 test mode has its own keys'],
    'Test payment address identifiers': [
      'Authentication / 6 test_btc_success',
      'Authentication / 6 test_eth_slow',
      'Authentication / 6 test_ltc_failed',
    ],
    'Test mode: same request': [
      'Authentication / 7 same request and response format as live',
      'Authentication / 7 payments auto-confirm',
      'Authentication / 7 test transactions are labelled TEST',
      'Authentication / 7 webhooks fire',
    ],
    'Webhook requests are authenticated': [
      'Authentication / 8 X-Service-Signature is the hex HMAC-SHA256 of the raw body',
      'Authentication / 8 X-Service-Signature is spelled like this on the wire',
    ],
    'The receiver compares it': ['Authentication / 8 X-Service-Signature is the hex HMAC-SHA256 of the raw body'],
    'Public key permissions beyond': ['Authentication / 9 public keys have no other permission'],
  },
  Events: {
    'Webhooks are available': ['Events / webhooks are part of Professional and Enterprise'],
    'The service sends an HTTP POST': ['Events / a POST to each configured endpoint'],
    'Endpoints and the event types': ['Events / an endpoint receives the types it names'],
    'HTTPS URL': ['Events / endpoint: HTTPS URL'],
    'Publicly reachable': ['Events / endpoint: publicly reachable'],
    'Returns 200 OK': ['Events / endpoint: 200 OK within 10 seconds'],
    'payment.created:': ['Events / payment.created'],
    'payment.processing:': ['Events / payment.processing'],
    'payment.completed:': ['Events / payment.completed'],
    'payment.failed:': ['Events / payment.failed'],
    'payment.expired:': ['Events / payment.expired'],
    'payment.cancelled:': ['Events / payment.cancelled'],
    'id: string, event identifier': ['Webhook event / id'],
    'type: string': ['Webhook event / type'],
    'created_at: timestamp': ['Webhook event / created_at'],
    'data: object': ['Webhook event / data', 'Webhook event data / *'],
    'Each request carries': ['Events / 1 each request carries X-Service-Signature'],
    'An event may be delivered more than once': ['Events / 2 a repeated delivery keeps id and bytes'],
    'Test mode sends webhooks': ['Events / 3 test mode sends as live mode does'],
    'Retry behaviour': ['Events / 4 a failed delivery is retried'],
    'Contents of data': ['Events / 5 data has one shape for all types'],
  },
  Errors: {
    'error.type': ['Error object / type'],
    'error.message': ['Error object / message'],
    'error.param': ['Error object / param', 'Errors / param is always present'],
    'request succeeded': ['Errors / request succeeded: 200'],
    'resource created': ['Errors / resource created: 201'],
    'invalid request parameters': ['Errors / invalid request parameters: 400 invalid_request with param'],
    'invalid or missing API key': ['Errors / invalid or missing API key: 401'],
    'resource not found': ['Errors / resource not found: 404'],
    'rate limit exceeded': ['Errors / rate limit exceeded: 429'],
    'server error': ['Errors / server error: 500'],
    'Numeric codes': ['Errors / request succeeded: 200', 'Errors / resource created: 201', 'Errors / server error: 500'],
    'Full list of error.type': ['Error object / type'],
  },
  Limits: {
    'Rate limits depend': ['Limits / 1 rate limits depend on the plan'],
    'Every response carries': [
      'Limits / 2 X-RateLimit-Limit, -Remaining and -Reset on every response',
      'Limits / 2 the three headers are spelled like this on the wire',
    ],
    'When the limit is exceeded': ['Limits / 3 over the limit: 429'],
    'A webhook endpoint must answer': ['Limits / 4 a webhook endpoint has 10 seconds'],
    'A monthly plan limit': ['Limits / 5 a monthly limit exists', 'Limits / 5 test transactions do not count toward it'],
    'Numeric rate limits': ['Limits / 6 60, 600 and 6000 a minute'],
    'Monthly limit values': ['Limits / 7 100, 10000 and unlimited a month'],
    'Length of a payment window': ['Limits / 8 a payment window lasts 60 minutes'],
  },
  Versioning: {
    'The path prefix /v1': ['Versioning / /v1 is version 1 and the same for live and test'],
    'The other paths': ['Versioning / other paths carry no version segment'],
    'Version policy': ['Versioning / /v1 covers every path'],
  },
};

const KNOWN = new Set(ROWS.map(([section, row]) => `${section} / ${row}`));
/** The rows that prove a sentence, as `section / row`; null: it only introduces others. Fails for a sentence without rows. */
export function rowsFor({ section, text }: Sentence): string[] | null {
  if (FRAMING.has(text)) return null;
  const name = text.split(':')[0]!;
  const table = FIELD_TABLES[section] ?? NAMED_TABLES[section];
  const found = Object.entries(PROOFS[section] ?? {}).find(([beginning]) => text.startsWith(beginning));
  if (!found && table !== undefined && KNOWN.has(`${table} / ${name}`)) return [`${table} / ${name}`];
  if (!found) throw new Error(`No row proves “${text}” (${section})`);
  return found[1].flatMap((key) => (key.endsWith(' / *') ? [...KNOWN].filter((row) => row.startsWith(key.slice(0, -1))) : [key]));
}

/** Proofs that no sentence uses, as `section: beginning`: the document says something else by now. */
export const proofsWithoutSentence = (): string[] =>
  Object.entries(PROOFS).flatMap(([section, proofs]) =>
    Object.keys(proofs)
      .filter((beginning) => !readSentences().some((sentence) => sentence.section === section && sentence.text.startsWith(beginning)))
      .map((beginning) => `${section}: ${beginning}`),
  );

/** The table of all sentences with what proves them, in Markdown. The contract test fails where a row of it is not proven. */
export function interfaceTable(): string {
  const sections = Map.groupBy(readSentences(), ({ section }) => section);
  const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('<', '&lt;');
  return [...sections]
    .flatMap(([section, sentences]) => {
      const rows = sentences.flatMap((sentence) => {
        const proofs = rowsFor(sentence);
        return proofs === null ? [] : [`| ${cell(sentence.text)} | ${cell(proofs.map(proofText).join('; '))} |`];
      });
      return rows.length === 0 ? [] : [`## ${section}\n\n| The document says | Tested |\n|---|---|\n${rows.join('\n')}\n`];
    })
    .join('\n');
}
/** A row in words: a field with its format, a rule without the number that it has in the document. */
function proofText(key: string): string {
  const at = key.indexOf(' / ');
  const [section, row] = [key.slice(0, at), key.slice(at + 3)];
  const form = section in FIELDS ? (FIELDS[section as keyof typeof FIELDS] as Record<string, string>)[row] : undefined;
  return form === undefined ? row.replace(/^\d /, '') : `\`${row}\`: ${form}`;
}
