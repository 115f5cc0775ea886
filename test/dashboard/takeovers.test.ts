/** Nothing that a member set going takes effect after they are removed or lose the role for it. */
// Invariant: Nothing that a member set going takes effect after they are removed or lose the role for it.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { HDKey } from '@scure/bip32';
import type { MemberRole } from '../../src/core/roles.ts';
import { createMerchant, setPlan } from '../../src/merchants/merchants.ts';
import { claimShopRefund } from '../../src/shops/shop-refunds.ts';
import { applyDueChanges } from '../../src/wallets/wallet-changes.ts';
import { asIfFollowed, eventually, startTestApp, type TestApp } from '../kit/app.ts';
import { ageRoles, joinTeam, Person, setUpFactor, setUpPerson } from '../kit/person.ts';

const ADDRESS = 'bc1q34aq5drpuwy3wgl9lhup9892qp6svr8ldzyy7c';
const SECOND_FACTOR = 'second_factor_required';
let app: TestApp;
let owner: Person;
let second: Person;
let shop: { api_key: string; store_id: string };
const sqlOf = () => app.app.ctx.db.sql;

before(async () => {
  // The node is never called: it only makes the coin a configured one.
  app = await startTestApp({
    ...{ BTC_NODE_URL: 'http://user:pass@127.0.0.1:9', BTC_NETWORK: 'mainnet' },
    ...{ TRUSTED_PROXIES: '127.0.0.1', LOG_LEVEL: 'silent' },
  });
  await asIfFollowed(app, 'BTC');
  owner = await setUpPerson(app);
  second = await join('finance', 'second@shop.example');
  await ageRoles(app);
  await ok(owner.post('/live/settings/business', { refund_limit_usd: 5 }));
  await ok(takeKey(owner, 1));
  shop = await ok(owner.post('/test/shops', { platform: 'woocommerce', name: 'Shop' }));
});
after(() => app?.stop());

async function ok(asked: Promise<{ status: number; text: string; json: any }>): Promise<any> {
  const { status, text, json } = await asked;
  assert.equal(status, 200, text);
  return json;
}
/** Each person has their own, because attempts to join are limited for each address. */
let addresses = 0;
const newAddress = () => `198.18.${addresses >> 8}.${addresses++ & 255}`;
const join = (role: string, email: string) => joinTeam(app, { by: owner, role, email, address: newAddress() });
/** Nothing listens there. */
const hook = (port: number) => `http://127.0.0.1:${port}/hook`;
const codeOf = ({ status, json }: { status: number; json: any }) => [status, json?.error?.code];
const keyOf = (seed: number) => HDKey.fromMasterSeed(new Uint8Array(32).fill(seed)).derive("m/84'/0'/0'").publicExtendedKey;
async function takeKey(person: Person, seed: number) {
  const { addresses: first } = await ok(owner.post('/live/wallets/preview', { currency: 'BTC', key: keyOf(seed) }));
  return person.post('/live/wallets', { currency: 'BTC', key: keyOf(seed), script: 'p2wpkh', ends: first[0].address.slice(-6) });
}
const bitcoin = async () => (await ok(owner.get('/live/wallets'))).wallets.find((one: any) => one.currency === 'BTC');
const idOf = async (email: string): Promise<string> =>
  (await sqlOf()<{ id: string }[]>`select id from users where email = ${email}`)[0]!.id;
const tokenOf = (url: string) => new URL(url).hash.slice(1);
async function accept(token: string) {
  const person = new Person(app.url);
  person.address = newAddress();
  const reply = await person.post('/invite/accept', { token, name: 'Puppet', password: person.password });
  return { person, reply };
}
const auditOf = async (action: string, object: string) =>
  (await sqlOf()`select 1 from audit_log where action = ${action} and object = ${object}`).length;
