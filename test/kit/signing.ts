/** Made-up signing files for a wallet whose seed phrase is public. */
import { bytesToHex, hexToBytes } from '@noble/hashes/utils.js';
import { HDKey } from '@scure/bip32';
import { mnemonicToSeedSync } from '@scure/bip39';
import { RawTx, Transaction } from '@scure/btc-signer';
import { addressOfOutput, outputScript } from '../../src/addresses/address.ts';
import { accountOf, checksumAddress } from '../../src/addresses/evm-address.ts';
import { type BitcoinScript, PARAMS } from '../../src/addresses/params.ts';
import { ALL_COINS, type BitcoinFamily, type Coin, chainOf, contractOf, kindOf, type Network } from '../../src/core/coin.ts';
import { formatUnits } from '../../src/core/money.ts';
import {
  type AccountRequest,
  type Authorization,
  type BatchRequest,
  type FundRequest,
  type Line,
  linesOf,
  type NativeRequest,
  type PsbtRequest,
  readSigningFile,
  type SigningFile,
  type TokenRequest,
} from '../../src/core/signing-file.ts';
import { feeOf } from '../../src/evm/transaction.ts';
import { batchOf } from '../../src/signing/make-accounts.ts';
import { gatherNonce, payoutNonce } from '../../src/signing/payout-accounts.ts';
import { refundNonce } from '../../src/signing/refund-accounts.ts';
import { buildPayment, buildPsbt, inputSizeOf, neededFor, type SpendableOutput } from '../../src/signing/utxo.ts';

/** The phrase of all published vectors (BIP-39). */
export const PHRASE = `${'abandon '.repeat(11)}about`;
const PURPOSE: Readonly<Record<BitcoinScript, number>> = {
  ...{ p2pkh: 44, 'p2sh-p2wpkh': 49, p2wpkh: 84, p2tr: 86 },
  ...{ p2wsh: 48, 'p2sh-p2wsh': 48 },
};
const COIN_TYPE: Readonly<Record<BitcoinFamily, number>> = { BTC: 0, LTC: 2, DOGE: 3, DASH: 5 };
const SEED = mnemonicToSeedSync(PHRASE);
export const masterKey = (): HDKey => HDKey.fromMasterSeed(SEED);
/** The same secret as the phrase, because deriving it from the phrase takes most of the time of a signature. */
export const ROOT = masterKey().privateExtendedKey;

export const addressesOf = (coin: BitcoinFamily, script: BitcoinScript): HDKey =>
  masterKey().derive(`m/${PURPOSE[script]}'/${COIN_TYPE[coin]}'/0'/0`);

