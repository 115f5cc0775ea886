/** The part of `@medusajs/framework/utils` that the provider and its example use. The usual tests have only this; the long ones have Medusa itself. */
export class AbstractPaymentProvider<Config = Record<string, unknown>> {
  static identifier: string;
  protected readonly container: Record<string, unknown>;
  protected readonly config: Config;
  static validateOptions(_options: Record<string, unknown>): void {}
  constructor(container: Record<string, unknown>, config: Config) {
    this.container = container;
    this.config = config;
  }
}

export class MedusaError extends Error {
  static Types = {
    INVALID_DATA: 'invalid_data',
    NOT_ALLOWED: 'not_allowed',
    NOT_FOUND: 'not_found',
    UNEXPECTED_STATE: 'unexpected_state',
    PAYMENT_REQUIRES_MORE_ERROR: 'payment_requires_more_error',
    PAYMENT_AUTHORIZATION_ERROR: 'payment_authorization_error',
  } as const;
  readonly type: string;
  constructor(type: string, message: string) {
    super(message);
    this.type = type;
  }
}

export const Modules = { PAYMENT: 'payment' } as const;
export const ModuleProvider = (module: string, { services }: { services: unknown[] }) => ({ module, services });

export const defineConfig = (config: object): object => config;
export const loadEnv = (_environment: string, _directory: string): void => {};
