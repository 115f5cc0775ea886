/** Lists of releases, signed by minisign with a new key, and a server for them. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { serve } from './serve.ts';
import { MINISIGN } from './tools.ts';

export type Signer = {
  /** The folder of what it signed. */
  folder: string;
  /** The public key. */
  key: string;
  /** Writes a file and its signature. */
  sign(file: string, text: string, ...more: string[]): { content: Buffer; signature: string };
  remove(): void;
};

export function createSigner(): Signer {
  const folder = mkdtempSync(join(tmpdir(), 'florin-releases-'));
  const minisign = (...args: string[]) => void execFileSync(MINISIGN, args, { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] });
  // Without a password.
  minisign('-GW', '-p', 'key.pub', '-s', 'key');
  return {
    folder,
    key: readFileSync(join(folder, 'key.pub'), 'utf8').split('\n')[1]!,
    sign: (file, text, ...more) => {
      writeFileSync(join(folder, file), text);
      minisign('-S', '-s', 'key', '-m', file, '-t', 'florin releases', ...more);
      return { content: Buffer.from(text), signature: readFileSync(join(folder, `${file}.minisig`), 'utf8') };
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** Serves what a signer signed. `asked`: the requests, with their headers other than those of the connection. */
export async function serveReleases({ folder }: Signer): Promise<{ url: string; asked: [string, object][]; stop(): Promise<void> }> {
  const asked: [string, object][] = [];
  const { url, stop } = await serve((request, reply) => {
    const { host: _host, connection: _connection, ...headers } = request.headers;
    asked.push([request.url!, headers]);
    reply.end(readFileSync(join(folder, request.url!.slice(1))));
  });
  return { url, asked, stop };
}
