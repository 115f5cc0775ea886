/** Random schedules on a chain of accounts: ETH, and a token with authorizations, on a real EVM. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { secp256k1 } from '@noble/curves/secp256k1.js';
import { keccak_256 } from '@noble/hashes/sha3.js';
import { HDKey } from '@scure/bip32';
import { accountOf, checksumAddress } from '../../src/addresses/evm-address.ts';
import { COIN, type Coin } from '../../src/core/coin.ts';
import { parseDecimal } from '../../src/core/money.ts';
import {
  authorizationHash,
  authorizedData,
  MULTICALL3,
  selector,
  signedBytes,
  signHash,
  signingHash,
  type TokenDomain,
  transactionId,
  transferData,
  word,
} from '../../src/evm/transaction.ts';
import { authorizedIn, openAccountChain, paidBy, readRaw, type SeenPaid, type SeenTx } from './account-chain.ts';
import { CONFIRMATIONS, type Ended, type Ground, hashOf, type Merchant, sum } from './money-ground.ts';
import { type EthNode, startAnvil } from './nodes.ts';

const USDC = 'USDC@ethereum' satisfies Coin;
const TOKEN = COIN[USDC].contract!;
const TOKEN_UNITS = 25_000_000n;
/** What each wallet has that pays by hand: enough for every payout. */
const HAND_UNITS = 4n * TOKEN_UNITS;
const CHAIN_ID = 31_337;
const ETHER = 10n ** 18n;
const GWEI = 10n ** 9n;
/** What the gas address of each merchant is given. */
const GAS_MONEY = ETHER;
/** Other wallets pay more than any file. */
const OTHER_PRICE = 50n * GWEI;
const TRANSFER_GAS = 21_000n;
const CALL_GAS = 3_000_000n;
/** Of what arrived at an address, so much at most stays there after a sweep, because the fee was lower than it could have been. */
const LEFT_PERCENT = 10n;
const DOMAIN: TokenDomain = { name: 'USD Coin', version: '2', chainId: CHAIN_ID, contract: TOKEN };
const { runtime } = JSON.parse(readFileSync(join(import.meta.dirname, '../fixtures/contracts/tokens.json'), 'utf8'));

const hex = (value: bigint): string => `0x${value.toString(16)}`;
const addressOf = (privateKey: Uint8Array): string => checksumAddress(accountOf(secp256k1.getPublicKey(privateKey)));
const keyOf = ({ secret }: Merchant, chain: 0 | 1, index: number): Uint8Array =>
  HDKey.fromExtendedKey(secret).deriveChild(chain).deriveChild(index).privateKey!;
const gasAddressOf = (merchant: Merchant): string => addressOf(keyOf(merchant, 1, 0));
/** The wallet that may pay a customer by hand: one for each, so that nothing of it waits for anything else. */
const handOf = (customer: string): Uint8Array => hashOf(`by hand ${customer.toLowerCase()}`);
/** A customer who may send a payment elsewhere. */
const payerOf = (i: number): Uint8Array => hashOf(`payer ${i}`);
const strangerAt = (i: number): Uint8Array => hashOf(`stranger ${i}`);
const strangerOf = (name: string): string => checksumAddress(hashOf(name).toString('hex').slice(0, 40));
const ELSEWHERE = strangerOf('elsewhere');

type Asked = { nonce?: number; to: string; units?: bigint; data?: string; gas?: bigint };
function signTransaction(key: Uint8Array, { nonce = 0, to, units = 0n, data = '', gas = TRANSFER_GAS }: Asked) {
  const tx = { chainId: CHAIN_ID, nonce, tip: 0n, max: OTHER_PRICE, gas, to: to.slice(2).toLowerCase(), units, data };
  const bytes = signedBytes(tx, signHash(signingHash(tx), key));
  return { txid: transactionId(bytes), raw: Buffer.from(bytes).toString('hex') };
}

const signPayment = (key: Uint8Array, { coin, address, units }: { coin: Coin; address: string; units: bigint }) =>
  coin === 'ETH'
    ? signTransaction(key, { to: address, units })
    : signTransaction(key, { to: TOKEN, data: transferData(address, units), gas: 100_000n });

