/** The words of the audit log: each action, and what it changed. */

const WORDS: Readonly<Record<string, string>> = {
  'approvals.forgotten': 'Ended first approvals',
  'backup_codes.renewed': 'Created new backup codes',
  'chain.released': 'Resumed a chain',
  'delivery.resend': 'Resent a webhook delivery',
  'device.forgotten': 'Removed a trusted device',
  'device.trusted': 'Trusted a device',
  'email.change_asked': 'Requested an email change',
  'email.changed': 'Changed the email address',
  'email.verified': 'Verified the email address',
  'endpoint.create': 'Added a webhook endpoint',
  'endpoint.delete': 'Deleted a webhook endpoint',
  'endpoint.secret_rolled': 'Rolled a signing secret',
  'endpoint.secret_shown': 'Revealed a signing secret',
  'endpoint.test': 'Sent a test event',
  'endpoint.update': 'Changed a webhook endpoint',
  'invite.revoked': 'Revoked an invitation',
  'key.created': 'Created an API key',
  'key.revoked': 'Revoked an API key',
  'key.rolled': 'Rolled an API key',
  'lightning.change_asked': 'Requested a Lightning change',
  'lightning.change_confirmed': 'Confirmed a Lightning change',
  'lightning.change_dropped': 'Canceled a Lightning change',
  'lightning.change_failed': 'Lightning change failed',
  'lightning.change_took_effect': 'Lightning change took effect',
  'lightning.removed': 'Turned off Lightning',
  'lightning.set': 'Turned on Lightning',
  'lightning.turned_off': 'Turned off unsafe Lightning',
  'link.activated': 'Unarchived a payment link',
  'link.archived': 'Archived a payment link',
  'link.changed': 'Edited a payment link',
  'link.created': 'Created a payment link',
  'member.invited': 'Invited a member',
  'member.joined': 'Joined the team',
  'member.removed': 'Removed a member',
  'member.role_changed': 'Changed a role',
  'member.set_up': 'Created the owner account',
  'operator.set': 'Changed operator access',
  'passkey.added': 'Added a passkey',
  'passkey.removed': 'Removed a passkey',
  'passkey.renamed': 'Renamed a passkey',
  'password.changed': 'Changed the password',
  'password.reset': 'Password reset by operator',
  'password.reset_by_mail': 'Password reset by email',
  'payment.accept': 'Accepted a payment',
  'payment.archived': 'Archived a payment',
  'payment.invoice_changed': 'Changed an invoice number',
  'payment.cancel': 'Canceled a payment',
  'payment.create': 'Created a payment',
  'payment.events_resent': 'Resent webhook events',
  'payment.metadata': 'Changed payment metadata',
  'payment.refund_sent': 'Marked as refunded',
  'payment.reject': 'Rejected a payment',
  'payment.reviewed': 'Marked as handled',
  'payment.simulate': 'Simulated a payment',
  'payment.unarchived': 'Unarchived a payment',
  'payments.export': 'Exported payments',
  'payout.approval_ended': 'Ended a payout’s approval',
  'payout.approved': 'Approved payouts',
  'payout.approved_first': 'First approval of payouts',
  'payout.batch_canceled': 'Canceled a batch of payouts',
  'payout.canceled': 'Canceled a payout',
  'payout.file_made': 'Made a file for payouts',
  'payout.imported': 'Imported a file of payouts',
  'payout.requested': 'Requested a payout',
  'payout.sent': 'Recorded a sent payout',
  'plan.set': 'Changed the plan',
  'recovery.cancel': 'Stopped resending',
  'recovery.start': 'Resent failed deliveries',
  'refund.approval_ended': 'Ended a refund’s approval',
  'refund.approved': 'Approved a refund',
  'refund.approved_first': 'First approval of a refund',
  'refund.canceled': 'Canceled a refund',
  'refund.file_made': 'Made a file for refunds',
  'team.claim_links_ended': 'Replaced open claim links',
  'refund.link_renewed': 'Replaced a claim link',
  'invoice.updated': 'Changed an invoice’s order',
  'refund.requested': 'Requested a refund',
  'refund.sent': 'Recorded a sent refund',
  'second_factor.failed': 'Entered a wrong code',
  'second_factor.removed': 'Turned off two-factor',
  'second_factor.reset': 'Two-factor reset by operator',
  'second_factor.set': 'Turned on two-factor',
  'session.confirmed': 'Confirmed their identity',
  'session.ended': 'Signed out',
  'session.revoked': 'Ended another session',
  'session.started': 'Signed in',
  'settings.changed': 'Changed settings',
  'shop.connected': 'Connected a shop',
  'shop.disconnected': 'Disconnected a shop',
  'shop.key_rolled': 'Replaced the key of a shop',
  'shop.refund_sent': 'Marked a shop refund as sent',
  'sweep.canceled': 'Canceled a sweep',
  'sweep.destination_asked': 'Requested a destination',
  'sweep.destination_confirmed': 'Confirmed a destination',
  'sweep.destination_dropped': 'Canceled a destination',
  'sweep.destination_set': 'Set a sweep destination',
  'sweep.made': 'Made a sweep file',
  'sweep.replaced': 'Raised the fee of a sweep',
  'sweep.signed': 'Uploaded a signed sweep',
  'team.second_factor_required': 'Changed the two-factor rule',
  'wallet.change_asked': 'Requested a wallet change',
  'wallet.change_confirmed': 'Confirmed a wallet change',
  'wallet.change_dropped': 'Canceled a wallet change',
  'wallet.change_failed': 'Wallet change failed',
  'wallet.change_took_effect': 'Wallet change took effect',
  'wallet.paused': 'Paused a wallet',
  'wallet.resumed': 'Resumed a wallet',
  'wallet.set': 'Set up a wallet',
  'wallet.wait_off_asked': 'Asked to end the wait',
  'wallet.wait_off_confirmed': 'Turned off the wait for keys',
  'wallet.wait_on': 'Turned on the wait for keys',
};

