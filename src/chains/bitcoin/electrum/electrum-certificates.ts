/** The certificate that each Electrum server showed at first. A server that shows another one later is not asked until an operator agrees. */
import type { Db } from '../../../db/db.ts';

export type CertificateStore = {
  /** Remembers who a server is, or compares: false when it is somebody else now. Errors: those of the database. */
  isKnown(server: string, identity: string): Promise<boolean>;
};

/** `identity`: `authority` when a public authority vouches for the name, otherwise the fingerprint of the certificate. */
export const createCertificateStore = (db: Db): CertificateStore => ({
  isKnown: async (server, identity) => {
    // A server that gets a certificate from an authority later is accepted, and from then on never with less.
    const [known] = await db.sql<{ identity: string }[]>`
      insert into electrum_certificates (server, identity) values (${server}, ${identity})
      on conflict (server) do update set identity = case when excluded.identity = 'authority' then 'authority' else electrum_certificates.identity end
      returning identity`;
    return known!.identity === identity;
  },
});

/** Forgets the certificate, so that the next one is accepted. Returns whether there was one. */
export async function forgetCertificate(db: Db, { server }: { server: string }): Promise<boolean> {
  const { count } = await db.sql`delete from electrum_certificates where server = ${server}`;
  return count > 0;
}
