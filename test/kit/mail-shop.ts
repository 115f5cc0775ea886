/** A shop that sends mail, with its owner signed in. */
import { startTestApp, type TestApp } from './app.ts';
import { type MailServer, startMailServer } from './mail.ts';
import { type Person, setUpPerson } from './person.ts';

export type MailShop = { app: TestApp; mail: MailServer; owner: Person; close(): Promise<void> };

/** Persons may set the address they connect from: the service trusts the proxy that the test imitates. */
export async function openMailShop(): Promise<MailShop> {
  const mail = await startMailServer();
  const app = await startTestApp({
    LOG_LEVEL: 'silent',
    TRUSTED_PROXIES: '127.0.0.0/8',
    SMTP_URL: mail.url,
    MAIL_FROM: 'pay@shop.example',
  });
  const owner = await setUpPerson(app);
  return {
    app,
    mail,
    owner,
    close: async () => {
      await app.stop();
      await mail.stop();
    },
  };
}
