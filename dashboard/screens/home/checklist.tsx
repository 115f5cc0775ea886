/** The way to the first live payment: each step with its state, how long it takes and where it is done. Can be put away. */
import { Link } from '@tanstack/react-router';
import type { Reply } from '../../lib/api.ts';
import { useAct, useApi, useMay, useMe, useMode } from '../../lib/hooks.ts';
import { SCREENS } from '../../screens.ts';
import { Button } from '../../ui/button.tsx';
import { Icon } from '../../ui/icon.tsx';
import { useTestPayment } from './home.tsx';

type Step = Reply<'GET /:mode/home/onboarding'>['steps'][number]['step'];
/** `screen` is where a step is done, for those who may open it. */
const STEPS: Readonly<Record<Step, { title: string; text: string; minutes: string; screen: string; act: string }>> = {
  test_payment: {
    title: 'Try a test payment',
    text: 'See what your payers see, and play through success, underpayment and expiry.',
    minutes: '2 min',
    screen: 'payments',
    act: 'Create test payment',
  },
  business: {
    title: 'Name and support contact',
    text: 'Your payers see them on every payment page and receipt.',
    minutes: '2 min',
    screen: 'business',
    act: 'Open settings',
  },
  wallet: {
    title: 'Connect a wallet',
    text: 'An account’s public key for at least one coin. Private keys never leave your wallet.',
    minutes: '5 min',
    screen: 'wallets',
    act: 'Open wallets',
  },
  webhook: {
    title: 'Hear about payments',
    text: 'A webhook endpoint, or polling from your server.',
    minutes: '10 min',
    screen: 'webhooks',
    act: 'Open webhooks',
  },
  second_factor: {
    title: 'Secure your sign-in',
    text: 'An authenticator or a passkey as second factor.',
    minutes: '2 min',
    screen: 'security',
    act: 'Open security',
  },
  go_live: {
    title: 'Go live',
    text: 'Take the first payment with a live key.',
    minutes: '5 min',
    screen: 'keys',
    act: 'Open live mode',
  },
};

export const ONBOARDING = ['GET /:mode/home/onboarding', ['home', 'onboarding'], {}] as const;

export function Checklist() {
  const mode = useMode();
  const mayCreate = useMay('payments.create');
  const me = useMe();
  const { data } = useApi(...ONBOARDING);
  const keep = useAct('POST /:mode/preferences', { refreshes: [['home', 'onboarding']] });
  const test = useTestPayment();
  if (!data || data.dismissed) return null;
  const done = data.steps.filter((step) => step.done).length;
  const next = data.steps.find((step) => !step.done)?.step;
  const link =
    'inline-flex min-h-9 items-center rounded-lg border border-line bg-card px-3 py-1.5 text-sm font-medium text-ink hover:bg-raised';
  return (
    <section aria-labelledby="begin" className="rounded-xl border border-line bg-card">
      <div className="flex flex-wrap items-center justify-between gap-3 border-b border-line px-4 py-3">
        <div className="grid gap-0.5">
          <h2 id="begin">{done === data.steps.length ? 'You are all set' : 'Get started'}</h2>
          <p className="text-sm text-soft">
            {done} of {data.steps.length} steps done
          </p>
        </div>
        <Button look="ghost" onClick={() => keep.mutate({ body: { onboarding: { dismissed: true } } })} busy={keep.isPending}>
          Dismiss
        </Button>
      </div>
      <ol>
        {data.steps.map(({ step, done: isDone }) => {
          const { title, text, minutes, screen, act } = STEPS[step];
          const needed = SCREENS.find((entry) => entry.path === screen)?.action;
          const mayOpen = needed !== undefined && me?.actions.includes(needed);
          return (
            <li
              key={step}
              className="grid grid-cols-[1.5rem_1fr] items-start gap-3 border-b border-line px-4 py-3 last:border-b-0 sm:grid-cols-[1.5rem_1fr_auto] sm:items-center"
            >
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
                    {text} About {minutes}.
                  </p>
                )}
              </div>
              {!isDone && (
                <div className="flex flex-wrap gap-2 max-sm:col-start-2">
                  {step === 'test_payment' ? (
                    mode === 'test' && mayCreate ? (
                      <Button look={step === next ? 'main' : 'plain'} busy={test.busy} onClick={test.start}>
                        {act}
                      </Button>
                    ) : (
                      <Link to="/test/home" className={link}>
                        Open test mode
                      </Link>
                    )
                  ) : step === 'go_live' && mode === 'test' ? (
                    <Link to="/live/home" className={link}>
                      {act}
                    </Link>
                  ) : (
                    mayOpen && (
                      <Link to={`/${mode}/${screen}`} className={link}>
                        {step === 'go_live' ? 'Live keys' : act}
                      </Link>
                    )
                  )}
                  {step === 'webhook' && (
                    <Button look="ghost" onClick={() => keep.mutate({ body: { onboarding: { polls: true } } })} busy={keep.isPending}>
                      We poll
                    </Button>
                  )}
                </div>
              )}
            </li>
          );
        })}
      </ol>
    </section>
  );
}
