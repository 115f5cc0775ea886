/** The API request log: collected in memory, written once a second, kept for 30 days. Also the last use of each key. */
import { type Context, perContext } from '#context';
import type { Mode } from '#core/coin';
import { Problem } from '#core/problem';
import { cutText, MOST_LOGGED_READ, toPrintableLine } from '#core/text';
import { PAYOUT_PATH, PAYOUT_TEXT, type Sight, WEBHOOK_PATH, WEBHOOK_TEXT } from '#core/transfer';
import { type Fragment, type LookedBackTo, lookThrough } from '#db';
import type { KeyOwner } from './keys.ts';

const WRITE_MS = 1_000;
/** Logged per key, process and second: this many successful and this many failed requests. The rest are counted on the last logged one. */
const KEPT_A_SECOND = 10;
/** Rows that may wait for the database. Beyond this, rows are dropped and counted. */
const MOST_WAITING = 2_000;
/** The last use of a key is written at most this often. */
const USE_MS = 60_000;
const KEPT_DAYS = 30;
/** Rows that are redacted and written at once, so that other requests are answered in between. */
const ROWS_AT_ONCE = 50;
/** Rows kept per merchant and mode, so that a search without an index stays fast. Older rows are deleted early. */
const MOST_KEPT = 200_000;
/** Names of ignored parameters that are kept per request. */
const MOST_IGNORED = 20;
const LONGEST_AGENT = 200;
const FORGET_ROWS = 2_000;
const FORGET_MERCHANTS = 20;

/** A finished request. Its texts are cut when it is noted, and read later. */
type FinishedRequest = {
  requestId: string;
  /** An API key, or the key of a shop. */
  owner: Pick<KeyOwner, 'keyId' | 'merchantId' | 'mode'>;
  method: string;
  url: string;
  status: number;
  errorCode: string | null;
  startedMs: number;
  hasIdempotencyKey: boolean;
  ip: string;
  /** The User-Agent of a server; null for callers that may be customers. */
  agent: string | null;
  body: string | null;
  /** Names of parameters that were ignored. */
  ignored: readonly string[] | null;
  /** A successful poll by `florin listen`: counts as a use of the key, but is not logged. */
  isPoll: boolean;
};
type Kept = FinishedRequest & { response: string | null; endedMs: number; omitted: number };
type Use = {
  calls: number;
  failed: number;
  /** Of this second. */
  done: number;
  refused: number;
  last: FinishedRequest;
  lastKept: Kept | null;
  writtenMs: number;
};
type Log = { uses: Map<string, Use>; waiting: Kept[]; writing: Promise<void> | null; kept: number; omitted: number; dropped: number };
const logOf = perContext<Log>(() => ({ uses: new Map(), waiting: [], writing: null, kept: 0, omitted: 0, dropped: 0 }));

/** Request counts of this process for the metrics: logged, only counted, or lost because the database lagged. */
export const requestLogCounts = (ctx: Context): Record<'kept' | 'omitted' | 'dropped', number> => {
  const { kept, omitted, dropped } = logOf(ctx);
  return { kept, omitted, dropped };
};

/** Records a request. It runs on the path of the request, so it neither parses bodies nor waits. */
export function noteRequest(ctx: Context, asked: FinishedRequest, response: string | Uint8Array | null = null): void {
  const log = logOf(ctx);
  const failed = asked.status >= 400;
  let use = log.uses.get(asked.owner.keyId);
  if (use === undefined) {
    use = { calls: 0, failed: 0, done: 0, refused: 0, last: asked, lastKept: null, writtenMs: Number.NEGATIVE_INFINITY };
    log.uses.set(asked.owner.keyId, use);
  }
  use.calls++;
  if (failed) use.failed++;
  use.last = asked;
  if (asked.isPoll) return;
  if ((failed ? ++use.refused : ++use.done) > KEPT_A_SECOND) {
    log.omitted++;
    if (use.lastKept) use.lastKept.omitted++;
    return;
  }
  if (log.waiting.length >= MOST_WAITING) {
    log.dropped++;
    return;
  }
  const texts = { body: asked.body && startOfBody(asked.body), response: response === null ? null : startOfBody(response) };
  const kept = { ...asked, ...texts, endedMs: ctx.clock.monotonicMs(), omitted: 0 };
  use.lastKept = kept;
  log.waiting.push(kept);
}

