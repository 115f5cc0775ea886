/**
 * Random descriptors and key expressions beside Bitcoin Core's parser: what Florin takes, the node takes and derives the same addresses
 * from, and what the node refuses, Florin refuses.
 */
// Invariant: A descriptor that Bitcoin Core refuses is refused, and one that is accepted gives Bitcoin Core's addresses.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, test } from 'node:test';
import { HDKey } from '@scure/bip32';
import { parseAccountKey } from '../../src/addresses/account-key.ts';
import { deriveAddress } from '../../src/addresses/address.ts';
import { descriptorChecksum } from '../../src/addresses/descriptor.ts';
import { Problem } from '../../src/core/problem.ts';
import { base58check } from '../kit/base58.ts';
import { isLongRun } from '../kit/long.ts';
import { type RealNode, startBitcoind } from '../kit/nodes.ts';

const COUNT = Number(process.env.FLORIN_DESCRIPTORS ?? (isLongRun ? 10_000 : 200));
const SEED = Number(process.env.FLORIN_SEED ?? (isLongRun ? Date.now() % 1_000_000 : 1));
const TPUB = 0x043587cf;
let node: RealNode;
before(async () => {
  node = await startBitcoind({ empty: true });
});
after(() => node?.destroy());

let drawn = 0;
/** A whole number below `n`, the same for the same seed. */
const below = (n: number): number => createHash('sha256').update(`${SEED}:${++drawn}`).digest().readUInt32LE() % n;
const pick = <T>(list: readonly T[]): T => list[below(list.length)]!;

const master = HDKey.fromMasterSeed(createHash('sha512').update(`descriptors ${SEED}`).digest());
const keyAt = (depth: number, from = master): string => {
  let at = from;
  for (let i = 0; i < depth; i++) at = at.deriveChild(below(1000) + (below(2) ? 0x80000000 : 0));
  return base58check.respell(at.publicExtendedKey, TPUB);
};
const origin = (): string => {
  if (below(2)) return '';
  const fingerprint = below(2 ** 32)
    .toString(16)
    .padStart(8, '0');
  const steps = Array.from({ length: below(4) }, () => `/${pick([0, 44, 84, 2147483647])}${pick(["'", 'h', ''])}`);
  return `[${fingerprint}${steps.join('')}]`;
};
const steps = (): string => Array.from({ length: below(3) }, () => `/${pick(['0', '1', '<0;1>', '2147483647'])}`).join('');
const expression = (behind = steps(), from = master): string => `${origin()}${keyAt(below(5), from)}${behind}/*`;
const single = (): string => {
  const [opens, closes] = pick([['wpkh(', ')'] as const, ['pkh(', ')'] as const, ['sh(wpkh(', '))'] as const, ['tr(', ')'] as const]);
  return `${opens}${expression()}${closes}`;
};
/** A wallet of up to 20 keys, most of them of a few. */
const policy = (): string => {
  const of = 1 + below(pick([3, 3, 5, 20]));
  const [opens, closes] = pick([['wsh(sorted', ')'] as const, ['sh(wsh(sorted', '))'] as const, ['wsh(', ')'] as const]);
  const keys = Array.from({ length: of }, (_, i) => expression(pick(['/0', '/<0;1>', '/1/0', '']), master.deriveChild(0x80001000 + i)));
  return `${opens}multi(${[1 + below(of), ...keys].join()})${closes}`;
};

