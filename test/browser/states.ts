/** Inspects states of the page as a customer sees them: accessible, no violation of the security policy, nothing cut off. */
import assert from 'node:assert/strict';
import type { Browser } from 'playwright-core';
import type { Fixture } from '../../src/web/checkout/states.ts';
import { assertStill, auditAccessibility, findClipped, openTab, type Tab } from '../kit/browser.ts';

export const stateUrl = (url: string, { name }: Fixture, more = ''): string => `${url}/_states?state=${encodeURIComponent(name)}${more}`;

type How = { dark?: boolean; width?: number; forcedColors?: boolean };
export type Inspector = {
  /** Opens the state and checks everything that must hold for each. */
  inspect(fixture: Fixture, how?: How & { more?: string }): Promise<void>;
  close(): Promise<void>;
};

/** One tab per theme and width, reused for each state: opening tabs takes longer than inspecting. */
export function createInspector(browser: Browser, url: string): Inspector {
  const tabs = new Map<string, Tab>();
  return {
    async inspect(fixture, { more = '', ...how } = {}) {
      const key = JSON.stringify(how);
      const tab = tabs.get(key) ?? (await openTab(browser, 'about:blank', how));
      tabs.set(key, tab);
      const { page, faults } = tab;
      const where = `${fixture.name} ${key} ${more}`;
      faults.length = 0;
      await page.goto(stateUrl(url, fixture, more));
      await page.locator(`main[data-state="${more.includes('receipt') ? 'receipt' : fixture.state}"]`).waitFor();
      if (more === '') await assertStill(page, where);
      // Collapsed content is a part of the page too.
      await page.evaluate('document.querySelectorAll("details").forEach((fold) => { fold.open = true; })');
      assert.deepEqual(await auditAccessibility(page), [], where);
      assert.deepEqual(await findClipped(page), [], where);
      assert.deepEqual(faults, [], where);
    },
    async close() {
      for (const tab of tabs.values()) await tab.close();
    },
  };
}
