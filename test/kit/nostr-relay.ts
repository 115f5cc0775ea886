/** A relay of Nostr with one wallet behind it, which speaks NIP-47 over the invoices of a node. */
import { randomBytes } from 'node:crypto';
import type { Server } from 'node:https';
import { createRequire } from 'node:module';
import {
  conversationKey,
  decryptText,
  encryptText,
  type NostrEvent,
  publicKeyOf,
  readEvent,
  signEvent,
} from '../../src/lightning/nostr.ts';

const { WebSocketServer } = createRequire(import.meta.url)('ws');
const WALLET_SECRET = '3c'.repeat(32);
/** The secret of the connection, and a key that is not that of the wallet. */
export const NWC_SECRET = '5e'.repeat(32);
const WALLET = publicKeyOf(WALLET_SECRET);
const CLIENT = publicKeyOf(NWC_SECRET);
const RECEIVING = ['get_info', 'make_invoice', 'lookup_invoice', 'list_transactions'];

export type NostrRelay = {
  connection(url: string): string;
  /** What the wallet says it can do, what the connection may do (null: it does not say), and how it encrypts. */
  says: { info: string[]; methods: string[] | null; encryption: string | null; network: string };
  /** Changes what the relay sends for an answer; without an argument it sends the answer. */
  garble(change?: (answer: NostrEvent, tools: { sign: typeof answerBy; request: NostrEvent }) => readonly unknown[]): void;
  /** Tells every subscriber that an invoice was paid, as its wallet, or as another key. */
  announce(paymentHash: string, secret?: string): void;
  /** How many listen for that. */
  listeners(): number;
  reset(): void;
  stop(): void;
};

/** Signs what a wallet says to a connection, as a key of one's choice. */
const sayBy = (secret: string, { kind, to, more = [] }: { kind: number; to: string; more?: string[][] }, body: object): NostrEvent =>
  signEvent(secret, {
    ...{ created_at: Math.floor(Date.now() / 1000), kind, tags: [['p', to], ...more] },
    content: encryptText(conversationKey(secret, to), JSON.stringify(body), randomBytes(32)),
  });
const answerBy = (secret: string, { pubkey: to, id }: NostrEvent, body: object): NostrEvent =>
  sayBy(secret, { kind: 23_195, to, more: [['e', id]] }, body);

/** Serves the relay on a server. `answer`: what the wallet says to a request; null: nothing. */
export function startNostrRelay(server: Server, answer: (method: string, params: any) => object | null): NostrRelay {
  const usual = (): NostrRelay['says'] => ({
    ...{ info: RECEIVING, methods: RECEIVING, encryption: 'nip44_v2 nip04', network: 'regtest' },
  });
  const says = usual();
  let change: Parameters<NostrRelay['garble']>[0];
  const listening = new Set<(event: NostrEvent) => void>();
  const sockets = new WebSocketServer({ server });
  sockets.on('connection', (socket: any) => {
    const send = (message: readonly unknown[]) => socket.send(JSON.stringify(message));
    let subscription = '';
    socket.on('message', (data: Buffer) => {
      const [kind, first, filter] = JSON.parse(data.toString());
      if (kind === 'REQ') {
        subscription = first;
        const tags = says.encryption === null ? [] : [['encryption', says.encryption]];
        if (filter.kinds.includes(13_194)) {
          send(['EVENT', subscription, signEvent(WALLET_SECRET, { created_at: 1, kind: 13_194, tags, content: says.info.join(' ') })]);
        }
        if (filter.kinds.includes(23_197)) {
          const tell = (event: NostrEvent) => send(['EVENT', first, event]);
          listening.add(tell);
          socket.on('close', () => listening.delete(tell));
        }
        return send(['EOSE', subscription]);
      }
      const request = kind === 'EVENT' ? readEvent(first) : null;
      if (!request || request.pubkey !== CLIENT) return send(['OK', first?.id, false, 'blocked: not a request']);
      send(['OK', request.id, true, '']);
      const { method, params } = JSON.parse(decryptText(conversationKey(WALLET_SECRET, CLIENT), request.content));
      const body =
        method === 'get_info'
          ? { result_type: method, error: null, result: { network: says.network, ...(says.methods && { methods: says.methods }) } }
          : answer(method, params);
      if (body === null) return;
      const event = answerBy(WALLET_SECRET, request, body);
      const events = change ? change(event, { sign: answerBy, request }) : [event];
      for (const one of events) send(['EVENT', subscription, one]);
    });
  });
  return {
    connection: (url) => `nostr+walletconnect://${WALLET}?relay=${encodeURIComponent(url)}&secret=${NWC_SECRET}`,
    says,
    garble: (next) => {
      change = next;
    },
    announce: (payment_hash, secret = WALLET_SECRET) => {
      const body = { notification_type: 'payment_received', notification: { type: 'incoming', state: 'settled', payment_hash } };
      for (const tell of listening) tell(sayBy(secret, { kind: 23_197, to: CLIENT }, body));
    },
    listeners: () => listening.size,
    reset: () => {
      change = undefined;
      Object.assign(says, usual());
    },
    stop: () => {
      for (const socket of sockets.clients) socket.terminate();
      sockets.close();
    },
  };
}