export const wordsOf = (action: string): string => WORDS[action] ?? action;

const EMPTY: readonly unknown[] = [undefined, null, '', false];
const isEmpty = (value: unknown): boolean => EMPTY.includes(value) || (Array.isArray(value) && value.length === 0);

const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;
/** A value as people read it: never null, a brace or an id of the database. */
function valueText(value: unknown): string {
  if (isEmpty(value)) return value === false ? 'no' : 'none';
  if (value === true) return 'yes';
  if (Array.isArray(value)) return value.map(valueText).join(', ');
  if (typeof value === 'object')
    return Object.entries(value as object)
      .map(([name, one]) => `${nameText(name)}: ${valueText(one)}`)
      .join(', ');
  const text = String(value);
  return INSTANT.test(text) ? `${text.slice(0, 16).replace('T', ' ')} UTC` : text;
}

const NAMES: Readonly<Record<string, string>> = {
  amount_usd: 'Amount (USD)',
  invoice_id: 'Invoice',
  ip_ranges: 'Allowed IP ranges',
  url: 'URL',
};
const nameText = (name: string): string => {
  const known = NAMES[name];
  if (known !== undefined) return known;
  const words = name.replaceAll('_', ' ').replace(/[a-z][A-Z]/g, (pair) => `${pair[0]} ${pair[1]!.toLowerCase()}`);
  return words.charAt(0).toUpperCase() + words.slice(1);
};

/** Kept for the machine: the order of decisions, and the decision that the action names already. */
const HIDDEN = ['number', 'decision'];

type Values = Readonly<Record<string, unknown>> | null;
/** What an action changed: name, value before, value after. What was empty and stayed empty is left out. */
export function changesOf({
  before,
  after,
}: {
  before: Values;
  after: Values;
}): [name: string, before: string | null, after: string | null][] {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  return names.flatMap((name): [string, string | null, string | null][] => {
    const [was, is] = [before?.[name], after?.[name]];
    if (HIDDEN.includes(name) || (isEmpty(was) && isEmpty(is) && was !== false && is !== false)) return [];
    if (JSON.stringify(was) === JSON.stringify(is)) return [];
    return [[nameText(name), was === undefined ? null : valueText(was), is === undefined ? null : valueText(is)]];
  });
}
