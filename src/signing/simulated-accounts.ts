/**
 * The simulated chain of accounts on which rehearsals are played. It has no state of its own: what an account holds follows from the test
 * payments that it received and from what signing files sent. Each transaction costs the most that it may cost, so nothing is left over.
 */

import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import type { JoinedSource } from '#chains';
import type { Context } from '#context';
import { COIN, type Coin, coinsBeside, contractOf, isToken, testFamily } from '#core/coin';
import { type AccountRequest, signingFileOf } from '#core/signing-file';
import { asObject } from '#core/stored-json';
import type { Fragment, Sql } from '#db';
import { domainSeparator, readSignedTransaction, selector, TRANSFER_TOPIC, transactionId, word } from '#evm';
import { TEST_NETWORK } from '#wallets';
import { gasInput, TRANSFER_GAS } from './make-accounts.ts';

/** In the signatures of all simulated chains. Above the largest number that wallets accept, so no network has it. */
export const SIMULATED_CHAIN_ID = 9_000_000_000_000_000;
/** In wei. Low, so that tokens of a few dollars are worth a transfer. */
const BASE_FEE = 100_000_000n;
const TIP = 50_000_000n;
const TOKEN_GAS = 50_000n;
/** What every account but a deposit address has in native coin, in wei: rehearsals need no faucet. */
const ENDOWMENT = 10n ** 21n;
/** What is held in native coin, beside tokens by their contract. */
const NATIVE = '';

type Calls = Parameters<JoinedSource['ask']>[0];
type Reply = Awaited<ReturnType<JoinedSource['ask']>>[number];
/** `used`: nonces of authorizations. */
type Account = { nonce: number; held: Map<string, bigint>; used: Set<string> };
/** A transaction in a block. */
type Mined = { request: AccountRequest; raw: Uint8Array; feeUnits: bigint; short: Short };
/** Accounts, in lower case, that have less than a file moves from them, because a deposit left the chain. */
type Short = ReadonlySet<string>;
type Chain = { coin: Coin /** Whether what was sent then is in a block now. */; isMined(sentAt: Date): boolean };

const hex = (value: number | bigint): string => `0x${value.toString(16)}`;
const lower = (text: unknown): string => String(text).toLowerCase();
const SELECTORS = {
  balance: selector('balanceOf(address)'),
  name: selector('name()'),
  version: selector('version()'),
  separator: selector('DOMAIN_SEPARATOR()'),
  state: selector('authorizationState(address,bytes32)'),
} as const;
const VERSION = '1';
const textWords = (text: string): string => {
  const bytes = bytesToHex(utf8ToBytes(text));
  return word(32n) + word(BigInt(bytes.length / 2)) + bytes.padEnd(Math.ceil(bytes.length / 64) * 64, '0');
};

/** The transaction `t` was sent, and of its versions it is the one that was sent first, which is mined. */
export const isFirstSent = (sql: Sql): Fragment => sql`
  (t.sent_at is not null and not exists (select 1 from signed_transactions o
    where o.file_id = t.file_id and o.number = t.number and o.round < t.round and o.sent_at is not null))`;

/** The transfer `t` is in a block. */
export const isInChain = (sql: Sql): Fragment => sql`(t.block_height is not null and t.conflict_height is null)`;

/** The accounts of these files that are short. Those of files that ended are known from what became of their transactions. */
async function readShort(sql: Sql, files: readonly string[]): Promise<ReadonlyMap<string, Short>> {
  const rows = await sql<{ file: string; account: string }[]>`
    select i.file_id as file, lower(a.address) as account from signing_inputs i
    join signing_files s on s.id = i.file_id and s.state in ('signed', 'sent')
    join wallets w on w.id = s.wallet_id
    join deposit_addresses a on a.payment_id = i.payment_id and a.family = w.family
    left join transfers t on t.payment_id = i.payment_id and t.coin = i.coin and t.ref = i.ref
    where i.file_id = any(${files as string[]}::text[]) and i.released_at is null
    group by 1, 2, i.payment_id, i.coin
    -- Unless the customer paid the account again.
    having sum(i.units) filter (where t.ref is null or not ${isInChain(sql)}) > (
      select coalesce(sum(t.units), 0) from transfers t where t.payment_id = i.payment_id and t.coin = i.coin and ${isInChain(sql)}
        and not exists (select 1 from signing_inputs o where o.payment_id = t.payment_id and o.coin = t.coin and o.ref = t.ref
          and (o.released_at is null or o.taken_units is not null)))
    union all
    select t.file_id, lower(one) from signed_transactions t join signing_files s on s.id = t.file_id and s.state in ('confirmed', 'failed')
    cross join lateral unnest(case when t.failed_at is null then t.unmoved
      else array[s.file -> 'requests' -> t.number ->> 'from'] end) as one
    where t.file_id = any(${files as string[]}::text[])`;
  return new Map([...Map.groupBy(rows, ({ file }) => file)].map(([file, some]) => [file, new Set(some.map(({ account }) => account))]));
}

