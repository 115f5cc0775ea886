/** Lightning: who makes invoices for a merchant, the invoices of its payments, and what proves that one is paid. */

export {
  changeLightning,
  confirmLightning,
  dropLightning,
  LIGHTNING_PURPOSE,
  type LightningKind,
  type NamedAccess,
  readLightning,
  readWaitingLightning,
  removeLightning,
  setLightning,
} from './access.ts';
export { askInvoice, startLightning, watchInvoices } from './invoices.ts';
export { lookAtTest, testLightning } from './trial.ts';
export { checkLightning, readLightningHealth, startLightningUpkeep } from './upkeep.ts';