/** Deterministic numbers from a seed, so that a failure can be repeated. */
export function numbersFrom(seed: number): (below: number) => number {
  let state = BigInt(seed) * 2n + 1n;
  return (below) => {
    state = (state * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn;
    return Number((state >> 33n) % BigInt(below));
  };
}

export type MadeFile = { file: SigningFile; destination: string; outputs: readonly (SpendableOutput & { script: Uint8Array })[] };
/** A sweep of so many outputs, each made by a transaction of its own. */
export function sweepFile(coin: BitcoinFamily, script: BitcoinScript, count: number, seed = 1): MadeFile {
  const number = numbersFrom(seed);
  const chain = addressesOf(coin, script);
  const chainKey = bytesToHex(chain.publicKey!) + bytesToHex(chain.chainCode!);
  const previous = new Map<string, Uint8Array>();
  const outputs: (SpendableOutput & { script: Uint8Array })[] = [];
  for (let i = 0; i < count; i++) {
    const index = number(1_000_000);
    const paid = outputScript(script, chain.deriveChild(index).publicKey!);
    const units = 100_000_000n + BigInt(number(1_000_000_000));
    const n = number(3);
    const tx = new Transaction({ allowUnknownOutputs: true });
    tx.addInput({ txid: new Uint8Array(32).fill(number(255) + 1), index: i });
    for (let other = 0; other < n; other++) tx.addOutput({ script: hexToBytes(`0014${'ab'.repeat(20)}`), amount: 1_000n });
    tx.addOutput({ script: paid, amount: units });
    previous.set(tx.id, tx.toBytes(true, false));
    outputs.push({ txid: tx.id, n, units, blockHash: '', index: BigInt(index), script: paid });
  }
  const to = outputScript(script, chain.deriveChild(2_000_000).publicKey!);
  const destination = addressOfOutput(bytesToHex(to), PARAMS[coin].forms.mainnet)!;
  const id = 'swp_000000000000000000000001';
  const request = buildPsbt({
    ...{ group: outputs, previous: script === 'p2tr' ? new Map() : previous, rateE8: 500_000_000n, leastUnits: 1n, script: to },
    wallet: { chainKey, script, signers: [{ path: '0', fingerprint: null }] },
    line: { purpose: 'sweep', to: destination, reference: id },
  })!;
  const file: SigningFile = {
    ...{ id, round: 0, coin, network: 'mainnet', chainId: null, gasPrice: null, requests: [request] },
    account: { chainKey, script, origins: [null] },
    totalUnits: request.lines[0]!.units,
    feeUnits: request.feeUnits,
  };
  return { file, destination, outputs };
}

/** A file of one refund: the made-up outputs of a sweep pay a customer, and the rest goes to the destination. */
export function refundFile(coin: BitcoinFamily, script: BitcoinScript, count: number): MadeFile & { customer: string; units: bigint } {
  const made = sweepFile(coin, script, count);
  const [sweep] = made.file.requests;
  const asked = Transaction.fromPSBT(Buffer.from((sweep as PsbtRequest).psbt, 'base64'));
  const chain = addressesOf(coin, script);
  const to = outputScript(script, chain.deriveChild(3_000_000).publicKey!);
  const customer = addressOfOutput(bytesToHex(to), PARAMS[coin].forms.mainnet)!;
  const units = 50_000_000n;
  const request = buildPayment({
    ...{ group: made.outputs, rateE8: 500_000_000n, leastUnits: 546n },
    previous: new Map(made.outputs.map(({ txid }, i) => [txid, RawTx.encode(asked.getInput(i).nonWitnessUtxo!)] as const)),
    wallet: { chainKey: made.file.account.chainKey, script, signers: [{ path: '0', fingerprint: null }] },
    to: [{ script: to, units, line: { purpose: 'refund', to: customer, reference: 'pay_4fTq0ZcJb8sWn2LxR7vKd1Ye' } }],
    rest: { script: asked.getOutput(0).script!, line: { purpose: 'sweep', to: made.destination, reference: made.file.id } },
  })!;
  const totalUnits = request.lines.reduce((sum, line) => sum + line.units, 0n);
  return { ...made, file: { ...made.file, requests: [request], totalUnits, feeUnits: request.feeUnits }, customer, units };
}

/** A random file that pays one refund, or several payouts, from up to six outputs, with a rest or without one. */
export function randomPaymentFile(
  coin: BitcoinFamily,
  script: BitcoinScript,
  number: (below: number) => number,
  seed: number,
): MadeFile & { recipients: string } {
  const made = sweepFile(coin, script, 1 + number(6), seed);
  const asked = Transaction.fromPSBT(Buffer.from((made.file.requests[0] as PsbtRequest).psbt, 'base64'));
  const raws = made.outputs.flatMap(({ txid }, i) => {
    const { nonWitnessUtxo } = asked.getInput(i);
    return nonWitnessUtxo ? [[txid, RawTx.encode(nonWitnessUtxo)] as const] : [];
  });
  const purpose = number(2) === 0 ? 'refund' : 'payout';
  const received = made.outputs.reduce((sum, { units }) => sum + units, 0n);
  const count = purpose === 'refund' ? 1 : 1 + number(20);
  const rateE8 = 500_000_000n;
  const chain = addressesOf(coin, script);
  const scripts = Array.from({ length: count }, () => outputScript(script, chain.deriveChild(3_000_000 + number(1_000)).publicKey!));
  // Sometimes all of it, so that no rest is left.
  const inputs = { inputs: made.outputs.length, inputSize: inputSizeOf({ chainKey: made.file.account.chainKey, script }), rateE8 };
  const most = received - neededFor({ units: 0n, scripts }, inputs);
  const all = number(3) === 0 ? most : most / 2n;
  const to = scripts.map((one, i) => ({
    script: one,
    units: all / BigInt(count) + (i === 0 ? all % BigInt(count) : 0n),
    line: { purpose, to: addressOfOutput(bytesToHex(one), PARAMS[coin].forms.mainnet)!, reference: `of_${seed}_${i}` } as const,
  }));
  const request = buildPayment({
    ...{ group: made.outputs, previous: new Map(raws), rateE8, leastUnits: 546n, to },
    wallet: { chainKey: made.file.account.chainKey, script, signers: [{ path: '0', fingerprint: null }] },
    rest: { script: asked.getOutput(0).script!, line: { purpose: 'sweep', to: made.destination, reference: made.file.id } },
  })!;
  const totalUnits = request.lines.reduce((sum, line) => sum + line.units, 0n);
  const isRest = (line: Line): boolean => line.purpose === 'sweep';
  const recipients = recordsOf(
    coin,
    request.lines.filter((line) => !isRest(line)),
  );
  const destination = request.lines.some(isRest) ? made.destination : '';
  return { ...made, file: { ...made.file, requests: [request], totalUnits, feeUnits: request.feeUnits }, destination, recipients };
}

/** A sweep of one account of an Ethereum-like chain. */
export function accountFile(coin: Coin, network: Network): { file: SigningFile; destination: string } {
  const chain = masterKey().derive("m/44'/60'/0'/0");
  const addressAt = (index: number) => checksumAddress(accountOf(chain.deriveChild(index).publicKey!));
  const id = 'swp_000000000000000000000002';
  const destination = addressAt(2_000_000);
  const line = { purpose: 'sweep', to: destination, units: 5n * 10n ** 18n, reference: id } as const;
  const sender = { from: addressAt(3), path: { chain: 0, index: 3 }, nonce: 0, gas: 65_000n } as const;
  const contract = contractOf(coin, network);
  const file: SigningFile = {
    ...{ id, round: 0, coin, network, chainId: chainOf(coin).chainIds![network] },
    account: { chainKey: bytesToHex(chain.publicKey!) + bytesToHex(chain.chainCode!), script: 'eoa', origins: [null] },
    ...{ totalUnits: line.units, feeUnits: 65_000n * 10n ** 9n, gasPrice: { max: 10n ** 9n, tip: 1n } },
    requests: [contract === null ? { kind: 'native', ...sender, line } : { kind: 'token', ...sender, contract, line }],
  };
  return { file, destination };
}

/** A file of one refund that its deposit address sends, after the gas address has paid for its gas. */
export function sentRefundFile(coin: 'ETH' | 'USDT@ethereum') {
  const account = masterKey().derive("m/44'/60'/0'");
  const addressAt = (chain: 0 | 1, index: number) => checksumAddress(accountOf(account.deriveChild(chain).deriveChild(index).publicKey!));
  const customer = addressAt(0, 3_000_000);
  const contract = contractOf(coin, 'mainnet');
  const gasPrice = { max: 10n ** 9n, tip: 1n };
  const gas = contract === null ? 21_000n : 60_000n;
  const line = { purpose: 'refund', to: customer, units: contract === null ? 5n * 10n ** 15n : 5_000_000n, reference: 'pay_0' } as const;
  const sender = { from: addressAt(0, 4), path: { chain: 0, index: 4 } as const, nonce: 5, gas };
  const fund: FundRequest = {
    ...{ kind: 'fund', from: addressAt(1, 0), path: { chain: 1, index: 0 }, nonce: 3, gas: 21_000n, to: sender.from },
    units: gas * gasPrice.max,
  };
  const request: NativeRequest | TokenRequest =
    contract === null ? { kind: 'native', ...sender, line } : { kind: 'token', ...sender, contract, line };
  const chain = account.deriveChild(0);
  const file: SigningFile = {
    ...{ id: 'swp_000000000000000000000004', round: 0, coin, network: 'mainnet', chainId: 1, gasPrice, requests: [fund, request] },
    account: { chainKey: bytesToHex(chain.publicKey!) + bytesToHex(chain.chainCode!), script: 'eoa', origins: [null] },
    ...{ totalUnits: line.units, feeUnits: (fund.gas + gas) * gasPrice.max },
  };
  return { file, fund, request, customer };
}

/** A file of so many refunds in USDC, which the gas address sends in one transaction. */
export function tokenRefundFile(count: number): { file: SigningFile; request: BatchRequest; customers: string[] } {
  const account = masterKey().derive("m/44'/60'/0'");
  const addressAt = (chain: 0 | 1, index: number) => checksumAddress(accountOf(account.deriveChild(chain).deriveChild(index).publicKey!));
  const customers = Array.from({ length: count }, (_, i) => addressAt(0, 3_000_000 + i));
  const authorizations = customers.map((to, i) => ({
    ...{ from: addressAt(0, i), path: { chain: 0, index: i } as const, nonce: refundNonce(`ref_${i}`) },
    line: { purpose: 'refund', to, units: 5_000_000n, reference: `pay_${i}` } as const,
  }));
  const coin = 'USDC@ethereum';
  const request = batchOf(authorizations, {
    ...{ contract: contractOf(coin, 'mainnet')!, domain: { name: 'USD Coin', version: '2' }, nowSeconds: 1_700_000_000 },
    ...{ from: addressAt(1, 0), nonce: 7 },
  });
  const chain = account.deriveChild(0);
  const file: SigningFile = {
    ...{ id: 'swp_000000000000000000000003', round: 0, coin, network: 'mainnet', chainId: 1, requests: [request] },
    account: { chainKey: bytesToHex(chain.publicKey!) + bytesToHex(chain.chainCode!), script: 'eoa', origins: [null] },
    ...{ totalUnits: 5_000_000n * BigInt(count), feeUnits: request.gas * 10n ** 9n, gasPrice: { max: 10n ** 9n, tip: 1n } },
  };
  return { file, request, customers };
}

/** What the records of a merchant say about payments: each recipient with its amount, as they are entered in the signer. */
export const recordsOf = (coin: Coin, lines: readonly Pick<Line, 'to' | 'units'>[]): string =>
  lines.map(({ to, units }) => `${to} ${formatUnits(coin, units)}`).join('\n');
/** The same for those recipients of a file whose addresses the merchant knows. */
export function recordsFor(content: string, known: readonly string[]): string {
  const file = readSigningFile(content);
  const paid = linesOf(file).filter(
    ({ to, purpose }) => purpose !== 'sweep' && known.some((one) => one.toLowerCase() === to.toLowerCase()),
  );
  return [...known, recordsOf(file.coin, paid)].join('\n');
}

/** A file of two payouts in USDC: three deposit addresses pay 60 together, and another one pays 5. */
export function tokenPayoutFile(): { file: SigningFile; request: BatchRequest; recipients: string[] } {
  const made = tokenRefundFile(4);
  const [first, second, payer, alone] = made.request.authorizations as [Authorization, Authorization, Authorization, Authorization];
  const gather = (one: Authorization, units: bigint): Authorization => ({
    ...{ ...one, nonce: gatherNonce('po_0', one.from) },
    line: { purpose: 'gather', to: payer.from, units, reference: 'po_0' },
  });
  const pay = (one: Authorization, units: bigint, id: string): Authorization => ({
    ...{ ...one, nonce: payoutNonce(id) },
    line: { ...one.line, purpose: 'payout', units, reference: id },
  });
  const authorizations = [
    gather(first, 25_000_000n),
    gather(second, 10_000_000n),
    pay(payer, 60_000_000n, 'po_0'),
    pay(alone, 5_000_000n, 'po_1'),
  ];
  const request = { ...made.request, authorizations };
  return { file: { ...made.file, requests: [request], totalUnits: 65_000_000n }, request, recipients: made.customers.slice(2) };
}

const ACCOUNT_COINS = ALL_COINS.filter((coin) => kindOf(coin) === 'ethereum');
/** A file of up to six random transfers of a coin, on each network in turn: from each address, after it got gas, or by authorization. */
export function randomAccountFile(number: (below: number) => number, i: number): SigningFile {
  const account = masterKey().derive("m/44'/60'/0'");
  const chain = account.deriveChild(0);
  const addressAt = (from: 0 | 1, index: number) => checksumAddress(accountOf(account.deriveChild(from).deriveChild(index).publicKey!));
  const coin = ACCOUNT_COINS[i % ACCOUNT_COINS.length]!;
  const contract = contractOf(coin, 'mainnet');
  const purpose = (['sweep', 'refund', 'payout'] as const)[number(3)]!;
  const count = 1 + number(6);
  const gasPrice = { max: 1_000_000n + BigInt(number(2 ** 31)), tip: BigInt(number(1_000_000)) };
  const first = number(1_000_000);
  const gasAddress = { from: addressAt(1, 0), path: { chain: 1, index: 0 } as const };
  const own = addressAt(0, 2_000_000);
  const transfers = Array.from({ length: count }, (_, at) => ({
    ...{ from: addressAt(0, first + at), path: { chain: 0, index: first + at } as const },
    line: {
      ...{ purpose, to: purpose === 'sweep' ? own : addressAt(0, 3_000_000 + number(100)), reference: `of_${i}_${at}` },
      units: (contract === null ? 10n ** 18n : 1n) + BigInt(number(2 ** 31)) ** 2n,
    },
  }));
  const nonces = transfers.map(() => number(300));
  const gases = transfers.map(() => 21_000n + BigInt(number(100_000)));
  const requests = ((): AccountRequest[] => {
    if (contract !== null && number(2) === 0) {
      const name = number(2) === 0 ? 'USD Coin' : 'Tether ₮';
      const on = { contract, domain: { name, version: String(1 + number(2)) }, nowSeconds: 1_700_000_000 + number(1e8) };
      const authorizations = transfers.map((one, at) => ({ ...one, nonce: refundNonce(`${i} ${at}`) }));
      return [
        batchOf(purpose === 'payout' ? gathered(authorizations, number) : authorizations, {
          ...on,
          from: gasAddress.from,
          nonce: number(300),
        }),
      ];
    }
    const sent = transfers.map((one, at): NativeRequest | TokenRequest => {
      const sender = { ...one, nonce: nonces[at]!, gas: gases[at]! };
      return contract === null ? { kind: 'native', ...sender } : { kind: 'token', ...sender, contract };
    });
    // What is swept in native coin pays for itself.
    if (contract === null && purpose === 'sweep') return sent;
    const start = number(300);
    const funds = sent.map(({ from, gas }, at): FundRequest => {
      return { kind: 'fund', ...gasAddress, nonce: start + at, gas: 21_000n, to: from, units: gas * gasPrice.max };
    });
    return [...funds, ...sent];
  })();
  return {
    ...{ id: 'swp_000000000000000000000005', round: number(3), coin, network: 'mainnet', chainId: chainOf(coin).chainIds!.mainnet },
    account: { chainKey: bytesToHex(chain.publicKey!) + bytesToHex(chain.chainCode!), script: 'eoa', origins: [null] },
    ...{ totalUnits: linesOf({ requests }).reduce((sum, { units }) => sum + units, 0n), gasPrice, requests },
    feeUnits: requests.reduce((sum, request) => sum + feeOf(request, { chainId: 1, gasPrice }), 0n),
  };
}

/** Some of the payouts, of which the last is paid together with what the first ones gather. */
function gathered(payouts: readonly Authorization[], number: (below: number) => number): Authorization[] {
  const payer = payouts.at(-1)!;
  const count = number(payouts.length);
  const sums = payouts.slice(0, count).reduce((sum, { line }) => sum + line.units, 1n);
  return payouts.map((one, at): Authorization => {
    if (at < count) return { ...one, line: { ...one.line, purpose: 'gather', to: payer.from } };
    return one === payer ? { ...one, line: { ...one.line, units: one.line.units + sums } } : one;
  });
}
