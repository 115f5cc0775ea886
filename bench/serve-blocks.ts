/** The part of a Bitcoin Core node that serves prepared blocks. Prints `ready` with its port. */
import { createServer } from 'node:http';

export type Prepared = { height: number; hash: string; parent: string; merkleRoot: string; time: number; hex: string };

/** `grow` is called with the parameter of the call of that name, shows blocks up to the height it returns, and answers with the size. */
export function serveBlocks({
  blocks,
  grow,
  hexOf = (block) => block.hex,
}: {
  blocks: readonly Prepared[];
  grow(to: unknown): { tip: number; answer: number };
  hexOf?: (block: Prepared) => string;
}): void {
  const byHash = new Map(blocks.map((block) => [block.hash, block]));
  /** Blocks above this one are not shown yet. */
  let tip = 0;
  const answer = (method: string, params: unknown[]): string => {
    const block = typeof params[0] === 'string' ? byHash.get(params[0]) : undefined;
    switch (method) {
      case 'grow': {
        const grown = grow(params[0]);
        tip = grown.tip;
        return String(grown.answer);
      }
      case 'getblock':
        return `"${hexOf(block!)}"`;
      case 'getblockheader': {
        const { hash, height, parent: previousblockhash, merkleRoot: merkleroot, time } = block!;
        return JSON.stringify({ hash, height, previousblockhash, merkleroot, time });
      }
      case 'getbestblockhash':
        return `"${blocks[tip]!.hash}"`;
      case 'getblockhash':
        return Number(params[0]) <= tip ? `"${blocks[Number(params[0])]!.hash}"` : 'null';
      case 'getblockchaininfo':
        return JSON.stringify({ chain: 'regtest', blocks: tip, headers: tip, bestblockhash: blocks[tip]!.hash });
      case 'getrawmempool':
        return '[]';
      default:
        return '{}';
    }
  };
  type Call = { id: number; method: string; params: unknown[] };
  const one = ({ id, method, params }: Call) => `{"result":${answer(method, params)},"error":null,"id":${id}}`;
  const server = createServer((request, reply) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const asked = JSON.parse(Buffer.concat(parts).toString()) as Call | Call[];
      reply.setHeader('content-type', 'application/json');
      reply.end(Array.isArray(asked) ? `[${asked.map(one).join()}]` : one(asked));
    });
  });
  // Its reader may pause between two requests, but the node never outlives it.
  server.keepAliveTimeout = 300_000;
  const parent = process.ppid;
  setInterval(() => process.ppid !== parent && process.exit(0), 1_000).unref();
  server.listen(0, '127.0.0.1', () => process.stdout.write(`ready ${(server.address() as { port: number }).port}\n`));
  process.on('SIGTERM', () => process.exit(0));
}
