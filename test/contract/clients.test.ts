/** Clients in other languages, written from the documented interface alone: those whose language is installed here. */
import { after, before, test } from 'node:test';
import { startTestApp, type TestApp } from '../kit/app.ts';
import { CONTRACT_LANGUAGES, isInstalled, runContractClient } from '../kit/contract-clients.ts';
import { firstOf } from '../kit/long.ts';
import { freePort } from '../kit/nodes.ts';

let app: TestApp;
before(async () => {
  // Clients visit payment pages at the address that replies name.
  const port = await freePort();
  app = await startTestApp({ PORT: String(port), PUBLIC_URL: `http://127.0.0.1:${port}` });
});
after(() => app?.stop());

for (const language of firstOf(CONTRACT_LANGUAGES)) {
  test(`a ${language.name} client written from the document creates, lists, reads and receives`, async (t) => {
    if (!isInstalled(language)) return t.skip(`${language.program} is not installed`);
    await runContractClient(app, language);
  });
}
