/** States of accounts with a true root, and proofs of what they contain, as `eth_getProof` answers. */
import { keccak_256 } from '@noble/hashes/sha3.js';
import { EMPTY_ROOT } from '../../src/chains/ethereum/trie.ts';
import { encodeRlp, type Rlp } from '../../src/evm/rlp.ts';
import { bytesOfHex, hexOfBytes } from './ethereum-data.ts';

export type Account = { balance?: bigint; nonce?: bigint; code?: string };
type Entry = { path: string; value: Uint8Array };
type Node = { rlp: Rlp; bytes: Uint8Array; children: Node[] | null; path: string };

const hex = (value: bigint): string => `0x${value.toString(16)}`;
const number = (value: bigint): Uint8Array =>
  value === 0n ? new Uint8Array(0) : bytesOfHex(`0x${value.toString(16).length % 2 ? '0' : ''}${value.toString(16)}`);
const pathOf = (address: string): string => hexOfBytes(keccak_256(bytesOfHex(address))).slice(2);
const codeHash = (code = '0x'): Uint8Array => keccak_256(bytesOfHex(code));
/** The compact form of a path: its flag, and one digit more if it is even. */
const compact = (path: string, isLeaf: boolean): Uint8Array =>
  bytesOfHex(`0x${path.length % 2 ? (isLeaf ? '3' : '1') : isLeaf ? '20' : '00'}${path}`);

function nodeOf(rlp: Rlp, path: string, children: Node[] | null): Node {
  return { rlp, bytes: encodeRlp(rlp), children, path };
}
/** Accounts have more than 32 bytes, so all nodes are named by their hashes. */
function build(entries: readonly Entry[], depth: number): Node {
  const [first] = entries as [Entry];
  if (entries.length === 1) return nodeOf([compact(first.path.slice(depth), true), first.value], first.path.slice(depth), null);
  let shared = depth;
  while (entries.every(({ path }) => path[shared] === first.path[shared])) shared++;
  if (shared > depth) {
    const below = build(entries, shared);
    const path = first.path.slice(depth, shared);
    return nodeOf([compact(path, false), keccak_256(below.bytes)], path, [below]);
  }
  const children = [...'0123456789abcdef'].map((digit) => {
    const some = entries.filter(({ path }) => path[depth] === digit);
    return some.length === 0 ? null : build(some, depth + 1);
  });
  const rlp = [...children.map((child) => (child ? keccak_256(child.bytes) : new Uint8Array(0))), new Uint8Array(0)];
  return nodeOf(rlp, '', children as Node[]);
}
/** The nodes from the root to where the path ends. */
function proofOf(root: Node, path: string): string[] {
  const found: string[] = [];
  let at = 0;
  for (let node: Node | null = root; node; ) {
    found.push(hexOfBytes(node.bytes));
    if (!node.children || !path.startsWith(node.path, at)) break;
    at += node.path.length;
    node = node.children.length === 1 ? node.children[0]! : (node.children[Number.parseInt(path[at++]!, 16)] ?? null);
  }
  return found;
}

/** Accounts by their 40 hex digits. */
export function stateOf(accounts: Record<string, Account>) {
  const entries = Object.entries(accounts).map(
    ([key, { balance = 0n, nonce = 0n, code }]): Entry => ({
      path: pathOf(`0x${key}`),
      value: encodeRlp([number(nonce), number(balance), EMPTY_ROOT, codeHash(code)]),
    }),
  );
  const root = entries.length === 0 ? null : build(entries, 0);
  const accountAt = (address: string): Account => accounts[address.slice(2).toLowerCase()] ?? {};
  return {
    root: hexOfBytes(root ? keccak_256(root.bytes) : EMPTY_ROOT),
    balanceOf: (address: string): bigint => accountAt(address).balance ?? 0n,
    prove: (address: string) => {
      const { balance = 0n, nonce = 0n, code } = accountAt(address);
      return {
        address,
        balance: hex(balance),
        nonce: hex(nonce),
        codeHash: hexOfBytes(codeHash(code)),
        storageHash: hexOfBytes(EMPTY_ROOT),
        accountProof: root ? proofOf(root, pathOf(address)) : [],
        storageProof: [],
      };
    },
  };
}
export const emptyState = () => stateOf({});
