/**
 * Wallets of test mode, for rehearsals of signing: their seed is published, so anybody can sign with them and they never hold real money.
 * Each merchant has an account of its own, and each test payment the address at an index of its own, so nothing is counted.
 */
import { hash } from 'node:crypto';
import { hexToBytes } from '@noble/hashes/utils.js';
import { HDKey } from '@scure/bip32';
import { deriveAddress, parseAccountKey, type Script } from '#addresses';
import { COIN, type Coin, testFamily } from '#core/coin';
import { invariant } from '#core/invariant';
import type { Tx } from '#db';
import { scriptsFor, walletIdOf } from './wallets.ts';

/** The first test vector of BIP-39, which every wallet knows as an example. */
export const TEST_SEED_WORDS = 'abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about';
/** The seed of these words. */
const TEST_SEED =
  '5eb00bbddcf069084889a8ab9155568165f5c453ccb85e70811aaed6f6da5fc19a5ac40b389cd370d086206dec8aa6c43daea6690f20ad3d8d48b2d2ce9e38e4';
/** Of simulated chains. No key and no address of it is valid on a network that anybody uses. */
export const TEST_NETWORK = 'regtest';
const TEST_VERSIONS = { private: 0x04358394, public: 0x043587cf };
const PURPOSE: Partial<Readonly<Record<Script, { purpose: number; wrap: (key: string) => string }>>> = {
  p2wpkh: { purpose: 84, wrap: (key) => `wpkh(${key})` },
  p2pkh: { purpose: 44, wrap: (key) => `pkh(${key})` },
  eoa: { purpose: 44, wrap: (key) => key },
};

/** A number below 2^31 - 2 for a text. The two above it are not given to payments. */
const numberOf = (text: string): number => hash('sha256', text, 'buffer').readUInt32BE() % 0x7ffffffe;
/** What merchants receive, and what customers and other recipients of rehearsals have. */
const DESTINATION = 0x7ffffffen;
const RECIPIENT = 0x7fffffffn;

type TestWallet = ReturnType<typeof parseAccountKey> & { script: Script };
/** Made when a rehearsal needs it: its curve arithmetic would be a part of every start. */
let master: HDKey | null = null;
const MOST_KEPT = 1_000;
const kept = new Map<string, TestWallet>();

/** The account of a merchant below the test seed, for a family of coins. */
function testWallet({ merchantId, coin }: { merchantId: string; coin: Coin }): TestWallet {
  const { family } = COIN[coin];
  const name = `${merchantId} ${family}`;
  const known = kept.get(name);
  if (known) return known;
  const [script] = scriptsFor(coin);
  const form = script && PURPOSE[script];
  invariant(form, 'the usual address type of a coin has a test wallet');
  const origin = `${form.purpose}'/1'/${numberOf(merchantId)}'`;
  master ??= HDKey.fromMasterSeed(hexToBytes(TEST_SEED), TEST_VERSIONS);
  const fingerprint = master.fingerprint.toString(16).padStart(8, '0');
  const { publicExtendedKey } = master.derive(`m/${origin}`);
  const text = form.wrap(`[${fingerprint}/${origin}]${publicExtendedKey}/0/*`);
  const wallet = { ...parseAccountKey(text, { coin: family, network: TEST_NETWORK }), script: script! };
  if (kept.size >= MOST_KEPT) kept.clear();
  kept.set(name, wallet);
  return wallet;
}

type Of = { merchantId: string; coin: Coin };
const addressAt = (of: Of, index: bigint) => deriveAddress({ ...testWallet(of), coin: of.coin, network: TEST_NETWORK, index });
/** The address to which the test wallet of a merchant would have received a test payment. `key` is its output script in hex. */
export function testDeposit({ paymentId, ...of }: Of & { paymentId: string }): { address: string; key: string; index: bigint } {
  const index = BigInt(numberOf(paymentId));
  return { ...addressAt(of, index), index };
}
/** Where rehearsed sweeps go. */
export const testDestination = (of: Of): string => addressAt(of, DESTINATION).address;
/** Who gets a rehearsed refund or payout, for a test identifier such as `test_btc_payer`. */
export const testRecipient = (of: Of): string => addressAt(of, RECIPIENT).address;

/** Stores the test wallet of a merchant for a family of coins, so that its signing files can name it. Returns its ID. */
export async function keepTestWallet(tx: Tx, { merchantId, coin }: Of): Promise<string> {
  const { chainKey, accountKey, script, path } = testWallet({ merchantId, coin });
  const family = testFamily(COIN[coin].family);
  const id = walletIdOf({ coin: family, chainKey, script });
  await tx`
    insert into wallets (id, merchant_id, family, network, chain_key, account_key, script, path, active)
    values (${id}, ${merchantId}, ${family}, ${TEST_NETWORK}, ${chainKey}, ${accountKey}, ${script}, ${path}, false)
    on conflict do nothing`;
  return id;
}
