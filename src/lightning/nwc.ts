/**
 * Invoices of a wallet over Nostr Wallet Connect (NIP-47). What a connection may do is the wallet's word and can be widened later, so it is
 * checked when it is set up and every day: one that can pay is refused.
 */
import { randomBytes } from 'node:crypto';
import type { Context } from '#context';
import { asObject, asText, asTexts, asWhole, type StoredJson } from '#core/stored-json';
import {
  type BackEnd,
  BackEndError,
  type BackEndKind,
  checkByInvoice,
  type InvoiceLook,
  madeInvoice,
  type OpenAccess,
  PROVIDER_PACE_MS,
  refuseAccess,
  withoutSecret,
} from './back-end.ts';
import { askRelays, conversationKey, decryptText, encryptText, type NostrEvent, publicKeyOf, signEvent } from './nostr.ts';

const MOST_RELAYS = 4;
/** NIP-47: what a wallet can do, a request, its answer, and what it says without being asked. */
const [INFO, REQUEST, ANSWER, NEWS] = [13_194, 23_194, 23_195, 23_197];
/** What receiving needs at most. Whatever else a connection may do, known or not, is refused. */
const ALLOWED: ReadonlySet<string> = new Set([
  ...['get_info', 'get_balance', 'get_budget', 'make_invoice', 'lookup_invoice', 'list_transactions', 'notifications'],
]);
const NEEDED = ['make_invoice', 'lookup_invoice'];
const ADVICE = 'In your wallet, make a new connection that may only receive: make_invoice, lookup_invoice and get_info';
const STATES: Readonly<Record<string, InvoiceLook['state']>> = {
  ...{ pending: 'open', accepted: 'open', expired: 'open', failed: 'open', settled: 'settled' },
};
/** After these a wallet is asked again. */
const PASSING: readonly string[] = ['RATE_LIMITED', 'INTERNAL', 'QUOTA_EXCEEDED'];

type Connection = { wallet: string; secret: string; relays: string[] };

/** The parts of a connection string; null if it is not one. */
function readConnection(text: string): Connection | null {
  const url = URL.parse(text);
  if (url?.protocol !== 'nostr+walletconnect:') return null;
  const [wallet, secret] = [url.host || url.pathname.replace(/^\/+/, ''), url.searchParams.get('secret') ?? ''];
  const relays = url.searchParams.getAll('relay').filter((relay) => /^wss?:$/.test(URL.parse(relay)?.protocol ?? ''));
  if (!/^[0-9a-f]{64}$/.test(wallet) || !/^[0-9a-f]{64}$/.test(secret) || relays.length === 0) return null;
  return { wallet, secret, relays: relays.slice(0, MOST_RELAYS) };
}

/** A wallet over NWC: `credential` is the connection string, which names wallet and relays. */
export const NWC: BackEndKind = {
  read: ({ credential }) => {
    const connection = readConnection(credential);
    if (!connection)
      return refuseAccess('credential', 'it is not a connection string, such as nostr+walletconnect://...?relay=wss://...&secret=...');
    try {
      conversationKey(connection.secret, connection.wallet);
    } catch {
      refuseAccess('credential', 'the keys in the connection string are not valid');
    }
    return { address: '', credential, certificate: null };
  },
  name: ({ credential }) => URL.parse(readConnection(credential)?.relays[0] ?? '')?.host ?? '',
  open: openNwc,
  paceMs: PROVIDER_PACE_MS,
};