async function paid(): Promise<string> {
  const { id } = (await app.test.post('/api/payment/create/simple', { amount_usd: '100.00', return_url: 'https://shop.example/' })).json;
  await app.test.post(`/v1/test/payments/${id}/simulate`, { scenario: 'success', currency: 'BTC' });
  await eventually(
    () => app.test.get(`/api/payment/${id}`),
    ({ json }) => json.status === 'completed',
  );
  return id;
}
/** A refund that a shop requested and that fits no payment, with the address of its customer. */
async function unmatchedRefund({ isClaimed = true } = {}): Promise<string> {
  const reply = await fetch(`${app.url}/btcpay/api/v1/stores/${shop.store_id}/pull-payments`, {
    method: 'POST',
    headers: { authorization: `token ${shop.api_key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'Without an order', amount: '10.00', currency: 'USD' }),
  });
  const { id } = (await reply.json()) as { id: string };
  if (isClaimed) await claimShopRefund(app.app.ctx, { link: id, coin: 'BTC', address: 'test_btc_customer' });
  return id;
}
/** Enters an address on the page of a claim link. */
const enter = (url: string) =>
  fetch(app.url + new URL(url).pathname, {
    method: 'POST',
    redirect: 'manual',
    body: new URLSearchParams({ address: 'test_btc_entered', coin: 'BTC', checked: 'yes' }),
  });
const payoutBody = (reference: string) => ({ currency: 'BTC', amount_usd: '10.00', address: ADDRESS, payout_reference: reference });
const refundBody = (payment_id: string, amount_usd = '10.00') => ({ payment_id, address: 'test_btc_payer', amount_usd });

/** What a member sets going: the role that may, the role that may not any more, and whether it took effect in the end. */
type Authority = {
  name: string;
  role: MemberRole;
  demoted: MemberRole;
  begin(rogue: Person, email: string): Promise<{ tookEffect(): Promise<boolean>; audited: [action: string, object: string] }>;
};
const invites = (role: MemberRole, by: MemberRole, demoted: MemberRole): Authority => ({
  name: `an invite as ${role}`,
  role: by,
  demoted,
  begin: async (rogue, email) => {
    const { url } = await ok(rogue.post('/test/team/invites', { email: `puppet-${email}`, role }));
    return {
      audited: ['invite.revoked', `puppet-${email}`],
      tookEffect: async () => {
        const { person, reply } = await accept(tokenOf(url));
        if (reply.status !== 200) assert.deepEqual(codeOf(reply), [404, 'invite_invalid']);
        return (await person.get('/test/me')).status === 200;
      },
    };
  },
});
let seed = 10;
const AUTHORITIES: readonly Authority[] = [
  invites('owner', 'owner', 'admin'),
  invites('finance', 'owner', 'admin'),
  invites('admin', 'admin', 'developer'),
  invites('viewer', 'admin', 'support'),
  {
    name: 'a wallet change',
    role: 'admin',
    demoted: 'finance',
    begin: async (rogue) => {
      const mine = ++seed;
      assert.notEqual((await ok(takeKey(rogue, mine))).due_at, null);
      return {
        audited: ['wallet.change_dropped', 'BTC'],
        tookEffect: async () => {
          await sqlOf()`update wallet_changes set due_at = now() - interval '1 second'`;
          await applyDueChanges(app.app.ctx);
          return keyOf(mine).endsWith((await bitcoin()).key.slice(-6));
        },
      };
    },
  },
  {
    name: 'turning off the waiting period',
    role: 'owner',
    demoted: 'admin',
    begin: async (rogue) => {
      await ok(rogue.post('/live/wallets/wait', { waits: false }));
      return {
        audited: ['wallet.wait_on', app.merchant.merchantId],
        tookEffect: async () => {
          await sqlOf()`update wallet_waits_off set due_at = now() - interval '1 second'`;
          return (await ok(owner.get('/live/wallets'))).wait_off?.is_off === true;
        },
      };
    },
  },
  {
    name: 'a destination of sweeps',
    role: 'finance',
    demoted: 'admin',
    begin: async (rogue) => {
      await ok(rogue.post('/live/sweep-destinations', { currency: 'BTC', address: ADDRESS, ends: ADDRESS.slice(-6) }));
      return {
        audited: ['sweep.destination_dropped', 'BTC'],
        tookEffect: async () => {
          await sqlOf()`update sweep_destinations set due_at = now() - interval '1 second'`;
          const { destinations } = await ok(owner.get('/live/sweeps/overview'));
          return destinations.find((one: any) => one.currency === 'BTC').current !== null;
        },
      };
    },
  },
  {
    name: 'the first approval of a refund',
    role: 'finance',
    demoted: 'support',
    begin: async (rogue, email) => {
      const asked = await app.test.post('/v1/refunds', { payment_id: await paid(), amount_usd: '10.00', address: 'test_btc_payer' });
      const { id } = asked.json;
      assert.equal((await ok(rogue.post(`/test/refunds/${id}/approve`))).refund.status, 'requested');
      return {
        audited: ['approvals.forgotten', await idOf(email)],
        tookEffect: async () => (await ok(second.post(`/test/refunds/${id}/approve`))).refund.status !== 'requested',
      };
    },
  },
  {
    name: 'the first approval of a refund that fits no payment',
    role: 'finance',
    demoted: 'support',
    begin: async (rogue, email) => {
      const id = await unmatchedRefund();
      assert.equal((await ok(rogue.post(`/test/shop-refunds/${id}/approve`))).approved, false);
      return {
        audited: ['approvals.forgotten', await idOf(email)],
        tookEffect: async () => (await ok(second.post(`/test/shop-refunds/${id}/approve`))).approved,
      };
    },
  },
  {
    name: 'the request of a refund, as one of two members',
    role: 'support',
    demoted: 'viewer',
    begin: async (rogue, email) => {
      const { refund } = await ok(rogue.post('/test/refunds', refundBody(await paid())));
      return {
        audited: ['approvals.forgotten', await idOf(email)],
        tookEffect: async () => (await ok(second.post(`/test/refunds/${refund.id}/approve`))).refund.status !== 'requested',
      };
    },
  },
  {
    name: 'the first approval of a payout',
    role: 'finance',
    demoted: 'admin',
    begin: async (rogue, email) => {
      const asked = await app.test.post('/v1/payouts', {
        ...{ currency: 'BTC', amount_usd: '10.00', address: ADDRESS, payout_reference: `first-${email}` },
      });
      const { id } = asked.json;
      assert.equal((await ok(rogue.post(`/test/payouts/${id}/approve`))).payout.status, 'requested');
      return {
        audited: ['approvals.forgotten', await idOf(email)],
        tookEffect: async () => (await ok(second.post(`/test/payouts/${id}/approve`))).payout.status !== 'requested',
      };
    },
  },
  {
    name: 'the request of a payout, as one of two members',
    role: 'admin',
    demoted: 'developer',
    begin: async (rogue, email) => {
      const { payout } = await ok(rogue.post('/live/payouts', payoutBody(`request-${email}`)));
      return {
        audited: ['approvals.forgotten', await idOf(email)],
        tookEffect: async () => (await ok(second.post(`/live/payouts/${payout.id}/approve`))).payout.status !== 'requested',
      };
    },
  },
];

const ENDS: Readonly<Record<string, (id: string, authority: Pick<Authority, 'demoted'>) => Promise<unknown>>> = {
  'is removed': (id) => ok(owner.send('DELETE', `/test/team/members/${id}`, {})),
  'is demoted': (id, { demoted }) => ok(owner.post(`/test/team/members/${id}/role`, { role: demoted })),
};
let people = 0;
async function newRogue(role: MemberRole) {
  const email = `rogue${++people}@shop.example`;
  const rogue = await join(role, email);
  await ageRoles(app);
  return { rogue, email, id: await idOf(email) };
}

for (const authority of AUTHORITIES)
  for (const [event, end] of Object.entries(ENDS))
    test(`${authority.name} does not take effect after the member with the role ${authority.role} who began it ${event}, and the audit log says so`, async () => {
      const { rogue, email, id } = await newRogue(authority.role);
      const { tookEffect, audited } = await authority.begin(rogue, email);
      const before = await auditOf(...audited);
      await end(id, authority);
      assert.equal(await auditOf(...audited), before + 1);
      assert.equal(await tookEffect(), false);
    });

/** Links that a member with the role support copied, each with where the merchant finds the one that works now. */
const LINKS: Readonly<
  Record<string, (rogue: Person) => Promise<{ copied: string; now(): Promise<{ url: string; isTold: boolean; address: string | null }> }>>
> = {
  'the claim link of a refund': async (rogue) => {
    const { id } = (await app.test.post('/v1/refunds', { payment_id: await paid(), amount_usd: '10.00' })).json;
    const read = async (person: Person) => (await ok(person.get(`/test/refunds/${id}`))).refund;
    return {
      copied: (await read(rogue)).claim.url,
      now: async () => {
        const { claim, address } = await read(owner);
        return { url: claim?.url, isTold: claim?.is_unsent, address };
      },
    };
  },
  'the link of a refund that fits no payment': async (rogue) => {
    const id = await unmatchedRefund({ isClaimed: false });
    const read = async (person: Person) => (await ok(person.get('/test/shop-refunds'))).data.find((one: any) => one.id === id);
    return {
      copied: (await read(rogue)).url,
      now: async () => {
        const { url, link_ended: isTold, address } = await read(owner);
        return { url, isTold, address };
      },
    };
  },
};
for (const [name, copy] of Object.entries(LINKS)) {
  for (const [event, end] of Object.entries(ENDS))
    test(`${name} ends when a member who could have copied it ${event}, and the merchant has to send the new one`, async () => {
      const { rogue, id } = await newRogue('support');
      const { copied, now } = await copy(rogue);
      await end(id, { demoted: 'viewer' });
      assert.equal(await auditOf('team.claim_links_ended', id), 1);
      const { url, isTold } = await now();
      assert.deepEqual([url === copied, isTold], [false, true]);
      assert.equal((await enter(copied)).status, 404);
      assert.equal((await now()).address, null);
      assert.equal((await enter(url)).status, 303);
      assert.equal((await now()).address, 'test_btc_entered');
    });
  test(`${name} stays when a member leaves who never saw it, or whose new role shows it too`, async () => {
    const [viewer, support] = [await newRogue('viewer'), await newRogue('support')];
    const { copied, now } = await copy(support.rogue);
    await ok(owner.send('DELETE', `/test/team/members/${viewer.id}`, {}));
    await ok(owner.post(`/test/team/members/${support.id}/role`, { role: 'finance' }));
    assert.deepEqual(await now(), { url: copied, isTold: false, address: null });
    assert.equal((await enter(copied)).status, 303);
  });
}
test('a new link of a refund that fits no payment ends the one before', async () => {
  const id = await unmatchedRefund({ isClaimed: false });
  const listed = async () => (await ok(owner.get('/test/shop-refunds'))).data.find((one: any) => one.id === id);
  const before = await listed();
  await ok(owner.post(`/test/shop-refunds/${id}/renew`, {}));
  assert.equal((await enter(before.url)).status, 404);
  assert.equal((await enter((await listed()).url)).status, 303);
});

test('nothing takes effect either when a membership ended without anything being cleaned up', async () => {
  for (const authority of AUTHORITIES) {
    const { rogue, email, id } = await newRogue(authority.role);
    const { tookEffect } = await authority.begin(rogue, email);
    await sqlOf()`delete from members where user_id = ${id}`;
    assert.equal(await tookEffect(), false, authority.name);
    await sqlOf()`delete from wallet_waits_off`;
    await sqlOf()`update sweep_destinations set dropped_at = now()`;
  }
});

test('nothing of it comes back with a member who is removed and invited again', async () => {
  for (const authority of AUTHORITIES) {
    const { rogue, email, id } = await newRogue(authority.role);
    const { tookEffect } = await authority.begin(rogue, email);
    await ok(owner.send('DELETE', `/test/team/members/${id}`, {}));
    await sqlOf()`
      insert into members (merchant_id, user_id, role, role_since)
      values (${app.merchant.merchantId}, ${id}, ${authority.role}, now() - interval '2 days')`;
    assert.equal(await tookEffect(), false, authority.name);
  }
});

test('what is in effect stays when the member who asked for it leaves later', async () => {
  const { rogue, id } = await newRogue('owner');
  await ok(rogue.post('/live/sweep-destinations', { currency: 'BTC', address: ADDRESS, ends: ADDRESS.slice(-6) }));
  await ok(rogue.post('/live/wallets/wait', { waits: false }));
  await sqlOf()`update sweep_destinations set due_at = now() - interval '1 second' where dropped_at is null`;
  await sqlOf()`update wallet_waits_off set due_at = now() - interval '1 second'`;
  await ok(owner.send('DELETE', `/test/team/members/${id}`, {}));
  const { destinations } = await ok(owner.get('/live/sweeps/overview'));
  assert.equal(destinations.find((one: any) => one.currency === 'BTC').current.address, ADDRESS);
  assert.equal((await ok(owner.get('/live/wallets'))).wait_off.is_off, true);
  await ok(owner.post('/live/wallets/wait', { waits: true }));
  await sqlOf()`update sweep_destinations set dropped_at = now()`;
});

test('without a removal each of them does take effect', async () => {
  for (const authority of AUTHORITIES) {
    const { rogue, email } = await newRogue(authority.role);
    const { tookEffect } = await authority.begin(rogue, email);
    assert.equal(await tookEffect(), true, authority.name);
    await sqlOf()`delete from wallet_waits_off`;
    await sqlOf()`update sweep_destinations set dropped_at = now()`;
  }
});

test('who is removed in the moment between the request and its transaction sets nothing going', async () => {
  const { ctx } = app.app;
  const { id } = await newRogue('viewer');
  const actor = { userId: id, name: 'Rogue', ip: '' };
  const { importAccountKey, setWait } = await import('../../src/wallets/wallet-changes.ts');
  const { setDestination } = await import('../../src/wallets/destinations.ts');
  const { inviteMember } = await import('../../src/people/team.ts');
  const { merchantId } = app.merchant;
  const preview = await ok(owner.post('/live/wallets/preview', { currency: 'BTC', key: keyOf(9) }));
  const ends = preview.addresses[0].address.slice(-6);
  const asks = {
    wallet: () => importAccountKey(ctx, { merchantId, coin: 'BTC', accountKey: keyOf(9), script: 'p2wpkh', ends, actor }),
    wait: () => setWait(ctx, { merchantId, waits: false, actor }),
    destination: () => setDestination(ctx, { merchantId, coin: 'BTC', address: ADDRESS, ends: ADDRESS.slice(-6), actor }),
  };
  for (const [name, ask] of Object.entries(asks)) await assert.rejects(ask, { code: 'action_not_permitted' }, name);
  const invite = () => inviteMember(ctx, { manager: { merchantId, actor }, email: 'late@shop.example', role: 'viewer' });
  await assert.rejects(invite, { code: 'role_out_of_reach' });
  await ok(owner.send('DELETE', `/test/team/members/${id}`, {}));
  for (const [name, ask] of Object.entries({ ...asks, invite })) await assert.rejects(ask, { code: 'member_not_found' }, name);
});

test('an accepted invite and the removal of its sender at the same time end with one of the two, never with a member nobody answers for', async () => {
  for (let round = 0; round < 8; round++) {
    const { rogue, email, id } = await newRogue('admin');
    const { url } = await ok(rogue.post('/test/team/invites', { email: `race-${email}`, role: 'admin' }));
    const [accepted, removed] = await Promise.all([accept(tokenOf(url)), owner.send('DELETE', `/test/team/members/${id}`, {})]);
    assert.equal(removed.status, 200);
    const order = await sqlOf()<{ action: string }[]>`
      select action from audit_log where (action = 'member.joined' and object <> ${id} and actor_name = 'Puppet' and id > (
        select max(id) from audit_log where action = 'member.invited' and object = ${`race-${email}`}))
        or (action = 'member.removed' and object = ${id}) order by id`;
    // Joined before the removal, or not at all.
    if (accepted.reply.status === 200)
      assert.deepEqual(
        order.map(({ action }) => action),
        ['member.joined', 'member.removed'],
      );
    else assert.deepEqual([codeOf(accepted.reply), order.map(({ action }) => action)], [[404, 'invite_invalid'], ['member.removed']]);
    assert.equal((await sqlOf()`select 1 from invites where email = ${`race-${email}`}`).length, 0);
  }
});

test('removing a member ends the keys, endpoints and shops that are named, in the same step; others keep working', async () => {
  const { rogue, id } = await newRogue('developer');
  const key = async (name: string) => ok(rogue.post('/live/keys', { kind: 'secret', name, expires_in_days: null, origins: [] }));
  const [ended, kept] = [await key('rogue key'), await key('shop key')];
  const shop = await ok(rogue.post('/live/shops', { platform: 'woocommerce', name: 'Rogue shop' }));
  const stores = async () =>
    (await fetch(`${app.url}/btcpay/api/v1/stores`, { headers: { authorization: `token ${shop.api_key}` } })).status;
  assert.equal(await stores(), 200);
  const [shopRow] = await sqlOf()<{ id: string }[]>`select id from shop_keys where made_by = ${id}`;
  const { endpoint } = await ok(rogue.post('/test/webhooks', { url: hook(7) }));
  const { made } = await ok(owner.get(`/test/team/members/${id}/made`));
  assert.deepEqual(
    made.map((one: any) => [one.mode, one.kind, one.name]),
    [
      ['live', 'key', 'rogue key'],
      ['live', 'key', 'shop key'],
      ['live', 'shop', 'Rogue shop'],
      ['test', 'endpoint', hook(7)],
    ],
  );
  const remove = (ends: string[]) => owner.send('DELETE', `/test/team/members/${id}`, { ends });
  const [foreign] = await sqlOf()<{ id: string }[]>`select id from keys where made_by is null limit 1`;
  const refused = await remove([ended.key.id, foreign!.id]);
  assert.deepEqual([refused.status, refused.json.error.code, refused.json.error.param], [400, 'parameter_invalid', 'ends']);
  assert.equal((await rogue.get('/test/me')).status, 200, 'nothing of a refused step happened');
  assert.equal((await app.as(ended.text).get('/api/payments')).status, 200);
  await ok(remove([ended.key.id, endpoint.id, shopRow!.id]));
  await eventually(
    () => app.as(ended.text).get('/api/payments'),
    ({ status }) => status === 401,
  );
  assert.equal((await app.as(kept.text).get('/api/payments')).status, 200);
  assert.equal((await ok(owner.get(`/test/webhooks/${endpoint.id}`))).endpoint.enabled, false);
  await eventually(stores, (status) => status === 401);
  for (const [action, object] of [
    ['key.revoked', ended.key.id],
    ['endpoint.update', endpoint.id],
    ['shop.disconnected', shopRow!.id],
  ])
    assert.equal(await auditOf(action!, object!), 1, action);
  assert.deepEqual(
    (await ok(owner.get(`/test/team/members/${id}/made`))).made.map((one: any) => one.name),
    ['shop key'],
  );
});

test('an endpoint belongs to the member who last decided where its events go', async () => {
  const { rogue, id } = await newRogue('developer');
  const { endpoint } = await ok(owner.post('/live/webhooks', { url: hook(8) }));
  const madeBy = async () => (await ok(owner.get(`/test/team/members/${id}/made`))).made.map((one: any) => one.id);
  await ok(rogue.post(`/live/webhooks/${endpoint.id}`, { description: 'Ours' }));
  assert.deepEqual(await madeBy(), []);
  await ok(rogue.post(`/live/webhooks/${endpoint.id}`, { url: hook(9) }));
  assert.deepEqual(await madeBy(), [endpoint.id]);
  await ok(owner.post(`/test/team/members/${id}/role`, { role: 'viewer', ends: [endpoint.id] }));
  assert.equal((await ok(owner.get(`/live/webhooks/${endpoint.id}`))).endpoint.enabled, false);
});

test('an admin cannot approve a payout: not with the limit lifted, not as finance, not with a second mailbox', async () => {
  const { rogue, email, id } = await newRogue('admin');
  const { payout } = await ok(rogue.post('/live/payouts', { ...payoutBody(`mine-${email}`), amount_usd: '50000.00' }));
  for (const refused of [
    await rogue.post('/live/settings/business', { refund_limit_usd: null }),
    await rogue.post(`/live/team/members/${id}/role`, { role: 'finance' }),
    await rogue.post(`/live/team/members/${id}/role`, { role: 'owner' }),
    await rogue.post('/live/team/invites', { email: 'puppet@shop.example', role: 'finance' }),
    await rogue.post(`/live/team/members/${await idOf('second@shop.example')}/role`, { role: 'viewer' }),
    await rogue.send('DELETE', `/live/team/members/${await idOf('second@shop.example')}`, {}),
    await rogue.post(`/live/payouts/${payout.id}/approve`),
  ])
    assert.equal(refused.status, 403, refused.text);
  assert.equal((await ok(owner.get('/live/settings/business'))).refund_limit_usd, 5);
  // Other settings of the same form, and the same limit again, are allowed.
  await ok(rogue.post('/live/settings/business', { display_currency: 'EUR', refund_limit_usd: 5 }));
  assert.equal(
    (await ok(second.post(`/live/payouts/${payout.id}/approve`))).payout.status,
    'approved',
    'with a member of finance, who is another person',
  );
});

test('an admin cannot put back the limit that an owner is changing at the same moment', async () => {
  const { rogue } = await newRogue('admin');
  const { merchantId } = app.merchant;
  let put: Promise<{ status: number; json: any }> | undefined;
  await ok(rogue.get('/live/settings/business'));
  await sqlOf().begin(async (tx) => {
    await tx`update merchants set settings = settings || '{"refundLimitUsdCents": 300}' where id = ${merchantId}`;
    put = rogue.post('/live/settings/business', { refund_limit_usd: 5 });
    await eventually(
      () => sqlOf()`select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
      (waiting) => waiting.length > 0,
    );
  });
  assert.deepEqual(codeOf(await put!), [403, 'action_not_permitted']);
  const [stored] = await sqlOf()`select settings->'refundLimitUsdCents' as cents from merchants where id = ${merchantId}`;
  assert.equal(Number(stored!.cents), 300);
  await ok(owner.post('/live/settings/business', { refund_limit_usd: 5 }));
});

