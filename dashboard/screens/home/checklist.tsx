/** The steps to the first live payment: what is really done, how long the rest takes, and where to do it. Can be dismissed. */

import { Link } from '@tanstack/react-router';
import type { Reply } from '../../lib/api.ts';
import { coinName, coinText } from '../../lib/coin.ts';
import { useAct, useApi, useMay, useMe, useMode } from '../../lib/hooks.ts';
import { listText } from '../../lib/language.ts';
import { Button } from '../../ui/button.tsx';
import { Icon } from '../../ui/icon.tsx';
import { MissingList } from '../../ui/missing.tsx';
import { STEPS, type Step } from './steps.ts';
import { useTestPayment } from './test-payment.ts';

type Onboarding = Reply<'GET /:mode/home/onboarding'>;

/** What is true of a step that was begun and is not done. */
function progressOf(step: Step, { webhook, payable, steps }: Onboarding): string | null {
  const isDone = (name: Step) => steps.some((one) => one.step === name && one.done);
  if (step === 'webhook' && webhook === 'untested') return 'Your endpoint has not received anything yet. Send it a test event.';
  if (step === 'webhook' && webhook === 'failing') return 'Your endpoint’s last delivery failed. Fix it, then resend the delivery.';
  if (step !== 'go_live') return null;
  if (payable.length === 0)
    return isDone('wallet') && isDone('source')
      ? 'No currency can be paid right now. Wallets shows what is missing.'
      : 'Connect a wallet and a network first.';
  return `Customers can pay with ${listText(payable.map(coinText))} now. This step is done when your first live payment completes.`;
}

export const ONBOARDING = ['GET /:mode/home/onboarding', ['home', 'onboarding'], {}] as const;

const LINK =
  'inline-flex min-h-9 items-center rounded-lg border border-line bg-card px-3 py-1.5 text-sm font-medium text-ink hover:bg-raised';

export function Checklist() {
  const { data } = useApi(...ONBOARDING);
  const keep = useAct('POST /:mode/preferences', { refreshes: [['home', 'onboarding']] });
  if (!data || data.dismissed) return null;
  const done = data.steps.filter((step) => step.done).length;
  const next = data.steps.find((step) => !step.done)?.step;
  return (
    <section aria-labelledby="begin" className="rounded-xl border border-line bg-card">
      <div className="flex flex-wrap items-center justify-between gap-3 border-b border-line px-4 py-3">
        <div className="grid gap-0.5">
          <h2 id="begin">{done === data.steps.length ? 'You’re all set' : 'Get started'}</h2>
          <p className="text-sm text-soft">
            {done} of {data.steps.length} steps done
          </p>
        </div>
        <Button look="ghost" onClick={() => keep.mutate({ body: { onboarding: { dismissed: true } } })} busy={keep.isPending}>
          Dismiss
        </Button>
      </div>
      <ol>
        {data.steps.map(({ step, done: isDone }) => (
          <Row key={step} step={step} isDone={isDone} isNext={step === next} all={data} />
        ))}
      </ol>
    </section>
  );
}

function Row({ step, isDone, isNext, all }: { step: Step; isDone: boolean; isNext: boolean; all: Onboarding }) {
  const { title, text, minutes } = STEPS[step];
  const progress = progressOf(step, all);
  return (
    <li className="grid grid-cols-[1.5rem_minmax(0,1fr)] items-start gap-3 border-b border-line px-4 py-3 last:border-b-0 sm:grid-cols-[1.5rem_minmax(0,1fr)_auto]">
      <span
        className={`grid size-6 place-items-center rounded-full border ${isDone ? 'border-transparent bg-good-wash text-good' : 'border-line text-soft'}`}
      >
        {isDone && <Icon name="check" className="size-4" />}
      </span>
      <div className="grid gap-0.5">
        <p className={`font-medium ${isDone ? 'text-soft' : ''}`}>
          {title} <span className="sr-only">{isDone ? '(done)' : '(to do)'}</span>
        </p>
        {!isDone && (
          <p className="text-sm text-soft">
            {text} {progress ?? `About ${minutes}.`}
          </p>
        )}
        {!isDone && step === 'source' && <Sources all={all} />}
      </div>
      {!isDone && <Acts step={step} isNext={isNext} />}
    </li>
  );
}

/** What the coin that is nearest to ready still needs, with the lines to paste; the others are on the wallets screen. */
function Sources({ all: { sources } }: { all: Onboarding }) {
  const nearest = sources.toSorted((a, b) => a.missing.length - b.missing.length)[0];
  if (!nearest) return null;
  const name = coinName(nearest.currency);
  return (
    <div className="mt-2 rounded-lg border border-line p-3">
      <MissingList missing={nearest.missing} label={`What ${name} still needs`} />
    </div>
  );
}

function Acts({ step, isNext }: { step: Step; isNext: boolean }) {
  const mode = useMode();
  const mayCreate = useMay('payments.create');
  const me = useMe();
  const keep = useAct('POST /:mode/preferences', { refreshes: [['home', 'onboarding']] });
  const test = useTestPayment();
  const { screen, act, action } = STEPS[step];
  const mayOpen = me?.actions.includes(action);
  const toMode = (to: string, words: string) => (
    <Link to={to} className={LINK}>
      {words}
    </Link>
  );
  // Wallets and sources are for live mode alone.
  const place = step === 'wallet' || step === 'source' ? 'live' : mode;
  return (
    <div className="flex flex-wrap gap-2 max-sm:col-start-2">
      {step === 'test_payment' ? (
        mode === 'test' && mayCreate ? (
          <Button look={isNext ? 'main' : 'plain'} busy={test.busy} onClick={test.start}>
            {act}
          </Button>
        ) : (
          toMode('/test/home', 'Open test mode')
        )
      ) : step === 'go_live' && mode === 'test' ? (
        toMode('/live/home', act)
      ) : (
        mayOpen && toMode(`/${place}/${screen}`, step === 'go_live' ? 'Live keys' : act)
      )}
      {step === 'webhook' && (
        <Button look="ghost" onClick={() => keep.mutate({ body: { onboarding: { polls: true } } })} busy={keep.isPending}>
          Skip, we poll the API
        </Button>
      )}
    </div>
  );
}