function openNwc(ctx: Context, { merchantId, credential }: OpenAccess): BackEnd {
  const { wallet, secret, relays } = readConnection(credential)!;
  const [key, client] = [conversationKey(secret, wallet), publicKeyOf(secret)];
  const ask = async (method: string, params: object): Promise<StoredJson> => {
    const now = Math.floor(ctx.clock.now().getTime() / 1000);
    const event = signEvent(secret, {
      ...{ created_at: now, kind: REQUEST!, content: encryptText(key, JSON.stringify({ method, params }), randomBytes(32)) },
      tags: [
        ['encryption', 'nip44_v2'],
        ['p', wallet],
        ['expiration', String(now + 60)],
      ],
    });
    const accept = (answer: NostrEvent): StoredJson | null => {
      const isOurs = answer.kind === ANSWER && answer.pubkey === wallet && answer.tags.some(([tag, id]) => tag === 'e' && id === event.id);
      const body = isOurs ? openAnswer(key, answer.content) : null;
      return body?.result_type === method ? body : null;
    };
    const filter = { kinds: [ANSWER], authors: [wallet], '#p': [client], '#e': [event.id] };
    const body = await askRelays(ctx, { merchantId, relays, event, filter, accept });
    const error = asObject(body.error);
    const code = asText(error.code);
    if (code === null) return asObject(body.result);
    const said = withoutSecret(asText(error.message), secret);
    throw new BackEndError(`it answers ${code.slice(0, 50)}${said === '' ? '' : ` and "${said}"`}`, { isAnswer: !PASSING.includes(code) });
  };
  const create: BackEnd['create'] = async ({ msat, description, seconds, key: florin }) => {
    const result = await ask('make_invoice', { amount: Number(msat), description, expiry: seconds, metadata: { florin } });
    return madeInvoice(asText(result.invoice));
  };
  const look: BackEnd['look'] = async (hash) => readWalletLook(await ask('lookup_invoice', { payment_hash: hash }), hash);
  const listen: BackEnd['listen'] = async (paid, ended) => {
    const filter = { kinds: [NEWS], authors: [wallet], '#p': [client], since: Math.floor(ctx.clock.now().getTime() / 1000) };
    const accept = ({ kind, pubkey, content }: NostrEvent): null => {
      const body = kind === NEWS && pubkey === wallet ? openAnswer(key, content) : null;
      const hash = body?.notification_type === 'payment_received' ? asText(asObject(body.notification).payment_hash) : null;
      if (hash !== null) paid(hash);
      return null;
    };
    await askRelays(ctx, { merchantId, relays, ended, event: null, filter, stays: true, accept });
  };
  const readInfo = async () => {
    const filter = { kinds: [INFO], authors: [wallet], limit: 1 };
    const accept = (event: NostrEvent) => (event.kind === INFO && event.pubkey === wallet ? event : null);
    const { content, tags } = await askRelays(ctx, { merchantId, relays, event: null, filter, accept });
    const encryption = tags.find(([tag]) => tag === 'encryption')?.[1] ?? '';
    if (!encryption.split(' ').includes('nip44_v2')) throw new BackEndError('the connection is too old: the wallet does not know NIP-44');
    return content.split(/\s+/).filter((method) => method !== '');
  };
  return {
    create,
    look,
    listen,
    check: async () => {
      refuseMethods(await methodsOf(ctx, { ask, readInfo }));
      return checkByInvoice(ctx, { create, look }, { ownsNode: false });
    },
  };
}

/** What this connection may do. The wallet says it of itself where it does not say it of the connection. */
async function methodsOf(
  ctx: Context,
  { ask, readInfo }: { ask(method: string, params: object): Promise<StoredJson>; readInfo(): Promise<string[]> },
): Promise<string[]> {
  const ofWallet = await readInfo();
  const info = await ask('get_info', {}).catch((error: unknown) => {
    if (error instanceof BackEndError && error.isAnswer) return null;
    throw error;
  });
  if (info === null) return ofWallet;
  const [network, expected] = [asText(info.network) ?? '', ctx.settings.networks.bitcoin];
  if (network !== '' && network !== expected) throw new BackEndError(`its wallet is on ${network.slice(0, 20)}, not on ${expected}`);
  if (!Array.isArray(info.methods)) return ofWallet;
  return asTexts(info.methods);
}

/** Errors: BackEndError, with the methods beyond receiving. */
function refuseMethods(methods: readonly string[]): void {
  const excess = methods.filter((method) => !ALLOWED.has(method));
  const names = excess.slice(0, 5).map((method) => method.slice(0, 40));
  if (excess.length > 0) throw new BackEndError(`it can do more than receive (${names.join(', ')}). ${ADVICE}`, { canSpend: true });
  const missing = NEEDED.filter((method) => !methods.includes(method));
  if (missing.length > 0) throw new BackEndError(`it cannot ${missing.join(' and ')}. ${ADVICE}`);
}

/** An answer that this wallet encrypted for this connection; null for anything else. */
function openAnswer(key: Uint8Array, content: string): StoredJson | null {
  try {
    return asObject(JSON.parse(decryptText(key, content)));
  } catch {
    // Somebody else's, or changed on the way.
    return null;
  }
}

/** What a wallet says about an invoice, in an answer that is its own. Errors: BackEndError. */
export function readWalletLook(result: StoredJson, hash: string): InvoiceLook {
  if (asText(result.payment_hash) !== hash || result.type === 'outgoing') throw new BackEndError('it answers about another invoice');
  const [settledAt, amount, fees] = [asWhole(result.settled_at), asWhole(result.amount), asWhole(result.fees_paid) ?? 0];
  const isTimed = settledAt !== null && settledAt > 0;
  // `state` is optional. A preimage alone says nothing.
  const state = result.state === undefined || result.state === null ? (isTimed ? 'settled' : 'open') : STATES[asText(result.state) ?? ''];
  if (state === undefined) throw new BackEndError('it does not say whether the invoice is settled');
  return {
    ...{ state, preimage: asText(result.preimage), receivedMsat: state === 'settled' && amount !== null ? BigInt(amount) : null },
    ...{ feeMsat: BigInt(fees), settledAt: isTimed ? new Date(settledAt * 1000) : null },
  };
}
