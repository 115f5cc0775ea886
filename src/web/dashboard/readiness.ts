/** Whether a coin can be paid now and what is missing, as the dashboard's API shows it. */
import Type, { type Static } from 'typebox';
import { type CoinReadiness, MISSING } from '../../payments/readiness.ts';
import { Coin, literals, Text } from './route.ts';

export const Missing = Type.Object({
  code: literals(MISSING),
  message: Text,
  fix: Text,
  /** Settings to paste unchanged. */
  lines: Type.Array(Text),
  doc_url: Text,
});
export const Readiness = Type.Object({ currency: Coin, payable: Type.Boolean(), missing: Type.Array(Missing) });

export const readinessBody = ({ coin, payable, missing }: CoinReadiness): Static<typeof Readiness> =>
  ({
    currency: coin,
    payable,
    missing: missing.map(({ docUrl, lines, ...rest }) => ({ ...rest, lines: [...lines], doc_url: docUrl })),
  }) as Static<typeof Readiness>;
