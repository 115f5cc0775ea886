/** Operator commands for Lightning: who makes invoices for a merchant. */
import { readFile } from 'node:fs/promises';
import { checkLightning, type LightningAccess, removeLightning, setLightning } from '#lightning';
import { type Commands, type Flags, MERCHANT, need, OPERATOR_ACTOR, UsageError } from './command.ts';

export const LIGHTNING_COMMANDS: Commands = {
  'lightning set': {
    about: 'Take Lightning payments by a Lightning address, or by an LND node',
    options: {
      merchant: MERCHANT,
      address: { value: 'ADDRESS', about: 'Lightning address, such as shop@example.com' },
      lnd: { value: 'URL', about: 'REST address of an LND node, such as https://node.example.com:8080' },
      macaroon: { value: 'FILE', about: 'File with a macaroon of the node that can only receive: invoice.macaroon' },
      certificate: { value: 'FILE', about: 'File with the certificate of the node: tls.cert' },
    },
    notes:
      'Florin asks for an invoice to check that it works. What can spend is refused. The node must be at a public address, or at one that WEBHOOK_ALLOW names.',
    run: async (ctx, flags) => {
      const merchantId = need(flags, 'merchant');
      return shown(await setLightning(ctx, { merchantId, actor: OPERATOR_ACTOR, access: await readAccess(flags) }));
    },
  },
  'lightning check': {
    about: 'Check that Lightning works for a merchant, with an invoice that nobody pays',
    options: { merchant: MERCHANT },
    run: async (ctx, flags) => shown(await checkLightning(ctx, { merchantId: need(flags, 'merchant') })),
  },
  'lightning remove': {
    about: 'Stop taking Lightning payments for a merchant; invoices that customers have are still watched',
    options: { merchant: MERCHANT },
    run: async (ctx, flags) => {
      const merchantId = need(flags, 'merchant');
      await removeLightning(ctx, { merchantId, actor: OPERATOR_ACTOR });
      return { merchant_id: merchantId, removed: true };
    },
  },
};

async function readAccess(flags: Flags): Promise<LightningAccess> {
  const { address, lnd, macaroon, certificate } = flags;
  if ((address === undefined) === (lnd === undefined)) throw new UsageError('Give either --address or --lnd');
  if (address !== undefined) return { kind: 'address', address };
  if (macaroon === undefined) throw new UsageError('Missing option --macaroon');
  const bytes = await readFile(macaroon);
  const text = bytes.toString().trim();
  return {
    ...{ kind: 'lnd', url: lnd! },
    // As the node writes it, or as text.
    macaroon: /^[0-9a-fA-F]+$/.test(text) ? text.toLowerCase() : bytes.toString('hex'),
    certificate: certificate === undefined ? null : await readFile(certificate, 'utf8'),
  };
}

const shown = ({ kind, name, payee, leastMsat, mostMsat, openInvoices, failure }: Awaited<ReturnType<typeof checkLightning>>) => ({
  ...{ kind, name, node: payee, least_sat: `${(leastMsat + 999n) / 1_000n}`, most_sat: `${mostMsat / 1_000n}` },
  ...{ open_invoices: openInvoices, last_failure: failure },
});