export async function openAccountGround(): Promise<Ground> {
  const node = await startAnvil();
  try {
    await node.rpc('anvil_setCode', TOKEN, `0x${runtime.Token}`);
    await node.rpc('anvil_setCode', MULTICALL3, `0x${runtime.Multicall3}`);
    return accountGround(node);
  } catch (error) {
    await node.destroy();
    throw error;
  }
}

function accountGround(node: EthNode): Ground {
  const chain = openAccountChain(node, TOKEN);
  let strangers: number[] = [];
  const numberOf = async (method: string, ...params: unknown[]) => BigInt(await node.rpc(method, ...params));
  const etherOf = (address: string) => numberOf('eth_getBalance', address, 'latest');
  const tokensOf = (address: string) =>
    numberOf('eth_call', { to: TOKEN, data: `0x${selector('balanceOf(address)')}${word(address)}` }, 'latest');
  const balanceOf = (coin: Coin, address: string) => (coin === 'ETH' ? etherOf(address) : tokensOf(address));
  const send: Ground['send'] = (raw) => node.rpc('eth_sendRawTransaction', `0x${raw}`).catch(() => null);
  /** Empty blocks lower the price of gas, down to less than the unit in which sources report fees. */
  const setPrice = (gwei: bigint) => node.rpc('anvil_setNextBlockBaseFeePerGas', hex(gwei * GWEI));
  const mine: Ground['mine'] = async (blocks, draw) => {
    for (let i = 0; i < blocks; i++) {
      // Above what some files pay: the node then forgets their transactions.
      await setPrice(draw && draw(4) === 0 ? BigInt(2 + draw(3)) : 1n);
      await node.mine(1);
    }
  };
  const sendAsStranger = async (to: string, data: string) => {
    const stranger = strangers.pop();
    if (stranger !== undefined) await send(signTransaction(strangerAt(stranger), { to, data, gas: CALL_GAS }).raw);
  };
  const read = async () => {
    const blocks = await chain.best(1);
    const mined = blocks.flatMap(({ paid }) => paid);
    return { mined, txs: blocks.flatMap(({ txs }) => txs), waiting: await chain.waiting(mined) };
  };
  return {
    coins: ['ETH', USDC],
    kinds: ['refund', 'payout'],
    requests: 4,
    amounts: (coin) => (coin === 'ETH' ? ['0.002', '0.005', '0.009'] : ['6', '15', '40']),
    copies: true,
    pauseMs: 800,
    environment: {
      ...{ ETH_NODE_URL: node.url, ETH_CHAIN_ID: String(CHAIN_ID), ETH_NETWORK: 'regtest', ETH_CONFIRMATIONS: CONFIRMATIONS },
      PRICES: 'static:ETH=2500.00,USDC=1.00',
    },
    accountPath: "m/44'/60'/0'",
    ...{ strangerOf, mine, read, send },
    newest: async () => (await node.rpc('eth_getBlockByNumber', 'latest', false)).hash,
    prepare: async ({ merchants, customers, strangers: count, payers }) => {
      strangers = Array.from({ length: count }, (_, i) => i);
      const hands = [
        ...customers.map((customer) => addressOf(handOf(customer))),
        ...Array.from({ length: payers }, (_, i) => addressOf(payerOf(i))),
      ];
      const rich = [...hands, ...strangers.map((i) => addressOf(strangerAt(i))), node.accounts[0]!];
      for (const address of rich) await node.rpc('anvil_setBalance', address, hex(1_000n * ETHER));
      for (const merchant of merchants) await node.rpc('anvil_setBalance', gasAddressOf(merchant), hex(GAS_MONEY));
      for (const address of hands) await node.rpc('anvil_setStorageAt', TOKEN, balanceSlot(address), `0x${word(HAND_UNITS)}`);
    },
    pay: async (payments) => {
      for (const { coin, address, amount } of payments)
        if (coin === 'ETH') await node.send({ to: address, value: parseDecimal(amount, 18)! });
        else await mint(node, address);
    },
    reorganize: async (depth, instead) => {
      const tip = Number(await numberOf('eth_blockNumber'));
      const lost = (await chain.best(tip - depth + 1)).flatMap(({ raws }) => raws);
      await setPrice(1n);
      await node.rpc(
        'anvil_reorg',
        depth,
        instead.map((raw) => [`0x${raw}`, 0]),
      );
      for (const raw of lost) await send(raw.slice(2));
    },
    payAgain: async (deposits) => {
      const { mined, waiting } = await read();
      const paid = new Set([...mined, ...waiting].map(({ address }) => address));
      const missing = deposits.filter(({ coin, address }) => coin === 'ETH' && !paid.has(address));
      for (const { address, units } of missing) await node.send({ to: address, value: units });
    },
    payByHand: async ({ coin, address, units }) => {
      return signPayment(handOf(address), { coin, address, units });
    },
    payAs: async (customer, payment) => {
      const key = payerOf(customer);
      return { pays: signPayment(key, payment).raw, other: signTransaction(key, { to: ELSEWHERE, units: 1n }).raw };
    },
    addressesIn: async (raws) =>
      raws.flatMap((raw) => paidBy({ ...readRaw(raw), from: '0x', txid: '' }, TOKEN).map(({ address }) => address)),
    leak: async (raws, below) => {
      const way = below(3);
      for (const raw of raws) {
        const call = readRaw(raw);
        const parts = authorizedIn(call);
        if (parts.length === 0 || way === 0) await send(raw);
        else if (way === 1) await sendAsStranger(TOKEN, parts[below(parts.length)]!.slice(2));
        else await sendAsStranger(call.to!, call.input.slice(2));
      }
    },
    spendElsewhere: async (merchant, { coin, address, index }, below) => {
      const [key, gasAddress] = [keyOf(merchant, 0, index), gasAddressOf(merchant)];
      if (below(3) === 0) {
        const nonce = Number(await numberOf('eth_getTransactionCount', gasAddress, 'latest'));
        return send(signTransaction(keyOf(merchant, 1, 0), { nonce, to: ELSEWHERE, units: 1n }).raw);
      }
      const units = await balanceOf(coin, address);
      if (coin === 'ETH') {
        const nonce = Number(await numberOf('eth_getTransactionCount', address, 'latest'));
        const left = units - TRANSFER_GAS * OTHER_PRICE;
        if (left > 0n) await send(signTransaction(key, { nonce, to: ELSEWHERE, units: left }).raw);
      } else if (units > 0n) {
        const validBefore = 4_000_000_000;
        const transfer = {
          from: address,
          to: ELSEWHERE,
          units,
          validBefore,
          nonce: `0x${hashOf(`elsewhere ${address} ${units}`).toString('hex')}`,
        };
        await sendAsStranger(TOKEN, authorizedData(transfer, signHash(authorizationHash(transfer, DOMAIN), key)));
      }
    },
    checkMoney: async (ended) => {
      const { mined, txs } = await read();
      await checkCustomers(ended, { mined, balanceOf });
      await checkDeposits(ended, balanceOf);
      if (!ended.strayed) await checkAccounts(ended, { mined, txs, balanceOf });
    },
    stop: () => node.destroy(),
  };
}