/** Native coin that the account does not have is not sent; a contract only refuses to move it. */
const isRefused = ({ request, short }: Pick<Mined, 'request' | 'short'>): boolean =>
  request.kind === 'native' && short.has(lower(request.from));

/** Whether a transaction sends native coin that its account does not have any more. */
export async function wouldBeShort(ctx: Context, raw: Uint8Array): Promise<boolean> {
  const [row] = await ctx.db.sql<{ id: string; number: number; file: unknown }[]>`
    select s.id, t.number, s.file from signed_transactions t join signing_files s on s.id = t.file_id and s.mode = 'test'
    where t.txid = ${transactionId(raw)} limit 1`;
  const request = row && accountRequest(row.file, row.number);
  return request != null && isRefused({ request, short: (await readShort(ctx.db.sql, [row!.id])).get(row!.id) ?? new Set() });
}
function accountRequest(file: unknown, number: number): AccountRequest | null {
  const request = signingFileOf(file).requests[number];
  return request === undefined || request.kind === 'psbt' ? null : request;
}

/** Answers calls as a node would. */
export async function askSimulated(ctx: Context, chain: Chain, calls: Calls): Promise<Reply[]> {
  const accounts = await readAccounts(ctx, chain, [...new Set(calls.flatMap(accountsIn))]);
  const replies = calls.map(async (call): Promise<Reply> => {
    if (call[0] === 'eth_sendRawTransaction' && (await wouldBeShort(ctx, rawOf(call))))
      return { result: null, error: { code: -32_000, message: 'insufficient funds for gas * price + value' } };
    const result = call[0] === 'eth_getTransactionReceipt' ? await readReceipt(ctx, chain, String(call[1])) : answer(chain, accounts, call);
    return result === undefined
      ? { result: null, error: { code: -32_601, message: `the simulated network has no ${call[0]}` } }
      : { result, error: null };
  });
  return Promise.all(replies);
}

const rawOf = ([, raw]: Calls[number]): Uint8Array => Buffer.from(String(raw).slice(2), 'hex');

/** The accounts that a call asks about. */
function accountsIn([method, about]: Calls[number]): string[] {
  if (method === 'eth_getBalance' || method === 'eth_getTransactionCount') return [String(about)];
  const data = String(asObject(about).data ?? '');
  const asksToken = method === 'eth_call' && [SELECTORS.balance, SELECTORS.state].some((name) => data.startsWith(`0x${name}`));
  return asksToken ? [`0x${data.slice(34, 74)}`] : [];
}

function answer({ coin }: Chain, accounts: ReadonlyMap<string, Account>, [method, about]: Calls[number]): unknown {
  switch (method) {
    case 'eth_feeHistory':
      return { baseFeePerGas: [hex(BASE_FEE), hex(BASE_FEE)] };
    case 'eth_maxPriorityFeePerGas':
      return hex(TIP);
    case 'eth_getCode':
      return '0x';
    case 'eth_getBalance':
      return hex(accounts.get(lower(about))!.held.get(NATIVE) ?? 0n);
    case 'eth_getTransactionCount':
      return hex(accounts.get(lower(about))!.nonce);
    case 'eth_sendRawTransaction':
      // The caller records when it was sent, which is all that this chain reads.
      return transactionId(rawOf([method, about]));
    case 'eth_estimateGas':
      return hex(gasOf(String(asObject(about).data ?? '0x')));
    case 'eth_call':
      return callToken(coin, accounts, about);
    default:
      return undefined;
  }
}

