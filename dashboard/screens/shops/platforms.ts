/** The shops that connect through BTCPay's plugins, and where each asks for the key. */
import type { Reply } from '../../lib/api.ts';

export type Shop = Reply<'GET /:mode/shops'>['data'][number];

export const PLATFORM_WORDS = {
  woocommerce: 'WooCommerce',
  prestashop: 'PrestaShop',
  magento: 'Magento 2',
  opencart: 'OpenCart',
  whmcs: 'WHMCS',
  'coinbase-commerce': 'Coinbase Commerce',
  other: 'Other',
} as const;

export const PLATFORM_STEPS = {
  woocommerce:
    'This key is for “BTCPay for WooCommerce V2”: open WooCommerce → Settings → BTCPay Settings. Florin’s own plugin, which you download under Shops, needs no key from here.',
  prestashop: 'Install the BTCPay module. Then open Modules → BTCPay → Configure.',
  magento: 'Install BTCPay’s extension. Then open Stores → Configuration → Sales → Payment methods → BTCPay Server.',
  opencart: 'Install BTCPay’s extension. Then open Extensions → Payments → BTCPay → Edit.',
  whmcs: 'Install version 4 of BTCPay’s module. Then open System Settings → Payment Gateways → BTCPay Server.',
  'coinbase-commerce': 'For a shop that used Coinbase Commerce. Change the API address in its plugin, as the guide describes.',
} as const;

export type Connectable = keyof typeof PLATFORM_STEPS;
export const CONNECTABLE = Object.keys(PLATFORM_STEPS) as Connectable[];