/** Writes collected requests every second. `stop` writes the rest. */
export function startRequestLog(ctx: Context): { stop(): Promise<void> } {
  const timer = setInterval(() => void flush(ctx, false), WRITE_MS);
  return {
    stop: async () => {
      clearInterval(timer);
      await flush(ctx, false);
      await flush(ctx, true);
    },
  };
}

/** One write at a time. While the database lags, rows wait up to the limit. */
function flush(ctx: Context, ending: boolean): Promise<void> {
  const log = logOf(ctx);
  if (log.writing) return log.writing;
  const rows = log.waiting;
  log.waiting = [];
  const nowMs = ctx.clock.monotonicMs();
  const used: [keyId: string, use: Use][] = [];
  for (const [keyId, use] of log.uses) {
    use.done = 0;
    use.refused = 0;
    use.lastKept = null;
    if (use.calls > 0 && (ending || nowMs - use.writtenMs >= USE_MS)) used.push([keyId, use]);
    // Idle keys are removed, so that the map only holds keys in use.
    else if (use.calls === 0 && nowMs - use.writtenMs >= USE_MS) log.uses.delete(keyId);
  }
  if (rows.length === 0 && used.length === 0) return Promise.resolve();
  log.writing = Promise.all([writeAll(ctx, rows), writeUses(ctx, used)])
    .catch((error: unknown) => {
      log.dropped += rows.length;
      ctx.log.warn({ err: error, requests: rows.length }, 'Could not write to the request log');
    })
    .then(() => {
      log.writing = null;
    });
  return log.writing;
}

/** Takes from `rows` what is written. */
async function writeAll(ctx: Context, rows: Kept[]): Promise<void> {
  while (rows.length > 0) {
    const some = rows.slice(0, ROWS_AT_ONCE);
    await writeRows(ctx, some);
    rows.splice(0, some.length);
    logOf(ctx).kept += some.length;
  }
}

/** Converts monotonic times to instants, because asking for the time would slow requests down. */
const instantOf = (ctx: Context, ms: number): string => new Date(ctx.clock.now().getTime() - (ctx.clock.monotonicMs() - ms)).toISOString();

async function writeRows(ctx: Context, rows: readonly Kept[]): Promise<void> {
  const values = rows.map((row) => ({
    request_id: row.requestId,
    merchant_id: row.owner.merchantId,
    mode: row.owner.mode,
    key_id: row.owner.keyId,
    at: instantOf(ctx, row.startedMs),
    method: row.method,
    ...redactUrl(row.url),
    status: row.status,
    error_code: row.errorCode,
    duration_ms: Math.round(row.endedMs - row.startedMs),
    has_idempotency_key: row.hasIdempotencyKey,
    ip: row.ip,
    agent: row.agent === null ? null : cutText(toPrintableLine(row.agent), LONGEST_AGENT) || null,
    body: row.body === null || row.body === '' ? null : redactBody(row.body),
    response_body: row.response === null ? null : redactBody(row.response),
    omitted: row.omitted,
    ignored: row.ignored?.slice(0, MOST_IGNORED).map(redactName) ?? null,
  }));
  await ctx.db.sql`
    insert into requests (request_id, merchant_id, mode, key_id, at, method, path, query, status, error_code, duration_ms, has_idempotency_key, ip, agent, body, response_body, omitted, ignored)
    select request_id, merchant_id, mode, key_id, at, method, path, query, status, error_code, duration_ms, has_idempotency_key, ip, agent, body, response_body, omitted, ignored
    from json_to_recordset(${JSON.stringify(values)}::text::json) as r (request_id text, merchant_id text, mode text, key_id text, at timestamptz,
      method text, path text, query text, status int, error_code text, duration_ms int, has_idempotency_key boolean, ip text, agent text, body text, response_body text, omitted int, ignored text[])`;
}

