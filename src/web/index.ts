/** Pages: checkout, dashboard, documentation. */
export { BuildToolsMissing } from './build-tools.ts';
export { registerCheckout } from './checkout/actions.ts';
export { buildApp } from './dashboard/build.ts';
export { registerDashboard } from './dashboard/serve.ts';
export { registerDocs } from './docs/routes.ts';
export { registerPackage } from './sdk-package.ts';
export { registerShopPlugins } from './shop-plugins.ts';
