/**
 * Canceled refunds and payouts whose signed files somebody may have kept, or sent with another wallet. A cancellation forgets nothing: the
 * next refund of the payment, or the next payout to the recipient, uses the same output or account nonce as all files of the canceled one,
 * so that only one of them can be executed. Where it cannot, it waits until those files can never be executed.
 */
import { ChainError, type JoinedSource } from '#chains';
import type { Context } from '#context';
import { COIN, type Coin, chainCode, coinText, contractOf, familyIn, kindOf } from '#core/coin';
import { minuteText } from '#core/dates';
import type { Fragment } from '#db';
import { selector, word } from '#evm';
import { accountOfAnchor, nonceIn } from './holdings.ts';
import { EXPIRED_SECONDS, readNonces, VALID_SECONDS } from './make-accounts.ts';

type Kind = 'refund' | 'payout';
type Canceled = {
  kind: Kind;
  id: string;
  coin: Coin;
  anchor: string;
  walletId: string | null;
  /** The account that pays it. */
  from: string | null;
  paymentId: string | null;
  reference: string | null;
  address: string | null;
};
/**
 * `dead`: its files can never be executed. `open`: they can, unless another transaction uses its anchor first. Otherwise the reason why
 * nothing else can be paid instead of it now.
 */
type Fate = 'dead' | 'open' | { reason: string };

/** What has to be used by every transaction of a refund or payout, because files of a canceled one use it, and the wallet that has it. */
type Tie = { anchor: string; walletId: string | null };
/** `ties`: by the ID of what is asked for. `left`: what cannot be in a file now. */
type Legacy = { ties: ReadonlyMap<string, readonly Tie[]>; left: { id: string; reason: string }[] };

/** What was canceled, as seen from what is asked for now, by `asked canceled`. */
const CANCELED = {
  'refund refund': 'a refund of its payment was canceled',
  'refund payout': 'a payout to its customer was canceled',
  'payout refund': 'a refund to its recipient was canceled',
  'payout payout': 'a payout to its recipient was canceled',
} as const;
type Pair = keyof typeof CANCELED;
const pairOf = (asked: Kind, canceled: Kind): Pair => `${asked} ${canceled}`;
const DONE = { refund: 'returned', payout: 'paid' } as const;
const DECIDE = {
  refund: 'then mark this refund as sent or cancel it',
  payout: 'then mark this payout as sent or cancel it',
} as const;
const executed = (asked: Kind, canceled: Kind): string =>
  `${CANCELED[pairOf(asked, canceled)]}, but somebody sent its signed file, so that money was ${DONE[canceled]}; find the transaction, ${DECIDE[asked]}`;
const nonceUsed = (asked: Kind, canceled: Kind): string =>
  pairOf(asked, canceled) === 'refund refund'
    ? `its deposit address sent another transaction since a file of a refund that is canceled now was made; look where the money went, ${DECIDE.refund}`
    : `${CANCELED[pairOf(asked, canceled)]}, and the deposit address in its file sent another transaction since; look where the money went, ${DECIDE[asked]}`;
const live = (pair: Pair, until: Date): string =>
  `${CANCELED[pair]}, but its signed file can still be sent until ${minuteText(until)}; make the file an hour after that`;
const busy = (pair: Pair): string =>
  `${CANCELED[pair]}, and the deposit in its signed file is in another file now; make the file once that one is confirmed`;
const behind = (pair: Pair): string => `${CANCELED[pair]}, and blocks are being replaced; try again later`;
const EITHER = {
  refund: 'a refund of its payment or a payout to its customer',
  payout: 'a payout or a refund to its recipient',
} as const;
/** Why nothing is paid instead of a canceled one whose output is not there any more. */
export const goneText = (kind: Kind): string =>
  `${EITHER[kind]} was canceled, and the deposit in its signed file was spent; look in a block explorer whether that file was sent, ${DECIDE[kind]}; if it was not, send the money from your own wallet and mark it as sent`;
