/** Which URLs of merchants may be requested, by form, port and addresses, without a network. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkAddresses, literalOf, parseMerchantUrl } from './http-client.ts';
import { OutgoingError } from './outgoing.ts';

const addressOf = (address: string) => ({ address, family: address.includes(':') ? 6 : 4 });
/** Why a URL is refused when its host resolves to these addresses; the addresses to connect to when it is not. */
function judge(text: string, addresses: readonly string[], allowed: readonly string[] = []): string {
  try {
    return checkAddresses(parseMerchantUrl(text), addresses.map(addressOf), (_host, address) => allowed.includes(address))
      .map(({ address }) => address)
      .join(' ');
  } catch (error) {
    assert.ok(error instanceof OutgoingError);
    return `${error.class}: ${error.message}`;
  }
}

test('the form of a URL: http or https, a host, no password, at most 2,048 characters', () => {
  assert.equal(parseMerchantUrl('https://Hooks.Example./path?a=1').host, 'hooks.example');
  assert.equal(parseMerchantUrl('https://[2606:4700::1]/').host, '2606:4700::1');
  for (const [text, reason] of [
    ['hooks.example', 'it is not a URL'],
    ['ftp://hooks.example', 'it must start with https://'],
    ['https://user@hooks.example', 'it must not contain a user name or password'],
    ['https://:secret@hooks.example', 'it must not contain a user name or password'],
    ['https://./', 'it must name a host'],
    [`https://hooks.example/${'a'.repeat(2_048)}`, 'it must have at most 2048 characters'],
  ] as const)
    assert.equal(judge(text, ['1.1.1.1']), `invalid_url: ${reason}`, text);
});

test('one private address among several refuses a host; an opened network allows http and any port', () => {
  assert.equal(judge('https://hooks.example', ['1.1.1.1', '2606:4700::1']), '1.1.1.1 2606:4700::1');
  assert.equal(judge('https://hooks.example', []), 'dns: the host hooks.example does not resolve');
  assert.equal(judge('https://hooks.example', ['1.1.1.1', '10.0.0.1']), 'refused_address: its host must resolve to a public address');
  assert.equal(judge('http://hooks.example', ['1.1.1.1']), 'invalid_url: it must start with https://');
  assert.equal(judge('http://hooks.example:22', ['10.0.0.1'], ['10.0.0.1']), '10.0.0.1');
  assert.equal(
    judge('http://hooks.example', ['10.0.0.1', '1.1.1.1'], ['10.0.0.1']),
    'refused_address: its host must resolve to a public address',
  );
});

test('ports of other services are refused', () => {
  for (const port of [443, 1024, 8443, 65_535]) assert.equal(judge(`https://hooks.example:${port}`, ['1.1.1.1']), '1.1.1.1');
  for (const port of [22, 80, 1023, 5432, 6379]) {
    assert.equal(judge(`https://hooks.example:${port}`, ['1.1.1.1']), `refused_address: webhooks cannot use port ${port}`);
  }
});

test('an address in place of a name is not looked up', () => {
  assert.deepEqual(literalOf(parseMerchantUrl('https://1.1.1.1/')), { address: '1.1.1.1', family: 4 });
  assert.deepEqual(literalOf(parseMerchantUrl('https://[2606:4700::1]/')), { address: '2606:4700::1', family: 6 });
  assert.equal(literalOf(parseMerchantUrl('https://hooks.example/')), null);
  assert.deepEqual(literalOf(parseMerchantUrl('https://0x7f.1/')), { address: '127.0.0.1', family: 4 }, 'other ways to write an address');
});
