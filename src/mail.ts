/** Sends email: one server, plain text, with a time limit. */
import type { Transporter } from 'nodemailer';

type Mail = { to: string; subject: string; text: string };
export type Mailer = {
  /** Sends one mail; throws when the server rejects it. */
  send(mail: Mail): Promise<void>;
  /** Connects and signs in, and sends nothing. Errors: why it cannot. */
  check(): Promise<void>;
  close(): void;
};

/** `url` is smtp:// or smtps://, with user and password where the server asks for them. The mail library is loaded with the first mail. */
export function createMailer({ url, from }: { url: string; from: string }): Mailer {
  let transport: Promise<Transporter> | null = null;
  const open = async () => {
    const { createTransport } = await import('nodemailer');
    const { protocol, hostname, port, username, password, searchParams } = new URL(url);
    const secure = protocol === 'smtps:';
    const mustEncrypt = secure || (!isLoopback(hostname) && searchParams.get('tls') !== 'no');
    return createTransport({
      host: hostname.replace(/^\[|\]$/g, ''),
      port: Number(port) || (secure ? 465 : 587),
      secure,
      // A server that is not on this machine must encrypt, or nothing is sent: links in mails open accounts.
      requireTLS: mustEncrypt && !secure,
      // Where plain text will do, a certificate that nobody signed will, too: mail servers on the same machine have one.
      ...(!mustEncrypt && { tls: { rejectUnauthorized: false } }),
      ...(username !== '' && { auth: { user: decodeURIComponent(username), pass: decodeURIComponent(password) } }),
      connectionTimeout: 10_000,
      greetingTimeout: 10_000,
      socketTimeout: 20_000,
      disableFileAccess: true,
      disableUrlAccess: true,
    });
  };
  return {
    send: async ({ to, subject, text }) => {
      transport ??= open();
      // An address as an object, so it cannot inject a list or a header.
      await (await transport).sendMail({ from, to: { name: '', address: to }, subject: subject.replace(/[\r\n]+/g, ' '), text });
    },
    check: async () => {
      transport ??= open();
      await (await transport).verify();
    },
    close: () => void transport?.then((open) => open.close()),
  };
}
const isLoopback = (host: string): boolean => /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(host);
