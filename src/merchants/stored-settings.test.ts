/** Settings that earlier versions stored are read as they were meant. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testEnvironment } from '../../test/kit/app.ts';
import { testDatabase } from '../../test/kit/database.ts';
import { openCore } from '../app.ts';
import { readConfig } from '../config.ts';
import { changeSettings, createMerchant, readMerchant } from './merchants.ts';
import { type MerchantSettings, settingsFromJson, settingsToJson } from './stored-settings.ts';

const SETTINGS: MerchantSettings = {
  windowSeconds: 7_200,
  rateLockSeconds: 600,
  toleranceBasisPoints: 50,
  toleranceCapUsdCents: 250,
  lateAcceptMinutes: 30,
  defaultCoin: 'LTC',
  supportContact: 'help@shop.example',
  accent: '#336699',
  theme: 'dark',
  locale: 'de',
  origins: ['https://shop.example'],
  autoReturn: true,
  payerCancel: true,
  kiosk: true,
  mailReceipts: true,
  coins: ['BTC', 'LTC'],
  tokens: ['USDC@ethereum'],
  testTokens: ['USDC@base'],
  adjustments: { BTC: 150, USDC: -250 },
  priceSource: 'kraken',
  website: 'https://shop.example',
  displayCurrency: 'EUR',
  timeZone: 'Europe/Berlin',
  retentionDays: 90,
  refundLimitUsdCents: 50_000,
  strictParameters: true,
  confirmations: { BTC: [{ belowUsdCents: '10000', confirmations: 4, rule: 'confirmations' }] },
};

test('a row from before there were versions, whole or empty, is read as it was meant', () => {
  assert.deepEqual(settingsFromJson(SETTINGS), SETTINGS);
  const empty = settingsFromJson({});
  assert.deepEqual(
    [empty.windowSeconds, empty.toleranceBasisPoints, empty.toleranceCapUsdCents, empty.lateAcceptMinutes, empty.coins, empty.origins],
    [3_600, 100, 500, null, null, []],
  );
  assert.deepEqual(settingsFromJson(JSON.parse(JSON.stringify(settingsToJson(SETTINGS)))), SETTINGS);
});

test('a missing field gets its default; a value of another type, or a removed coin or rule, does not become a current one', () => {
  for (const name of Object.keys(SETTINGS)) {
    const { [name as keyof MerchantSettings]: _, ...others } = SETTINGS;
    const read = settingsFromJson(others);
    assert.deepEqual(read[name as keyof MerchantSettings], settingsFromJson({})[name as keyof MerchantSettings], name);
    assert.deepEqual({ ...read, [name]: null }, { ...SETTINGS, [name]: null }, name);
    // Only two fields contain objects.
    if (name !== 'confirmations' && name !== 'adjustments')
      assert.deepEqual(
        settingsFromJson({ ...SETTINGS, [name]: { wrong: 1 } })[name as keyof MerchantSettings],
        read[name as keyof MerchantSettings],
        name,
      );
  }
  assert.deepEqual(settingsFromJson({ coins: ['XMR', 'BTC'] }).coins, ['BTC']);
  assert.deepEqual(settingsFromJson({ coins: ['XMR'] }).coins, [], 'nothing is left: not all coins');
  assert.equal(settingsFromJson({ defaultCoin: 'XMR' }).defaultCoin, null);
  const confirmations = { XMR: [], LTC: [{ belowUsdCents: null, confirmations: 9, rule: 'hope' }] };
  assert.deepEqual(settingsFromJson({ confirmations }).confirmations, { LTC: [] });
});

test('a change writes the version into the row and keeps the content of an unversioned row', async (t) => {
  const database = await testDatabase();
  const core = await openCore(readConfig(testEnvironment(database.url, database.folder, { LOG_LEVEL: 'silent' })));
  t.after(async () => {
    await core.close();
    await database.drop();
  });
  const { ctx } = core;
  const { merchantId } = await createMerchant(ctx, { name: 'Shop' });
  await ctx.db.sql`update merchants set settings = ${ctx.db.sql.json({ windowSeconds: 7_200, kiosk: true })} where id = ${merchantId}`;
  await changeSettings(ctx, { merchantId, settings: { theme: 'dark' } });
  const [row] = await ctx.db.sql<{ settings: unknown }[]>`select settings from merchants where id = ${merchantId}`;
  assert.deepEqual(row!.settings, { v: 1, windowSeconds: 7_200, kiosk: true, theme: 'dark' });
  const { settings } = await readMerchant(ctx.db.sql, { merchantId });
  assert.deepEqual([settings.windowSeconds, settings.kiosk, settings.theme, settings.rateLockSeconds], [7_200, true, 'dark', 900]);
  assert.ok(!('v' in settings));
});