/** How a person or a program spoils what it copies. */
const SPOILED: readonly ((text: string) => string)[] = [
  (text) => `${text})`,
  (text) => text.replace(/\)$/, ''),
  (text) => text.replace('/*', '/<0;1>/<0;1>/*'),
  (text) => text.replace('/*', '/**'),
  (text) => text.replace('/*', '/2147483648/*'),
  (text) => text.replace('/*', '//*'),
  (text) => text.replace(/\[([0-9a-f]{8})/, '[$1/9999999999h'),
  (text) => text.replace(/\[([0-9a-f]{8})/, '[$1g'),
  (text) => text.replace(/\[([0-9a-f]{7})[0-9a-f]/, '[$1'),
  (text) => text.replace('/*', '/<1;0;1>/*'),
  (text) => text.replace('(', '(('),
  (text) => text.replace('/*', "/*'"),
  (text) => text.replace('tpub', 'tpuc'),
  (text) => ` ${text}`.replace(' ', ' ( '),
  (text) => `${text}#${descriptorChecksum(text)}`,
  (text) => `${text}#${descriptorChecksum(text).replace(/.$/, (last) => (last === 'q' ? 'p' : 'q'))}`,
  (text) => `${text}#`,
  (text) => text.replace('multi(', 'multi_a('),
  (text) => text.replace(/multi\(\d+/, 'multi(0'),
  (text) => text.replace(/multi\(\d+/, 'multi(21'),
  (text) => text.replace(/multi\(\d+,/, 'multi(1,,'),
  (text) => text.replace(/multi\(\d+/, 'multi(01'),
  (text) => text.replace('multi(', 'multi(-'),
  (text) => text.replace(/,(?=[[t])/, ', '),
  (text) => text.replace('/*', '/<0;1;2>/*'),
  (text) => text.replace('/*', '/<2;3>/*'),
  (text) => text.replace('/*', '/<5>/*'),
  (text) => text.replace('/*', '/<0;1h>/*'),
  (text) => text.replace('/*', '/00/*'),
  (text) => text.replace('wsh(', 'sh('),
];

type Answer = { isTaken: boolean; reason: string };
async function askNode(text: string): Promise<Answer> {
  try {
    await node.rpc('getdescriptorinfo', text);
    return { isTaken: true, reason: '' };
  } catch (error) {
    return { isTaken: false, reason: (error as Error).message };
  }
}
const read = (text: string) => {
  try {
    return { key: parseAccountKey(text, { coin: 'BTC', network: 'regtest' }), reason: '' };
  } catch (error) {
    if (error instanceof Problem) return { key: null, reason: error.message };
    throw error;
  }
};

test(`${COUNT} random descriptors are read as Bitcoin Core reads them (seed ${SEED})`, async (t) => {
  let [taken, refused] = [0, 0];
  for (let i = 0; i < COUNT; i++) {
    const whole = below(3) === 0 ? policy() : single();
    const isSpoiled = below(3) === 0;
    const text = isSpoiled ? pick(SPOILED)(whole) : whole;
    const { key, reason } = read(text);
    const node = await askNode(text);
    if (!isSpoiled && !/<0;1>[^,]*<0;1>/.test(whole)) assert.ok(key && node.isTaken, `${text}: ${reason} ${node.reason}`);
    if (!key) {
      // What Bitcoin Core takes and a wallet for payments cannot use, and the blanks that it overlooks before a key.
      if (node.isTaken)
        assert.match(
          reason,
          /names one address|must end with|“'|“h>|are not supported|there is “ |different numbers|is a single address/,
          `${text}: ${reason}`,
        );
      refused++;
      continue;
    }
    taken++;
    assert.ok(node.isTaken, `${text}: ${node.reason}`);
    await sameAddresses(text, key);
  }
  assert.ok(taken > COUNT / 2 && refused > COUNT / 20);
  t.diagnostic(`${taken} taken by both, ${refused} refused`);
});

async function sameAddresses(text: string, { chainKey, script }: ReturnType<typeof parseAccountKey>): Promise<void> {
  const [body] = text.replaceAll(/<(\d+);[\d;]+>/g, '$1').split('#');
  const addresses = (await node.rpc('deriveaddresses', `${body}#${descriptorChecksum(body!)}`, [0, 2])) as string[];
  const own = [0n, 1n, 2n].map((index) => deriveAddress({ chainKey, script: script!, coin: 'BTC', network: 'regtest', index }).address);
  assert.deepEqual(own, addresses, text);
}

test('a key alone, with its origin or with steps is the same wallet as its descriptor', () => {
  const account = base58check.respell(master.derive("m/84'/1'/0'").publicExtendedKey, TPUB);
  const chainKey = read(`wpkh([d34db33f/84'/1'/0']${account}/0/*)`).key!.chainKey;
  const forms = [
    [account, '0', null],
    [`[d34db33f/84h/1h/0h]${account}`, "m/84'/1'/0'/0", 'p2wpkh'],
    [`[d34db33f/84h/1h/0h]${account}/<0;1>/*`, "m/84'/1'/0'/0", 'p2wpkh'],
    [`[D34DB33F/49'/1'/0']${account}/0/*`, "m/49'/1'/0'/0", 'p2sh-p2wpkh'],
    [`${account}/0/*`, '0', null],
  ] as const;
  for (const [text, path, script] of forms) {
    const { key, reason } = read(text);
    assert.deepEqual([key?.chainKey, key?.path, key?.script], [chainKey, path, script], `${text}: ${reason}`);
  }
});

test('a key that Electrum shows is refused with the descriptor to enter instead, which the node derives the same addresses from', async () => {
  for (const at of [master, master.deriveChild(0x80000000)]) {
    const shown = base58check.respell(at.publicExtendedKey, 0x045f1cf6);
    const { reason } = read(shown);
    const [, instead] = /Electrum shows this key, enter (\S+) /.exec(reason)!;
    const { key } = read(instead!);
    await sameAddresses(instead!.replace(shown, base58check.respell(shown, TPUB)), key!);
  }
});
