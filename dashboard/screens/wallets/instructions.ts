/** Where wallets show the public key of an account, and where their gap limit is set, in the words of their menus. */
import type { Coin } from '../../generated/api.ts';

/** `id`: its name, in every language. `where`: of the key. `gap`: null where the place is unknown. */
type Instruction = { id: string; coins: readonly Coin[]; where: string; gap: string | null };

const NO_GAP = 'We know of no such setting in it. If it misses payments, open the account in a program that has one, such as Sparrow.';
const NO_GAP_ETH = 'Ethereum wallets have none. Sweeps find every address that was paid.';
const ELECTRUM =
  'Choose Wallet, Information, and copy the master public key. For a seed that was made here, Florin then shows what to enter instead. For a multisig wallet, upload the file of a watch-only copy.';
const ELECTRUM_GAP = 'Choose View, Show Console, and enter wallet.change_gap_limit(50) there, with your number. Then restart it.';
const COMPANION = 'Set it in the program that you use with the device, such as Sparrow.';

/** The most common first. */
export const INSTRUCTIONS: readonly Instruction[] = [
  {
    id: 'Sparrow',
    coins: ['BTC'],
    where: 'Open the wallet and choose Settings, Export, Output Descriptor. Upload the file, or scan its QR code.',
    gap: 'Choose Settings, Advanced, Gap Limit.',
  },
  { id: 'Electrum', coins: ['BTC'], where: ELECTRUM, gap: ELECTRUM_GAP },
  { id: 'Electrum-LTC', coins: ['LTC'], where: ELECTRUM, gap: ELECTRUM_GAP },
  { id: 'Dash Electrum', coins: ['DASH'], where: ELECTRUM, gap: ELECTRUM_GAP },
  {
    id: 'Ledger',
    coins: ['BTC', 'LTC', 'DOGE', 'DASH'],
    where:
      'In the Ledger app, open the account, choose the wrench and then Advanced, and copy the value of “xpub”. It begins with xpub for every address type, so choose the type of the account in the next step.',
    gap: 'Choose Settings, Experimental features, Custom gap limit. Then clear the cache under Help.',
  },
  {
    id: 'Trezor',
    coins: ['BTC', 'LTC', 'DOGE', 'DASH'],
    where:
      'In Trezor Suite, open the account, choose Details, then Show public key. For a Taproot account it shows a descriptor: copy all of it.',
    gap: NO_GAP,
  },
  {
    id: 'BlueWallet',
    coins: ['BTC'],
    where:
      'Open the wallet, choose the three dots, then Show Wallet XPUB. For a multisig vault, choose Export Coordination Setup and upload the file.',
    gap: NO_GAP,
  },
  {
    id: 'Coldcard',
    coins: ['BTC'],
    where:
      'Choose Advanced/Tools, Export Wallet, Generic JSON, and upload the file, or scan its QR codes. For a multisig wallet, choose Settings, Multisig Wallets, the wallet, and export it.',
    gap: COMPANION,
  },
  {
    id: 'Keystone',
    coins: ['BTC'],
    where: 'Choose Connect Software Wallet, then Sparrow, and scan the QR codes with the camera.',
    gap: COMPANION,
  },
  {
    id: 'Exodus',
    coins: ['BTC'],
    where:
      'On a computer, open Bitcoin, choose the three dots, then Export XPub. The file has two keys: for addresses that begin with bc1, copy the one that begins with zpub.',
    gap: NO_GAP,
  },
  {
    id: 'Specter',
    coins: ['BTC'],
    where: 'Open the wallet, choose Settings, Export, and save the wallet file. Upload it here.',
    gap: null,
  },
  {
    id: 'Nunchuk',
    coins: ['BTC'],
    where: 'Open View wallet config, choose the menu, then Export wallet configuration, BSMS, and upload the file.',
    gap: null,
  },
  {
    id: 'Bitcoin Core',
    coins: ['BTC'],
    where: 'Run “bitcoin-cli listdescriptors” and paste the descriptor that begins with wpkh and ends with /0/*.',
    gap: 'It looks 1,000 addresses ahead unless its setting keypool is lower.',
  },
  {
    id: 'Keystone',
    coins: ['ETH'],
    where: 'Choose Connect Software Wallet, then MetaMask, and scan the QR code with the camera.',
    gap: NO_GAP_ETH,
  },
  {
    id: 'Ledger, Trezor, MetaMask',
    coins: ['ETH'],
    where:
      "Their apps show addresses, but not the extended public key of m/44'/60'/0'. Use a wallet that exports it, or derive it offline from a new seed phrase.",
    gap: NO_GAP_ETH,
  },
];
