/**
 * The file that a merchant signs offline, and the file that comes back. The service writes the first and checks the second; the signer page
 * reads the first and writes the second, so both share this description. Amounts are decimal text in base units.
 */
import { type Coin, isKnownCoin, NETWORKS, type Network } from './coin.ts';
import { asList, asObject, asText, asWhole, oneOf, type StoredJson } from './stored-json.ts';

const SIGNING_FORMAT = 'florin-signing-file';
const SIGNED_FORMAT = 'florin-signed-file';
/** A larger file is not read: 20 transactions of 500 inputs with the transactions that paid them. */
export const MAX_SIGNING_BYTES = 32 * 1024 * 1024;
export const MAX_SIGNED_BYTES = 12 * 1024 * 1024;

const PURPOSES = ['sweep', 'refund', 'payout'] as const;
/** Why money leaves. A sweep goes to the merchant; the others go to third parties. */
export type Purpose = (typeof PURPOSES)[number];
/** One payment that a transaction makes. */
export type Line = { purpose: Purpose; to: string; units: bigint; reference: string };
/** What moves to another address of the same wallet, which pays a payout with it later in the same batch. Nobody else gets it. */
export type GatherLine = Omit<Line, 'purpose'> & { purpose: 'gather' };

const SIGNING_SCRIPTS = ['p2wpkh', 'p2tr', 'p2sh-p2wpkh', 'p2pkh', 'p2wsh', 'p2sh-p2wsh', 'eoa'] as const;
export type SigningScript = (typeof SIGNING_SCRIPTS)[number];

/** A transaction of a Bitcoin-like chain. Its outputs are exactly `lines`, in order. */
export type PsbtRequest = { kind: 'psbt'; psbt: string; inputs: number; feeUnits: bigint; lines: readonly Line[] };

/** Where an account is below the account key: chain 0 has the deposit addresses, chain 1 the address that pays for gas. */
export type AccountPath = { chain: 0 | 1; index: number };
type FromAccount = { from: string; path: AccountPath; nonce: number; gas: bigint };
/** Native coin to `line.to`. */
export type NativeRequest = FromAccount & { kind: 'native'; line: Line };
/** Native coin from the gas address to a deposit address, so that it can pay for the next request from there. */
export type FundRequest = FromAccount & { kind: 'fund'; to: string; units: bigint };
/** A call of the token's `transfer` by the address that holds it. */
export type TokenRequest = FromAccount & { kind: 'token'; contract: string; line: Line };
/** A transfer that the holder signs and anybody may send (EIP-3009). `nonce`: 32 bytes in hex with 0x. */
export type Authorization = { from: string; path: AccountPath; nonce: string; line: Line | GatherLine };
/** Authorizations that the gas address sends together, through Multicall3. */
export type BatchRequest = FromAccount & {
  kind: 'batch';
  contract: string;
  /** Of the token's EIP-712 domain. */
  domain: { name: string; version: string };
  validBefore: number;
  authorizations: readonly Authorization[];
};
export type AccountRequest = NativeRequest | FundRequest | TokenRequest | BatchRequest;
export type Request = PsbtRequest | AccountRequest;

export type SigningFile = {
  id: string;
  /** 0, and one more for each replacement with a higher fee. */
  round: number;
  coin: Coin;
  network: Network;
  /** Of chains of accounts; null for others. */
  chainId: number | null;
  /** The wallet that signs. `origins`: for each of its keys the path of the account from the seed, where it is known. */
  account: { chainKey: string; script: SigningScript; origins: readonly (string | null)[] };
  /** What the recipients get in total, and the highest fee that can be paid in total, in the native coin of the chain. */
  totalUnits: bigint;
  feeUnits: bigint;
  /** Per gas, of chains of accounts; null for others. */
  gasPrice: { max: bigint; tip: bigint } | null;
  requests: readonly Request[];
};

/** Raw transactions in hex without 0x, in the order of the requests; PSBTs while others have to sign too. */
export type SignedFile = { id: string; round: number; transactions: readonly string[] };

const json = (_: string, value: unknown): unknown => (typeof value === 'bigint' ? value.toString() : value);
export const signingFileText = (file: SigningFile): string => JSON.stringify({ format: SIGNING_FORMAT, version: 1, ...file }, json);
export const signedFileText = (file: SignedFile): string => JSON.stringify({ format: SIGNED_FORMAT, version: 1, ...file });

/** The file cannot be read; the message says why, and never repeats its contents. */
export class FileError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'FileError';
  }
}
const fail = (message: string): never => {
  throw new FileError(message);
};

const text = (json: StoredJson, name: string, pattern: RegExp): string => {
  const found = asText(json[name]);
  return found !== null && pattern.test(found) ? found : fail(`its field "${name}" is missing or wrong`);
};
const units = (json: StoredJson, name: string): bigint => BigInt(text(json, name, /^(0|[1-9]\d{0,77})$/));
const whole = (json: StoredJson, name: string): number => {
  const found = asWhole(json[name]);
  return found !== null && found >= 0 ? found : fail(`its field "${name}" is missing or wrong`);
};
const among = <T extends string>(json: StoredJson, name: string, known: readonly T[]): T =>
  oneOf(known, json[name]) ?? fail(`its field "${name}" is missing or wrong`);

