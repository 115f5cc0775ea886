/** A real mail server on loopback that stores what it receives. */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { SMTPServer } from 'smtp-server';
import { eventually, type TestApp } from './app.ts';

export type Received = { from: string; to: string[]; subject: string; text: string; raw: string };
export type MailServer = {
  url: string;
  mails: Received[];
  /** While set, every mail is refused with it. */
  refuse: string | null;
  /** While set, no mail is accepted until it is resolved. */
  hold: Promise<void> | null;
  stop(): Promise<void>;
};

/** Decodes the transfer encoding of mails (RFC 2045, quoted-printable). */
const unwrap = (text: string): string =>
  Buffer.from(
    text.replace(/=\r\n/g, '').replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
    'latin1',
  ).toString('utf8');

/** `starttls`: it offers encryption, with a certificate that nobody trusts. */
export async function startMailServer({ starttls = false } = {}): Promise<MailServer> {
  const mails: Received[] = [];
  const state = { refuse: null as string | null, hold: null as Promise<void> | null };
  const server = new SMTPServer({
    authOptional: true,
    // A look-up that is slow would hold up one email, and change the order.
    disableReverseLookup: true,
    disabledCommands: starttls ? [] : ['STARTTLS'],
    onRcptTo: (_address, _session, done) =>
      done(state.refuse === null ? null : Object.assign(new Error(state.refuse), { responseCode: 451 })),
    onData: (stream, session, done) => {
      const parts: Buffer[] = [];
      stream.on('data', (part: Buffer) => parts.push(part));
      stream.on('end', () => {
        const raw = Buffer.concat(parts).toString('utf8');
        const [head, ...body] = raw.split('\r\n\r\n');
        mails.push({
          from: session.envelope.mailFrom ? session.envelope.mailFrom.address : '',
          to: session.envelope.rcptTo.map((one) => one.address),
          subject: /^Subject: ((?:.*)(?:\r\n[ \t].*)*)/m.exec(head!)?.[1]?.replace(/\r\n[ \t]/g, ' ') ?? '',
          text: /quoted-printable/i.test(head!) ? unwrap(body.join('\r\n\r\n')) : body.join('\r\n\r\n'),
          raw,
        });
        void (state.hold ?? Promise.resolve()).then(() => done());
      });
    },
  });
  server.listen(0, '127.0.0.1');
  await once(server.server, 'listening');
  return {
    url: `smtp://127.0.0.1:${(server.server.address() as AddressInfo).port}`,
    mails,
    get refuse() {
      return state.refuse;
    },
    set refuse(reason) {
      state.refuse = reason;
    },
    get hold() {
      return state.hold;
    },
    set hold(until) {
      state.hold = until;
    },
    stop: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

/** The token of the latest invitation to an address: from the waiting mail, or as it was received. */
export const invitationToken = (app: TestApp, mail: MailServer, email: string): Promise<string> =>
  eventually(
    async () => {
      const [waiting] = await app.app.ctx.db.sql<{ body: string }[]>`
        select body from mails where recipient = ${email} and kind = 'invite' order by id desc limit 1`;
      const received = mail.mails.findLast((one) => one.to[0] === email && /invited you/.test(one.subject));
      return /#(\w{32})/.exec(waiting?.body || (received?.text ?? ''))?.[1] ?? '';
    },
    (token) => token !== '',
  );
