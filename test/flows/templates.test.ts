/**
 * The templates of home servers and platforms keep the rules that each publishes: Umbrel's guide and linter
 * (github.com/getumbrel/umbrel-apps), Dokploy's README and validators (github.com/Dokploy/templates), the types of the SDK of StartOS.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse as parseToml } from 'smol-toml';
import { parse as parseYaml } from 'yaml';
import { readConfig } from '../../src/config.ts';
import { longTest } from '../kit/long.ts';

const ROOT = join(import.meta.dirname, '../..');
const TEMPLATES = join(ROOT, 'deploy/templates');
const read = (path: string): string => readFileSync(join(TEMPLATES, path), 'utf8');
const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
const IMAGE = `registry.example/florin:${version}`;
/** What a platform puts in the place of `${NAME}`. */
const fill = (text: string, values: Record<string, string>): string =>
  text.replaceAll(/\$\{([^}]+)\}/g, (_, name: string) => {
    assert.ok(name in values, `${name} is not one of ${Object.keys(values)}`);
    return values[name]!;
  });
const dockerfile = readFileSync(join(ROOT, 'Dockerfile'), 'utf8');
const [, port] = /^EXPOSE (\d+)$/m.exec(dockerfile)!;

type Service = {
  image: string;
  user?: string;
  init: boolean;
  restart: string;
  stop_grace_period: string;
  volumes: string[];
  environment: Record<string, string>;
  expose?: number[];
};
/** What every platform asks of a service. */
function checkService(service: Service): void {
  assert.equal(service.image, IMAGE);
  for (const refused of ['build', 'ports', 'networks', 'container_name', 'privileged', 'network_mode', 'cap_add', 'devices'])
    assert.equal(refused in service, false, refused);
  assert.deepEqual([service.init, service.stop_grace_period], [true, '1m'], 'its database has time to end');
  const [mounted, ...more] = service.volumes;
  assert.deepEqual(more, []);
  assert.match(mounted!, /:\/data$/);
}

test("Umbrel: the manifest and the service keep the store's rules, and the service accepts its settings", () => {
  const manifest = parseYaml(read('umbrel/florin/umbrel-app.yml'));
  const required =
    'manifestVersion id category name version tagline description developer website dependencies repo support port gallery path';
  for (const field of [...required.split(' '), 'submitter', 'submission']) assert.ok(field in manifest, field);
  assert.deepEqual(
    [manifest.manifestVersion, manifest.id, manifest.version, manifest.dependencies, manifest.gallery, manifest.releaseNotes],
    [1, 'florin', version, [], [], ''],
  );
  assert.ok(manifest.tagline.length <= 100 && !manifest.tagline.endsWith('.'));
  assert.ok(manifest.description.length <= 5_000);
  assert.ok(['bitcoin', 'crypto', 'finance'].includes(manifest.category));
  assert.ok(![80, 443, 2000].includes(manifest.port), 'ports of Umbrel itself');
  for (const field of ['website', 'repo', 'support', 'submission']) assert.equal(new URL(manifest[field]).protocol, 'https:');

  const { services, ...more } = parseYaml(read('umbrel/florin/docker-compose.yml'));
  assert.deepEqual(Object.keys(more), ['version'], 'networks and volumes are made by Umbrel');
  const { app_proxy: proxy, ...own } = services;
  assert.deepEqual(Object.keys(proxy), ['environment']);
  const [[name, service], ...others] = Object.entries(own) as [[string, Service], ...[string, Service][]];
  assert.deepEqual(others, []);
  assert.deepEqual([proxy.environment.APP_HOST, String(proxy.environment.APP_PORT)], [`florin_${name}_1`, port]);
  checkService(service);
  assert.deepEqual([service.user, service.restart], ['1000:1000', 'on-failure']);
  const [source] = service.volumes[0]!.split(':/');
  assert.match(source!, /^\$\{APP_DATA_DIR\}\/\w/, 'not the root of the data of the app');
  assert.ok(existsSync(join(TEMPLATES, 'umbrel/florin', source!.slice(source!.indexOf('/') + 1))));
  const given = {
    ...{ DEVICE_DOMAIN_NAME: 'umbrel.local', APP_PROXY_PORT: String(manifest.port), NETWORK_IP: '10.21.0.0' },
    ...{ APP_SEED: 'ab'.repeat(32), APP_PASSWORD: 'cd'.repeat(32) },
  };
  const settings = Object.entries(service.environment).map(([key, value]) => [key, fill(value, given)]);
  const config = readConfig({ ...Object.fromEntries(settings), HOST: '0.0.0.0' });
  assert.deepEqual([config.setupToken, config.publicUrl], [given.APP_PASSWORD, `http://umbrel.local:${manifest.port}`]);
  assert.equal(manifest.deterministicPassword, true, 'Umbrel shows APP_PASSWORD, which is the setup code');
});

