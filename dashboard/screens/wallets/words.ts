/** Coins and address types in the words that wallets use. */
export type Script = 'p2wpkh' | 'p2tr' | 'p2sh-p2wpkh' | 'p2pkh' | 'p2wsh' | 'p2sh-p2wsh' | 'eoa';
export const SCRIPT_WORDS: Readonly<Record<Script, string>> = {
  p2wpkh: 'Native SegWit (p2wpkh)',
  p2tr: 'Taproot (p2tr)',
  'p2sh-p2wpkh': 'Nested SegWit (p2sh-p2wpkh)',
  p2wsh: 'Multisig (p2wsh)',
  'p2sh-p2wsh': 'Nested multisig (p2sh-p2wsh)',
  p2pkh: 'Legacy (p2pkh)',
  eoa: 'Ethereum account',
};
