/** Whether a coin can be paid now and what is missing, as the dashboard's API shows it. */
import Type, { type Static } from 'typebox';
import { literals } from '../../http/schema-fields.ts';
import { type CoinReadiness, MISSING } from '../../payments/readiness.ts';
import { CoinName, PlainText } from './fields.ts';

export const MissingSchema = Type.Object({
  code: literals(MISSING),
  message: PlainText,
  fix: PlainText,
  /** Settings to paste unchanged. */
  lines: Type.Array(PlainText),
  doc_url: PlainText,
});
export const Readiness = Type.Object({ currency: CoinName, payable: Type.Boolean(), missing: Type.Array(MissingSchema) });

export const readinessBody = ({ coin, payable, missing }: CoinReadiness): Static<typeof Readiness> => ({
  currency: coin,
  payable,
  missing: missing.map(({ docUrl, lines, ...rest }) => ({ ...rest, lines: [...lines], doc_url: docUrl })),
});
