/**
 * What a macaroon of LND may do, read from the macaroon itself: one that can spend, or do anything that Florin does not need, is refused
 * before it is stored.
 */

/** What receiving needs at most. Writing invoices can also cancel them; it cannot send. */
const ALLOWED: ReadonlySet<string> = new Set([
  ...['invoices:read', 'invoices:write', 'address:read', 'address:write', 'onchain:read', 'info:read'],
  ...['AddInvoice', 'LookupInvoice', 'ListInvoices', 'SubscribeInvoices', 'GetInfo'].map((name) => `uri:/lnrpc.Lightning/${name}`),
]);
/** Makes the right one. */
export const BAKE_MACAROON =
  'lncli bakemacaroon --save_to florin.macaroon uri:/lnrpc.Lightning/AddInvoice uri:/lnrpc.Lightning/LookupInvoice uri:/lnrpc.Lightning/GetInfo';

/** The operations beyond receiving; empty for a good one. Errors: the bytes are not a macaroon of LND. */
export const spendingOf = (macaroon: Uint8Array): string[] => operationsOf(macaroon).filter((name) => !ALLOWED.has(name));

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
