/** What a browser really receives: the bytes of an answer as sent, before anything decompresses them. */
import { get } from 'node:http';

export const onTheWire = (
  url: string,
  accept: string,
): Promise<{ bytes: number; encoding: string | undefined; vary: string | undefined }> =>
  new Promise((resolve, reject) => {
    get(url, { headers: { 'accept-encoding': accept } }, (reply) => {
      let bytes = 0;
      reply.on('data', (part: Buffer) => {
        bytes += part.length;
      });
      reply.on('error', reject);
      reply.on('end', () => {
        resolve({ bytes, encoding: reply.headers['content-encoding'], vary: reply.headers.vary });
      });
    }).on('error', reject);
  });
