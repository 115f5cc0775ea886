/** Sends a test event of the chosen type, then opens its delivery. */
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { EVENT_TYPES } from '../../generated/api.ts';
import { useAct, useMode } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, Foot } from '../../ui/dialog.tsx';
import { Select } from '../../ui/field.tsx';
import type { Endpoint } from './words.tsx';

export function TestEvent({ endpoint, onClose }: { endpoint: Endpoint; onClose: () => void }) {
  const mode = useMode();
  const navigate = useNavigate();
  const [type, setType] = useState<'webhook.test' | (typeof EVENT_TYPES)[number]>('webhook.test');
  const send = useAct('POST /:mode/webhooks/:id/test', {
    refreshes: [['deliveries'], ['webhooks']],
    done: 'Test event sent.',
  });
  return (
    <Dialog open onClose={onClose} title="Send test event">
      <p className="text-soft">
        {mode === 'test'
          ? 'Sent once, and signed like any event. The payment in it doesn’t exist.'
          : 'Sends a webhook.test event once, signed like any event. To send other event types, use test mode: in live mode, payment events are only sent for real payments.'}
      </p>
      {mode === 'test' && (
        <Select
          label="Event type"
          value={type}
          onChange={(event) => setType(event.target.value as typeof type)}
          options={['webhook.test', ...EVENT_TYPES].map((value) => ({ value, label: value }))}
        />
      )}
      <Foot onBack={onClose}>
        <Button
          look="main"
          busy={send.isPending}
          onClick={() =>
            send.mutate(
              { params: { id: endpoint.id }, body: { type } },
              {
                onSuccess: ({ delivery }) => {
                  onClose();
                  void navigate({ to: `/${mode}/webhooks/${endpoint.id}/deliveries`, search: { delivery: delivery.id } as never });
                },
              },
            )
          }
        >
          Send
        </Button>
      </Foot>
    </Dialog>
  );
}
