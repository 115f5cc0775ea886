/** Two real Lightning nodes in this process with a channel between them: a payer and a payee, by LDK, on a private network. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import * as ldk from 'lightningdevkit';

const REGTEST_GENESIS = '0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206';
const CHANNEL_SAT = 1_000_000n;
const sha256 = (bytes: Uint8Array): Buffer => createHash('sha256').update(bytes).digest();

export type LightningPair = {
  /** The key of the payee. */
  payee: string;
  /** An invoice of the payee. */
  invoice(wanted: { msat: bigint | null; seconds: number; description?: string }): string;
  /**
   * The payer pays an invoice, with more than its amount if `msat` says so. `hold`: the payee does not take the money yet. Returns the preimage
   * if the payer got one.
   */
  pay(invoice: string, how?: { msat?: bigint; hold?: boolean }): string | null;
  /** An invoice of the payer, and the payee paying it with what it received before. Returns the preimage if it got one. */
  refundInvoice(wanted: { msat: bigint | null; seconds: number }): string;
  payRefund(invoice: string): string | null;
  /** What the payee received for a payment hash: what was held, and what it took. */
  received(paymentHash: string): { msat: bigint; preimage: string; isClaimed: boolean } | null;
  /** The payee takes, or gives back, what it holds. */
  claim(paymentHash: string): void;
  giveBack(paymentHash: string): void;
};

type Side = ReturnType<typeof makeSide>;
/** Objects must be kept, because LDK frees what JavaScript forgets. */
const kept: unknown[] = [];

function makeSide(seed: number) {
  const network = ldk.Network.LDKNetwork_Regtest;
  const done = ldk.ChannelMonitorUpdateStatus.LDKChannelMonitorUpdateStatus_Completed;
  const fees = ldk.FeeEstimator.new_impl({ get_est_sat_per_1000_weight: () => 253 });
  const broadcaster = ldk.BroadcasterInterface.new_impl({ broadcast_transactions: () => {} });
  const logger = ldk.Logger.new_impl({ log: () => {} });
  const store = ldk.Persist.new_impl({
    persist_new_channel: () => done,
    update_persisted_channel: () => done,
    archive_persisted_channel: () => {},
  });
  const monitor = ldk.ChainMonitor.constructor_new(ldk.Option_FilterZ.constructor_none(), broadcaster, logger, fees, store);
  const keys = ldk.KeysManager.constructor_new(new Uint8Array(32).fill(seed), 42n, 42);
  const graph = ldk.NetworkGraph.constructor_new(network, logger);
  const decay = ldk.ProbabilisticScoringDecayParameters.constructor_default();
  const scorer = ldk.ProbabilisticScorer.constructor_new(decay, graph, logger);
  const scores = ldk.MultiThreadedLockableScore.constructor_new(scorer.as_Score());
  const scoring = ldk.ProbabilisticScoringFeeParameters.constructor_default();
  const entropy = keys.as_EntropySource();
  const router = ldk.DefaultRouter.constructor_new(graph, logger, entropy, scores.as_LockableScore(), scoring);
  const messages = ldk.DefaultMessageRouter.constructor_new(graph, entropy);
  const chain = ldk.ChainParameters.constructor_new(network, ldk.BestBlock.constructor_from_network(network));
  const seconds = Math.floor(Date.now() / 1000);
  const manager = ldk.ChannelManager.constructor_new(
    ...([fees, monitor.as_Watch(), broadcaster, router.as_Router(), messages.as_MessageRouter(), logger, entropy] as const),
    ...([keys.as_NodeSigner(), keys.as_SignerProvider(), ldk.UserConfig.constructor_default(), chain, seconds] as const),
  );
  const ignore = ldk.IgnoringMessageHandler.constructor_new();
  const peers = ldk.PeerManager.constructor_new(
    ...([manager.as_ChannelMessageHandler(), ignore.as_RoutingMessageHandler(), ignore.as_OnionMessageHandler()] as const),
    ...([ignore.as_CustomMessageHandler(), seconds, entropy.get_secure_random_bytes(), logger, keys.as_NodeSigner()] as const),
  );
  const events: ldk.Event[] = [];
  const handler = ldk.EventHandler.new_impl({
    handle_event: (event) => {
      events.push(event);
      return ldk.Result_NoneReplayEventZ.constructor_ok();
    },
  });
  kept.push(fees, broadcaster, logger, store, graph, scorer, scores, router, messages, ignore, handler, keys);
  const take = (): ldk.Event[] => {
    manager.as_EventsProvider().process_pending_events(handler);
    monitor.as_EventsProvider().process_pending_events(handler);
    return events.splice(0);
  };
  return { manager, monitor, peers, take };
}