test('an admin cannot take away an invite that only owners give, by inviting the same address to another role', async () => {
  const { rogue, email } = await newRogue('admin');
  const { url } = await ok(owner.post('/test/team/invites', { email: `cfo-${email}`, role: 'finance' }));
  const again = await rogue.post('/test/team/invites', { email: `cfo-${email}`, role: 'admin' });
  assert.deepEqual(codeOf(again), [403, 'role_out_of_reach']);
  assert.equal((await accept(tokenOf(url))).reply.status, 200, 'the owner’s invite still works');
});

test('who loses the role in between no longer turns off the second factor of the team', async () => {
  const { id } = await newRogue('viewer');
  const { requireSecondFactor } = await import('../../src/people/team.ts');
  const manager = { merchantId: app.merchant.merchantId, actor: { userId: id, name: 'Rogue', ip: '' } };
  await assert.rejects(requireSecondFactor(app.app.ctx, { manager, required: false, hasSecondFactor: true }), {
    code: 'action_not_permitted',
  });
});

test('above the limit a member counts once their role is a day old, as the first and as the second of two', async () => {
  const email = `fresh${++people}@shop.example`;
  const fresh = await join('finance', email);
  const asked = async (person: Person) => (await ok(person.post('/live/payouts', payoutBody(`fresh-${++people}`)))).payout.id;
  const approve = (person: Person, id: string) => person.post(`/live/payouts/${id}/approve`);
  // As the second: the owner asked.
  const first = await asked(owner);
  const early = await approve(fresh, first);
  assert.deepEqual(codeOf(early), [409, 'role_too_new']);
  assert.match(early.json.error.message, /Your approvals of more than \$5\.00 count from 20\d\d-\d\d-\d\d \d\d:\d\d UTC/);
  // As the first: they asked, and the owner approves. Two other members are needed.
  const own = await asked(fresh);
  assert.equal((await ok(approve(owner, own))).payout.status, 'requested');
  const approved = (await ok(approve(second, own))).payout;
  assert.deepEqual([approved.status, approved.approved_by], ['approved', 'Olga Owner and second']);
  // Up to the limit a new role is enough.
  const { payout: small } = await ok(fresh.post('/live/payouts', { ...payoutBody(`small-${++people}`), amount_usd: '1.00' }));
  assert.equal((await ok(approve(fresh, small.id))).payout.status, 'approved');
  await ageRoles(app);
  assert.equal((await ok(approve(fresh, first))).payout.status, 'approved');
});

