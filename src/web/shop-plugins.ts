/**
 * `/plugins/...`: the plugins for shops as files that a merchant installs, packed from the sources of this install. A release and an image
 * contain the packed files and no sources.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import type { Context } from '#context';

const ROOT = join(import.meta.dirname, '../..');
const PACKED = join(ROOT, 'dist/plugins');
const RETRY_MS = 30_000;

type Plugin = {
  title: string;
  name: string;
  ending: 'zip' | 'tgz';
  script: string;
  version: { file: string; pattern: RegExp };
  /** The address at which the plugin receives webhooks in a shop. */
  hook: RegExp;
  /** Begins the User-Agent of its requests, before its version. */
  agent: string;
  /** What the metadata of its payments says of the shop at an address. */
  made(url: string): { name: string; values: readonly string[] };
};
const PLUGINS: readonly Plugin[] = [
  {
    ...{ title: 'WooCommerce', name: 'florin-payments', ending: 'zip', script: 'scripts/woocommerce.ts' },
    version: { file: 'plugins/woocommerce/florin-payments.php', pattern: /^ \* Version: (\S+)$/m },
    hook: /[?&]wc-api=florin$|\/wc-api\/florin\/?$/,
    agent: 'Florin-WooCommerce/',
    made: (url) => {
      const home = url.replace(/(?:\/index\.php)?(?:\/wc-api\/florin\/?|\/?\?wc-api=florin)$/, '').replace(/^https?:\/\//, '');
      // A shop may have turned encryption on since it was connected.
      return { name: 'shop', values: ['https://', 'http://'].flatMap((scheme) => [scheme + home, `${scheme}${home}/`]) };
    },
  },
  {
    ...{ title: 'Medusa 2', name: 'medusa-payment-florin', ending: 'tgz', script: 'scripts/medusa.ts' },
    version: { file: 'plugins/medusa/package.json', pattern: /"version": "([^"]+)"/ },
    hook: /\/hooks\/payment\/florin_/,
    agent: 'medusa-payment-florin/',
    // They name the storefront, which is at another address than the server.
    made: () => ({ name: 'source', values: ['medusa'] }),
  },
];
const TYPES = { zip: 'application/zip', tgz: 'application/gzip' } as const;
const isSource = ({ script }: Plugin): boolean => existsSync(join(ROOT, script));

/** The file that a release contains; null if there is none. */
const packedFile = ({ name, ending }: Plugin): string | null =>
  existsSync(PACKED) ? (readdirSync(PACKED).find((file) => file.startsWith(`${name}-`) && file.endsWith(`.${ending}`)) ?? null) : null;

function versionOf(plugin: Plugin): string | null {
  const { file, pattern } = plugin.version;
  if (isSource(plugin)) return pattern.exec(readFileSync(join(ROOT, file), 'utf8'))?.[1] ?? null;
  return packedFile(plugin)?.slice(plugin.name.length + 1, -plugin.ending.length - 1) ?? null;
}

type OfferedPlugin = { title: string; version: string; url: string };
/** The plugins that this install offers, with their addresses. */
export const offeredPlugins = ({ settings }: Context): OfferedPlugin[] =>
  PLUGINS.flatMap((plugin) => {
    const version = versionOf(plugin);
    return version === null ? [] : [{ title: plugin.title, version, url: settings.publicUrl + pathOf(plugin) }];
  });
/** The plugin that receives webhooks at an address; null for none of ours. */
export function pluginAt(url: string) {
  const plugin = PLUGINS.find(({ hook }) => hook.test(url));
  return plugin === undefined
    ? null
    : { title: plugin.title, agent: plugin.agent, offered: versionOf(plugin), madeBy: { metadata: plugin.made(url) } };
}
const pathOf = ({ name, ending }: Plugin): string => `/plugins/${name}.${ending}`;

/** The bytes of a plugin, packed in a child process if this install has its sources. */
async function pack(plugin: Plugin): Promise<Buffer> {
  const packed = packedFile(plugin);
  if (!isSource(plugin)) {
    if (packed === null) throw new Error(`${PACKED} does not contain ${plugin.name}`);
    return readFile(join(PACKED, packed));
  }
  const folder = await mkdtemp(join(tmpdir(), 'florin-plugin-'));
  try {
    const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', join(ROOT, plugin.script), folder], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let said = '';
    child.stderr.on('data', (bytes) => {
      said = (said + bytes).slice(-4_000);
    });
    const [code] = (await once(child, 'exit')) as [number | null];
    const [file] = readdirSync(folder);
    if (code !== 0 || file === undefined) throw new Error(`packing ended with ${code}: ${said}`);
    return await readFile(join(folder, file));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Packs on the first request; after a failure, again half a minute later. */
function packOnDemand(ctx: Context, plugin: Plugin): () => Promise<Buffer | null> {
  let packed: Promise<Buffer | null> | null = null;
  let failedAt = Number.NEGATIVE_INFINITY;
  return () => {
    if (packed === null && ctx.clock.monotonicMs() - failedAt < RETRY_MS) return Promise.resolve(null);
    packed ??= pack(plugin).catch((error: unknown) => {
      packed = null;
      failedAt = ctx.clock.monotonicMs();
      ctx.log.error({ err: error, plugin: plugin.name }, 'Could not pack a plugin');
      return null;
    });
    return packed;
  };
}

export function registerShopPlugins(app: FastifyInstance, ctx: Context): void {
  for (const plugin of PLUGINS) {
    const load = packOnDemand(ctx, plugin);
    app.get(pathOf(plugin), async (_request, reply) => {
      const bytes = await load();
      if (bytes === null)
        return reply
          .code(503)
          .headers({ 'retry-after': String(RETRY_MS / 1000), 'cache-control': 'no-store' })
          .type('text/plain')
          .send('The plugin could not be packed. The reason is in the service log.\n');
      return reply
        .headers({
          'content-type': TYPES[plugin.ending],
          'content-disposition': `attachment; filename="${plugin.name}-${versionOf(plugin) ?? 'latest'}.${plugin.ending}"`,
          'cache-control': 'no-cache',
          'x-content-type-options': 'nosniff',
          etag: `"${createHash('sha256').update(bytes).digest('hex').slice(0, 20)}"`,
        })
        .send(bytes);
    });
  }
}
