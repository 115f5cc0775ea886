/** Text messages over a connection that was upgraded (RFC 6455), as a client. */
import { createHash, randomBytes } from 'node:crypto';
import type { Duplex } from 'node:stream';

/** What is said over it. `end`: nothing comes any more. */
export type Spoken = { text(message: string): void; end(reason: string): void };
export type TextSocket = { send(message: string): void; close(): void };

/** RFC 6455, section 1.3. */
const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
const TOO_LARGE = 'a message is too large';
const [CONTINUATION, TEXT, CLOSE, PING, PONG] = [0, 1, 8, 9, 10];

/** The headers of a handshake, and what the server must answer to its key. */
export function startHandshake(): { headers: Record<string, string>; accept: string } {
  const key = randomBytes(16).toString('base64');
  const headers = { Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': key };
  return {
    headers,
    accept: createHash('sha1')
      .update(key + GUID)
      .digest('base64'),
  };
}

/** Speaks over a connection after the handshake. `head`: what came with it. A longer message than `maxBytes` ends it. */
export function speakText(socket: Duplex, { head, maxBytes, spoken }: { head: Buffer; maxBytes: number; spoken: Spoken }): TextSocket {
  let rest = head;
  const parts: Buffer[] = [];
  let isOver = false;
  const end = (reason: string): void => {
    if (isOver) return;
    isOver = true;
    socket.destroy();
    spoken.end(reason);
  };
  const send = (opcode: number, content: Buffer): void => void (isOver || socket.write(frameOf(opcode, content)));
  const take = ({ opcode, isFinal, content }: Frame): void => {
    const isText = opcode === TEXT || (opcode === CONTINUATION && parts.length > 0);
    if (opcode === PING) send(PONG!, content);
    else if (opcode === CLOSE) end('the server closed the connection');
    else if (opcode !== PONG && !isText) end('the server sent no text');
    if (!isText) return;
    parts.push(content);
    if (parts.reduce((sum, { length }) => sum + length, 0) > maxBytes) end(TOO_LARGE);
    else if (isFinal) spoken.text(Buffer.concat(parts.splice(0)).toString());
  };
  const read = (bytes: Buffer): void => {
    rest = Buffer.concat([rest, bytes]);
    while (!isOver) {
      const found = readFrame(rest, maxBytes);
      if (found === 'too_large') end(TOO_LARGE);
      if (found === null || found === 'too_large') break;
      rest = rest.subarray(found.size);
      take(found);
    }
  };
  socket.on('data', read);
  socket.on('error', () => end('the connection was lost'));
  socket.on('close', () => end('the connection was closed'));
  // What came with the handshake is read after the caller has what it speaks with.
  queueMicrotask(() => read(Buffer.alloc(0)));
  return {
    send: (message) => send(TEXT!, Buffer.from(message)),
    close: () => {
      send(CLOSE!, Buffer.alloc(0));
      isOver = true;
      socket.destroy();
    },
  };
}

type Frame = { opcode: number; isFinal: boolean; content: Buffer; size: number };

/** The first frame, if it is complete. RFC 6455, section 5.2: frames of a server are not masked. */
function readFrame(bytes: Buffer, maxBytes: number): Frame | 'too_large' | null {
  if (bytes.length < 2) return null;
  const short = bytes[1]! & 127;
  const start = short === 126 ? 4 : short === 127 ? 10 : 2;
  if (bytes.length < start) return null;
  const length = short === 126 ? bytes.readUInt16BE(2) : short === 127 ? Number(bytes.readBigUInt64BE(2)) : short;
  if (length > maxBytes) return 'too_large';
  const size = start + length;
  if (bytes.length < size) return null;
  return { opcode: bytes[0]! & 15, isFinal: bytes[0]! >= 128, content: bytes.subarray(start, size), size };
}

/** RFC 6455, section 5.3: frames of a client are masked. */
function frameOf(opcode: number, content: Buffer): Buffer {
  const mask = randomBytes(4);
  const { length } = content;
  const head = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10);
  head[0] = 128 | opcode;
  head[1] = 128 | (length < 126 ? length : length < 65_536 ? 126 : 127);
  if (head.length === 4) head.writeUInt16BE(length, 2);
  if (head.length === 10) head.writeBigUInt64BE(BigInt(length), 2);
  return Buffer.concat([head, mask, content.map((byte, at) => byte ^ mask[at & 3]!)]);
}
