/** Scripts that the pages of merchants load from this install. */
import type { FastifyInstance } from 'fastify';
import { pack, sendPacked } from '../../http/encoding.ts';

/** Serves a script that a page of any origin may load. It is compressed once, at the start. */
export function registerSharedScript(pages: FastifyInstance, { path, script }: { path: string; script: string }): void {
  const packed = pack(Buffer.from(script));
  pages.get(path, async (request, reply) => {
    reply.headers({
      'content-type': 'text/javascript; charset=utf-8',
      'cache-control': 'public, max-age=3600',
      'access-control-allow-origin': '*',
      'cross-origin-resource-policy': 'cross-origin',
      'x-content-type-options': 'nosniff',
    });
    return sendPacked(request, reply, await packed);
  });
}