/** Where the token stores what an account has: the first of its variables is a mapping. */
const balanceSlot = (address: string): string =>
  `0x${Buffer.from(keccak_256(Buffer.from(word(address) + word(0n), 'hex'))).toString('hex')}`;
const mint = (node: EthNode, address: string) =>
  node.send({ to: TOKEN, data: `0x${selector('mint(address,uint256)')}${word(address)}${word(TOKEN_UNITS)}`, gas: 200_000 });

type BalanceOf = (coin: Coin, address: string) => Promise<bigint>;
const isSame = (one: string, other: string): boolean => one.toLowerCase() === other.toLowerCase();

/** What customers hold is what they were paid. */
async function checkCustomers({ outs }: Ended, { mined, balanceOf }: { mined: readonly SeenPaid[]; balanceOf: BalanceOf }): Promise<void> {
  for (const { id, address } of outs)
    for (const coin of ['ETH', USDC] as const) {
      const paid = sum(mined.flatMap((one) => (one.address === address && one.coin === coin ? [one.units] : [])));
      assert.equal(await balanceOf(coin, address), paid, `${id} is paid in ${coin}`);
    }
}

/** What a sweep could move is listed. */
async function checkDeposits({ deposits, books }: Ended, balanceOf: BalanceOf): Promise<void> {
  for (const { coin, address, units } of deposits) {
    const held = await balanceOf(coin, address);
    const isListed = books.get(coin)!.listed.some((one) => isSame(one.address, address));
    const most = coin === 'ETH' ? (units * LEFT_PERCENT) / 100n : 0n;
    assert.ok(isListed || held <= most, `${held} ${coin} of ${units} lie on ${address} and cannot be swept`);
  }
}