/** Why nothing is paid instead of a canceled one whose file uses something else. */
export const boundText = (kind: Kind): string =>
  `${EITHER[kind]} was canceled, and its signed file can still be sent; sweep the deposit that it spends first, or send the money from your own wallet and mark it as sent`;
const inCoin = (coin: Coin): string =>
  `a payout to its recipient in ${coinText(coin)} was canceled, and its signed file can still be sent; sweep the deposit that it spends first`;

/** Canceled refunds of a coin that had a file. */
const canceledRefunds = (ctx: Context, { merchantId, coin, which }: { merchantId: string; coin: Coin; which: Fragment }) => ctx.db.sql<
  Canceled[]
>`
  select 'refund' as kind, r.id, r.coin, r.anchor, a.wallet_id as "walletId", a.address as "from", r.payment_id as "paymentId",
    null as reference, r.address
  from outgoing_payments r join deposit_addresses a on a.payment_id = r.payment_id and a.family = ${familyIn(ctx.mode, coin)}
  where r.merchant_id = ${merchantId} and r.mode = ${ctx.mode} and r.coin = ${coin} and r.state = 'canceled' and r.anchor is not null and ${which}
  order by r.number`;
/** Canceled payouts that had a file. */
const canceledPayouts = ({ mode, db: { sql } }: Context, { merchantId, which }: { merchantId: string; which: Fragment }) => sql<Canceled[]>`
  select 'payout' as kind, id, coin, anchor, wallet_id as "walletId", parts -> 'parts' -> 0 ->> 'address' as "from", null as "paymentId",
    reference, address
  from outgoing_payments
  where kind = 'payout' and merchant_id = ${merchantId} and mode = ${mode} and state = 'canceled' and anchor is not null and ${which}
  order by number`;

const isSameText = (one: string | null, other: string | null): boolean =>
  one !== null && other !== null && one.toLowerCase() === other.toLowerCase();
const lower = (asked: readonly { address: string }[]): string[] => asked.map(({ address }) => address.toLowerCase());

/** The canceled refunds of the same payments, and the canceled payouts in the coin to the same addresses. Errors: ChainError. */
export async function readRefundLegacy(
  ctx: Context,
  { merchantId, coin, asked }: { merchantId: string; coin: Coin; asked: readonly { id: string; paymentId: string; address: string }[] },
): Promise<Legacy> {
  const { sql } = ctx.db;
  const ofPayments = sql`r.payment_id = any(${asked.map(({ paymentId }) => paymentId)}::text[])`;
  const toSame = sql`coin = ${coin} and lower(address) = any(${lower(asked)}::text[])`;
  const canceled = [
    ...(await canceledRefunds(ctx, { merchantId, coin, which: ofPayments })),
    ...(await canceledPayouts(ctx, { merchantId, which: toSame })),
  ];
  return legacyOf(ctx, 'refund', {
    ...{ merchantId, coin, asked, canceled },
    isFor: (one, other) => (other.kind === 'refund' ? one.paymentId === other.paymentId : isSameText(one.address, other.address)),
  });
}

type AskedPayout = { id: string; reference: string | null; address: string };
/**
 * The canceled payouts with the same reference, in any coin, or to the same recipient, and the canceled refunds in the coin to that
 * recipient. Errors: ChainError.
 */
export async function readPayoutLegacy(
  ctx: Context,
  { merchantId, coin, asked }: { merchantId: string; coin: Coin; asked: readonly AskedPayout[] },
): Promise<Legacy> {
  const { sql } = ctx.db;
  const references = asked.flatMap(({ reference }) => reference ?? []);
  const which = sql`(reference = any(${references}::text[]) or lower(address) = any(${lower(asked)}::text[]))`;
  const canceled = [
    ...(await canceledPayouts(ctx, { merchantId, which })),
    ...(await canceledRefunds(ctx, { merchantId, coin, which: sql`lower(r.address) = any(${lower(asked)}::text[])` })),
  ];
  return legacyOf(ctx, 'payout', {
    ...{ merchantId, coin, asked, canceled },
    isFor: (one, other) => (one.reference !== null && one.reference === other.reference) || isSameText(one.address, other.address),
  });
}

