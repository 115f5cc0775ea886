/** The steps to the first live payment, and where each is done. */
import type { Action } from '../../generated/api.ts';
import type { Reply } from '../../lib/api.ts';

export type Step = Reply<'GET /:mode/home/onboarding'>['steps'][number]['step'];
/** `screen` is where a step is done, for members whose role has the `action` of that screen. */
export const STEPS: Readonly<Record<Step, { title: string; text: string; minutes: string; screen: string; action: Action; act: string }>> =
  {
    test_payment: {
      title: 'Try a test payment',
      text: 'See what your customers see, and try success, underpayment, and expiry.',
      minutes: '2 min',
      screen: 'payments',
      action: 'payments.read',
      act: 'Create test payment',
    },
    business: {
      title: 'Add your business name and support contact',
      text: 'Customers see them on every payment page and receipt. They need the contact when a payment goes wrong.',
      minutes: '2 min',
      screen: 'business',
      action: 'settings.read',
      act: 'Open settings',
    },
    wallet: {
      title: 'Connect a wallet',
      text: 'Add the public key of an account for at least one currency. Private keys never leave your wallet.',
      minutes: '5 min',
      screen: 'wallets',
      action: 'wallets.read',
      act: 'Open wallets',
    },
    source: {
      title: 'Connect to the networks',
      text: 'BTC, LTC, DOGE, and DASH connect automatically. ETH and stablecoins need a node or a provider in the settings of this service.',
      minutes: '15 min',
      screen: 'wallets',
      action: 'wallets.read',
      act: 'Show what is missing',
    },
    webhook: {
      title: 'Get notified about payments',
      text: 'Add a webhook endpoint, or poll the API from your server.',
      minutes: '10 min',
      screen: 'webhooks',
      action: 'webhooks.read',
      act: 'Open webhooks',
    },
    second_factor: {
      title: 'Secure your sign-in',
      text: 'Add a passkey, or turn on two-factor authentication with an authenticator app.',
      minutes: '2 min',
      screen: 'security',
      action: 'account.use',
      act: 'Open security',
    },
    go_live: {
      title: 'Go live',
      text: 'Take your first live payment, with everything above in place.',
      minutes: '5 min',
      screen: 'keys',
      action: 'keys.read',
      act: 'Open live mode',
    },
  };