/** The books of a merchant who did nothing without telling Florin, by account. */
async function checkAccounts(
  ended: Ended,
  { mined, txs, balanceOf }: { mined: readonly SeenPaid[]; txs: readonly SeenTx[]; balanceOf: BalanceOf },
): Promise<void> {
  const { merchant, deposits, outs, byHand, books } = ended;
  const gasAddress = gasAddressOf(merchant);
  const own = txs.filter(({ from }) => [gasAddress, ...deposits.map(({ address }) => address)].some((one) => isSame(one, from)));
  const fees = sum(own.map(({ fee }) => fee));
  // What a fee was lower than it could have been lies on an account, and the books may count it as paid.
  const saved = sum(own.map(({ fee, most }) => most - fee));
  for (const coin of ['ETH', USDC] as const) {
    const account = (name: string) => BigInt(books.get(coin)!.accounts[name] ?? 0);
    const held = await Promise.all(
      deposits.map(async (one) => ({ ...one, held: await balanceOf(coin, one.address), arrived: one.coin === coin ? one.units : 0n })),
    );
    const listed = held.filter(({ address }) => books.get(coin)!.listed.some((one) => isSame(one.address, address)));
    const rest = account('deposit_addresses') - sum(listed.map(({ arrived }) => arrived));
    // Sweeps of ETH leave what the chain did not take for their fees.
    const left = sum(held.filter((one) => !listed.includes(one)).map((one) => one.held));
    assert.ok(coin === 'ETH' ? rest >= 0n && rest <= left : rest === 0n, `${coin} on deposit addresses: ${rest} of ${left}`);
    const customers = new Set(outs.map(({ address }) => address));
    const paid = sum(mined.flatMap((one) => (one.coin === coin && customers.has(one.address) ? [one.units] : [])));
    assert.equal(account('refunds') + account('payouts') + account('overpayments'), paid, `${coin} paid to customers`);
    const hand = sum(outs.flatMap((one) => (one.coin === coin && byHand.has(one.id) ? [one.units] : [])));
    // What a refund took is booked from the destination wallet, until the rest of its deposit is swept.
    const taken = sum(listed.map(({ arrived, held }) => arrived - held));
    const home = (await balanceOf(coin, merchant.destination)) - hand - taken;
    if (coin !== 'ETH') {
      assert.equal(account('destination_wallet'), home, `${coin} of the destination`);
      assert.equal(account('network_fees') + account('gas_address'), 0n, `${coin} for gas`);
      continue;
    }
    // The books take the fees of a file with several refunds either from the money or from the gas address.
    const most = sum(own.flatMap((one) => (isSame(one.to, MULTICALL3) ? [] : [one.most])));
    const difference = account('destination_wallet') - home;
    assert.ok(difference <= most && -difference <= most, `ETH of the destination: ${difference} more than on the chain`);
    const booked = account('network_fees');
    assert.ok(fees <= booked && booked <= fees + saved, `ETH for gas: ${booked} in the books, ${fees} on the chain, ${saved} saved`);
    const gasLeft = (await balanceOf('ETH', gasAddress)) - GAS_MONEY;
    const everything = sum(['deposit_addresses', 'destination_wallet', 'gas_address', 'network_fees'].map(account));
    assert.equal(everything, sum(listed.map(({ arrived }) => arrived)) + left + home + gasLeft + fees, 'all ETH');
  }
}