async function legacyOf<A extends { id: string }>(
  ctx: Context,
  kind: Kind,
  {
    merchantId,
    coin,
    asked,
    canceled,
    isFor,
  }: { merchantId: string; coin: Coin; asked: readonly A[]; canceled: readonly Canceled[]; isFor(one: A, other: Canceled): boolean },
): Promise<Legacy> {
  const fates = new Map<Canceled, Fate>();
  for (const group of Map.groupBy(canceled, (one) => `${one.kind} ${one.coin}`).values())
    for (const [one, fate] of await fatesOf(ctx, kind, { merchantId, kind: group[0]!.kind, coin: group[0]!.coin, canceled: group }))
      fates.set(one, fate);
  const ties = new Map<string, Tie[]>();
  const left: Legacy['left'] = [];
  for (const one of asked) {
    const before = canceled.filter((other) => isFor(one, other) && fates.get(other) !== 'dead');
    const reasons = before.flatMap((other) => {
      const fate = fates.get(other)!;
      if (typeof fate === 'object') return [fate.reason];
      if (other.coin !== coin) return [inCoin(other.coin)];
      // The deposit address of the payment sends its refunds, with its own account nonce.
      return kind === 'refund' && other.kind === 'payout' && kindOf(coin) === 'ethereum' ? [boundText(kind)] : [];
    });
    if (reasons[0] !== undefined) left.push({ id: one.id, reason: reasons[0] });
    else if (before.length > 0)
      ties.set(one.id, [...new Map(before.map(({ anchor, walletId }) => [anchor, { anchor, walletId }])).values()]);
  }
  return { ties, left };
}

type AnchorState = { id: string; isDead: boolean; isBusy: boolean; until: Date; expired: boolean };
/**
 * What the files of the merchant say about anchors. A file that is final and used one ends all others with the same. So does any other final
 * transaction that used an account nonce: that failed the refund or payout, and a member had to look who was paid before canceling it.
 */
const readKnown = (
  ctx: Context,
  kind: Kind,
  { merchantId, coin, canceled }: { merchantId: string; coin: Coin; canceled: readonly Canceled[] },
): Promise<readonly AnchorState[]> => {
  const { sql } = ctx.db;
  return sql<AnchorState[]>`
    select r.id, to_timestamp(u.until) as until, u.until < extract(epoch from clock_timestamp()) - ${EXPIRED_SECONDS} as expired,
      coalesce(s.state in ('made', 'signed', 'sent'), false) as "isBusy",
      coalesce(case when r.anchor like 'nonce:%' then
          -- What is in a file that was not canceled can be canceled only after it failed. Where nothing used its nonce, its deposit had left
          -- the chain, or nothing paid for its gas: it can still be sent.
          exists (select 1 from signing_files f join signing_inputs n on n.file_id = f.id and lower(n.input) = lower(r.anchor) and n.released_at is null
            where f.id = r.file_id and f.state in ('confirmed', 'failed'))
          or (s.state in ('confirmed', 'failed') and exists (
            select 1 from signed_transactions t cross join lateral (select s.file -> 'requests' -> t.number as request) q
            where t.file_id = s.id and t.block_height is not null
              and lower(r.anchor) = lower(concat_ws(':', 'nonce', q.request ->> 'from', q.request ->> 'nonce'))))
        else s.state = 'confirmed' and i.lost_at is null end, false) as "isDead"
    from outgoing_payments r
    left join signing_inputs i on i.chain = ${chainCode(coin)} and i.input = r.anchor and i.released_at is null
    left join signing_files s on s.id = i.file_id
    cross join lateral (
      -- A file that was canceled was made before what it paid was.
      select coalesce(max((q ->> 'validBefore')::bigint), floor(extract(epoch from r.ended_at))::bigint + ${VALID_SECONDS}) as until
      from signing_files f cross join lateral jsonb_array_elements(f.file -> 'requests') q
      where r.anchor like '0x%' and f.merchant_id = r.merchant_id and f.coin = r.coin and f.purpose = ${kind} and f.made_at >= r.created_at
        and q -> 'authorizations' @> jsonb_build_array(jsonb_build_object('nonce', r.anchor))
    ) u
    where r.merchant_id = ${merchantId} and r.id = any(${canceled.map(({ id }) => id)}::text[])`;
};