async function writeUses(ctx: Context, used: readonly [keyId: string, use: Use][]): Promise<void> {
  if (used.length === 0) return;
  const nowMs = ctx.clock.monotonicMs();
  const values = used.map(([keyId, { calls, failed, last }]) => ({
    key_id: keyId,
    calls,
    failed,
    at: instantOf(ctx, last.startedMs),
    ip: last.ip,
    path: `${last.method} ${redactUrl(last.url).path}`,
  }));
  for (const [, use] of used) {
    use.calls = 0;
    use.failed = 0;
    use.writtenMs = nowMs;
  }
  // A fixed order, so that processes that write the same keys cannot deadlock.
  await ctx.db.sql`
    with used as (
      select * from json_to_recordset(${JSON.stringify(values.toSorted((a, b) => (a.key_id < b.key_id ? -1 : 1)))}::text::json)
        as u (key_id text, calls bigint, failed bigint, at timestamptz, ip text, path text)
    ), counted as (
      insert into key_hours (key_id, hour, calls, failed) select key_id, date_trunc('hour', at), calls, failed from used
      where exists (select from keys k where k.id = used.key_id)
      on conflict (key_id, hour) do update set calls = key_hours.calls + excluded.calls, failed = key_hours.failed + excluded.failed
    ), locked as (
      select k.id from keys k join used u on u.key_id = k.id order by k.id for update of k
    )
    update keys k set last_used_at = u.at, last_used_ip = u.ip, last_used_path = u.path
    from used u join locked l on l.id = u.key_id where k.id = u.key_id and (k.last_used_at is null or k.last_used_at < u.at)`;
}

export type LoggedRequest = {
  id: string;
  mode: Mode;
  keyId: string;
  keyName: string;
  keyHint: string;
  at: Date;
  method: string;
  path: string;
  query: string | null;
  status: number;
  errorCode: string | null;
  durationMs: number;
  hasIdempotencyKey: boolean;
  ip: string;
  body: string | null;
  responseBody: string | null;
  omitted: number;
  /** Names of parameters that were ignored. */
  ignored: string[] | null;
};
type Owner = { merchantId: string; mode: Mode };
const COLUMNS = (ctx: Context) => ctx.db.sql`
  r.request_id as id, r.mode, r.key_id as "keyId", coalesce(k.name, s.name) as "keyName", coalesce(k.hint, s.hint) as "keyHint", r.at, r.method, r.path, r.query, r.status,
  r.error_code as "errorCode", r.duration_ms as "durationMs", r.has_idempotency_key as "hasIdempotencyKey", r.ip, r.body, r.response_body as "responseBody", r.omitted, r.ignored`;

/** Requests `r` with the API key `k` or the shop `s` that made each. */
const withKeys = (ctx: Context): Fragment => ctx.db.sql`left join keys k on k.id = r.key_id left join shop_keys s on s.id = r.key_id`;

/** The requests `r` that a reader may see. A path is enough to hide one: of a request that failed, the body may have any form. */
const visibleTo = (ctx: Context, { payouts, secrets }: Sight): Fragment => {
  const { sql } = ctx.db;
  return sql`
    ${payouts ? sql`` : sql`and r.path !~* ${PAYOUT_PATH} and concat_ws(' ', r.query, r.body, r.response_body) !~ ${PAYOUT_TEXT}`}
    ${secrets ? sql`` : sql`and r.path !~* ${WEBHOOK_PATH} and concat_ws(' ', r.body, r.response_body) !~ ${WEBHOOK_TEXT}`}`;
};

export type RequestFilter = {
  /** Only failed requests. */
  failed: boolean;
  status: number | null;
  /** A part of the path. */
  path: string | null;
  /** A part of the path, the query or a body, in any case. */
  text: string | null;
  keyId: string | null;
  requestId: string | null;
};

/**
 * Requests of a merchant and mode, newest first. A page looks at a bounded number of them: where that ended before the page was
 * full, `lookedBackTo` is the last of them, and the next page may start after it. With `whole` it looks at all that are kept. Errors: cursor_invalid.
 */
