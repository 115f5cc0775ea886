/** Creating a test payment from Home. */
import { useNavigate } from '@tanstack/react-router';
import { useAct } from '../../lib/hooks.ts';

/** Creates a test payment and opens it, with its simulator. */
export function useTestPayment() {
  const navigate = useNavigate();
  const create = useAct('POST /:mode/payments', { refreshes: [['payments'], ['home']] });
  return {
    busy: create.isPending,
    start: async () => {
      // With the first payment, the refreshed Home no longer shows this button. `mutateAsync` resolves even then.
      const made = await create.mutateAsync({ body: { amount_usd: '25.00', description: 'Test payment' } }).catch(() => null);
      if (made) await navigate({ to: `/test/payments/${made.id}` });
    },
  };
}
