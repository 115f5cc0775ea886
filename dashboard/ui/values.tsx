/** How amounts, times and states look, everywhere the same. */

import { useState } from 'react';
import type { PaymentException, PaymentStatus } from '../generated/api.ts';
import { moneyText, shortDollars, significant } from '../lib/amount.ts';
import { coinText, partsOf } from '../lib/coin.ts';
import { useMode } from '../lib/hooks.ts';
import { timeText } from '../lib/language.ts';
import { Icon, type IconName } from './icon.tsx';

/** The network of a coin, beside the code of its asset. */
const NetworkBadge = ({ name }: { name: string }) => (
  <>
    {' '}
    <span className="sr-only">on </span>
    <span className="rounded border border-line px-1 py-px text-xs font-medium text-soft">{name}</span>
  </>
);
/** A coin: the code of its asset, with a badge for the network unless it is the network's own coin. */
export function CoinLabel({ coin }: { coin: string }) {
  const { asset, network } = partsOf(coin);
  return (
    <span className="whitespace-nowrap">
      {asset}
      {network !== null && <NetworkBadge name={network} />}
    </span>
  );
}

/** An exact decimal text as people read it; all of its decimals on hover. Without a currency: US dollars. */
export const Money = ({
  amount,
  currency = 'USD',
  className = '',
}: {
  amount: string | null;
  currency?: string | null;
  className?: string;
}) => {
  if (amount === null || currency === null) return <span className="text-soft">–</span>;
  const { asset, network } = partsOf(currency);
  return (
    <span
      className={`tabular-nums whitespace-nowrap ${className}`}
      title={(currency === 'USD' ? shortDollars(amount) : significant(amount)) === amount ? undefined : `${amount} ${coinText(currency)}`}
    >
      {moneyText(amount, asset)}
      {network !== null && <NetworkBadge name={network} />}
    </span>
  );
};

const SHORT = { dateStyle: 'medium', timeStyle: 'short' } as const;
const WITH_SECONDS = { dateStyle: 'medium', timeStyle: 'medium' } as const;
/** Local time, where asked with its seconds; the exact instant in UTC on hover. `happened`: only the test clock makes it a future one. */
export const Time = ({ at, seconds = false, happened = false }: { at: string | null; seconds?: boolean; happened?: boolean }) =>
  at === null ? (
    <span className="text-soft">–</span>
  ) : (
    <>
      <time dateTime={at} title={`${at.replace('T', ' ').replace('Z', '')} UTC`} className="whitespace-nowrap tabular-nums">
        {timeText(new Date(at), seconds ? WITH_SECONDS : SHORT)}
      </time>
      {happened && <TestClock at={at} />}
    </>
  );
/** Clocks may differ by a minute. */
const TestClock = ({ at }: { at: string }) =>
  useMode() === 'test' && Date.parse(at) > Date.now() + 60_000 && <span className="block text-xs text-warn">Test clock</span>;

const TONES = {
  good: 'bg-good-wash text-good',
  warn: 'bg-warn-wash text-warn',
  bad: 'bg-bad-wash text-bad',
  info: 'bg-info-wash text-info',
  calm: 'bg-raised text-soft',
} as const;
export type Tone = keyof typeof TONES;
/** A word with an icon and a color. */
export const Badge = ({ tone, icon, children }: { tone: Tone; icon?: IconName; children: string }) => (
  <span className={`inline-flex items-center gap-1 rounded-md px-2 py-0.5 text-xs font-medium whitespace-nowrap ${TONES[tone]}`}>
    {icon && <Icon name={icon} className="size-3.5" />}
    {children}
  </span>
);

/** Marks what belongs to test mode; nothing in live mode. */
export const TestLabel = () => useMode() === 'test' && <Badge tone="warn">TEST</Badge>;

const STATUS: Readonly<Record<PaymentStatus, { tone: Tone; icon: IconName; word: string }>> = {
  pending: { tone: 'calm', icon: 'clock', word: 'Pending' },
  processing: { tone: 'info', icon: 'arrow', word: 'Processing' },
  completed: { tone: 'good', icon: 'check', word: 'Completed' },
  expired: { tone: 'calm', icon: 'clock', word: 'Expired' },
  cancelled: { tone: 'calm', icon: 'cross', word: 'Canceled' },
  failed: { tone: 'bad', icon: 'alert', word: 'Failed' },
};
export const STATUS_WORDS = Object.fromEntries(Object.entries(STATUS).map(([status, { word }]) => [status, word])) as Readonly<
  Record<PaymentStatus, string>
>;
export const Status = ({ status }: { status: PaymentStatus }) => (
  <Badge tone={STATUS[status].tone} icon={STATUS[status].icon}>
    {STATUS[status].word}
  </Badge>
);
export const EXCEPTION_WORDS: Readonly<Record<PaymentException, string>> = {
  reorged: 'Reversed',
  replaced: 'Replaced',
  paid_after_cancel: 'Paid after cancellation',
  wrong_network: 'Wrong network',
  wrong_token: 'Wrong coin',
  late: 'Late',
  underpaid: 'Underpaid',
  overpaid: 'Overpaid',
};
/** Where a payment stands, with its most serious exception. What the network took back does not look paid. */
export const PaymentState = ({ status, exception }: { status: PaymentStatus; exception: PaymentException | null }) =>
  status === 'completed' && exception === 'reorged' ? (
    <Badge tone="bad" icon="alert">
      {EXCEPTION_WORDS.reorged}
    </Badge>
  ) : (
    <>
      <Status status={status} />
      <ExceptionBadge exception={exception} />
    </>
  );
export const ExceptionBadge = ({ exception }: { exception: PaymentException | null }) =>
  exception && (
    <Badge tone="warn" icon="alert">
      {EXCEPTION_WORDS[exception]}
    </Badge>
  );

/** Copies the value and confirms it. */
export function CopyButton({ value, label }: { value: string; label: string }) {
  const [copied, setCopied] = useState(false);
  return (
    <button
      type="button"
      aria-label={copied ? 'Copied' : label}
      className="rounded p-1 text-soft hover:bg-raised hover:text-ink"
      onClick={() =>
        void navigator.clipboard.writeText(value).then(() => {
          setCopied(true);
          setTimeout(() => setCopied(false), 2_000);
        })
      }
    >
      <Icon name={copied ? 'check' : 'copy'} className="size-4" />
    </button>
  );
}
