/** 1,000 random files each: another library signs the same bytes. */
import { test } from 'node:test';
import { checkAccountAgreement } from './account-cases.test.ts';
import { checkAgreement } from './psbt-cases.test.ts';

test('another library signs the same bytes, for 1,000 random files of every Bitcoin-like coin and address type', () =>
  checkAgreement(1_000));

test('another library encodes and signs the same transactions and authorizations, for 1,000 random files', () =>
  checkAccountAgreement(1_000));
