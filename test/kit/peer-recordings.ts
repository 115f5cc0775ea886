/** Conversations with real peers on regtest, recorded byte for byte, and the frames they were sent in. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { frame, type PeerMessage } from '../../src/chains/bitcoin/p2p/messages.ts';
import type { BitcoinFamily } from '../../src/core/coin.ts';

export type RecordedMessage = { to: 'node' | 'us'; command: string; payload: Buffer };
export type Recording = {
  coin: BitcoinFamily;
  magic: Buffer;
  conversations: { name: string; messages: RecordedMessage[] }[];
};
export const RECORDED_COINS = ['BTC', 'LTC', 'DOGE'] as const;

const FIXTURES = join(import.meta.dirname, '../fixtures/p2p');

export function readRecording(coin: (typeof RECORDED_COINS)[number]): Recording {
  const { magic, conversations } = JSON.parse(readFileSync(join(FIXTURES, `${coin.toLowerCase()}.json`), 'utf8')) as {
    magic: string;
    conversations: { name: string; messages: { to: 'node' | 'us'; command: string; payload: string }[] }[];
  };
  return {
    coin,
    magic: Buffer.from(magic, 'hex'),
    conversations: conversations.map(({ name, messages }) => ({
      name,
      messages: messages.map((message) => ({ ...message, payload: Buffer.from(message.payload, 'hex') })),
    })),
  };
}

/** All recorded messages of a coin. */
export const recordedMessages = (coin: (typeof RECORDED_COINS)[number]): RecordedMessage[] =>
  readRecording(coin).conversations.flatMap(({ messages }) => messages);

/** Dogecoin headers 974401 to 974411 with their merge-mining proofs, each as in a `headers` message. */
export const readMergeMinedHeaders = (): Extract<PeerMessage, { command: 'headers' }>['headers'] =>
  readFileSync(join(FIXTURES, 'doge-auxpow-974401.hex'), 'utf8')
    .trim()
    .split('\n')
    .map((line) => Buffer.from(line, 'hex'))
    .map((bytes) => ({ bytes: bytes.subarray(0, 80), auxpow: bytes.subarray(80) }));

/** What one side of a conversation sent. */
export const streamOf = ({ magic }: Recording, messages: readonly RecordedMessage[], to: 'node' | 'us'): Buffer =>
  Buffer.concat(messages.filter((message) => message.to === to).map(({ command, payload }) => frame(magic, command, payload)));