/** What each transfer adds to the data of a batch, in words of 32 bytes. */
const AUTHORIZATION_WORDS = 15;
const gasOf = (data: string): bigint =>
  data === '0x' ? TRANSFER_GAS : TOKEN_GAS * BigInt(Math.max(1, Math.floor(data.length / 64 / AUTHORIZATION_WORDS)));

/** The tokens of the chain are the only contracts on it. */
function callToken(beside: Coin, accounts: ReadonlyMap<string, Account>, about: unknown): string {
  const { to, data } = asObject(about);
  const contract = lower(to);
  const coin = coinsBeside(beside).find((one) => isToken(one) && lower(contractOf(one, TEST_NETWORK)) === contract);
  const [name, account, nonce] = [String(data).slice(2, 10), `0x${String(data).slice(34, 74)}`, `0x${String(data).slice(74, 138)}`];
  if (coin && name === SELECTORS.balance) return `0x${word(accounts.get(lower(account))!.held.get(contract) ?? 0n)}`;
  if (!coin || !COIN[coin].authorizes) return '0x';
  const { asset } = COIN[coin];
  switch (name) {
    case SELECTORS.name:
      return `0x${textWords(asset)}`;
    case SELECTORS.version:
      return `0x${textWords(VERSION)}`;
    case SELECTORS.separator:
      return `0x${domainSeparator({ name: asset, version: VERSION, chainId: SIMULATED_CHAIN_ID, contract })}`;
    case SELECTORS.state:
      return `0x${word(accounts.get(lower(account))!.used.has(lower(nonce)) ? 1n : 0n)}`;
    default:
      return '0x';
  }
}

/** What these accounts hold and have used, by their addresses in lower case. */
async function readAccounts(ctx: Context, chain: Chain, asked: readonly string[]): Promise<Map<string, Account>> {
  const { sql } = ctx.db;
  const keys = asked.map((address) => lower(address).slice(2));
  const coins = coinsBeside(chain.coin);
  const { family } = COIN[chain.coin];
  const deposits = await sql<{ key: string; coin: Coin; units: bigint }[]>`
    select a.key, t.coin, coalesce(sum(t.units), 0) as units from deposit_addresses a
    left join transfers t on t.payment_id = a.payment_id and t.coin = any(${coins}::text[]) and t.block_height is not null
      and t.conflict_height is null
    where a.family = ${testFamily(family)} and a.key = any(${keys}::text[]) group by 1, 2`;
  const accounts = new Map<string, Account>();
  for (const key of keys) accounts.set(`0x${key}`, { nonce: 0, held: new Map([[NATIVE, ENDOWMENT]]), used: new Set() });
  for (const { key } of deposits) accounts.get(`0x${key}`)!.held.clear();
  for (const { key, coin, units } of deposits) if (coin !== null) accounts.get(`0x${key}`)!.held.set(contractIn(coin), units);
  if (keys.length > 0) for (const one of await readMined(ctx, chain, asked)) applyTo(accounts, one);
  return accounts;
}
const contractIn = (coin: Coin): string => lower(contractOf(coin, TEST_NETWORK) ?? NATIVE);

/** The mined transactions of files that spend from these accounts, in the order of their nonces. */
async function readMined(ctx: Context, chain: Chain, asked: readonly string[]): Promise<Mined[]> {
  const { sql } = ctx.db;
  const { family } = COIN[chain.coin];
  const ids = sql`
    select i.file_id from deposit_addresses a join signing_inputs i on i.payment_id = a.payment_id
      and (i.released_at is null or i.taken_units is not null)
    where a.family = ${testFamily(family)} and a.key = any(${asked.map((one) => lower(one).slice(2))}::text[])
    union select file_id from signing_inputs where input like 'gas:%' and input = any(${asked.map(gasInput)}::text[])`;
  return minedIn(ctx, chain, sql`s.id in (${ids})`);
}

