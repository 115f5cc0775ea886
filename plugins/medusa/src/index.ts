/** The module that `medusa-config.ts` names. */
import { ModuleProvider, Modules } from '@medusajs/framework/utils';
import { FlorinPaymentProvider } from './provider.ts';

export type { FlorinOptions } from './types.ts';
export { FlorinPaymentProvider };
export default ModuleProvider(Modules.PAYMENT, { services: [FlorinPaymentProvider] });
