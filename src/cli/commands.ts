/** All operator commands, in the order in which help lists them. */
import { BOOK_COMMANDS } from './book-commands.ts';
import type { Commands } from './command.ts';
import { INSTALL_COMMANDS, SERVE_COMMAND } from './install-commands.ts';
import { MERCHANT_COMMANDS } from './merchant-commands.ts';
import { PAYOUT_COMMANDS } from './payout-commands.ts';
import { REFUND_COMMANDS } from './refund-commands.ts';
import { SHOP_COMMANDS } from './shop-commands.ts';
import { SWEEP_COMMANDS } from './sweep-commands.ts';
import { WEBHOOK_COMMANDS } from './webhook-commands.ts';

export const COMMANDS: Commands = {
  ...SERVE_COMMAND,
  ...MERCHANT_COMMANDS,
  ...SHOP_COMMANDS,
  ...SWEEP_COMMANDS,
  ...REFUND_COMMANDS,
  ...PAYOUT_COMMANDS,
  ...BOOK_COMMANDS,
  ...WEBHOOK_COMMANDS,
  ...INSTALL_COMMANDS,
};