const ADDRESS = /^[0-9A-Za-z:]{20,120}$/;
const ACCOUNT = /^0x[0-9a-fA-F]{40}$/;
const paysNobody = (value: unknown): boolean => asObject(value).purpose === 'gather';
const lineOf = (value: unknown, address: RegExp): Line => ({
  purpose: among(asObject(value), 'purpose', PURPOSES),
  ...targetOf(value, address),
});
const targetOf = (value: unknown, address: RegExp): Omit<Line, 'purpose'> => {
  const line = asObject(value);
  return {
    to: text(line, 'to', address),
    units: units(line, 'units'),
    reference: text(line, 'reference', /^[\w:-]{0,80}$/),
  };
};
const pathOf = (value: unknown): AccountPath => {
  const path = asObject(value);
  const chain = whole(path, 'chain');
  const index = whole(path, 'index');
  return (chain === 0 || chain === 1) && index < 0x80000000 ? { chain, index } : fail('a derivation path is wrong');
};

function accountRequestOf(json: StoredJson): AccountRequest {
  const sender = { from: text(json, 'from', ACCOUNT), path: pathOf(json.path), nonce: whole(json, 'nonce'), gas: units(json, 'gas') };
  switch (among(json, 'kind', ['native', 'fund', 'token', 'batch'] as const)) {
    case 'native':
      return { kind: 'native', ...sender, line: lineOf(json.line, ACCOUNT) };
    case 'fund':
      return { kind: 'fund', ...sender, to: text(json, 'to', ACCOUNT), units: units(json, 'units') };
    case 'token':
      return { kind: 'token', ...sender, contract: text(json, 'contract', ACCOUNT), line: lineOf(json.line, ACCOUNT) };
    case 'batch': {
      const domain = asObject(json.domain);
      return {
        kind: 'batch',
        ...sender,
        contract: text(json, 'contract', ACCOUNT),
        domain: { name: text(domain, 'name', /^[^\0]{1,64}$/), version: text(domain, 'version', /^[\w.]{1,8}$/) },
        validBefore: whole(json, 'validBefore'),
        authorizations: asList(json.authorizations).map((entry) => {
          const one = asObject(entry);
          const from = text(one, 'from', ACCOUNT);
          const line = paysNobody(one.line) ? ({ purpose: 'gather', ...targetOf(one.line, ACCOUNT) } as const) : lineOf(one.line, ACCOUNT);
          return { from, path: pathOf(one.path), nonce: text(one, 'nonce', /^0x[0-9a-f]{64}$/), line };
        }),
      };
    }
  }
}

function requestOf(value: unknown): Request {
  const json = asObject(value);
  if (json.kind !== 'psbt') return accountRequestOf(json);
  return {
    kind: 'psbt',
    psbt: text(json, 'psbt', /^[A-Za-z0-9+/]+={0,2}$/),
    inputs: whole(json, 'inputs'),
    feeUnits: units(json, 'feeUnits'),
    lines: asList(json.lines).map((line) => lineOf(line, ADDRESS)),
  };
}

function readJson(content: string, format: string, limit: number): StoredJson {
  if (content.length > limit) fail(`it has more than ${limit} bytes`);
  let value: unknown;
  try {
    value = JSON.parse(content);
  } catch {
    fail('it is not JSON');
  }
  const file = asObject(value);
  if (file.format !== format) fail(`it is not a ${format.replaceAll('-', ' ')}`);
  if (file.version !== 1) fail('it was written by a newer version of Florin');
  return file;
}

/** Reads a signing file strictly. Errors: FileError. */
export function readSigningFile(content: string): SigningFile {
  return signingFileOf(readJson(content, SIGNING_FORMAT, MAX_SIGNING_BYTES));
}

/** The same from its JSON, as it is stored. */
export function signingFileOf(value: unknown): SigningFile {
  const file = asObject(value);
  const coin = asText(file.coin);
  if (!isKnownCoin(coin)) return fail('it is for a coin that this version does not know');
  const account = asObject(file.account);
  const price = file.gasPrice === null ? null : asObject(file.gasPrice);
  const requests = asList(file.requests).map(requestOf);
  if (requests.length === 0) fail('it has no transactions');
  return {
    id: text(file, 'id', /^[a-z]{3}_[0-9A-Za-z]{24}$/),
    round: whole(file, 'round'),
    coin,
    network: among(file, 'network', NETWORKS),
    chainId: file.chainId === null ? null : whole(file, 'chainId'),
    account: {
      chainKey: text(account, 'chainKey', /^(?:[0-9a-f]{130}|(?:sorted)?multi\([1-9]\d?(?:,[0-9a-f]{130}){1,20}\))$/),
      script: among(account, 'script', SIGNING_SCRIPTS),
      origins: asList(account.origins).map((origin) => (origin === null ? null : text({ origin }, 'origin', /^m(\/\d{1,10}'?)*$/))),
    },
    totalUnits: units(file, 'totalUnits'),
    feeUnits: units(file, 'feeUnits'),
    gasPrice: price && { max: units(price, 'max'), tip: units(price, 'tip') },
    requests,
  };
}

/** Reads a signed file strictly. Errors: FileError. */
export function readSignedFile(content: string): SignedFile {
  const file = readJson(content, SIGNED_FORMAT, MAX_SIGNED_BYTES);
  const transactions = asList(file.transactions).map((one) =>
    typeof one === 'string' && /^([0-9a-f]{2})+$/.test(one) ? one : fail('a transaction in it is not hex'),
  );
  return { id: text(file, 'id', /^[a-z]{3}_[0-9A-Za-z]{24}$/), round: whole(file, 'round'), transactions };
}

function linesIn(request: Request): readonly Line[] {
  switch (request.kind) {
    case 'psbt':
      return request.lines;
    case 'batch':
      return request.authorizations.flatMap(({ line }) => (line.purpose === 'gather' ? [] : [line]));
    case 'fund':
      return [];
    case 'native':
    case 'token':
      return [request.line];
  }
}
/** All payments that a file makes. What moves between addresses of the wallet is none. */
export const linesOf = ({ requests }: Pick<SigningFile, 'requests'>): Line[] => requests.flatMap(linesIn);
