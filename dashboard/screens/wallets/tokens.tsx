/** The stablecoins that customers can pay with: by asset, on each network, with what helps to choose. */
import { COIN_KINDS } from '../../generated/api.ts';
import type { Reply } from '../../lib/api.ts';
import { coinText } from '../../lib/coin.ts';
import { useAct, useMay } from '../../lib/hooks.ts';
import { Tick } from '../../ui/form.tsx';
import { Card } from '../../ui/states.tsx';

type Wallets = Reply<'GET /:mode/wallets'>;
type Token = Wallets['tokens'][number];

/** Tokens arrive at the addresses of the account wallet, which is one for all of their networks. */
const hasTokenWallet = (wallets: Wallets['wallets']): boolean =>
  wallets.some(({ currency, state }) => COIN_KINDS[currency] === 'ethereum' && state === 'active');

const MICA: Readonly<Record<NonNullable<Token['mica']>, string>> = {
  authorized: 'Authorized in the EU under MiCA.',
  not_authorized: 'Not authorized in the EU under MiCA.',
  unknown: 'No EU authorization under MiCA is known.',
};

/** What a merchant wants to know about a network: what is missing, or what customers pay for it. */
function hintOf({ readiness, connected, fee_usd: fee, network }: Token): string {
  if (readiness?.missing[0]) return readiness.missing[0].message;
  if (!connected) return `No ${network} source is connected yet`;
  return fee === null ? '' : `Network fee about $${fee}, paid by the customer`;
}

/** `wallets`: null in test mode, which needs none. */
export function Tokens({ tokens, wallets }: { tokens: readonly Token[]; wallets: Wallets['wallets'] | null }) {
  const may = useMay('settings.write');
  const act = useAct('POST /:mode/wallets/tokens', { refreshes: [['wallets']], done: 'Saved' });
  const hasWallet = wallets === null || hasTokenWallet(wallets);
  // What was just chosen shows at once, until the reply says what is stored.
  const on = act.isPending ? act.variables.body.tokens : tokens.filter((token) => token.on).map(({ coin }) => coin);
  const [usable, rest] = [true, false].map((is) => tokens.filter((token) => (token.on || (hasWallet && token.connected)) === is));
  const choices = (list: readonly Token[]) =>
    [...Map.groupBy(list, ({ currency }) => currency)].map(([asset, ofAsset]) => (
      <fieldset key={asset} className="grid gap-3 border-t border-line p-4 sm:grid-cols-2 xl:grid-cols-3">
        <legend className="sr-only">{asset}</legend>
        <p className="col-span-full flex flex-wrap gap-x-2 text-sm">
          <span className="font-medium text-ink">
            {ofAsset[0]!.name} ({asset})
          </span>
          {ofAsset[0]!.mica !== null && <span className="text-soft">{MICA[ofAsset[0]!.mica]}</span>}
        </p>
        {ofAsset.map((token) => (
          <Tick
            key={token.coin}
            label={coinText(token.coin)}
            hint={hintOf(token)}
            checked={on.includes(token.coin)}
            disabled={!may || (!hasWallet && !on.includes(token.coin))}
            onChange={(event) =>
              act.mutate({ body: { tokens: event.target.checked ? [...on, token.coin] : on.filter((one) => one !== token.coin) } })
            }
          />
        ))}
      </fieldset>
    ));
  return (
    <Card title="Stablecoins">
      <div className="grid gap-2 p-4 text-sm text-soft">
        <p className="max-w-2xl">
          {wallets === null
            ? 'Turn on the stablecoins that the page of test payments offers. Live payments have a choice of their own.'
            : hasWallet
              ? 'They arrive at the addresses of your Ethereum wallet, so they need no key of their own. A payment has the same address on all networks, and money that customers send on a wrong one is found there if it has a source.'
              : 'They arrive at the addresses of your Ethereum wallet. Set it up before you turn one on.'}
        </p>
        <p className="max-w-2xl" hidden={wallets === null}>
          Start with USDC on one network with low fees and on Ethereum, where most exchanges send it. Add others when customers ask for
          them: each network needs a source, and each coin has an issuer that you must trust.
        </p>
      </div>
      {choices(usable!)}
      {rest!.length > 0 && (
        <details className="border-t border-line">
          <summary className="cursor-pointer px-4 py-3 text-sm font-medium">Not available yet ({rest!.length})</summary>
          {choices(rest!)}
        </details>
      )}
    </Card>
  );
}
