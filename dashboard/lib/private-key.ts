/** Whether a text looks like a secret that can spend: an extended private key, a single private key, or a recovery phrase. */
const BASE58 = '[1-9A-HJ-NP-Za-km-z]';
const EXTENDED = new RegExp(`(?:^|[^1-9A-HJ-NP-Za-km-z])(?:[xyzuvtYZUV]prv|[LM]tpv|ttpv|drkv|dgpv|DRKV|dgpr)${BASE58}{20,}`);
const SINGLE = new RegExp(`^[5KLc9TQ6X7]${BASE58}{50,51}$`);
/** Encrypted with a password (BIP-38): the password may be weak. */
const ENCRYPTED = new RegExp(`^6P${BASE58}{56}$`);
/** A recovery phrase of 12 to 24 words as the numbers of its words, four digits each (SeedQR). */
const NUMBERED = /^(?:(?:[01]\d{3}|20[0-4]\d){3}){4,8}$/;
export function looksPrivate(text: string): boolean {
  const plain = text.trim();
  const words = plain.split(/\s+/);
  return (
    EXTENDED.test(` ${plain}`) ||
    SINGLE.test(plain) ||
    ENCRYPTED.test(plain) ||
    NUMBERED.test(plain) ||
    /^(0x)?[0-9a-fA-F]{64}$/.test(plain) ||
    (words.length >= 12 && words.every((word) => /^[a-zA-Z]+$/.test(word)))
  );
}
