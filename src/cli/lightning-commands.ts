/** Operator commands for Lightning: who makes invoices for a merchant. */
import { readFile } from 'node:fs/promises';
import { checkLightning, type LightningKind, type NamedAccess, removeLightning, setLightning } from '#lightning';
import { type Commands, type Flags, MERCHANT, need, OPERATOR_ACTOR, UsageError } from './command.ts';

export const LIGHTNING_COMMANDS: Commands = {
  'lightning set': {
    about: 'Take Lightning payments by a Lightning address, a node, LNbits or a wallet',
    options: {
      merchant: MERCHANT,
      address: { value: 'ADDRESS', about: 'Lightning address, such as shop@example.com' },
      lnd: { value: 'URL', about: 'REST address of an LND node, such as https://node.example.com:8080' },
      cln: { value: 'URL', about: 'Address of clnrest of a Core Lightning node, such as https://node.example.com:3010' },
      phoenixd: { value: 'URL', about: 'Address of phoenixd, such as http://127.0.0.1:9740' },
      lnbits: { value: 'URL', about: 'Address of an LNbits server, such as https://lnbits.example.com' },
      nwc: { value: 'FILE', about: 'File with a connection of Nostr Wallet Connect that can only receive' },
      credential: {
        value: 'FILE',
        about:
          'File with what can only receive: invoice.macaroon of LND, a rune of Core Lightning, the limited password of phoenixd, or an invoice key of LNbits',
      },
      certificate: {
        value: 'FILE',
        about: 'File with the certificate of the node, if it signed its own: tls.cert of LND, server.pem of Core Lightning',
      },
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

const KINDS: readonly LightningKind[] = ['address', 'lnd', 'cln', 'phoenixd', 'lnbits', 'nwc'];

async function readAccess(flags: Flags): Promise<NamedAccess> {
  const [kind, another] = KINDS.filter((one) => flags[one] !== undefined);
  if (kind === undefined || another !== undefined) throw new UsageError(`Give one of ${KINDS.map((one) => `--${one}`).join(', ')}`);
  if (kind === 'nwc') return { kind, address: '', credential: await readCredential(flags.nwc!), certificate: null };
  const { certificate } = flags;
  const credential = kind === 'address' ? '' : await readCredential(need(flags, 'credential'));
  return { kind, address: flags[kind]!, credential, certificate: certificate === undefined ? null : await readFile(certificate, 'utf8') };
}

/** As text, or, as LND writes a macaroon, bytes. */
async function readCredential(file: string): Promise<string> {
  const bytes = await readFile(file);
  const text = bytes.toString().trim();
  return /^[!-~]+$/.test(text) ? text : bytes.toString('hex');
}

const shown = ({ kind, name, payee, leastMsat, mostMsat, openInvoices, failure }: Awaited<ReturnType<typeof checkLightning>>) => ({
  ...{ kind, name, node: payee, least_sat: `${(leastMsat + 999n) / 1_000n}`, most_sat: `${mostMsat / 1_000n}` },
  ...{ open_invoices: openInvoices, last_failure: failure },
});
