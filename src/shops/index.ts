/** The APIs of other payment services that shop plugins speak, for one shop key each. */
export { COMMERCE_PLATFORM, commerceUrl, connectCommerce } from './commerce/connect-commerce.ts';
export { registerCommerce } from './commerce/serve-commerce.ts';
export { registerGreenfield } from './greenfield/greenfield-routes.ts';
export { GREENFIELD_PATH, greenfieldUrl } from './greenfield/invoice-body.ts';
export {
  connectShop,
  disconnectShop,
  getShop,
  grantableTo,
  type ListedShop,
  listShops,
  type NewShop,
  PLATFORM_PERMISSIONS,
  PLATFORMS,
  packQuery,
  platformOf,
  readPairing,
  rollShopKey,
  storeIdOf,
} from './shop-keys.ts';
export { offeredCoins } from './shop-money.ts';
export { createOrder } from './shop-order.ts';
export {
  approveShopRefund,
  claimShopRefund,
  endShopClaimLinks,
  forgetShopApprovals,
  getShopRefund,
  linkOfShopRefund,
  listShopRefunds,
  markShopRefundSent,
  needApproval,
  renewRefund,
  type ShopRefund,
} from './shop-refunds.ts';
export { sendCurrentState, startShops } from './shop-worker.ts';
