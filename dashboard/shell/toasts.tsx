/** Where toasts appear. Screen readers announce them. */
import { useStore } from '../lib/store.ts';
import { toasts } from '../lib/toasts.ts';

export const Toasts = () => (
  <div role="status" aria-live="polite" className="pointer-events-none fixed right-4 bottom-4 z-50 grid gap-2">
    {useStore(toasts).map((toast) => (
      <p
        key={toast.id}
        className={`max-w-sm rounded-lg border border-line px-4 py-2.5 text-sm shadow-lg ${toast.tone === 'bad' ? 'bg-bad-wash text-bad' : 'bg-card text-ink'}`}
      >
        {toast.text}
      </p>
    ))}
  </div>
);
