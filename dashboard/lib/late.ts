/** Money that arrived so long after its payment that it may not be from the customer. */

const LONG_MS = 7 * 86_400_000;

/** What to look at before such money is accepted or sent back; empty for other money. */
export function lateHint({ expires_at, transfers }: { expires_at: string; transfers: readonly { first_seen_at: string }[] }): string {
  const last = Math.max(...transfers.map(({ first_seen_at }) => Date.parse(first_seen_at)));
  if (last - Date.parse(expires_at) < LONG_MS) return '';
  return ' It arrived long after the payment. If your customer did not send it, your own wallet may have given out this address again: look there first.';
}
