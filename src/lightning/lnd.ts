/** Invoices of an LND node over REST, with a macaroon that can only receive. The node's own certificate is pinned. */
import type { Context } from '#context';
import { asBigint, asText, type StoredJson } from '#core/stored-json';
import {
  askJson,
  type BackEnd,
  BackEndError,
  type BackEndKind,
  checkByInvoice,
  type InvoiceLook,
  madeInvoice,
  type OpenAccess,
  OWN_PACE_MS,
  readNodeUrl,
  refuseAccess,
  refusedBy,
} from './back-end.ts';

const STATES: Readonly<Record<string, InvoiceLook['state']>> = {
  OPEN: 'open',
  // Parts of it are here, and the payer may still get them back.
  ACCEPTED: 'open',
  SETTLED: 'settled',
  CANCELED: 'canceled',
};

/** An LND node: `address` is its REST interface, `credential` a macaroon as hex. */
export const LND: BackEndKind = {
  read: (access) => {
    const address = readNodeUrl(access.address, { example: 'https://node.example.com:8080' });
    const credential = access.credential.toLowerCase();
    if (!/^([0-9a-f]{2}){20,4000}$/.test(credential)) refuseAccess('credential', 'it must be a macaroon of LND as hex');
    let excess: string[] = [];
    try {
      excess = spendingOf(Buffer.from(credential, 'hex'));
    } catch (error) {
      refuseAccess('credential', `it is not a macaroon of LND: ${(error as Error).message}`);
    }
    if (excess.length > 0)
      refuseAccess(
        'credential',
        `it can do more than receive (${excess.slice(0, 5).join(', ')}). Make one that can only receive: ${BAKE_MACAROON}`,
      );
    return { ...access, address, credential };
  },
  name: ({ address }) => new URL(address).host,
  open: openLnd,
  paceMs: OWN_PACE_MS,
};

function openLnd(ctx: Context, { merchantId, address, credential, certificate }: OpenAccess): BackEnd {
  const call = async (path: string, body?: object): Promise<StoredJson> => {
    const headers = { 'grpc-metadata-macaroon': credential };
    const reply = await askJson(ctx, {
      ...{ merchantId, url: `${address}${path}`, headers, certificate: certificate ?? undefined },
      ...(body && { body }),
    });
    if (reply.status === 200) return reply.body;
    throw refusedBy(reply, asText(reply.body.message), credential);
  };
  const create: BackEnd['create'] = async ({ msat, description, seconds }) => {
    // `private`: the invoice names a way over channels that are not announced.
    const body = await call('/v1/invoices', { memo: description, value_msat: msat.toString(), expiry: String(seconds), private: true });
    return madeInvoice(asText(body.payment_request));
  };
  const look: BackEnd['look'] = (handle) => lookUp(call, handle);
  return { create, look, check: () => checkByInvoice(ctx, { create, look }, { ownsNode: true }) };
}

async function lookUp(call: (path: string) => Promise<StoredJson>, hash: string): Promise<InvoiceLook> {
  const body = await call(`/v1/invoice/${hash}`);
  if (hexOf(body.r_hash) !== hash) throw new BackEndError('it answers about another invoice');
  const state = STATES[asText(body.state) ?? ''];
  if (state === undefined) throw new BackEndError('it does not say whether the invoice is settled');
  const [received, settled] = [asBigint(body.amt_paid_msat), asBigint(body.settle_date)];
  const isSettled = state === 'settled';
  if (isSettled && received === null) throw new BackEndError('it does not say how much was paid');
  return {
    state,
    preimage: hexOf(body.r_preimage),
    receivedMsat: isSettled ? received : null,
    settledAt: isSettled && settled !== null && settled > 0n ? new Date(Number(settled) * 1000) : null,
  };
}

/** Bytes are base64 in the JSON of LND. */
const hexOf = (value: unknown): string | null => {
  const text = asText(value);
  return text === null ? null : Buffer.from(text, 'base64').toString('hex');
};

// What a macaroon may do, read from the macaroon itself: one that can spend, or do anything that Florin does not need, is refused before it
// is stored.

/** What receiving needs at most. Writing invoices can also cancel them; it cannot send. */
const ALLOWED: ReadonlySet<string> = new Set([
  ...['invoices:read', 'invoices:write', 'address:read', 'address:write', 'onchain:read', 'info:read'],
  ...['AddInvoice', 'LookupInvoice', 'ListInvoices', 'SubscribeInvoices', 'GetInfo'].map((name) => `uri:/lnrpc.Lightning/${name}`),
]);
/** Makes the right one. */
const BAKE_MACAROON =
  'lncli bakemacaroon --save_to florin.macaroon uri:/lnrpc.Lightning/AddInvoice uri:/lnrpc.Lightning/LookupInvoice uri:/lnrpc.Lightning/GetInfo';

/** The operations beyond receiving; empty for a good one. Errors: the bytes are not a macaroon of LND. */
const spendingOf = (macaroon: Uint8Array): string[] => operationsOf(macaroon).filter((name) => !ALLOWED.has(name));

class Reader {
  readonly bytes: Uint8Array;
  at = 0;
  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }
  get isAtEnd(): boolean {
    return this.at >= this.bytes.length;
  }
  byte(): number {
    const byte = this.bytes[this.at++];
    if (byte === undefined) throw new Error('it is cut off');
    return byte;
  }
  varint(): number {
    let value = 0;
    for (let shift = 0; shift < 28; shift += 7) {
      const byte = this.byte();
      value |= (byte & 127) << shift;
      if (byte < 128) return value;
    }
    throw new Error('a length in it is too large');
  }
  take(): Uint8Array {
    const length = this.varint();
    const part = this.bytes.subarray(this.at, this.at + length);
    if (part.length !== length) throw new Error('it is cut off');
    this.at += length;
    return part;
  }
}

/** Operations as `entity:action`. The form: a location, an identifier, caveats, a signature (libmacaroons, version 2). */
function operationsOf(macaroon: Uint8Array): string[] {
  const reader = new Reader(macaroon);
  if (reader.byte() !== 2) throw new Error('it is not a macaroon of version 2');
  let field = reader.byte();
  if (field === 1) {
    reader.take();
    field = reader.byte();
  }
  if (field !== 2) throw new Error('it has no identifier');
  const identifier = reader.take();
  // LND: the version of the identifier, then a message of protocol buffers.
  if (identifier[0] !== 3) throw new Error('it has an unknown identifier');
  return messageOf(identifier.subarray(1)).flatMap(({ number, content }) => {
    if (number !== 3) return [];
    const fields = messageOf(content).map(({ number: of, content: text }) => ({ of, text: Buffer.from(text).toString() }));
    const entity = fields.find(({ of }) => of === 1)?.text ?? '';
    const actions = fields.filter(({ of }) => of === 2);
    return actions.length === 0 ? [`${entity}:`] : actions.map(({ text }) => `${entity}:${text}`);
  });
}

/** The fields of a message, all of which have a length here. */
function messageOf(bytes: Uint8Array): { number: number; content: Uint8Array }[] {
  const reader = new Reader(bytes);
  const fields = [];
  while (!reader.isAtEnd) {
    const tag = reader.varint();
    if ((tag & 7) !== 2) throw new Error('it has an unknown field');
    fields.push({ number: tag >> 3, content: reader.take() });
  }
  return fields;
}
