/** Merchants: their settings, branding, usage and test clocks. */
export {
  changeSettings,
  createFirstMerchant,
  createMerchant,
  createSetupLink,
  defaultCoin,
  findSetup,
  getMerchant,
  getMerchantNow,
  isOffered,
  keepSetupLink,
  listMerchants,
  type Merchant,
  readDisplayCurrencies,
  readMerchant,
  readMerchants,
  remakeDays,
  SETUP_DAYS,
  setPlan,
} from './merchants.ts';
export {
  baseTiers,
  changeOwnSettings,
  loweredFrom,
  type OwnTier,
  readLogo,
  readTokens,
  type SettingsChange,
  setBranding,
  setTimeZone,
  tiersOf,
  tokensFor,
} from './settings.ts';
export { contactOf, THEMES } from './stored-settings.ts';
export { alertUsage, getUsage, listHourlyCalls, readUsagePulse, readUsed } from './usage.ts';