export async function listRequests(
  ctx: Context,
  {
    merchantId,
    mode,
    limit,
    startingAfter,
    filter,
    sight,
    whole = false,
  }: Owner & { sight: Sight; limit: number; startingAfter: string | null; filter: RequestFilter; whole?: boolean },
): Promise<{ items: LoggedRequest[]; hasMore: boolean; lookedBackTo: LookedBackTo }> {
  const { sql } = ctx.db;
  let before: bigint | null = null;
  if (startingAfter !== null) {
    const [known] = await sql<{ id: bigint }[]>`
      select id from requests where request_id = ${startingAfter} and merchant_id = ${merchantId} and mode = ${mode}`;
    if (!known) throw new Problem('cursor_invalid', {}, { param: 'starting_after' });
    before = known.id;
  }
  const { failed, status, path, text, keyId, requestId } = filter;
  const refused = failed || (status !== null && status >= 400);
  // A key belongs to one merchant and mode. Filtering by the key alone makes PostgreSQL use its index.
  const whose =
    keyId === null
      ? sql`merchant_id = ${merchantId} and mode = ${mode} ${refused ? sql`and status >= 400` : sql``}`
      : sql`key_id = (select id from keys where id = ${keyId} and merchant_id = ${merchantId} and mode = ${mode}
          union all select id from shop_keys where id = ${keyId} and merchant_id = ${merchantId} and mode = ${mode})`;
  const candidates = sql`
    where ${whose} ${before === null ? sql`` : sql`and id < ${String(before)}::bigint`} ${requestId === null ? sql`` : sql`and request_id = ${requestId}`}
    order by id desc`;
  return lookThrough(sql, {
    limit,
    further: before !== null,
    isExact: whole || (sight.payouts && sight.secrets && status === null && path === null && text === null && (keyId === null || !failed)),
    find: (bound) => sql<LoggedRequest[]>`
      select ${COLUMNS(ctx)} from (select * from requests ${candidates} ${bound}) as r ${withKeys(ctx)}
      where true ${refused ? sql`and r.status >= 400` : sql``} ${status === null ? sql`` : sql`and r.status = ${status}`}
        ${path === null ? sql`` : sql`and strpos(r.path, ${path}) > 0`}
        ${text === null ? sql`` : sql`and strpos(lower(concat_ws(' ', r.path, r.query, r.body, r.response_body)), ${text.toLowerCase()}) > 0`} ${visibleTo(ctx, sight)}
      order by r.id desc limit ${limit + 1}`,
    candidateKeys: sql`select id from requests ${candidates}`,
    last: (key) => sql<{ id: string; at: Date }[]>`select request_id as id, at from requests where id = ${key}`,
  });
}

/** One request. Errors: request_not_found. */
export async function getRequest(
  ctx: Context,
  { merchantId, mode, requestId, sight }: Owner & { requestId: string; sight: Sight },
): Promise<LoggedRequest> {
  const [row] = await ctx.db.sql<LoggedRequest[]>`
    select ${COLUMNS(ctx)} from requests r ${withKeys(ctx)}
    where r.request_id = ${requestId} and r.merchant_id = ${merchantId} and r.mode = ${mode} ${visibleTo(ctx, sight)}`;
  if (!row) throw new Problem('request_not_found', { id: requestId });
  return row;
}

/** Requests of a key that are looked through for what made them. */
const AGENTS_SOUGHT = 200;
/** The newest User-Agent of a key that begins with a text; null for none among its latest requests. */
export async function readAgent(
  ctx: Context,
  { merchantId, mode, keyId, begins }: Owner & { keyId: string; begins: string },
): Promise<string | null> {
  const [row] = await ctx.db.sql<{ agent: string }[]>`
    select agent from (
      select id, agent from requests where key_id = ${keyId} and merchant_id = ${merchantId} and mode = ${mode} order by id desc limit ${AGENTS_SOUGHT}
    ) as r where starts_with(agent, ${begins}) order by id desc limit 1`;
  return row?.agent ?? null;
}

/** For each owner a text that changes when a request was logged. One look for all open dashboards. */
export async function readRequestPulse(ctx: Context, { owners }: { owners: readonly Owner[] }): Promise<(string | null)[]> {
  const rows = await ctx.db.sql<{ pulse: string | null }[]>`
    select (select r.id::text from requests r where r.merchant_id = o.merchant_id and r.mode = o.mode order by r.id desc limit 1) as pulse
    from unnest(${owners.map((o) => o.merchantId)}::text[], ${owners.map((o) => o.mode)}::text[]) with ordinality as o (merchant_id, mode, n)
    order by o.n`;
  return rows.map((row) => row.pulse);
}

/** The merchant where the next round starts, per process. */
const nextMerchant = perContext(() => ({ after: '' }));

