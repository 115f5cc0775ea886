/** An authenticator in software (WebAuthn Level 2): one ES256 passkey that says it verified its user, unless told otherwise. */
import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';

const RP = 'localhost';
const ORIGIN = 'http://localhost:3000';
const sha256 = (data: Uint8Array): Buffer => createHash('sha256').update(data).digest();
const b64 = (data: Uint8Array): string => Buffer.from(data).toString('base64url');

/** CBOR (RFC 8949) for attestations: small integers, texts, bytes and maps. */
function cbor(value: number | string | Uint8Array | Map<number | string, unknown>): Buffer {
  const head = (major: number, n: number): Buffer =>
    n < 24
      ? Buffer.from([(major << 5) | n])
      : n < 256
        ? Buffer.from([(major << 5) | 24, n])
        : Buffer.from([(major << 5) | 25, n >> 8, n & 255]);
  if (typeof value === 'number') return value < 0 ? head(1, -1 - value) : head(0, value);
  if (typeof value === 'string') return Buffer.concat([head(3, Buffer.byteLength(value)), Buffer.from(value)]);
  if (value instanceof Uint8Array) return Buffer.concat([head(2, value.length), value]);
  return Buffer.concat([head(5, value.size), ...[...value].flatMap(([key, item]) => [cbor(key), cbor(item as string)])]);
}

export class SoftwareKey {
  readonly id = randomBytes(16);
  readonly #key: { publicKey: KeyObject; privateKey: KeyObject } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  #counter = 0;

  #clientData(type: string, challenge: string): Buffer {
    return Buffer.from(JSON.stringify({ type, challenge, origin: ORIGIN, crossOrigin: false }));
  }
  /** User present and, if so, verified; with the new key when one is registered. */
  #authData(attested: Buffer | null, verified = true): Buffer {
    this.#counter += 1;
    const counter = Buffer.alloc(4);
    counter.writeUInt32BE(this.#counter);
    return Buffer.concat([
      sha256(Buffer.from(RP)),
      Buffer.from([0x01 | (verified ? 0x04 : 0) | (attested ? 0x40 : 0)]),
      counter,
      ...(attested ? [attested] : []),
    ]);
  }
  /** The response to the options of a registration. */
  register({ challenge }: { challenge: string }, { verified = true }: { verified?: boolean } = {}): Record<string, unknown> {
    const { x, y } = this.#key.publicKey.export({ format: 'jwk' }) as { x: string; y: string };
    const cose = cbor(
      new Map<number, unknown>([
        [1, 2],
        [3, -7],
        [-1, 1],
        [-2, Buffer.from(x, 'base64url')],
        [-3, Buffer.from(y, 'base64url')],
      ]),
    );
    const attested = Buffer.concat([Buffer.alloc(16), Buffer.from([0, this.id.length]), this.id, cose]);
    const attestation = cbor(
      new Map<string, unknown>([
        ['fmt', 'none'],
        ['attStmt', new Map()],
        ['authData', this.#authData(attested, verified)],
      ]),
    );
    return this.#answer({
      clientDataJSON: b64(this.#clientData('webauthn.create', challenge)),
      attestationObject: b64(attestation),
      transports: ['internal'],
    });
  }
  /** The response to the options of a sign-in. */
  signIn({ challenge }: { challenge: string }): Record<string, unknown> {
    const clientData = this.#clientData('webauthn.get', challenge);
    const authData = this.#authData(null);
    const signature = sign('sha256', Buffer.concat([authData, sha256(clientData)]), this.#key.privateKey);
    return this.#answer({ clientDataJSON: b64(clientData), authenticatorData: b64(authData), signature: b64(signature) });
  }
  #answer = (response: object): Record<string, unknown> => ({
    ...{ id: b64(this.id), rawId: b64(this.id), type: 'public-key', authenticatorAttachment: 'platform' },
    ...{ clientExtensionResults: {}, response },
  });
}
