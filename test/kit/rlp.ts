/** Reads recursive length prefix encoding, as Ethereum stores receipts. */

export type Rlp = Buffer | Rlp[];

/** The item that the bytes hold. Throws if they hold anything else, or more. */
export function decodeRlp(bytes: Buffer): Rlp {
  const [item, end] = readItem(bytes, 0);
  if (end !== bytes.length) throw new Error('there are bytes after the item');
  return item;
}

function readItem(bytes: Buffer, at: number): [Rlp, number] {
  const first = bytes[at]!;
  if (first < 0x80) return [bytes.subarray(at, at + 1), at + 1];
  const isList = first >= 0xc0;
  const short = first - (isList ? 0xc0 : 0x80);
  const sizeBytes = Math.max(0, short - 55);
  const from = at + 1 + sizeBytes;
  const end = from + (sizeBytes === 0 ? short : bytes.readUIntBE(at + 1, sizeBytes));
  if (end > bytes.length) throw new Error('the item is cut off');
  if (!isList) return [bytes.subarray(from, end), end];
  const items: Rlp[] = [];
  for (let next = from; next < end; ) {
    const [item, after] = readItem(bytes, next);
    items.push(item);
    next = after;
  }
  return [items, end];
}