test('small requests of a new member do not let one member approve more than the limit', async () => {
  const approver = await newRogue('finance');
  const helper = await join('support', `helper${++people}@shop.example`);
  const payment = await paid();
  const states: string[] = [];
  for (let i = 0; i < 3; i++) {
    const { refund } = await ok(helper.post('/test/refunds', refundBody(payment, '2.00')));
    states.push((await ok(approver.rogue.post(`/test/refunds/${refund.id}/approve`))).refund.status);
  }
  assert.deepEqual(states, ['confirmed', 'confirmed', 'requested'], 'six dollars are more than five');
});

test('what was canceled after it was in a signing file still counts toward the limit of a member', async () => {
  const { rogue } = await newRogue('finance');
  const ask = async () => (await ok(rogue.post('/live/payouts', { ...payoutBody(`kept-${++people}`), amount_usd: '3.00' }))).payout.id;
  const first = await ask();
  assert.equal((await ok(rogue.post(`/live/payouts/${first}/approve`))).payout.status, 'approved');
  // Canceled without a file, it is as if it had never been approved.
  await ok(rogue.post(`/live/payouts/${first}/cancel`));
  const again = await ask();
  assert.equal((await ok(rogue.post(`/live/payouts/${again}/approve`))).payout.status, 'approved');
  await sqlOf()`update outgoing_payments set anchor = ${`${'ab'.repeat(32)}:0`} where id = ${again}`;
  await ok(rogue.post(`/live/payouts/${again}/cancel`));
  const more = await rogue.post(`/live/payouts/${await ask()}/approve`);
  assert.deepEqual(codeOf(more), [409, 'second_member_required']);
});

