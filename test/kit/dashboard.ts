/** The dashboard in a real browser: its own service, a signed-up owner, and the checks for every screen. */
import assert from 'node:assert/strict';
import { after, afterEach, type TestContext } from 'node:test';
import type { Browser, CDPSession, Page } from 'playwright-core';
import type { Role } from '../../src/app.ts';
import { buildApp } from '../../src/web/dashboard/build.ts';
import { startTestApp, type TestApp } from './app.ts';
import { auditAccessibility, findClipped, findTextsThatGoStale, openTab, startBrowser, type Tab } from './browser.ts';
import { isLongRun } from './long.ts';
import { freePort } from './nodes.ts';
import { freshTotp, Person } from './person.ts';

export const OWNER = { name: 'Olga Owner', email: 'olga@shop.example', password: 'correct horse battery' } as const;

export type Dashboard = {
  app: TestApp;
  browser: Browser;
  /** The owner's tab. */
  tab: Tab;
  page: Page;
  /** Opens a screen by its path below `/dashboard/`. */
  open(path: string): Promise<void>;
  /** The same, and waits for the heading of the screen. */
  go(path: string, heading: string): Promise<void>;
  /** Fills in the set-up page, which leads to Home. */
  signUp(): Promise<void>;
  /** Turns on the owner's two-factor authentication, with the Security page open. Returns the secret of the codes. */
  setSecondFactor(): Promise<string>;
  /** Opens one of the member's own screens from the account menu. */
  openOwn(name: 'Security' | 'Notifications'): Promise<void>;
  /** Signs the owner out from the menu and waits for the sign-in page, which is a separate document. */
  signOut(): Promise<void>;
  /** The owner at the API, with the cookies of the tab. */
  owner(): Promise<Person>;
  /** Checks the current screen: accessible, never wider than its window, nothing clipped on a phone; `narrow: false` if it scrolls there. */
  audit(name: string, options?: { on?: Page; narrow?: boolean }): Promise<void>;
  /** Checks that nothing failed in the owner's tab since the last check, except for the refusals that a test expects and names. */
  noFaults(...expected: RegExp[]): void;
  /** Forgets failures that the test caused and saw on the screen. */
  forgiveFaults(): void;
  /**
   * Requests to this part of the API get `req_1` and 500, and documents opened from now on get no updates, until the returned function
   * repairs both and clicks "Try again" in between.
   */
  failRequests(api: string | RegExp): Promise<() => Promise<void>>;
  /** Makes all sign-ins so old that risky actions require confirming the identity. */
  ageSessions(): Promise<void>;
};

/** Starts them for a test file and stops them at its end. With `signedUp: false` only the set-up link is opened. */
export async function startDashboard({
  environment = {},
  signedUp = true,
  windows = false,
  flags = [],
  roles,
}: {
  environment?: Record<string, string>;
  signedUp?: boolean;
  /** The whole browser, which has a camera. */
  windows?: boolean;
  /** Of the browser. */
  flags?: readonly string[];
  /** Of the service; all of them by default. */
  roles?: readonly Role[];
} = {}): Promise<Dashboard> {
  const port = await freePort();
  const base = `http://localhost:${port}`;
  const starting = [
    startTestApp(
      { PORT: String(port), PUBLIC_URL: base, HOST: 'localhost', LOG_LEVEL: 'silent', ...environment },
      { ...(roles && { roles }) },
    ),
    startBrowser({ windows, flags }),
    buildApp({ info: () => {} }),
  ] as const;
  const stop = async () => {
    const [app, browser] = await Promise.allSettled(starting);
    if (browser.status === 'fulfilled') await browser.value.close();
    if (app.status === 'fulfilled') await app.value.stop();
  };
  try {
    const [app, browser] = await Promise.all(starting);
    const tab = await openTab(browser, app.merchant.setupUrl, { width: 1280 });
    const dashboard = dashboardOf(app, browser, tab);
    if (signedUp) await dashboard.signUp();
    // What was on the screen explains a failure better than what was not.
    afterEach(async (t) => {
      if (!(t as TestContext & { passed: boolean }).passed)
        (t as TestContext).diagnostic(`${tab.page.url()}\n${await tab.page.locator('body').innerText()}`);
    });
    after(stop);
    return dashboard;
  } catch (error) {
    // A file that fails while loading runs no hooks.
    await stop();
    throw error;
  }
}

