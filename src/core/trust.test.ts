/** The default trust level of a source. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { defaultTrust } from './guard.ts';

const ROWS = `
http://127.0.0.1:8332              own
http://user:pass@localhost:8332    own
http://[::1]:8332                  own
http://10.1.2.3:8332               own
http://172.16.0.9:8332             own
http://172.32.0.9:8332             untrusted
http://192.168.1.4:8332            own
http://100.100.7.7:8332            own
http://[fd12::1]:8332              own
http://[2001:db8::1]:8332          untrusted
http://bitcoind:8332               own
http://bitcoind.default.svc.cluster.local:8332 own
http://host.docker.internal:8332   own
http://node.home.arpa:8332         own
http://8.8.8.8:8332                untrusted
https://btc1.trezor.io             untrusted
https://mainnet.infura.io/v3/key   untrusted
https://localhost.example.com      untrusted
https://10.0.0.1.example.com       untrusted
https://local                      own
`;
for (const row of ROWS.trim().split('\n')) {
  const [url, trust] = row.split(/\s+/) as [string, string];
  test(`${url} is ${trust}`, () => assert.equal(defaultTrust(url), trust));
}
