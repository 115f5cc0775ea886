/**
 * Public Electrum servers that wallets of each coin list, one or two of each operator. The people who run them learn
 * which addresses are looked up, when, and from where, so they are asked what somebody looks up, and nothing else.
 */
import type { BitcoinFamily } from '../../../core/coin.ts';

/** With TLS. From the lists of Electrum, Sparrow, BasicSwap, Electrum-LTC, Electrum-Dash, Cake Wallet and Stack Wallet, 2024 to 2026. */
export const PUBLIC_SERVERS: Readonly<Record<BitcoinFamily, readonly string[]>> = {
  BTC: [
    'electrum.blockstream.info:50002',
    'electrum.emzy.de:50002',
    'electrum.bitaroo.net:50002',
    'fulcrum.sethforprivacy.com:50002',
    'bitcoin.lu.ke:50002',
    'electrum.diynodes.com:50022',
    'bitcoin.stackwallet.com:50002',
  ],
  LTC: [
    'electrum-ltc.bysh.me:50002',
    'electrum.ltc.xurious.com:50002',
    'backup.electrum-ltc.org:443',
    'ltc.rentonisk.com:50002',
    'litecoin.stackwallet.com:20063',
    'electrum1.cipig.net:20063',
    'ltc-electrum.cakewallet.com:50002',
    'electrum-ltc.petrkr.net:60002',
  ],
  DOGE: ['dogecoin.stackwallet.com:50022', 'doge.aftrek.org:50002', 'electrum1.cipig.net:20060', 'electrum2.cipig.net:20060'],
  DASH: ['dash-electrum.pshenmic.dev:50002', 'dash.stackwallet.com:60002', 'electrum1.cipig.net:20061', 'electrum2.cipig.net:20061'],
};
