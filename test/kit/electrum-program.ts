/** The real Electrum, as a wallet without a network: it shows its keys and addresses, and signs. */
import { execFile } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { base58check } from './base58.ts';
import { type Policy, signer } from './multisig.ts';
import { ELECTRUM } from './tools.ts';

const run = promisify(execFile);
/** SLIP-132 on test networks: public and private keys of multisig wallets. */
const VERSIONS = { wsh: [0x02575483, 0x02575048], nested: [0x024289ef, 0x024285b5] } as const;

/** A folder of its own for one wallet. The caller deletes it. */
export function electrumWallet() {
  const folder = mkdtempSync(join(tmpdir(), 'florin-electrum-'));
  const file = join(folder, 'wallet');
  const call = async (...args: string[]): Promise<string> => {
    const { stdout } = await run(ELECTRUM, ['--regtest', '--offline', '-D', folder, ...args, '-w', file], { timeout: 120_000 });
    return stdout.trim();
  };
  return { folder, file, call };
}

/** Electrum's wallet of the signer with the seed 1, with the public keys of the others. */
export function electrumCosigner({ required, of, wraps }: Policy): ReturnType<typeof electrumWallet> {
  const wallet = electrumWallet();
  const [publicVersion, privateVersion] = VERSIONS[wraps ? 'nested' : 'wsh'];
  const derivation = "m/48'/1'/0'/2'";
  const keystores = Array.from({ length: of }, (_, i) => {
    const root = signer(i + 1);
    const { publicExtendedKey, privateExtendedKey } = root.derive(derivation);
    const keystore = {
      ...{ type: 'bip32', derivation, root_fingerprint: root.fingerprint.toString(16).padStart(8, '0'), pw_hash_version: 1 },
      xpub: base58check.respell(publicExtendedKey, publicVersion),
      xprv: i === 0 ? base58check.respell(privateExtendedKey, privateVersion) : null,
    };
    return [`x${i + 1}/`, keystore] as const;
  });
  const content = { wallet_type: `${required}of${of}`, seed_version: 50, use_encryption: false, ...Object.fromEntries(keystores) };
  writeFileSync(wallet.file, JSON.stringify(content));
  return wallet;
}
