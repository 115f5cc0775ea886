/** The settings of the provider, as `medusa-config.ts` gives them. */
export type FlorinOptions = {
  /** Address of your Florin, such as `https://pay.example`. */
  url: string;
  /** A secret API key: `sk_live_...`, or `sk_test_...` for test mode. */
  apiKey: string;
  /** The signing secret of the webhook endpoint, `whsec_...`. */
  webhookSecret: string;
  /** Page of your storefront that customers return to. `{session_id}` is replaced by the ID of the payment session. */
  returnUrl: string;
};
