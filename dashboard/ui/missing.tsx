/** What keeps a coin from being paid: each point with what to do, and the settings to paste. */
import type { Reply } from '../lib/api.ts';
import { Code } from './code.tsx';
import type { IconName } from './icon.tsx';
import { Badge, type Tone } from './values.tsx';

export type Readiness = Reply<'GET /:mode/wallets'>['wallets'][number]['readiness'];
type Missing = Readiness['missing'][number];

/** `code` between backticks. */
const Words = ({ text }: { text: string }) =>
  // biome-ignore lint/suspicious/noArrayIndexKey: parts of one text stay in place
  text.split('`').map((part, i) => (i % 2 === 1 ? <code key={i}>{part}</code> : <span key={i}>{part}</span>));

/** Lines to paste, in blocks: a comment line names the block below it. Settings that are commented out are shown ready to paste. */
function blocksOf(lines: readonly string[]): { name: string; text: string }[] {
  const blocks: { name: string; text: string }[] = [];
  for (const line of lines) {
    if (line.startsWith('# ')) blocks.push({ name: line.charAt(2).toUpperCase() + line.slice(3), text: '' });
    else {
      const block = blocks.at(-1) ?? { name: '', text: '' };
      if (blocks.length === 0) blocks.push(block);
      block.text += `${block.text && '\n'}${line.replace(/^#/, '')}`;
    }
  }
  return blocks;
}

export const MissingList = ({ missing, label }: { missing: readonly Missing[]; label: string }) => (
  <ul className="grid gap-4" aria-label={label}>
    {missing.map(({ code, message, fix, lines, doc_url }) => (
      <li key={code} className="grid gap-2 text-sm">
        <p>
          <span className="font-medium">{message}</span>{' '}
          <span className="text-soft">
            <Words text={fix} />
          </span>{' '}
          <a href={doc_url} target="_blank" rel="noreferrer" aria-label={`Read the guide: ${message}`}>
            Read the guide
          </a>
        </p>
        {blocksOf(lines).map(({ name, text }) => (
          <div key={text} className="grid gap-1">
            {name && <p>{name}:</p>}
            <Code text={text} label={name ? `Copy the setting: ${name}` : 'Copy the setting'} />
          </div>
        ))}
      </li>
    ))}
  </ul>
);

const STATES: Readonly<Record<Missing['code'], { tone: Tone; icon?: IconName; word: string }>> = {
  wallet_missing: { tone: 'calm', word: 'Not set up' },
  wallet_paused: { tone: 'warn', icon: 'alert', word: 'Paused' },
  wallet_network: { tone: 'bad', icon: 'alert', word: 'Wrong network' },
  currency_off: { tone: 'calm', word: 'Off at checkout' },
  source_missing: { tone: 'warn', icon: 'alert', word: 'Needs a source' },
  source_starting: { tone: 'info', icon: 'clock', word: 'Connecting' },
  source_silent: { tone: 'bad', icon: 'alert', word: 'Source is down' },
  source_unreachable: { tone: 'bad', icon: 'alert', word: 'Can’t reach the network' },
  token_held: { tone: 'warn', icon: 'alert', word: 'On hold' },
  source_behind: { tone: 'info', icon: 'clock', word: 'Syncing' },
  price_missing: { tone: 'warn', icon: 'alert', word: 'No price' },
  plan_limit_reached: { tone: 'warn', icon: 'alert', word: 'Plan limit reached' },
  completion_held: { tone: 'warn', icon: 'clock', word: 'Completion on hold' },
};

/** "Ready" only while a payment would succeed now; else the first thing that keeps it from that. */
export function ReadinessBadge({ readiness: { missing } }: { readiness: Readiness }) {
  const first = missing[0];
  if (!first)
    return (
      <Badge tone="good" icon="check">
        Ready
      </Badge>
    );
  const { word, ...look } = STATES[first.code];
  return <Badge {...look}>{word}</Badge>;
}
