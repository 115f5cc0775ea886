/** The official examples of NIP-44 and NIP-47. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { conversationKey, decryptText, encryptText, publicKeyOf, readEvent, signEvent } from './nostr.ts';

const { nip44, nip47 } = JSON.parse(readFileSync('test/fixtures/lightning/vectors.json', 'utf8'));
const { valid, invalid } = nip44.v2;
const bytes = (hex: string): Uint8Array => Buffer.from(hex, 'hex');
const hex = (of: Uint8Array): string => Buffer.from(of).toString('hex');
const sha = (text: string): string => createHash('sha256').update(text).digest('hex');

test('all official keys of conversations are computed, and invalid keys are refused', () => {
  for (const { sec1, pub2, conversation_key: key } of valid.get_conversation_key) assert.equal(hex(conversationKey(sec1, pub2)), key);
  for (const { sec1, pub2 } of invalid.get_conversation_key) assert.throws(() => conversationKey(sec1, pub2));
  assert.ok(valid.get_conversation_key.length > 30 && invalid.get_conversation_key.length > 5);
});

test('all official messages are encrypted to the same bytes, and read', () => {
  for (const { sec1, sec2, conversation_key: key, nonce, plaintext, payload } of valid.encrypt_decrypt) {
    assert.equal(hex(conversationKey(sec1, publicKeyOf(sec2))), key);
    assert.equal(encryptText(bytes(key), plaintext, bytes(nonce)), payload);
    assert.equal(decryptText(bytes(key), payload), plaintext);
  }
  for (const one of valid.encrypt_decrypt_long_msg) {
    const text = one.pattern.repeat(one.repeat);
    const payload = encryptText(bytes(one.conversation_key), text, bytes(one.nonce));
    assert.deepEqual([sha(text), sha(payload)], [one.plaintext_sha256, one.payload_sha256]);
    assert.equal(decryptText(bytes(one.conversation_key), payload), text);
  }
  assert.ok(valid.encrypt_decrypt.length > 5 && valid.encrypt_decrypt_long_msg.length > 1);
});

test('all official lengths are padded alike', () => {
  const key = bytes('11'.repeat(32));
  for (const [length, padded] of valid.calc_padded_len) {
    if (length > 65_535) continue;
    const payload = Buffer.from(encryptText(key, 'a'.repeat(length), bytes('22'.repeat(32))), 'base64');
    assert.equal(payload.length, 1 + 32 + 2 + padded + 32);
  }
});

test('all official payloads that were changed are refused, and so are texts of a wrong length', () => {
  for (const { conversation_key: key, payload, note } of invalid.decrypt) assert.throws(() => decryptText(bytes(key), payload), note);
  assert.ok(invalid.decrypt.length > 5);
  for (const length of [0, 65_536, 100_000])
    assert.throws(() => encryptText(bytes('11'.repeat(32)), 'a'.repeat(length), bytes('22'.repeat(32))));
});

test('a request over NWC is signed to the same bytes, and an event that was changed is not read', () => {
  const key = conversationKey(nip47.secret, nip47.wallet_pubkey);
  assert.deepEqual([hex(key), publicKeyOf(nip47.secret)], [nip47.conversation_key, nip47.client_pubkey]);
  const content = encryptText(key, nip47.request_plaintext, bytes(nip47.nonce));
  const { created_at, kind, tags } = nip47.event;
  const event = signEvent(nip47.secret, { created_at, kind, tags, content }, bytes(nip47.aux_rand));
  assert.deepEqual(event, nip47.event);
  assert.deepEqual(readEvent(event), event);
  const changes = [
    { content: `${content}A` },
    { kind: 1 },
    { id: '00'.repeat(32) },
    { sig: '00'.repeat(64) },
    { pubkey: nip47.wallet_pubkey },
    { tags: [] },
  ];
  for (const change of changes) assert.equal(readEvent({ ...event, ...change }), null, JSON.stringify(change));
  for (const other of [null, 'text', {}, { ...event, sig: 'zz' }, { ...event, created_at: '1' }]) assert.equal(readEvent(other), null);
});