/** Deletes requests older than 30 days, and for some merchants those beyond the limit. Each round is bounded; true: there is more. */
export async function forgetRequests(ctx: Context): Promise<boolean> {
  const { sql } = ctx.db;
  // Rows are in the order of writing, so the oldest come first and no index on time is needed.
  const old = await sql`
    delete from requests where id in (select id from requests order by id limit ${FORGET_ROWS}) and at < clock_timestamp() - make_interval(days => ${KEPT_DAYS})`;
  await sql`delete from key_hours where hour < clock_timestamp() - interval '2 days'`;
  const place = nextMerchant(ctx);
  const merchants = await sql<{ id: string }[]>`select id from merchants where id > ${place.after} order by id limit ${FORGET_MERCHANTS}`;
  place.after = merchants.length < FORGET_MERCHANTS ? '' : merchants.at(-1)!.id;
  const many = await sql`
    with edges as (
      select m.id as merchant_id, o.mode, (select id from requests r where r.merchant_id = m.id and r.mode = o.mode
        order by id desc offset ${MOST_KEPT} limit 1) as edge
      from unnest(${merchants.map((m) => m.id)}::text[]) as m (id), unnest('{test,live}'::text[]) as o (mode)
    )
    delete from requests where id in (
      select r.id from edges e cross join lateral (
        select id from requests where merchant_id = e.merchant_id and mode = e.mode and id <= e.edge order by id limit ${FORGET_ROWS}
      ) r)`;
  return old.count === FORGET_ROWS || many.count >= FORGET_ROWS;
}

// The part of a request that the log keeps: cut, then redacted, then shortened. Everything takes time in proportion to the text. Pure.

const GONE = '[redacted]';
/** Names of fields whose values are redacted. */
const SECRET_NAME =
  /secret|password|passphrase|token|authorization|api[_-]?key|private|mnemonic|recovery_phrase|seed|signature|credential|card_?number|cvc/i;
/** Names of query parameters whose values are redacted, besides those of fields. */
const SECRET_PARAMETER = /key|sig|auth|code/i;
/** Secrets recognized by their form: API keys, signing secrets, extended private keys, bearer headers. */
const SECRET_SHAPE =
  /\b(?:(?:sk|pk)_(?:live|test)|(?:live|test)_(?:sk|pk)|whsec)_[\w+/=-]+|\b[xyztuv]prv[1-9A-HJ-NP-Za-km-z]{20,}|\bBearer(?:\s|%20|\+)+[\w.~+/=-]+/gi;
