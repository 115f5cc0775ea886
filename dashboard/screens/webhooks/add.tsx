/** Adds an endpoint, then shows its signing secret. */
import { useState } from 'react';
import type { Reply } from '../../lib/api.ts';
import { useAct } from '../../lib/hooks.ts';
import { Button, buttonClass } from '../../ui/button.tsx';
import { Dialog, Foot } from '../../ui/dialog.tsx';
import { ModeLink } from '../../ui/link.tsx';
import { EndpointForm } from './form.tsx';
import { SecretBox } from './secret.tsx';
import { SavedNotes } from './words.tsx';

export function Add({ onClose }: { onClose: () => void }) {
  const create = useAct('POST /:mode/webhooks', { refreshes: [['webhooks']] });
  const [made, setMade] = useState<Reply<'POST /:mode/webhooks'>['endpoint'] | null>(null);
  if (made !== null) {
    return (
      <Dialog open onClose={onClose} title="Endpoint added">
        <p className="text-soft">
          Your server uses this signing secret to verify that events come from Florin. You can find it again in the endpoint’s settings.
        </p>
        <SecretBox secret={made.secret} />
        <SavedNotes connection={made.connection} same_url={made.same_url} />
        <div className="flex flex-wrap justify-end gap-2">
          <Button onClick={onClose}>Close</Button>
          <ModeLink to={`webhooks/${made.id}`} className={buttonClass('main')}>
            View endpoint
          </ModeLink>
        </div>
      </Dialog>
    );
  }
  return (
    <Dialog open onClose={onClose} title="Add an endpoint">
      <EndpointForm
        initial={{ url: '', events: ['*'], description: null }}
        error={create.error}
        onSubmit={(body) => create.mutate({ body }, { onSuccess: ({ endpoint }) => setMade(endpoint) })}
      >
        <Foot onBack={onClose}>
          <Button type="submit" look="main" busy={create.isPending}>
            Add endpoint
          </Button>
        </Foot>
      </EndpointForm>
    </Dialog>
  );
}
