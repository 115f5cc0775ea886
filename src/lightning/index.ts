/** Lightning: who makes invoices for a merchant, the invoices of its payments, and what proves that one is paid. */

export { checkLightning, LIGHTNING_PURPOSE, type LightningKind, type NamedAccess, removeLightning, setLightning } from './access.ts';
export { askInvoice, startLightning } from './invoices.ts';