/** `https://user:password@host`, also as the value of a query parameter. */
const IN_URL = /(\/\/|%2f%2f)(?:(?!%40|%2f)[^/\s"'@?#])+(@|%40)/gi;
/** The token of a claim page. */
const IN_CLAIM = /(\/claim\/|%2fclaim%2f)\w+/gi;

const MOST_TEXT_KEPT = 2_048;
/** A secret up to this length is never cut in half. */
const LONGEST_SECRET = 1_024;

/** The beginning of a text that is searched. It ends between two words, so that it does not end in the middle of a secret. */
function beginning(text: string, most: number): string {
  if (text.length <= most) return text;
  let end = most;
  while (end > most - LONGEST_SECRET && !/[\s"&,]/.test(text[end]!)) end--;
  return text.slice(0, Math.max(0, end));
}
const isSpace = (character: string | undefined): boolean => character !== undefined && /\s/.test(character);
const skipSpace = (text: string, from: number): number => {
  let at = from;
  while (isSpace(text[at])) at++;
  return at;
};

/** Behind the text in quotation marks that begins at `start`, which may not end. */
function endOfText(text: string, start: number): number {
  let at = start + 1;
  while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return Math.min(at + 1, text.length);
}

/** Behind the JSON value that begins at `start`, which may not end. */
function endOfValue(text: string, start: number): number {
  if (text[start] === '"') return endOfText(text, start);
  let at = start;
  if (text[start] !== '{' && text[start] !== '[') {
    while (at < text.length && !/[\s,}\]]/.test(text[at]!)) at++;
    return at;
  }
  for (let depth = 0; at < text.length; ) {
    const character = text[at];
    if (character === '"') {
      at = endOfText(text, at);
      continue;
    }
    at++;
    if (character === '{' || character === '[') depth++;
    else if ((character === '}' || character === ']') && --depth === 0) break;
  }
  return at;
}

/** Some programs escape `/` or `&` in JSON, and every character may be escaped: one spelling, so that escapes hide nothing. */
const unescapeJson = (text: string): string =>
  text.replace(/\\(?:u00([2-7][0-9a-f])|[\s\S])/gi, (written: string, code: string | undefined) => {
    const char = code === undefined ? written.slice(1) : String.fromCharCode(Number.parseInt(code, 16));
    const isPlain = code === undefined ? char === '/' : char !== '"' && char !== '\\' && char !== '\u007f';
    return isPlain ? char : written;
  });

/** Redacts the values of secret fields in JSON, and in text that is almost JSON or ends in the middle of it. */
function redactFields(text: string): string {
  let redacted = '';
  let copied = 0;
  let lastQuote = -1;
  for (let at = text.indexOf('"'); at >= 0; at = text.indexOf('"', at + 1)) {
    const colon = skipSpace(text, at + 1);
    const isName = text[colon] === ':' && lastQuote >= copied && SECRET_NAME.test(text.slice(lastQuote + 1, at));
    lastQuote = at;
    if (!isName) continue;
    const value = skipSpace(text, colon + 1);
    const end = endOfValue(text, value);
    if (end === value || text.slice(value, end) === 'null') continue;
    redacted += `${text.slice(copied, value)}"${GONE}"`;
    copied = end;
    at = end - 1;
  }
  return redacted + text.slice(copied);
}

const isSecretParameter = (name: string): boolean => SECRET_PARAMETER.test(name) || SECRET_NAME.test(name);

/** Redacts `?token=...` and `#token=...` of an address. A name may contain question marks: what begins at the first of them counts. */
function redactQuery(text: string): string {
  let redacted = '';
  let copied = 0;
  /** Where the name of a parameter begins; -1 outside of one. */
  let name = -1;
  for (let at = 0; at < text.length; at++) {
    const character = text[at]!;
    if (character === '&' || character === '#' || (character === '?' && name < 0)) name = at + 1;
    else if (character === '"' || isSpace(character)) name = -1;
    else if (character === '=') {
      const isSecret = name >= 0 && isSecretParameter(text.slice(name, at));
      name = -1;
      if (!isSecret) continue;
      redacted += `${text.slice(copied, at + 1)}${GONE}`;
      while (at + 1 < text.length && !/[&#"\s]/.test(text[at + 1]!)) at++;
      copied = at + 1;
    }
  }
  return redacted + text.slice(copied);
}

const redactText = (text: string): string =>
  redactQuery(text.replace(SECRET_SHAPE, GONE).replace(IN_URL, `$1${GONE}$2`)).replace(IN_CLAIM, `$1${GONE}`);
/** PostgreSQL stores neither NUL nor half of a surrogate pair. */
const storable = (text: string): string => text.replaceAll('\u0000', '\ufffd').toWellFormed();
const shorten = (text: string, most: number): string => (text.length <= most ? text : `${text.slice(0, most - 1)}…`);
const redactStart = (text: string, { read, kept }: { read: number; kept: number }): string =>
  storable(shorten(redactText(beginning(text, read)), kept));

/** A redacted body of at most 2048 characters. The last character that is read only shows that there are more. */
export const redactBody = (text: string): string =>
  storable(shorten(redactText(redactFields(unescapeJson(beginning(text, MOST_LOGGED_READ - 1)))), MOST_TEXT_KEPT));

/** As much of a body as `redactBody` looks at, as a copy, so that a long body is not kept in memory. */
export function startOfBody(body: string | Uint8Array): string {
  const most = MOST_LOGGED_READ;
  if (body.length <= most) return typeof body === 'string' ? body : Buffer.from(body).toString();
  // A character has at most three bytes for each of its UTF-16 units.
  const start = typeof body === 'string' ? Buffer.from(body.slice(0, most)) : Buffer.from(body.subarray(0, 3 * most));
  return start.toString().slice(0, most);
}

/** A parameter name, redacted in case it is a secret. */
export const redactName = (name: string): string => redactStart(name, { read: 2_000, kept: 120 });

/** Escapes of letters, digits and underscores mean the same as these (RFC 3986, section 6.2.2.2), and the router decodes them. */
const unescapeWords = (text: string): string =>
  text.replace(/%[2-7][0-9a-f]/gi, (sequence) => {
    const char = String.fromCharCode(Number.parseInt(sequence.slice(1), 16));
    return /\w/.test(char) ? char : sequence;
  });

/** The redacted path and query of a URL. Both have one spelling, so that a part of them is found. */
export function redactUrl(url: string): { path: string; query: string | null } {
  const at = url.indexOf('?');
  const path = at < 0 ? url : url.slice(0, at);
  const query = at < 0 ? '' : url.slice(at);
  // Escaped or not, a key in a path has no meaning to any route.
  const start = (part: string, sizes: { read: number; kept: number }) =>
    redactStart(unescapeWords(part.slice(0, 3 * sizes.read + 3)), sizes);
  return {
    path: start(path, { read: 1_000, kept: 200 }),
    query: query === '' ? null : start(query, { read: 2_000, kept: 500 }).slice(1),
  };
}