async function minedIn({ db: { sql } }: Context, chain: Chain, which: Fragment): Promise<Mined[]> {
  const files = await sql<{ id: string; file: unknown }[]>`
    select s.id, s.file from signing_files s
    where s.mode = 'test' and s.coin = any(${coinsBeside(chain.coin)}::text[]) and s.erased_at is null and ${which} order by s.number`;
  const sent = await sql<{ id: string; number: number; raw: Uint8Array; feeUnits: bigint; sentAt: Date }[]>`
    select t.file_id as id, t.number, t.raw, t.fee_units as "feeUnits", t.sent_at as "sentAt" from signed_transactions t
    where t.file_id = any(${files.map(({ id }) => id)}::text[]) and ${isFirstSent(sql)} order by t.number`;
  const byFile = Map.groupBy(sent, ({ id }) => id);
  const shortIn = await readShort(
    sql,
    files.map(({ id }) => id),
  );
  return files.flatMap(({ id, file }) => {
    const short = shortIn.get(id) ?? new Set<string>();
    return (byFile.get(id) ?? []).flatMap(({ number, sentAt, ...one }): Mined[] => {
      const request = accountRequest(file, number);
      return request && chain.isMined(sentAt) && !isRefused({ request, short }) ? [{ ...one, request, short }] : [];
    });
  });
}

type Move = { from: string; to: string; held: string; units: bigint };
/** What a transaction moves, in order: what an account was to get first and did not get, it does not pay either. */
function movesOf(mined: Pick<Mined, 'request' | 'raw' | 'short'>): Move[] {
  const short = new Set(mined.short);
  return wantedBy(mined).filter(({ from, to }) => {
    if (short.has(lower(from))) short.add(lower(to));
    return !short.has(lower(from));
  });
}

/** What it would move. Another round of a file pays another amount of native coin, so the transaction itself says it. */
function wantedBy({ request, raw }: Pick<Mined, 'request' | 'raw'>): Move[] {
  const { from } = request;
  switch (request.kind) {
    case 'native':
      return [{ from, to: request.line.to, held: NATIVE, units: readSignedTransaction(raw)!.units }];
    case 'fund':
      return [{ from, to: request.to, held: NATIVE, units: readSignedTransaction(raw)!.units }];
    case 'token':
      return [{ from, to: request.line.to, held: lower(request.contract), units: request.line.units }];
    case 'batch':
      return request.authorizations.map(({ from, line }) => ({ from, to: line.to, held: lower(request.contract), units: line.units }));
  }
}

function applyTo(accounts: ReadonlyMap<string, Account>, mined: Mined): void {
  const { request, feeUnits } = mined;
  const add = (address: string, held: string, units: bigint): void => {
    const account = accounts.get(lower(address));
    if (account) account.held.set(held, (account.held.get(held) ?? 0n) + units);
  };
  const moves = movesOf(mined);
  for (const { from, to, held, units } of moves) {
    add(from, held, -units);
    add(to, held, units);
  }
  add(request.from, NATIVE, -feeUnits);
  const sender = accounts.get(lower(request.from));
  if (sender && request.nonce >= sender.nonce) sender.nonce = request.nonce + 1;
  if (request.kind !== 'batch') return;
  // One that reverts uses nothing up.
  for (const { from, nonce } of request.authorizations)
    if (moves.some((one) => one.from === from)) accounts.get(lower(from))?.used.add(lower(nonce));
}

/** Null: it is in no block. */
async function readReceipt(ctx: Context, chain: Chain, txid: string): Promise<object | null> {
  const { sql } = ctx.db;
  const [row] = await sql<{ id: string; number: number; raw: Uint8Array; feeUnits: bigint; sentAt: Date; file: unknown }[]>`
    select s.id, t.number, t.raw, t.fee_units as "feeUnits", t.sent_at as "sentAt", s.file from signed_transactions t
    join signing_files s on s.id = t.file_id and s.mode = 'test' where t.txid = ${txid} and ${isFirstSent(sql)}`;
  const request = row && accountRequest(row.file, row.number);
  if (!request || !chain.isMined(row.sentAt)) return null;
  const short = (await readShort(sql, [row.id])).get(row.id) ?? new Set<string>();
  if (isRefused({ request, short })) return null;
  const logs = movesOf({ request, raw: row.raw, short }).flatMap(({ from, to, held, units }) =>
    held === NATIVE ? [] : [{ address: held, topics: [TRANSFER_TOPIC, `0x${word(from)}`, `0x${word(to)}`], data: `0x${word(units)}` }],
  );
  return { status: '0x1', gasUsed: hex(request.gas), effectiveGasPrice: hex(row.feeUnits / request.gas), logs };
}