test('Dokploy: the service has no ports, names or networks, and each domain and variable is one that it knows', () => {
  const meta = JSON.parse(read('dokploy/florin/meta.json'));
  assert.deepEqual([meta.id, meta.version], ['florin', version]);
  assert.ok(existsSync(join(TEMPLATES, 'dokploy/florin', meta.logo)));
  for (const field of ['github', 'website', 'docs']) assert.ok(new URL(meta.links[field]));
  assert.ok(meta.tags.length > 0 && meta.description.length > 0);

  const { services, volumes, networks } = parseYaml(read('dokploy/florin/docker-compose.yml'));
  assert.equal(networks, undefined);
  const service = services.florin as Service;
  checkService(service);
  assert.deepEqual(service.expose, [Number(port)]);
  assert.ok(service.volumes[0]!.split(':')[0]! in volumes);

  const template = parseToml(read('dokploy/florin/template.toml')) as any;
  assert.deepEqual(
    template.config.domains.map(({ serviceName, port: own }: any) => [serviceName, own]),
    [['florin', Number(port)]],
  );
  const helpers = { domain: 'florin.example.com', 'password:32': 'x'.repeat(32), 'password:48': 'y'.repeat(48) };
  const variables = Object.fromEntries(Object.entries<string>(template.variables).map(([name, value]) => [name, fill(value, helpers)]));
  assert.equal(fill(template.config.domains[0].host, variables), helpers.domain);
  const env = Object.fromEntries(Object.entries<string>(template.config.env).map(([name, value]) => [name, fill(value, variables)]));
  const settings = Object.entries(service.environment).map(([key, value]) => [key, fill(value, env)]);
  const config = readConfig({ ...Object.fromEntries(settings), HOST: '0.0.0.0' });
  assert.deepEqual([config.setupToken, config.publicUrl], [helpers['password:32'], `http://${helpers.domain}`]);
});

test('StartOS: the package has the image and the number of the release, and texts of the allowed length', () => {
  const manifest = read('startos/startos/manifest.ts');
  assert.ok(manifest.includes(`dockerTag: '${IMAGE}'`));
  assert.ok(read('startos/startos/index.ts').includes(`version: '${version}:0'`));
  const [short, long] = [...manifest.matchAll(/en_US:\s+'([^']+)'/g)].map(([, text]) => text!);
  assert.ok(short!.length <= 80 && long!.length <= 500);
  for (const architecture of ['x86_64', 'aarch64']) assert.ok(manifest.includes(architecture));
});

longTest('StartOS: the package is what the types of its SDK ask for', () => {
  const folder = join(ROOT, '.cache/startos');
  mkdirSync(folder, { recursive: true });
  cpSync(join(TEMPLATES, 'startos'), folder, { recursive: true });
  execFileSync('npm', ['install', '--no-audit', '--no-fund', '--prefer-offline', '--ignore-scripts'], { cwd: folder, stdio: 'pipe' });
  const check = () =>
    execFileSync(process.execPath, ['node_modules/typescript/bin/tsc', '--noEmit', '-p', '.'], { cwd: folder, stdio: 'pipe' });
  check();
  // The types are there, and refuse what is wrong.
  writeFileSync(join(folder, 'startos/index.ts'), read('startos/startos/index.ts').replace("imageId: 'florin'", "imageId: 'flor'"));
  assert.throws(check, /Command failed/);
});
