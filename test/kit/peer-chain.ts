/** A regtest chain of any Bitcoin-like coin for scripted peers to serve: blocks with real work, on DOGE merge-mined ones too. */
import { merkleRootOf } from '../../src/chains/bitcoin/block-proof.ts';
import { encodeHeader, idOf, meetsTarget, showHash, workHash } from '../../src/chains/bitcoin/header.ts';
import { targetOfBits } from '../../src/chains/bitcoin/header-rules.ts';
import type { WireHeader } from '../../src/chains/bitcoin/p2p/messages.ts';
import { regtestProof } from '../../src/chains/bitcoin/p2p/network-peers.ts';
import type { BitcoinFamily } from '../../src/core/coin.ts';
import { mergeMine } from './merge-mining.ts';
import { shownHash, transaction } from './regtest-chain.ts';
import { emptyChain, type ScriptedPeer, type ServedChain } from './scripted-peer.ts';

const BITS = 0x207fffff;
/** DOGE names itself in the upper half, so that no other chain counts its blocks twice. */
const VERSION: Readonly<Record<BitcoinFamily, number>> = { BTC: 0x20000000, LTC: 0x20000000, DASH: 0x20000000, DOGE: 0x620004 };
const MERGE_MINED = 0x100;

/** `paidOut`: what the first transaction pays. */
export type Mining = { transactions?: readonly Buffer[]; merged?: boolean; timeSeconds?: number; paidOut?: bigint };
export type PeerChain = {
  served: ServedChain;
  /** The hash of the tip. */
  tip(): string;
  /** Mines blocks and announces them; the transactions are in the first one. `before`: called with each hash before. Returns their hashes. */
  mine(blocks: number, how?: Mining, before?: (hash: string) => void): string[];
  /** Takes back the newest blocks, without telling anyone. */
  drop(blocks: number): void;
  /** A transaction waits: these peers announce it. */
  announce(bytes: Buffer, by: readonly ScriptedPeer[]): void;
};

/** `served`: what is there already, such as recorded headers. `peers`: who serves it. */
export function createPeerChain(family: BitcoinFamily, peers: readonly ScriptedPeer[], { served = emptyChain() } = {}): PeerChain {
  const { params, start } = regtestProof(family);
  const idText = (header: Buffer): string => showHash(idOf(params, header));
  const target = targetOfBits(BITS, params.powLimit);
  const tip = (): string => served.headers.at(-1)?.hash ?? idText(start.headers.at(-1)!);
  /** Searches the nonce in the last 80 bytes. */
  const work = (bytes: Buffer): void => {
    const header = bytes.subarray(-80);
    for (let nonce = 0; !meetsTarget(workHash(params.work, header), target); nonce++) header.writeUInt32LE(nonce, 76);
  };
  const mineOne = ({ transactions = [], merged = false, timeSeconds, paidOut = 100_000_000n }: Mining): WireHeader => {
    const all = [transaction([{ script: '51', units: paidOut }], { coinbase: true }), ...transactions];
    const last = served.headers.at(-1)?.header.bytes.readUInt32LE(68) ?? 0;
    const header = encodeHeader({
      version: VERSION[family] | (merged ? MERGE_MINED : 0),
      parent: tip(),
      merkleRoot: merkleRootOf(all.map(shownHash)),
      timeSeconds: timeSeconds ?? Math.max(last + 1, Math.floor(Date.now() / 1000) - 3_600),
      bits: BITS,
      nonce: 0,
    });
    const auxpow = merged ? mergeMine(header) : null;
    work(auxpow ?? header);
    const wire = { bytes: header, auxpow };
    const hash = idText(header);
    served.headers.push({ hash, header: wire });
    served.blocks.set(hash, Buffer.concat([header, ...(auxpow ? [auxpow] : []), Buffer.from([all.length]), ...all]));
    return wire;
  };
  return {
    served,
    tip,
    mine: (blocks, how = {}, before = () => {}) => {
      const mined = Array.from({ length: blocks }, (_, i) => mineOne(i === 0 ? how : { ...how, transactions: [] }));
      for (const { hash } of served.headers.slice(-blocks)) before(hash);
      // More than eight are announced by their hashes, as nodes do.
      for (const peer of peers)
        peer.announce(blocks > 8 ? { command: 'inv', items: [{ type: 2, hash: tip() }] } : { command: 'headers', headers: mined });
      return served.headers.slice(-blocks).map(({ hash }) => hash);
    },
    drop: (blocks) => {
      served.headers.splice(-blocks);
    },
    announce: (bytes, by) => {
      const txid = shownHash(bytes);
      served.transactions.set(txid, bytes);
      for (const peer of by) peer.announce({ command: 'inv', items: [{ type: 1, hash: txid }] });
    },
  };
}
