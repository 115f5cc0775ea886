/** Checks the settings when Medusa starts. */
import { MedusaError } from '@medusajs/framework/utils';
import type { FlorinOptions } from './types.ts';

const RULES: Readonly<Record<keyof FlorinOptions, readonly [RegExp, string]>> = {
  url: [/^https?:\/\/[^\s/]+/, 'the address of your Florin, such as https://pay.example'],
  apiKey: [/^sk_(live|test)_\S+$/, 'a secret API key, such as sk_live_...'],
  webhookSecret: [/^whsec_\S+$/, 'the signing secret of the webhook endpoint, such as whsec_...'],
  returnUrl: [/^https?:\/\/[^\s/]+/, 'the page of your storefront that customers return to'],
};

/** Errors: a MedusaError, at the start of Medusa. */
export function checkOptions(options: Record<string, unknown>): void {
  for (const [name, [form, what]] of Object.entries(RULES)) {
    const value = options[name];
    if (typeof value !== 'string' || !form.test(value))
      throw new MedusaError(
        MedusaError.Types.INVALID_DATA,
        `Florin: the option ${name} is ${value ? 'not valid' : 'missing'}. Set it to ${what}.`,
      );
  }
}
