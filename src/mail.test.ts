/** Mail through a server on the same machine whose certificate nobody signed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startMailServer } from '../test/kit/mail.ts';
import { createMailer } from './mail.ts';

test('a mail server on this machine, or one that may be spoken to in plain text, needs no certificate that is trusted', async (t) => {
  const server = await startMailServer({ starttls: true });
  t.after(() => server.stop());
  for (const url of [server.url, server.url.replace('127.0.0.1', 'localhost'), `${server.url}?tls=no`]) {
    const mailer = createMailer({ url, from: 'florin@shop.example' });
    t.after(() => mailer.close());
    await mailer.send({ to: 'owner@shop.example', subject: 'Hello', text: url });
    assert.equal(server.mails.at(-1)?.text.trim(), url);
  }
});

test('a check connects and sends nothing, and says why it cannot', async (t) => {
  const server = await startMailServer();
  const mailer = createMailer({ url: server.url, from: 'florin@shop.example' });
  t.after(() => mailer.close());
  await mailer.check();
  assert.equal(server.mails.length, 0);
  await server.stop();
  await assert.rejects(mailer.check(), /ECONNREFUSED/);
});
