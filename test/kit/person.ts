/** A person at the dashboard's API, with the cookies of a browser, and the codes of an authenticator app (RFC 6238). */
import { createHmac } from 'node:crypto';
import { type MemberRole, ROLES } from '../../src/core/roles.ts';
import { createMerchant } from '../../src/merchants/merchants.ts';
import type { Reply, TestApp } from './app.ts';

export class Person {
  cookie = '';
  readonly password = 'correct horse battery';
  url: string;
  /** The address that a trusted proxy reports for them; '' is without a proxy. */
  address = '';
  constructor(url: string) {
    this.url = url;
  }
  get = (path: string): Promise<Reply> => this.send('GET', path);
  post = (path: string, body: unknown = {}): Promise<Reply> => this.send('POST', path, body);

  async send(method: string, path: string, body?: unknown): Promise<Reply> {
    const reply = await fetch(`${this.url}/dashboard/api${path}`, {
      method,
      headers: {
        ...(this.cookie !== '' && { cookie: this.cookie }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        'x-florin-dashboard': '1',
        ...(this.address !== '' && { 'x-forwarded-for': this.address }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const jar = new Map(
      this.cookie.split('; ').flatMap((pair) => (pair === '' ? [] : [pair.split(/=(.*)/s).slice(0, 2) as [string, string]])),
    );
    for (const line of reply.headers.getSetCookie()) {
      const [name, value] = line.split(';')[0]!.split(/=(.*)/s) as [string, string];
      if (/max-age=0/i.test(line) || value === '') jar.delete(name);
      else jar.set(name, value);
    }
    this.cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ');
    const text = await reply.text();
    let json: unknown = null;
    try {
      json = JSON.parse(text);
    } catch {}
    return { status: reply.status, headers: reply.headers, text, json };
  }
}

/** Six digits for a secret in base32, 30 seconds, SHA-1. Each code works once: `ahead` gives the one half a minute before or after. */
export function totp(secret: string, ahead: -1 | 0 | 1 = 0): string {
  const bits = [...secret.replace(/=+$/, '')]
    .map((char) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(char).toString(2).padStart(5, '0'))
    .join('');
  const key = Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + ahead));
  const digest = createHmac('sha1', key).update(counter).digest();
  return String((digest.readUInt32BE(digest[19]! & 15) & 0x7fffffff) % 1_000_000).padStart(6, '0');
}

/** A code that counts as unused, as if half a minute had passed since the last one. */
export async function freshTotp(app: TestApp, secret: string): Promise<string> {
  await app.app.ctx.db.sql`update second_factors set last_step = null`;
  return totp(secret);
}

/** Sets up two-factor authentication for a person who is signed in. Returns the secret of the authenticator. */
export async function setUpFactor(person: Person): Promise<string> {
  const begun = await person.post('/test/second-factor', { password: person.password });
  const secret = new URL(begun.json.uri).searchParams.get('secret')!;
  const finished = await person.post('/test/second-factor/finish', { code: totp(secret) });
  if (finished.status !== 200) throw new Error(`no second factor was set: ${finished.text}`);
  return secret;
}

/** As if all members had had their role for more than a day: above the limit of approvals, only such members count. */
export const ageRoles = (app: TestApp) => app.app.ctx.db.sql`
  update members set role_since = role_since - interval '24 hours 1 second'`;

/** Someone who accepts an invite of a member to the merchant of the member, on an install without a mail server. */
export async function joinTeam(
  app: TestApp,
  { by, role, email, address = '' }: { by: Person; role: string; email: string; address?: string },
): Promise<Person> {
  const invited = await by.post('/test/team/invites', { email, role });
  if (invited.status !== 200) throw new Error(`no invite was made: ${invited.text}`);
  const person = new Person(app.url);
  person.address = address;
  const name = email.split('@')[0];
  const joined = await person.post('/invite/accept', { token: new URL(invited.json.url).hash.slice(1), name, password: person.password });
  if (joined.status !== 200) throw new Error(`the invite was not accepted: ${joined.text}`);
  return person;
}

/** The token of a set-up link; it is never sent to a server. */
export const setupToken = (url: string): string => new URL(url).hash.replace('#token=', '');

/** A second owner of the merchant of the test app, signed in. */
export const setUpPartner = (app: TestApp): Promise<Person> =>
  setUpMember(app, 'owner', { name: 'Pia Partner', email: 'pia@shop.example' });

/** Gives the partner another role, as if they had always had it. */
export const setPartnerRole = (app: TestApp, role: MemberRole) => app.app.ctx.db.sql`
  update members set role = ${role} where user_id = (select id from users where email = 'pia@shop.example')`;

/** One more member of the merchant of the test app for every role, signed in. */
export async function setUpMembers(app: TestApp): Promise<Record<MemberRole, Person>> {
  const members = {} as Record<MemberRole, Person>;
  // One after the other: merchants are created under one lock.
  for (const role of ROLES) members[role] = await setUpMember(app, role, { name: `One ${role}`, email: `${role}@shop.example` });
  return members;
}

async function setUpMember(app: TestApp, role: MemberRole, { name, email }: { name: string; email: string }): Promise<Person> {
  const { ctx } = app.app;
  const other = await createMerchant(ctx, { name: `Of ${name}` });
  const person = new Person(app.url);
  const token = setupToken(other.setupUrl);
  await person.post('/set-up', { token, name, email, password: person.password });
  await ctx.db.sql`update members set merchant_id = ${app.merchant.merchantId}, role = ${role} where merchant_id = ${other.merchantId}`;
  await ctx.db.sql`update sessions set merchant_id = null where merchant_id = ${other.merchantId}`;
  return person;
}

/** The owner of a merchant, by default that of the test app, signed in through its set-up link. */
export async function setUpPerson(
  app: Pick<TestApp, 'url'> & { merchant: { setupUrl: string } },
  merchant: { setupUrl: string } = app.merchant,
  email = 'olga@shop.example',
): Promise<Person> {
  const person = new Person(app.url);
  const token = setupToken(merchant.setupUrl);
  const made = await person.post('/set-up', { token, name: 'Olga Owner', email, password: person.password });
  if (made.status !== 200) throw new Error(`no owner was made: ${made.text}`);
  return person;
}