function dashboardOf(app: TestApp, browser: Browser, tab: Tab): Dashboard {
  const { page } = tab;
  let audits = 0;
  const open = async (path: string) => void (await page.goto(`${app.config.publicUrl}/dashboard/${path}`));
  return {
    app,
    browser,
    tab,
    page,
    open,
    go: async (path, heading) => {
      await open(path);
      await page.getByRole('heading', { name: heading, exact: true }).waitFor();
    },
    signUp: async () => {
      await page.getByLabel('Name').fill(OWNER.name);
      await page.getByLabel('Email').fill(OWNER.email);
      await page.getByLabel('Password').fill(OWNER.password);
      await page.getByRole('button', { name: 'Create account' }).click();
      await page.getByRole('heading', { name: 'Home' }).waitFor();
    },
    setSecondFactor: async () => {
      await page.getByLabel('Your password').fill(OWNER.password);
      await page.getByRole('button', { name: 'Set up authenticator app' }).click();
      await page.getByAltText('QR code for the authenticator').waitFor();
      const secret = (await page.locator('ol code').first().innerText()).trim();
      await page.getByLabel('Code from your authenticator app').fill(await freshTotp(app, secret));
      await page.getByRole('button', { name: 'Turn on' }).click();
      await page.getByText('Two-factor authentication is on.').waitFor();
      return secret;
    },
    openOwn: async (name) => {
      await page.getByRole('button', { name: 'Account' }).click();
      await page.getByRole('menuitem', { name }).click();
      await page.getByRole('heading', { name, level: 1 }).waitFor();
    },
    signOut: async () => {
      noFaults(tab);
      // The previous document may show the sign-in page too, and text typed there is lost.
      await page.evaluate('window.isLeft = true');
      await page.getByRole('button', { name: 'Account' }).click();
      await page.getByRole('menuitem', { name: 'Sign out' }).click();
      await page.waitForFunction(() => !('isLeft' in window) && document.readyState === 'complete');
      await page.getByRole('heading', { name: 'Sign in', exact: true }).waitFor();
      // Pending requests of that document are refused.
      noFaults(tab, /^401 /);
    },
    owner: async () => {
      const person = new Person(app.url);
      person.cookie = (await page.context().cookies()).map(({ name, value }) => `${name}=${value}`).join('; ');
      return person;
    },
    audit: async (name, { on = page, narrow = true } = {}) => {
      assert.deepEqual(await findTextsThatGoStale(on), [], `${name}: each text needs an element of its own`);
      // In turn, because the themes differ only in their colors; the long run looks at both.
      const inTurn = audits++ % 2 === 0 ? (['dark'] as const) : (['light'] as const);
      for (const colorScheme of isLongRun ? (['dark', 'light'] as const) : inTurn) {
        await on.emulateMedia({ colorScheme });
        assert.deepEqual(await auditAccessibility(on), [], `${name}, ${colorScheme}`);
      }
      const size = on.viewportSize()!;
      for (const width of [1024, size.width]) {
        await on.setViewportSize({ ...size, width });
        const found = (await on.evaluate('document.documentElement.scrollWidth')) as number;
        assert.ok(found <= width, `${name} is ${found} px wide in a window of ${width} px`);
      }
      if (!narrow) return;
      await on.setViewportSize({ width: 360, height: 780 });
      assert.deepEqual(await findClipped(on), [], `${name} at 360 px`);
      await on.setViewportSize(size);
    },
    noFaults: (...expected) => noFaults(tab, ...expected),
    forgiveFaults: () => void tab.faults.splice(0),
    failRequests: async (api) => {
      const error = { type: 'server_error', code: 'server_error', message: 'Something failed.', request_id: 'req_1' };
      let letThrough = () => {};
      const held = new Promise<void>((resolve) => {
        letThrough = resolve;
      });
      // An update would make the screen load again and recover before anything is clicked.
      await page.route('**/dashboard/api/*/stream*', (route) => held.then(() => route.continue()));
      await page.route(api, (route) => route.fulfill({ status: 500, json: { error } }));
      return async () => {
        await page.unroute(api);
        await page.getByRole('button', { name: 'Try again' }).click();
        letThrough();
      };
    },
    ageSessions: async () => {
      await app.app.ctx.db.sql`update sessions set created_at = created_at - interval '11 minutes', confirmed_at = null`;
    },
  };
}

/** Checks that nothing failed in a tab since the last check. */
export function noFaults(tab: Tab, ...expected: RegExp[]): void {
  // The browser's own message about a refusal names no request.
  const allowed = [...expected, ...(expected.length > 0 ? [/^Failed to load resource/] : [])];
  assert.deepEqual(
    tab.faults.splice(0).filter((fault) => !allowed.some((one) => one.test(fault))),
    [],
  );
}

/** A virtual authenticator for the tab that verifies its user and answers at once; `WebAuthn.disable` removes it. */
export async function addAuthenticator(page: Page): Promise<CDPSession> {
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('WebAuthn.enable');
  await devtools.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  });
  return devtools;
}
