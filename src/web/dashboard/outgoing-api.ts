/** What refunds and payouts have in common: read one, count, approve, record as sent, cancel, and make the signing files that pay them. */
import Type, { type Static, type TObject } from 'typebox';
import type { Context } from '#context';
import { COIN, type Coin, feeCoinOf } from '#core/coin';
import { formatUnits } from '#core/money';
import { explorerUrl } from '#core/networks';
import { REFUND_STATES } from '#core/refund';
import { literals, type ReplyOf } from '#http';
import { approveOutgoing, countOutgoing, markOutgoingSent, type OutgoingKind, type Payout, type Refund } from '#outgoing';
import { forMode, SWEEP_SPEEDS, type Sweep } from '#signing';
import { AnyCoinField, Nullable, PlainText } from './fields.ts';
import { countsRoute, type DashboardRoute, forMembers, type MemberCall, memberRoute, ownerOfCall } from './route.ts';

/** What members see of one besides what the API shows. */
export const OUTGOING_FIELDS = {
  requested_by: PlainText,
  /** While it is requested: who approved it first. */
  approved_by: Nullable(PlainText),
  explorer_url: Nullable(PlainText),
  /** The signing file that it is part of, unless that was canceled. */
  file: Nullable(PlainText),
};
export const outgoingFields = (
  { ctx, mode }: Pick<MemberCall, 'ctx' | 'mode'>,
  { coin, txid, requestedBy, approvedBy, fileId }: Refund | Payout,
) => ({
  ...{ requested_by: requestedBy, approved_by: approvedBy, file: fileId },
  explorer_url: mode === 'live' && txid !== null ? explorerUrl(coin, ctx.settings.networks[COIN[coin].chain], txid) : null,
});

/** A signing file of approved refunds or payouts. */
const WantedFile = Type.Object({ currency: AnyCoinField, speed: Type.Optional(literals(SWEEP_SPEEDS)) });
/** `paid`: how many refunds or payouts are in the file. `left`: those that are approved and not in it. */
const MadeFile = Type.Object({
  ...{ success: Type.Boolean(), file: PlainText, paid: Type.Integer(), fee: PlainText, fee_currency: AnyCoinField },
  left: Type.Array(Type.Object({ id: PlainText, reason: PlainText })),
});
function wantedFile({ member: { merchantId }, actor, body }: MemberCall & { body: Static<typeof WantedFile> }) {
  return { merchantId, coin: body.currency, speed: body.speed ?? 'normal', actor };
}

/** `sign`: in test mode, wait for the rehearsal of a signing file instead of confirming at once. */
export const Approval = Type.Object({ sign: Type.Optional(Type.Boolean()) });

type Made = { sweep: Sweep; paid: readonly string[]; left: { id: string; reason: string }[] };
/** `one`: the schema of `readOne`. */
export function outgoingRoutes<One extends TObject>({
  kind,
  reads,
  one,
  readOne,
  readCoins,
  makeFile,
}: {
  kind: OutgoingKind;
  reads: 'payments.read' | 'payouts.read';
  one: One;
  readOne(call: MemberCall, id: string): Promise<ReplyOf<One>>;
  readCoins(ctx: Context, owner: { merchantId: string }): Promise<readonly Coin[]>;
  makeFile(ctx: Context, wanted: ReturnType<typeof wantedFile>): Promise<Made>;
}): readonly DashboardRoute[] {
  const path = `/${kind}s` as const;
  const act = { method: 'POST', action: `${kind}s.approve`, recent: true, reply: one } as const;
  const ofCall = (call: MemberCall & { params: { id: string } }) => ({ ...ownerOfCall(call), kind, id: call.params.id, actor: call.actor });
  return [
    countsRoute({
      ...{ path: `${path}/counts`, action: reads, states: REFUND_STATES },
      count: (ctx, owner) => countOutgoing(ctx, { ...owner, kind }),
    }),
    memberRoute({ method: 'GET', path: `${path}/:id`, action: reads, reply: one, handle: (call) => readOne(call, call.params.id) }),
    memberRoute({
      method: 'GET',
      path: `/${kind}-files/coins`,
      action: reads,
      /** Coins with some that are approved and that a signing file can pay. */
      reply: Type.Object({ success: Type.Boolean(), coins: Type.Array(AnyCoinField) }),
      handle: async (call) => ({ success: true, coins: [...(await readCoins(forMode(call.ctx, call.mode), ownerOfCall(call)))] }),
    }),
    memberRoute({
      method: 'POST',
      path: `/${kind}-files`,
      action: 'sweeps.use',
      recent: true,
      body: WantedFile,
      reply: MadeFile,
      handle: async (call) => {
        const { sweep, paid, left } = await makeFile(forMode(call.ctx, call.mode), wantedFile(call));
        const feeCoin = feeCoinOf(sweep.coin);
        return {
          ...{ success: true, file: sweep.id, paid: paid.length, left },
          ...{ fee: formatUnits(feeCoin, sweep.feeUnits), fee_currency: feeCoin },
        };
      },
    }),
    memberRoute({
      ...{ ...act, path: `${path}/:id/approve`, body: Approval },
      handle: async (call) => {
        await approveOutgoing(call.ctx, { ...ofCall(call), signs: call.body.sign ?? false });
        return readOne(call, call.params.id);
      },
    }),
    memberRoute({
      ...{ ...act, path: `${path}/:id/sent`, body: Type.Object({ txid: Type.String({ minLength: 1, maxLength: 100 }) }) },
      handle: async (call) => {
        await markOutgoingSent(call.ctx, { ...ofCall(call), txid: call.body.txid });
        return readOne(call, call.params.id);
      },
    }),
    forMembers(kind === 'refund' ? 'cancelRefund' : 'cancelPayout', {
      path: `${path}/:id/cancel`,
      action: act.action,
      recent: true,
      as: kind,
    }),
  ];
}
