/** Whether webhooks are delivered, sources are in sync, and prices are current. */

import type { Reply } from '../../lib/api.ts';
import { duration } from '../../lib/days.ts';
import { useApi, useMode } from '../../lib/hooks.ts';
import { countText, roundedText } from '../../lib/language.ts';
import { Card, Facts, Pending } from '../../ui/states.tsx';
import { Badge, CoinLabel, Time, type Tone } from '../../ui/values.tsx';

type Coins = Reply<'GET /:mode/home/health'>['coins'];
const CHAIN: Readonly<Record<Coins[number]['chain'], { tone: Tone; word: string; text: string }>> = {
  ok: { tone: 'good', word: 'In sync', text: '' },
  limited: { tone: 'warn', word: 'Large payments on hold', text: '' },
  held: { tone: 'warn', word: 'Completion on hold', text: '' },
  behind: { tone: 'bad', word: 'Behind', text: 'The source is not responding, or is behind.' },
  starting: { tone: 'info', word: 'Connecting', text: 'The source has not answered yet.' },
  none: { tone: 'calm', word: 'Not set up', text: 'No wallet needs it yet, or no source is connected.' },
  simulated: { tone: 'calm', word: 'Simulated', text: '' },
};

export const HEALTH = ['GET /:mode/home/health', ['home', 'health'], {}] as const;

const sentence = (reason: string): string => `${reason.charAt(0).toUpperCase()}${reason.slice(1)}.`;

export function Health() {
  const mode = useMode();
  const query = useApi(...HEALTH);
  const { data } = query;
  if (!data)
    return (
      <Card title="Health">
        <Pending of={query} lines={6} />
      </Card>
    );
  const { webhooks, coins } = data;
  const finished = webhooks.delivered + webhooks.failed;
  return (
    <div className="grid items-start gap-6 lg:grid-cols-2">
      <Card title="Webhooks">
        <Facts
          rows={[
            [
              'Endpoints',
              webhooks.endpoints === 0 ? 'None' : `${webhooks.endpoints}${webhooks.off > 0 ? `, ${webhooks.off} disabled` : ''}`,
            ],
            [
              'Delivered in the last 24 hours',
              finished === 0 ? (
                'No webhooks sent'
              ) : (
                <Badge
                  key="share"
                  tone={webhooks.failed === 0 ? 'good' : webhooks.failed * 20 > finished ? 'bad' : 'warn'}
                  icon={webhooks.failed === 0 ? 'check' : 'alert'}
                >
                  {`${roundedText(Math.floor((webhooks.delivered / finished) * 1000) / 10)}% of ${countText(finished)}`}
                </Badge>
              ),
            ],
            [
              'Oldest pending delivery',
              webhooks.oldest_pending_at === null ? 'None pending' : <Time key="at" at={webhooks.oldest_pending_at} />,
            ],
          ]}
        />
      </Card>
      <Card title={mode === 'test' ? 'Currencies in test mode' : 'Sources and prices'}>
        {mode === 'test' ? (
          <p className="px-4 py-3 text-sm text-soft">
            Test payments run on a simulated blockchain: every currency that you accept is always available. Live mode shows the state of
            your sources and prices.
          </p>
        ) : (
          <ul>
            {coins.map((coin) => {
              const chain = CHAIN[coin.chain];
              const height = coin.height === null ? '' : `Block ${countText(coin.height)}, checked ${duration(coin.lag_seconds ?? 0)} ago.`;
              // Known reasons say more than the state.
              const words = [...(coin.reasons.length > 0 ? coin.reasons.map(sentence) : [chain.text]), height].filter(Boolean).join(' ');
              return (
                <li key={coin.currency} className="grid gap-1 border-b border-line px-4 py-2.5 text-sm last:border-b-0">
                  <div className="flex flex-wrap items-center justify-between gap-2">
                    <span className="font-medium">
                      <CoinLabel coin={coin.currency} />
                    </span>
                    <span className="flex flex-wrap gap-1">
                      <Badge tone={chain.tone}>{chain.word}</Badge>
                      {mode === 'live' && (
                        <Badge tone={coin.price_fault === null ? 'good' : 'warn'}>
                          {coin.price_fault === null ? 'Price current' : 'No price'}
                        </Badge>
                      )}
                    </span>
                  </div>
                  {(words || coin.price_fault) && (
                    <p className="text-xs text-soft">
                      {[words, coin.price_fault && `No price: ${coin.price_fault}.`].filter(Boolean).join(' ')}
                    </p>
                  )}
                </li>
              );
            })}
          </ul>
        )}
      </Card>
    </div>
  );
}