/** Starts both nodes and opens the channel with a made-up funding transaction in a few mined headers. Takes about a second. */
export async function startLightningPair(): Promise<LightningPair> {
  const wasm = readFileSync(fileURLToPath(import.meta.resolve('lightningdevkit/liblightningjs.wasm')));
  await ldk.initializeWasmFromBinary(wasm);
  const [payer, payee] = [makeSide(1), makeSide(2)];
  const pump = connect(payer, payee);
  openChannel(payer, payee, pump);
  const got = new Map<string, { msat: bigint; preimage: string; isClaimed: boolean }>();
  const sent = new Map<string, string>();
  const holds = new Set<string>();
  const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
  const hear = (side: Side): void => {
    for (const event of side.take()) {
      if (event instanceof ldk.Event_PaymentClaimable) {
        const { payment_preimage: known } = event.purpose as ldk.PaymentPurpose_Bolt11InvoicePayment;
        const preimage = (known as ldk.Option_ThirtyTwoBytesZ_Some).some;
        got.set(hex(event.payment_hash), { msat: event.amount_msat, preimage: hex(preimage), isClaimed: false });
        if (!holds.has(hex(event.payment_hash))) side.manager.claim_funds(preimage);
      }
      if (event instanceof ldk.Event_PaymentClaimed) got.get(hex(event.payment_hash))!.isClaimed = true;
      if (event instanceof ldk.Event_PaymentSent) sent.set(hex(event.payment_hash), hex(event.payment_preimage));
    }
  };
  const play = (): void => {
    for (let turn = 0; turn < 8; turn++) {
      payee.manager.process_pending_htlc_forwards();
      payer.manager.process_pending_htlc_forwards();
      pump();
      hear(payee);
      pump();
      hear(payer);
      pump();
    }
  };
  let payments = 0;
  const pay = (from: Side, text: string, { msat, hold = false }: { msat?: bigint; hold?: boolean } = {}): string | null => {
    const read = ldk.Bolt11Invoice.constructor_from_str(text) as ldk.Result_Bolt11InvoiceParseOrSemanticErrorZ_OK;
    const asked = ldk.UtilMethods.constructor_payment_parameters_from_invoice(
      read.res,
    ) as ldk.Result_C3Tuple_ThirtyTwoBytesRecipientOnionFieldsRouteParametersZNoneZ_OK;
    const [hash, onion, route] = [asked.res.get_a(), asked.res.get_b(), asked.res.get_c()];
    if (msat !== undefined) route.set_final_value_msat(msat);
    if (hold) holds.add(hex(hash));
    const id = createHash('sha256').update(`payment ${payments++}`).digest();
    from.manager.send_payment(hash, onion, id, route, ldk.Retry.constructor_attempts(0));
    pump();
    play();
    return sent.get(hex(hash)) ?? null;
  };
  return {
    payee: hex(payee.manager.get_our_node_id()),
    invoice: (wanted) => invoiceOf(payee, wanted),
    pay: (text, how) => pay(payer, text, how),
    refundInvoice: (wanted) => invoiceOf(payer, wanted),
    payRefund: (text) => pay(payee, text),
    received: (hash) => got.get(hash) ?? null,
    claim: (hash) => {
      payee.manager.claim_funds(Buffer.from(got.get(hash)!.preimage, 'hex'));
      play();
    },
    giveBack: (hash) => {
      payee.manager.fail_htlc_backwards(Buffer.from(hash, 'hex'));
      got.delete(hash);
      play();
    },
  };
}

function invoiceOf(
  side: Side,
  { msat, seconds, description = 'test' }: { msat: bigint | null; seconds: number; description?: string },
): string {
  const amount = msat === null ? ldk.Option_u64Z.constructor_none() : ldk.Option_u64Z.constructor_some(msat);
  const none = ldk.Option_u16Z.constructor_none();
  const made = ldk.UtilMethods.constructor_create_invoice_from_channelmanager(side.manager, amount, description, seconds, none);
  return (made as ldk.Result_Bolt11InvoiceSignOrCreationErrorZ_OK).res.to_str();
}

