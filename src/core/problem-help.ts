/** Why each error happens and what to do about it, for the page that the `doc_url` of an error leads to. */
import type { ProblemCode } from './problem.ts';

type Help = { why: string; fix: string };

export const PROBLEM_HELP: Readonly<Record<ProblemCode, Help>> = {
  https_required: {
    why: 'The service has a public https address, and the request reached it over plain HTTP. It is refused instead of redirected, because its API key could already have been read on the way.',
    fix: 'Change the base URL to https://. Create a new API key and revoke the one that was sent.',
  },
  request_unreadable: {
    why: 'The bytes do not follow HTTP, or the URL, the query or the headers are too large; the message contains the bound. Usually something between you and the service sends a broken request.',
    fix: 'Send the request with curl from the same machine. If that works, look at your HTTP client or proxy. Send long values in the body.',
  },
  body_too_large: {
    why: 'Bodies are limited to 64 kB. Long descriptions, large metadata values or many item lines exceed it.',
    fix: 'Keep large data in your own database, and put its identifier into `metadata`.',
  },
  unsupported_media_type: {
    why: 'The body has another Content-Type than `application/json`, is compressed, or is missing where one is required.',
    fix: 'Set `Content-Type: application/json` and turn off request compression.',
  },
  invalid_json: {
    why: 'The body is not one JSON object in UTF-8. Common causes are a trailing comma, single quotes, a key that appears twice, or form encoding. A body that is nested too deeply, contains too many values or has a very long key is refused too.',
    fix: 'Build the body with your language’s JSON function instead of by hand.',
  },
  unknown_route: {
    why: 'No request has this method and path. Often a path has a trailing slash, a typo, or another version prefix than /v1.',
    fix: 'Copy the path from the API reference, or use the SDK, which knows all of them.',
  },
  method_not_allowed: {
    why: 'The path exists, but not with this method. The `Allow` header lists the methods that it has.',
    fix: 'Use one of the methods in the message.',
  },
  invalid_api_key: {
    why: 'The Authorization header is missing, is neither of the form `Bearer <API_KEY>` nor HTTP Basic with the key as the name and an empty password, or its key does not exist, has expired or was revoked. Keys of another install do not work here.',
    fix: 'Copy the key again from Developers, API keys. A secret is shown only once: if it is lost, create a new key.',
  },
  metrics_token_required: {
    why: 'Metrics are for the operator of the service. Without the token they are served only to this machine, and never through a proxy.',
    fix: 'Set METRICS_TOKEN in the settings of the service, restart it, and give the same token to your monitoring.',
  },
  secret_key_required: {
    why: 'The request was made with a public key (`pk_...`). Public keys are visible to everyone, so they work only with `POST /api/payment/create/simple` and `POST /api/payment/create/advanced`.',
    fix: 'Make this request from your server with a secret key (`sk_...`). Never put a secret key into a page or an app.',
  },
  key_read_only: {
    why: 'The key was created as read-only, and this request changes something.',
    fix: 'Create a key with full access for the program that needs it, and keep the read-only key for the others.',
  },
  key_permission_missing: {
    why: 'Each secret key has a list of permissions, chosen when it was created, and this request needs one that is not in the list.',
    fix: 'Create a key with the permission under Developers, API keys. You can give a key only what your own role allows, so a developer may have to ask an owner or admin.',
  },
  ip_not_allowed: {
    why: 'The key is limited to certain addresses or networks, and the request came from another one. Your server may have got a new address, or a proxy may hide it.',
    fix: 'Edit the allowed addresses of the key under Developers, API keys.',
  },
  origin_not_allowed: {
    why: 'The public key is limited to the origins of the key or of the checkout settings, and the page that made the request is on another one. Nothing was created. `http://`, `https://`, `www.` and ports make different origins.',
    fix: 'If the key has its own list (Developers, API keys), create a key with the exact origin, such as `https://shop.example`. Otherwise add the origin under Checkout. Without any list, every site can use the key.',
  },
  secret_key_in_page: {
    why: 'A browser sent the request for a page of another site, with a secret key. Nothing was created. Everyone who opens the page can read the key and act on your behalf.',
    fix: 'Use a public key on pages, or send the request from your server. Roll the secret key now under Developers, API keys.',
  },
  test_key_required: {
    why: 'Scenarios and the test clock exist in test mode only, and the request was made with a live key.',
    fix: 'Use a key that starts with `sk_test_`.',
  },
  rate_limit_exceeded: {
    why: 'The plan allows a number of requests per minute, shared by all keys of a mode. `X-RateLimit-Limit` and `X-RateLimit-Reset` show the limit and when it resets.',
    fix: 'Wait for `Retry-After` seconds and retry with growing pauses; the SDK does both. Use webhooks instead of polling.',
  },
  public_key_limit_reached: {
    why: 'Anyone who opens your page can read its public key, so what each client creates with it is limited. Customers behind one address, such as an office or a proxy missing in `TRUSTED_PROXIES`, count as one client.',
    fix: 'Create payments on your server with a secret key, and open them with `Florin.open`. Otherwise, wait for `Retry-After` seconds.',
  },
  plan_limit_exceeded: {
    why: 'The plan includes a number of live payments per month. Payments count when money arrives. Test payments do not count.',
    fix: 'See Settings, Plan and usage. The operator of the install changes plans.',
  },
  plan_required: {
    why: 'The merchant is on the Starter plan, which does not include webhooks.',
    fix: 'Ask the operator of the install for another plan, or poll `GET /v1/events`.',
  },
  not_signed_in: { why: 'The session has ended, or its cookie was not sent.', fix: 'Sign in again at /dashboard.' },
  sign_in_failed: {
    why: 'The answer is the same for an unknown email address and for a wrong password, so that nobody can find out who has an account.',
    fix: 'Use a passkey, or ask the operator to reset the password.',
  },
  second_factor_invalid: {
    why: 'The code was mistyped, has changed in the meantime, or was already used. A phone with a wrong clock shows wrong codes.',
    fix: 'Wait for the next code, and turn on automatic time on the phone.',
  },
  second_factor_locked: {
    why: 'Ten wrong codes in a row lock codes for 15 minutes, and each further lock within 30 days for longer.',
    fix: 'Use a passkey or a backup code, which still work. If the codes were not yours, change your password.',
  },
  password_wrong: { why: 'The current password is needed to confirm this, and it does not match.', fix: 'Enter your current password.' },
  action_not_permitted: {
    why: 'Each role has a fixed set of permissions, and yours does not include this one.',
    fix: 'Ask an owner to do it, or to change your role under Settings, Team.',
  },
  key_out_of_reach: {
    why: 'A key can do at most what the member who creates it may do. This also applies when a key is rolled, because its new text is shown to you.',
    fix: 'Choose fewer permissions, or ask an owner or admin to create or roll the key.',
  },
  recent_authentication_required: {
    why: 'Actions that can lead money or access elsewhere require that you confirmed your identity within the last minutes.',
    fix: 'Confirm with your passkey, or with your password and code. The action then continues.',
  },
  cross_site_request: {
    why: 'The browser says that another site made this request. It is refused so that no other site can act in your name.',
    fix: 'Open the dashboard directly and try again. If a proxy is in front, check that it passes the Origin and Host headers on.',
  },
  setup_link_invalid: {
    why: 'Each setup link works once, for seven days.',
    fix: 'Ask the operator for a new one. It is made with `./florin merchant setup-link`.',
  },
  account_exists: {
    why: 'One account can belong to several merchants, so no second one is created.',
    fix: 'Sign in, then open the link again.',
  },
  second_factor_required: {
    why: 'Your team requires two-factor authentication, or this action does. The operator area always does.',
    fix: 'Set up an authenticator app under Security, then repeat the action.',
  },
  operator_only: {
    why: 'This concerns the whole install, not one merchant.',
    fix: 'Ask the person who runs the install. Operators are named with `./florin user operator`.',
  },
  role_out_of_reach: {
    why: 'Owners and finance members approve refunds and payouts. Admins manage the other roles, so that nobody makes their own second approver.',
    fix: 'Ask an owner.',
  },
  invite_invalid: {
    why: 'Invitations work once, for seven days, until they are revoked or the member who sent them may no longer give the role.',
    fix: 'Ask the person who invited you to invite you again.',
  },
  invite_not_yours: {
    why: 'You are signed in with another email address than the invited one.',
    fix: 'Sign out, sign in with the invited address, and open the link again. Or ask for an invitation to the address that you use.',
  },
  invite_needs_sign_in: { why: 'The invited address already has an account.', fix: 'Sign in, then open the link again.' },
  member_exists: { why: 'The address you invited belongs to a member of this team.', fix: 'Change the role of the member instead.' },
  invite_limit_reached: {
    why: 'The number of open invitations is limited.',
    fix: 'Revoke invitations that are no longer needed under Settings, Team.',
  },
  mail_limit_reached: {
    why: 'Invitations, confirmation links and claim links are limited for each mailbox and each day, so that nobody can use this service to flood somebody. Changes that owners must be warned of, such as new live keys, are limited for the same reason.',
    fix: 'Use the email that was sent before, or wait for the time in `Retry-After`. An address gets one invitation an hour.',
  },
  last_operator: {
    why: 'Without an operator nobody could open the operator area.',
    fix: 'Give another person access with `./florin user operator --email EMAIL`, then repeat the change.',
  },
  last_owner: {
    why: 'Each merchant needs an owner: otherwise nobody could manage its team.',
    fix: 'Make another member an owner, then repeat the change.',
  },
  member_not_found: { why: 'The member was removed, or belongs to another team.', fix: 'Reload the list.' },
  session_not_found: { why: 'The session ended or was signed out in the meantime.', fix: 'Reload the list.' },
  device_not_found: { why: 'Trusted devices end after 30 days, and whenever you change how you sign in.', fix: 'Reload the list.' },
  passkey_not_found: { why: 'The passkey was removed in the meantime.', fix: 'Reload the list.' },
  passkey_refused: {
    why: 'The browser or the device did not complete the check, the passkey belongs to another site, or you already have the largest number of passkeys.',
    fix: 'Try again in the browser in which it was created, or sign in another way.',
  },
  email_in_use: {
    why: 'Each email address belongs to one account.',
    fix: 'Use another address, or sign in to the account that has this one.',
  },
  email_link_invalid: { why: 'These links work once, and only the newest one works.', fix: 'Request a new link under Security.' },
  reset_link_invalid: {
    why: 'A link to reset a password works once, for a limited time, and only the newest one works.',
    fix: 'Choose “Forgot password?” at sign-in again, or ask the operator for a new link.',
  },
  mail_not_set_up: {
    why: 'The settings SMTP_URL and MAIL_FROM are not set.',
    fix: 'The operator sets them, or changes the address with the command in the message.',
  },
  user_not_found: { why: 'No account has this email address.', fix: 'List the accounts with `./florin user list`.' },
  second_factor_set: {
    why: 'Only one authenticator app can be set up at a time.',
    fix: 'Turn it off under Security, then set up the new one.',
  },
  idempotency_key_invalid: {
    why: 'The header is empty, longer than 255 characters, or contains characters outside ASCII.',
    fix: 'Use your order number or a UUID.',
  },
  idempotency_key_in_use: {
    why: 'The first request with this key has not been answered yet. Nothing is done twice.',
    fix: 'Retry after a second: you get the answer of the first request. The SDK does this for you.',
  },
  idempotency_mismatch: {
    why: 'The key was used within the last 7 days with another body, so the answer of that request would be wrong here. Often one key is used for all requests of an order.',
    fix: 'Use one key per action, such as `order-A-1001-payment`.',
  },
  parameter_unknown: {
    why: 'The name looks like a typo of a parameter, or belongs to another request. It is refused because a misspelled `currency` or filter would otherwise be ignored, with a surprising result.',
    fix: 'Use the name in the message, or leave the parameter out. Paths that do not begin with `/v1` ignore names that resemble nothing, and list them in the `X-Ignored-Parameters` header.',
  },
  parameter_missing: {
    why: 'A required parameter is absent. `errors` lists all of them when there are several.',
    fix: 'Add it. The API reference lists the required parameters of each request.',
  },
  parameter_invalid: {
    why: 'The value has the wrong type, is out of range, or is not one of the allowed values. The message says what is allowed. Values are case-sensitive.',
    fix: 'Correct the parameter named in `param`. `errors` lists all faults when there are several.',
  },
  amount_invalid: {
    why: 'The amount, or the sum of the items and the tax, is 0 or negative.',
    fix: 'Send an amount above 0. Do not create payments for free orders.',
  },
  amount_too_large: {
    why: 'A payment can be at most 1,000,000.00 USD, in whatever currency it is priced. Over Lightning, the merchant’s node or provider takes less at once, and `LIGHTNING_MAX` limits providers that may hold the money.',
    fix: 'Split the amount into several payments, or choose another network than Lightning.',
  },
  amount_precision: {
    why: 'The currency does not have this many decimals: USD and EUR have two, JPY none, coins eight (ETH 18). Amounts are not rounded for you, except for what calculating with doubles leaves: 3.3000000000000003 is read as 3.30.',
    fix: 'Round in your own code, and send the amount as a string, such as "25.50".',
  },
  amount_too_small: {
    why: 'Networks refuse or make worthless transfers below a dust limit, so each coin has a smallest payment: ten times that limit.',
    fix: 'Raise the amount to at least the one in the message, or choose a coin with a smaller limit. Without a coin, a price is refused only when none of your coins carries it; on the page, each other coin says from which price it can be used.',
  },
  url_invalid: {
    why: 'The URL is relative, has another scheme, contains a user name, or its host does not resolve to a public address. Live mode takes https only. With a public key, customers can only return to one of its origins.',
    fix: 'Send a complete https URL. To receive webhooks on your own machine, use `florin listen`.',
  },
  metadata_invalid: {
    why: 'Metadata has up to 50 keys of up to 40 characters without brackets, with text values of up to 500 characters. Public keys cannot set it, because anyone could.',
    fix: 'Convert numbers to text, shorten long values, and set metadata from your server.',
  },
  cursor_invalid: {
    why: 'The cursor is not the identifier of a row of this list, or belongs to another account or mode.',
    fix: 'Pass the `id` of the last row of the previous page unchanged. The SDK pages through lists for you.',
  },
  currency_unknown: { why: 'Only these five coins are supported.', fix: 'Use one of the codes in the message, in capitals.' },
  fiat_unsupported: {
    why: 'The currency has no rate from at least two sources, or the code is not an ISO 4217 code in capitals.',
    fix: 'Use one of the codes in the message, or convert the price to USD yourself.',
  },
  address_invalid: {
    why: 'The address has a typo, belongs to another coin or network, or has a wrong checksum.',
    fix: 'Copy the address again as a whole. Do not change upper and lower case.',
  },
  invoice_invalid: {
    why: 'The invoice has a typo, belongs to another network, or pays the node of the merchant. Its checksum and its signature are checked.',
    fix: 'Copy the whole invoice from the wallet that should receive the money. It begins with `lnbc`.',
  },
  invoice_amount_wrong: {
    why: 'A refund pays one invoice, for exactly its amount in whole satoshis. An invoice without an amount is refused too.',
    fix: 'Make an invoice for the amount in the message.',
  },
  invoice_expires_soon: {
    why: 'Members approve a refund before somebody pays it, so its invoice must still be valid then.',
    fix: 'Choose a longer validity in the wallet, or use another wallet or an address on-chain.',
  },
  invoice_used: {
    why: 'An invoice is paid once. This one belongs to another refund, or to a payment.',
    fix: 'Make a new invoice in the wallet.',
  },
  preimage_wrong: {
    why: 'Its SHA-256 hash is not the payment hash of any invoice that the customer gave for this refund, so it proves nothing about it.',
    fix: 'Open the payment in the wallet that paid the invoice, and copy its preimage: 64 hex digits. Some wallets call it the proof of payment.',
  },
  coin_not_configured: {
    why: 'A live payment was requested in a coin for which this merchant has no active wallet, or over Lightning, which is not set up. So there is nowhere to pay to.',
    fix: 'Add a wallet for the coin, or set up Lightning, under Wallets. In test mode, all coins work without one.',
  },
  test_identifier_in_live: {
    why: '`payment_address` chooses a simulated scenario, and the request was made with a live key.',
    fix: 'Remove the parameter, or use a test key.',
  },
  address_ends_differ: {
    why: 'The characters you typed from your wallet are not the end of any address that this key derives. The key may belong to another account or wallet.',
    fix: 'Open the first receiving address in your wallet and compare it. If it differs, export the key of the right account.',
  },
  account_key_invalid: {
    why: 'The key is not the extended public key of one account, belongs to another coin or network, or is used by another merchant.',
    fix: 'Export the account’s extended public key (xpub, ypub, zpub or a descriptor) from your wallet and paste it unchanged.',
  },
  private_key_refused: {
    why: 'What was pasted can spend your money. This service never needs it.',
    fix: 'Export the extended public key instead. If the private key was sent anywhere else, move your money to a new wallet.',
  },
  payment_not_found: {
    why: 'The ID is wrong, or the payment belongs to another account or to the other mode: test keys do not see live payments.',
    fix: 'Check the ID, and use a key of the mode in which the payment was created.',
  },
  transaction_not_found: {
    why: 'The network does not know the transaction: the hash is wrong, it is on another network, or it was dropped before it was confirmed.',
    fix: 'Check the hash and the currency in a block explorer. A new transaction can take a minute to appear.',
  },
  event_not_found: {
    why: 'The ID is wrong, or the event belongs to another account or mode.',
    fix: 'Use a key of the mode in which the event happened.',
  },
  endpoint_not_found: {
    why: 'The endpoint was deleted, or belongs to another account or mode.',
    fix: 'List your endpoints with `GET /v1/webhook_endpoints`.',
  },
  delivery_not_found: {
    why: 'The delivery is older than 30 days, its endpoint was deleted, or it belongs to another account or mode.',
    fix: 'List deliveries with `GET /v1/webhook_deliveries`.',
  },
  delivery_overtaken: {
    why: 'The endpoint belongs to a shop whose plugin acts on every event. An old event after a newer one would undo the status of an order.',
    fix: 'Resend the events of the payment from its page in the dashboard: the shop then receives its current status.',
  },
  recovery_not_found: {
    why: 'The ID is wrong, or the recovery belongs to another account or mode.',
    fix: 'Use the `id` that the recovery returned when it began.',
  },
  merchant_not_found: {
    why: 'No merchant of this install has this ID.',
    fix: 'Copy the ID from the output of `merchant create`; it starts with `mer_`.',
  },
  link_not_found: {
    why: 'The payment link was deleted, or belongs to another account or mode.',
    fix: 'See Payment links in the dashboard.',
  },
  refund_not_found: {
    why: 'The refund belongs to another account or mode, or the ID is not complete.',
    fix: 'Copy the ID from the reply that created it, or list the refunds of the payment.',
  },
  customer_not_found: {
    why: 'The ID does not belong to a customer of this merchant in this mode, or the customer was erased as you set it.',
    fix: 'Use the `id` of the `customer` of a payment, with a key of the same mode.',
  },
  payout_not_found: {
    why: 'The ID does not belong to a payout of this merchant in the mode of the key.',
    fix: 'Use the `id` from the reply that requested the payout, with a key of the same mode.',
  },
  payout_batch_not_found: {
    why: 'The ID does not belong to an imported file of this merchant in this mode.',
    fix: 'Use the ID that the import returned, in the same mode.',
  },
  sweep_not_found: {
    why: 'No sweep of this merchant has this ID. Sweeps exist only in live mode.',
    fix: 'Copy the ID from the list of sweeps.',
  },
  wallet_not_found: { why: 'The merchant has no wallet for this coin.', fix: 'Add one under Wallets.' },
  key_not_found: { why: 'The ID is wrong, or the key belongs to another account or mode.', fix: 'See Developers, API keys.' },
  request_not_found: {
    why: 'The request is older than 30 days, was made with a key of another account or mode, or was counted without being kept because there were many in that second.',
    fix: 'Filter the request log by time or path instead.',
  },
  key_ended: { why: 'A key that has been revoked, has expired or was rolled cannot be changed any more.', fix: 'Create a new key.' },
  key_limit_reached: {
    why: 'The number of keys per mode is limited.',
    fix: 'Revoke keys that are no longer used; the list shows when each was last used.',
  },
  payment_status_conflict: {
    why: 'The payment has moved on: for example, it was paid before it could be canceled.',
    fix: 'Retrieve the payment and act on its current status.',
  },
  payment_has_money: {
    why: 'The request said `only_if_unpaid`, and a transfer was seen: unconfirmed, too small, late or reversed ones count too.',
    fix: 'Put the order on hold. Cancel without `only_if_unpaid` if you want to cancel anyway.',
  },
  shop_mismatch: {
    why: 'The `shop` in the request is not the `shop` in the metadata of the payment. A copy of a shop, such as a staging site, has the keys and orders of the original.',
    fix: 'Connect the copy with its own key, or with one of test mode. Payments of the original stay as they are.',
  },
  payment_replaced: {
    why: 'A payment is replaced once. Another request, or the customer on the payment page, was first.',
    fix: 'Retrieve the payment that `replaced_by` names, and use it for the order.',
  },
  payment_needs_attention: {
    why: 'Money arrived late, short or after a cancellation, and nobody has decided about it.',
    fix: 'Resolve the payment first, under Needs attention or with `POST /v1/payments/{id}/resolve`.',
  },
  money_refunded: {
    why: 'Money that went back to the customer cannot pay for anything. Refunds count from their approval, because they may have been sent.',
    fix: 'Accept only transfers that were not refunded. If an approved refund was not sent, cancel it with `florin refund cancel`, and accept the money afterwards.',
  },
  refund_open: {
    why: 'An approved refund is sent by the next signing file. If its money were only marked as sent back, it would be returned twice.',
    fix: 'Mark the refund itself as sent with `florin refund sent`, or cancel it with `florin refund cancel`, and decide afterwards.',
  },
  worth_unknown: {
    why: 'The customer sent a coin that Florin recognizes but has no price for, such as POL on Polygon.',
    fix: 'Send it back or move it with a wallet that has your seed phrase, on the network on which it arrived. Accept only the other transfers.',
  },
  nothing_received: {
    why: 'Only money that arrived can be accepted, rejected or marked as refunded.',
    fix: 'Check `transfers` of the payment. Cancel a payment that is still pending instead.',
  },
  scenario_started: { why: 'Each test payment plays one scenario.', fix: 'Create a new test payment, and start the other scenario on it.' },
  coin_fixed: {
    why: 'Money has arrived in one coin, and the rest has to be paid in the same one.',
    fix: 'Let the customer pay the rest in that coin.',
  },
  endpoint_limit_reached: {
    why: 'The number of endpoints per mode is limited, because each event is sent to all of them.',
    fix: 'Delete endpoints that are no longer used, or fan out from one of them.',
  },
  endpoint_disabled: {
    why: 'The endpoint was disabled by you, after days of failures, or because it answered 410. Nothing can be sent to it.',
    fix: 'Fix the endpoint, then enable it and recover the failed deliveries.',
  },
  live_mode_only: { why: 'Wallets belong to live mode.', fix: 'Switch to live mode.' },
  second_owner_required: {
    why: 'Changes of a wallet wait, so that one stolen account cannot redirect money. Only another owner can shorten the wait.',
    fix: 'Ask another owner, or wait until the time shown.',
  },
  refund_exceeds: {
    why: 'The refunds of a payment never return more than what arrived for it in its coin and is confirmed. Transfers that you marked as refunded do not count.',
    fix: 'List the refunds of the payment. Request a smaller amount, wait for confirmations, or cancel a refund that was not approved.',
  },
  role_too_new: {
    why: 'An owner set a limit for refunds and payouts that one member approves alone. Above it, a member counts once their role is 24 hours old, so that nobody invites or promotes their own second approver.',
    fix: 'Wait until the given time, or ask other owners or finance members to approve it.',
  },
  second_member_required: {
    why: 'An owner set a limit for refunds and payouts that one member approves alone. You requested this one, or already approved it.',
    fix: 'Ask another owner or finance member to approve it under Refunds or Payouts, or change the limit under Business.',
  },
  refund_state: {
    why: 'A refund only moves forward. Once it is approved, the money may have been sent, so only members can cancel it.',
    fix: 'Retrieve the refund and act on its current status.',
  },
  refund_payment_pending: {
    why: 'A pending or processing payment counts everything that arrives in time. If a part of it were returned meanwhile, it could complete without it.',
    fix: 'Wait until the payment is completed or has expired, or cancel it while it is pending. Then approve the refund.',
  },
  refund_in_file: {
    why: 'A refund is sent once: by the transaction of its signing file, or by your own wallet.',
    fix: 'Wait until the file is sent and confirmed, or cancel it under Sweeps while it is not signed.',
  },
  refund_file_empty: {
    why: 'A signing file contains approved refunds whose money is confirmed and still on deposit addresses.',
    fix: 'Approve refunds first. If their money was already moved, send them from your own wallet and mark them as sent.',
  },
  refund_invoice_expired: {
    why: 'A Lightning invoice cannot be paid after its end. The refund waits for another one, which has to be approved again.',
    fix: 'Send the claim link to the customer again. If you already paid the invoice, enter its preimage.',
  },
  refund_address_missing: {
    why: 'The person who approves a refund has to see where the money goes.',
    fix: 'Send the `claim_url` to the customer, and approve the refund after the customer has entered an address.',
  },
  payout_reference_missing: {
    why: 'Without a reference or a key, a request that is repeated after a lost reply is a second payout.',
    fix: 'Send your own name for the payout as `payout_reference`, or an `Idempotency-Key` header.',
  },
  payout_exists: {
    why: 'A reference belongs to one payout, so that a repeated request or upload never pays twice.',
    fix: 'Retrieve the payout in the message. If this is another payout, give it its own reference. If the first one was wrong, cancel it.',
  },
  payout_state: {
    why: 'A payout only moves forward. Once it is approved, the money may have been sent, so only members can cancel it.',
    fix: 'Retrieve the payout and act on its current status.',
  },
  payout_in_file: {
    why: 'A payout is sent once: by the transaction of its signing file, or by your own wallet.',
    fix: 'Wait until the file is sent and confirmed, or cancel it under Sweeps while it is not signed.',
  },
  payout_file_empty: {
    why: 'A signing file contains approved payouts in one coin. Confirmed money on deposit addresses pays for them.',
    fix: 'Approve payouts first. If the money was already moved, send them from your own wallet and mark them as sent.',
  },
  payout_import_invalid: {
    why: 'A file is imported as a whole or not at all. The message names the first wrong lines.',
    fix: 'Correct these lines and upload the file again.',
  },
  sweep_destination_missing: {
    why: 'Sweeps go only to an address that the merchant confirmed, and a new address waits 24 hours, like a changed account key, so that owners notice one that they did not add.',
    fix: 'Set the address with `./florin sweep destination`. If a new one waits, wait until it takes effect, or ask a second owner to confirm it.',
  },
  sweep_destination_code: {
    why: 'All networks of the Ethereum family have one destination. A smart contract account, such as a Safe, exists only on the networks on which it was created. On another network, its address has no code and no key.',
    fix: 'Create the same account at the same address on that network, or set the address of an ordinary account as destination.',
  },
  sweep_destination_frozen: {
    why: 'The contract of the token says that the address is on the list of accounts which its issuer blocked. Every transfer to it fails.',
    fix: 'Set another destination with `./florin sweep destination`. Ask the issuer of the token why it blocked the address.',
  },
  sweep_empty: {
    why: 'Everything on the deposit addresses is unconfirmed, undecided, disputed, already in another signing file, or worth less than the fee to move it.',
    fix: 'Look at the reasons in the list of what remains. Wait for confirmations, decide open payments, choose a slower fee, or lower the limits.',
  },
  sweep_gas_missing: {
    why: 'Tokens move with a fee in the coin of the network, and deposit addresses hold none. The same is true if a refund or a payout takes all that an address holds. One address of the same wallet, outside the deposit addresses (path 1/0 below the account), pays for all of them.',
    fix: 'Send the amount in the message to the address, wait until it is confirmed, and make the file again.',
  },
  sweep_busy: {
    why: 'Each output and each account nonce can be in only one open signing file, so that two files never spend the same money.',
    fix: 'Send the other file, or cancel it if it was never signed.',
  },
  sweep_state: {
    why: 'A sweep can be signed or canceled only before it is sent, and replaced only while it waits to be mined.',
    fix: 'Reload the sweep to see its state, and make a new one if money is left.',
  },
  sweep_fee_low: {
    why: 'The base fee of the network rose above the highest price per gas in the file. Nodes refuse such a transaction.',
    fix: 'Cancel the file and make it again, or raise its fee if it was signed before. You can also wait until the fee falls.',
  },
  signed_file_refused: {
    why: 'The signed file differs from the file that was made: another destination, amount, fee, input or chain, or a signature that does not cover all of it. A changed file can mean that the computer that signed it is not safe.',
    fix: 'Sign the original file again with the signer from your Florin, and compare the destination with your own wallet.',
  },
  signed_file_private: {
    why: 'The upload contained an extended private key, a private key or words that look like a seed phrase. Florin never needs them.',
    fix: 'Upload the file that the signer saves after signing. If the key left the computer where you sign, treat it as stolen and move the money to a new wallet.',
  },
  nothing_to_confirm: { why: 'The change took effect, was canceled or was confirmed by someone else.', fix: 'Reload the page.' },
  payment_not_repeatable: {
    why: 'Only payments that ended without money can be started again, and only if the merchant allows it.',
    fix: 'Create a new payment.',
  },
  recovery_running: { why: 'One recovery per endpoint runs at a time.', fix: 'Follow it with `GET /v1/webhook_recoveries/{id}`.' },
  not_supported: {
    why: 'The question needs a source that is not configured, such as Electrum servers for balances of any address. Nothing is estimated instead.',
    fix: 'The operator sets the setting named in the message, or another source for the coin.',
  },
  history_pruned: { why: 'The node keeps recent blocks only.', fix: 'The operator adds a node without pruning.' },
  chain_unavailable: {
    why: 'No source of the coin answers, or all of them are on the wrong network or still syncing. Over Lightning: the merchant’s node or provider made no usable invoice. Nothing was created.',
    fix: 'Retry after `Retry-After` seconds, or choose another network than Lightning. The operator runs `./florin doctor`, which names the cause.',
  },
  price_unavailable: {
    why: 'Too few price sources answer, they disagree, or the last price is too old. No payment is priced with a doubtful rate.',
    fix: 'Retry after `Retry-After` seconds, or let the customer choose another coin.',
  },
  database_unavailable: {
    why: 'The database is restarting, out of reach or overloaded. The request may or may not have taken effect.',
    fix: 'Retry with the same Idempotency-Key: it is never done twice. The SDK retries for you.',
  },
  overloaded: { why: 'More requests are waiting than the service can answer in time.', fix: 'Retry with growing pauses, as the SDK does.' },
  server_error: {
    why: 'An unexpected error, recorded in the log of the service with the request ID.',
    fix: 'Retry with the same Idempotency-Key. If it happens again, report the request ID.',
  },
};
