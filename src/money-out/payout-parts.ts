/**
 * The deposits that pay a payout by authorization, fixed by its first file and stored with the payout: the same authorizations in every
 * file can be executed once only. Read field by field, as other versions wrote them. Pure.
 */
import { asBigint, asList, asObject, asText, type StoredJson } from '../core/stored-json.ts';

/** The address of an anchor that fixes the nonce of an account; null: the anchor is something else. */
export function accountOfAnchor(anchor: string): string | null {
  const [kind, address] = anchor.split(':');
  return kind === 'nonce' && address !== undefined ? address : null;
}

/** The nonce of an anchor that fixes the nonce of an account. */
export const nonceIn = (anchor: string): number => Number(anchor.slice(anchor.lastIndexOf(':') + 1));

/** Incremented when the meaning of a field changes. A new field needs no new version, because it has a default. */
const VERSION = 1;

/** What an address authorizes, and what that takes of each of its transfers. */
export type PayoutPart = {
  address: string;
  units: bigint;
  transfers: readonly { paymentId: string; ref: string; units: bigint }[];
};
/** The address that pays the recipient comes first. The others authorize transfers to it. */
export type PayoutParts = readonly PayoutPart[];

export const partsToJson = (parts: PayoutParts): StoredJson => ({
  v: VERSION,
  parts: parts.map(({ address, units, transfers }) => ({
    ...{ address, units: String(units) },
    transfers: transfers.map(({ paymentId, ref, units }) => ({ paymentId, ref, units: String(units) })),
  })),
});

/** Null: the payout has none. Empty: they cannot be read, so no file pays it. */
export function partsFromJson(value: unknown): PayoutParts | null {
  if (value === null || value === undefined) return null;
  const parts = asList(asObject(value).parts).map(partOf);
  return parts.every((part) => part !== null) ? parts : [];
}
function partOf(value: unknown): PayoutPart | null {
  const part = asObject(value);
  const [address, units] = [asText(part.address), asBigint(part.units)];
  const transfers = asList(part.transfers).map((one) => {
    const { paymentId, ref, units } = asObject(one);
    return { paymentId: asText(paymentId) ?? '', ref: asText(ref) ?? '', units: asBigint(units) ?? 0n };
  });
  return address === null || units === null ? null : { address, units, transfers };
}