test('the operator area asks for a second factor, lists the operators, and removes one, but not the last', async () => {
  assert.deepEqual(codeOf(await owner.get('/test/operator')), [403, SECOND_FACTOR]);
  assert.deepEqual(codeOf(await owner.get('/test/operator/operators')), [403, SECOND_FACTOR]);
  await setUpFactor(owner);
  await ok(owner.get('/test/operator'));
  const me = await idOf('olga@shop.example');
  assert.deepEqual(codeOf(await owner.send('DELETE', `/test/operator/operators/${me}`, {})), [409, 'last_operator']);
  const { rogue, email, id } = await newRogue('viewer');
  const { setOperator } = await import('../../src/people/operators.ts');
  await setOperator(app.app.ctx, { email, operator: true });
  assert.deepEqual(codeOf(await rogue.get('/test/operator')), [403, SECOND_FACTOR], 'also an operator named by command');
  await setUpFactor(rogue);
  await ok(rogue.get('/test/operator'));
  assert.deepEqual(
    (await ok(owner.get('/test/operator/operators'))).operators.map((one: any) => [one.email, one.has_second_factor, one.merchants]),
    [
      ['olga@shop.example', true, 1],
      [email, true, 1],
    ],
  );
  const newest = async () => (await ok(owner.get('/live/notices?limit=1'))).data[0].text;
  assert.match(await newest(), new RegExp(`${email} .*can now open the operator area`));
  await ok(owner.send('DELETE', `/test/team/members/${id}`, {}));
  assert.match(await newest(), /was removed from Test shop by Olga Owner, but can still open the operator area/);
  await ok(owner.send('DELETE', `/test/operator/operators/${id}`, {}));
  assert.match(await newest(), /can no longer open the operator area/);
  assert.deepEqual(codeOf(await owner.send('DELETE', `/test/operator/operators/${id}`, {})), [404, 'user_not_found']);
  // Someone who lost the flag a moment ago changes no plan either.
  const { merchantId } = await createMerchant(app.app.ctx, { name: 'Other shop' });
  const change = setPlan(app.app.ctx, { merchantId, plan: 'enterprise', actor: { userId: id, name: 'Rogue', ip: '' } });
  await assert.rejects(change, { code: 'operator_only' });
  const [{ plan } = { plan: '' }] = await sqlOf()`select plan from merchants where id = ${merchantId}`;
  assert.equal(plan, 'starter');
});

test('owners are notified of who was invited to a role with power, who joined, who got another role, who was removed, and of a new limit', async () => {
  const told = async () => (await ok(owner.get('/live/notices?limit=20'))).data.map((one: any) => one.text as string);
  const { email, id } = await newRogue('admin');
  await ok(owner.post(`/test/team/members/${id}/role`, { role: 'finance' }));
  await ok(owner.send('DELETE', `/test/team/members/${id}`, {}));
  await ok(owner.post('/live/settings/business', { refund_limit_usd: 7 }));
  const name = email.split('@')[0];
  assert.deepEqual((await told()).slice(0, 5), [
    'One member can now approve up to $7.00 a day alone instead of up to $5.00 a day. Olga Owner changed the limit.',
    `${email} (${name}) was removed from your team by Olga Owner.`,
    `${email} (${name}) is now finance in your team instead of admin. Olga Owner changed the role.`,
    `${email} (${name}) joined your team as admin. Olga Owner sent the invite.`,
    `${email} was invited to your team as admin. Olga Owner sent the invite.`,
  ]);
  await ok(owner.post('/test/team/invites', { email: 'quiet@shop.example', role: 'viewer' }));
  assert.match((await told())[0]!, /^One member can now/, 'an invite of a viewer is no news');
});