/** Connects the two in memory. Returns what carries their messages. */
function connect(payer: Side, payee: Side): () => void {
  const queue: [Side, ldk.SocketDescriptor, Uint8Array][] = [];
  const socketTo = (number: bigint, target: () => [Side, ldk.SocketDescriptor]): ldk.SocketDescriptor =>
    ldk.SocketDescriptor.new_impl({
      send_data: (data) => {
        queue.push([...target(), Uint8Array.from(data)]);
        return data.length;
      },
      disconnect_socket: () => {},
      eq: (other) => other.hash() === number,
      hash: () => number,
    });
  const ofPayer: ldk.SocketDescriptor = socketTo(1n, () => [payee, ofPayee]);
  const ofPayee: ldk.SocketDescriptor = socketTo(2n, () => [payer, ofPayer]);
  kept.push(ofPayer, ofPayee);
  payee.peers.new_inbound_connection(ofPayee, ldk.Option_SocketAddressZ.constructor_none());
  const hello = payer.peers.new_outbound_connection(payee.manager.get_our_node_id(), ofPayer, ldk.Option_SocketAddressZ.constructor_none());
  payee.peers.read_event(ofPayee, (hello as ldk.Result_CVec_u8ZPeerHandleErrorZ_OK).res);
  return () => {
    for (let turn = 0; turn < 60; turn++) {
      payer.peers.process_events();
      payee.peers.process_events();
      const carried = queue.splice(0);
      for (const [side, socket, data] of carried) side.peers.read_event(socket, data);
      if (carried.length === 0 && turn > 2) break;
    }
  };
}

function openChannel(payer: Side, payee: Side, pump: () => void): void {
  pump();
  payer.manager.create_channel(payee.manager.get_our_node_id(), CHANNEL_SAT, 0n, 1n, null, null);
  pump();
  const wanted = payer.take().find((event) => event instanceof ldk.Event_FundingGenerationReady)!;
  // A transaction of one input from nowhere: nothing checks it.
  const script = wanted.output_script;
  const value = Buffer.alloc(8);
  value.writeBigUInt64LE(wanted.channel_value_satoshis);
  const outputs = Buffer.concat([Buffer.from([1]), value, Buffer.from([script.length]), script]);
  const input = Buffer.concat([Buffer.from([1, 9]), Buffer.alloc(35), Buffer.from([0, 0xff, 0xff, 0xff, 0xff])]);
  const [version, end] = [Buffer.from([2, 0, 0, 0]), Buffer.alloc(4)];
  const transaction = Buffer.concat([version, Buffer.from([0, 1]), input, outputs, Buffer.from([1, 1, 0xff]), end]);
  payer.manager.funding_transaction_generated(wanted.temporary_channel_id, wanted.counterparty_node_id, transaction);
  pump();
  payer.take();
  payee.take();
  const txid = sha256(sha256(Buffer.concat([version, input, outputs, end])));
  let parent: Uint8Array = Buffer.from(REGTEST_GENESIS, 'hex').reverse();
  for (let height = 1; height <= 10; height++) {
    const header = Buffer.alloc(80);
    header.writeInt32LE(0x20000000);
    header.set(parent, 4);
    if (height === 2) txid.copy(header, 36);
    header.writeUInt32LE(Math.floor(Date.now() / 1000), 68);
    header.writeUInt32LE(0x207fffff, 72);
    while (sha256(sha256(header))[31]! >= 0x80) header.writeUInt32LE(header.readUInt32LE(76) + 1, 76);
    parent = sha256(sha256(header));
    for (const side of [payer, payee])
      for (const chain of [side.manager.as_Confirm(), side.monitor.as_Confirm()]) {
        const mined = ldk.TwoTuple_usizeTransactionZ.constructor_new(1, transaction);
        if (height === 2) chain.transactions_confirmed(header, [mined], height);
        chain.best_block_updated(header, height);
      }
  }
  pump();
  payer.take();
  payee.take();
  pump();
  if (payee.manager.list_usable_channels().length !== 1) throw new Error('the channel did not open');
}
