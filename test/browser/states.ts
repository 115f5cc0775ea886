/** Looks at one state of the page as a payer would: accessible, nothing refused by its security policy, nothing cut off. */
import assert from 'node:assert/strict';
import type { Browser } from 'playwright-core';
import type { Fixture } from '../../src/web/checkout/states.ts';
import { auditAccessibility, findClipped, layoutShift, openTab } from '../kit/browser.ts';

export const stateUrl = (url: string, { name }: Fixture, more = ''): string => `${url}/_states?state=${encodeURIComponent(name)}${more}`;

/** Opens the state and checks everything that must hold of each; the tab is closed afterwards. */
export async function inspectState(
  browser: Browser,
  url: string,
  fixture: Fixture,
  { more = '', ...how }: { more?: string; dark?: boolean; width?: number; forcedColors?: boolean } = {},
): Promise<void> {
  const tab = await openTab(browser, stateUrl(url, fixture, more), how);
  const where = `${fixture.name} ${JSON.stringify(how)} ${more}`;
  try {
    await tab.page.locator(`main[data-state="${more.includes('receipt') ? 'receipt' : fixture.state}"]`).waitFor();
    if (more === '') assert.ok((await layoutShift(tab.page)) <= 0.02, `${where} moves`);
    // What is folded is a part of the page too.
    await tab.page.evaluate('document.querySelectorAll("details").forEach((fold) => { fold.open = true; })');
    assert.deepEqual(await auditAccessibility(tab.page), [], where);
    assert.deepEqual(await findClipped(tab.page), [], where);
    assert.deepEqual(tab.faults, [], where);
  } finally {
    await tab.close();
  }
}
