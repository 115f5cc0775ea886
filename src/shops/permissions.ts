/** What the key of a shop may do, in the names of the protocol, and what each plugin expects. Plugins refuse a key that has more or less. */
import { mayDoAll } from '../core/key-permissions.ts';
import type { Action, MemberRole } from '../core/roles.ts';

export const PERMISSIONS = {
  viewInvoices: 'btcpay.store.canviewinvoices',
  createInvoice: 'btcpay.store.cancreateinvoice',
  modifyInvoices: 'btcpay.store.canmodifyinvoices',
  viewStore: 'btcpay.store.canviewstoresettings',
  /** PrestaShop asks for it. It allows nothing. */
  modifyStore: 'btcpay.store.canmodifystoresettings',
  webhooks: 'btcpay.store.webhooks.canmodifywebhooks',
  refunds: 'btcpay.store.cancreatenonapprovedpullpayments',
} as const;
export type Permission = (typeof PERMISSIONS)[keyof typeof PERMISSIONS];
const ALL: readonly string[] = Object.values(PERMISSIONS);
export const isPermission = (text: string): text is Permission => ALL.includes(text);

const { viewInvoices, createInvoice, modifyInvoices, viewStore, modifyStore, webhooks, refunds } = PERMISSIONS;

/** What the role of the member who connects a shop must include. */
const TAKES: Readonly<Record<Permission, readonly Action[]>> = {
  [viewInvoices]: ['payments.read'],
  [createInvoice]: ['payments.create'],
  // Accepts late money too.
  [modifyInvoices]: ['payments.cancel', 'payments.resolve'],
  [viewStore]: ['settings.read'],
  [modifyStore]: [],
  [webhooks]: ['webhooks.manage', 'webhooks.secrets'],
  [refunds]: ['refunds.request'],
};
/** Those that a member with the role may give a shop. */
export const grantableTo = (role: MemberRole, permissions: readonly Permission[]): Permission[] =>
  permissions.filter((permission) => mayDoAll(role, ['keys.manage', ...TAKES[permission]]));

/** In the order in which each plugin lists them. */
export const PLATFORM_PERMISSIONS = {
  woocommerce: [viewInvoices, createInvoice, viewStore, modifyInvoices, refunds, webhooks],
  prestashop: [modifyStore, webhooks, viewStore, createInvoice, viewInvoices, modifyInvoices],
  magento: [viewInvoices, createInvoice, webhooks, viewStore, modifyInvoices],
  opencart: [viewInvoices, createInvoice, viewStore, modifyInvoices, webhooks],
  whmcs: [createInvoice, viewInvoices, webhooks],
} as const satisfies Record<string, readonly Permission[]>;
export type Platform = keyof typeof PLATFORM_PERMISSIONS;
export const PLATFORMS = Object.keys(PLATFORM_PERMISSIONS) as Platform[];