async function fatesOf(
  ctx: Context,
  asked: Kind,
  { merchantId, kind, coin, canceled }: { merchantId: string; kind: Kind; coin: Coin; canceled: readonly Canceled[] },
): Promise<Map<Canceled, Fate>> {
  const pair = pairOf(asked, kind);
  const known = new Map((await readKnown(ctx, kind, { merchantId, coin, canceled })).map((one) => [one.id, one]));
  const of = ({ id }: Canceled): AnchorState => known.get(id)!;
  const fates = new Map<Canceled, Fate>();
  const rest: Canceled[] = [];
  for (const one of canceled) {
    if (of(one).isDead) fates.set(one, 'dead');
    else if (one.anchor.startsWith('0x')) rest.push(one);
    else if (of(one).isBusy) fates.set(one, { reason: busy(pair) });
    else if (kindOf(coin) === 'ethereum') rest.push(one);
    else fates.set(one, 'open');
  }
  if (rest.length === 0) return fates;
  const chain = ctx.chains.get(COIN[coin].chain);
  if (!chain) throw new ChainError('unsupported', `no ${coin} source is configured`);
  const published = rest.filter(({ anchor }) => anchor.startsWith('0x'));
  const used = await executedAmong(ctx, chain, { coin, published });
  for (const one of published)
    fates.set(one, used.has(one) ? { reason: executed(asked, kind) } : of(one).expired ? 'dead' : { reason: live(pair, of(one).until) });
  const numbered = rest.filter(({ anchor }) => anchor.startsWith('nonce:'));
  const nonces =
    numbered.length === 0
      ? []
      : await readNonces(
          chain,
          numbered.map(({ anchor }) => accountOfAnchor(anchor)!),
        );
  for (const [i, one] of numbered.entries()) {
    const ahead = nonces[i]! - nonceIn(one.anchor);
    fates.set(one, ahead === 0 ? 'open' : { reason: ahead > 0 ? nonceUsed(asked, kind) : behind(pair) });
  }
  return fates;
}

/** Whose authorizations anybody executed. */
async function executedAmong(
  ctx: Context,
  chain: JoinedSource,
  { coin, published }: { coin: Coin; published: readonly Canceled[] },
): Promise<ReadonlySet<Canceled>> {
  const contract = contractOf(coin, ctx.settings.networks[COIN[coin].chain]);
  if (contract === null || published.length === 0) return new Set();
  const asked = published.flatMap((one) => (one.from === null ? [] : [{ one, from: one.from, nonce: one.anchor }]));
  return new Set([...(await usedAmong(chain, contract, asked))].map(({ one }) => one));
}

// Whether authorizations of token transfers (EIP-3009) were executed by any transaction: anybody may send one that was published.

type Published = { from: string; nonce: string };

/** Those that the contract marked as used. Errors: ChainError. */
export async function usedAmong<T extends Published>(chain: JoinedSource, contract: string, published: readonly T[]): Promise<Set<T>> {
  if (published.length === 0) return new Set();
  const replies = await chain.ask(
    published.map(({ from, nonce }) => {
      const data = `0x${selector('authorizationState(address,bytes32)')}${word(from)}${word(nonce)}`;
      return ['eth_call', { to: contract, data }, 'latest'] as const;
    }),
  );
  const isUsed = (_: T, i: number): boolean => {
    const { result, error } = replies[i] ?? { result: null, error: null };
    if (error || typeof result !== 'string' || !/^0x0{63}[01]$/.test(result))
      throw new ChainError('outage', 'the source did not say whether an authorization was used');
    return result.endsWith('1');
  };
  return new Set(published.filter(isUsed));
}
