/** Whether webhooks arrive, nodes answer, chains are read to the latest block and prices are known. */
import type { Reply } from '../../lib/api.ts';
import { duration } from '../../lib/days.ts';
import { useApi, useMode } from '../../lib/hooks.ts';
import { Card, Facts, Pending } from '../../ui/states.tsx';
import { Badge, Time, type Tone } from '../../ui/values.tsx';

type Coins = Reply<'GET /:mode/home/health'>['coins'];
const CHAIN: Readonly<Record<Coins[number]['chain'], { tone: Tone; word: string; text: string }>> = {
  ok: { tone: 'good', word: 'In sync', text: '' },
  limited: { tone: 'warn', word: 'Large payments on hold', text: '' },
  held: { tone: 'warn', word: 'Completion on hold', text: '' },
  behind: { tone: 'bad', word: 'Behind', text: 'The node is not answering, or is answering late.' },
  starting: { tone: 'info', word: 'Starting', text: 'Reading the chain for the first time.' },
  none: { tone: 'calm', word: 'Not set up', text: 'No node or server is configured for this coin.' },
  simulated: { tone: 'calm', word: 'Simulated', text: 'Test payments run on a simulated chain.' },
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
              webhooks.endpoints === 0 ? 'None' : `${webhooks.endpoints}${webhooks.off > 0 ? `, ${webhooks.off} switched off` : ''}`,
            ],
            [
              'Delivered, last 24 hours',
              finished === 0 ? (
                'None sent'
              ) : (
                <Badge
                  key="share"
                  tone={webhooks.failed === 0 ? 'good' : webhooks.failed * 20 > finished ? 'bad' : 'warn'}
                  icon={webhooks.failed === 0 ? 'check' : 'alert'}
                >
                  {`${Math.floor((webhooks.delivered / finished) * 1000) / 10} % of ${finished.toLocaleString('en')}`}
                </Badge>
              ),
            ],
            ['Oldest waiting', webhooks.oldest_pending_at === null ? 'None' : <Time key="at" at={webhooks.oldest_pending_at} />],
          ]}
        />
      </Card>
      <Card title={mode === 'test' ? 'Coins in test mode' : 'Nodes, chains and prices'}>
        {mode === 'test' ? (
          <p className="px-4 py-3 text-sm text-soft">
            Each test payment runs on its own simulated chain: BTC, ETH, LTC, DASH and DOGE are always available. Switch to live mode to see
            nodes and price sources.
          </p>
        ) : (
          <ul>
            {coins.map((coin) => {
              const chain = CHAIN[coin.chain];
              const height =
                coin.height === null ? '' : `Block ${coin.height.toLocaleString('en')}, read ${duration(coin.lag_seconds ?? 0)} ago.`;
              const words = [...coin.reasons.map(sentence), chain.text, height].filter(Boolean).join(' ');
              return (
                <li key={coin.currency} className="grid gap-1 border-b border-line px-4 py-2.5 text-sm last:border-b-0">
                  <div className="flex flex-wrap items-center justify-between gap-2">
                    <span className="font-medium">{coin.currency}</span>
                    <span className="flex flex-wrap gap-1">
                      <Badge tone={chain.tone}>{chain.word}</Badge>
                      {mode === 'live' && (
                        <Badge tone={coin.price_fault === null ? 'good' : 'warn'}>
                          {coin.price_fault === null ? 'Price known' : 'No price'}
                        </Badge>
                      )}
                    </span>
                  </div>
                  {(words || coin.price_fault) && (
                    <p className="text-xs text-soft">{[words, coin.price_fault].filter(Boolean).join(' ')}</p>
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
