/** The checkout settings as the form edits them. */
import type { Reply } from '../../lib/api.ts';

export type Checkout = Reply<'GET /:mode/settings/checkout'>;
/** The values of the form. Typed fields are strings. */
export type Draft = Omit<Checkout['settings'], 'logo' | 'origins' | 'late_accept_minutes' | 'window_minutes' | 'rate_lock_minutes'> & {
  origins: string;
  late_accept_minutes: string;
  window_minutes: string;
  rate_lock_minutes: string;
  /** A new logo in base64; null removes the logo; undefined keeps it. */
  logo: string | null | undefined;
};
