/** Dialogs of connected shops: a new key with where to enter it, and disconnecting. */
import { type FormEvent, useState } from 'react';
import type { Reply } from '../../lib/api.ts';
import { useAct, useMode } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Code } from '../../ui/code.tsx';
import { Dialog, Foot } from '../../ui/dialog.tsx';
import { Field } from '../../ui/field.tsx';
import { Choice } from '../../ui/form.tsx';
import { CONNECTABLE, type Connectable, PLATFORM_STEPS, PLATFORM_WORDS, type Shop } from './platforms.ts';

type Made = Reply<'POST /:mode/shops'>;

export function ConnectShop({ onClose }: { onClose: () => void }) {
  const mode = useMode();
  const [platform, setPlatform] = useState<Connectable>('woocommerce');
  const [name, setName] = useState('');
  const [webhookUrl, setWebhookUrl] = useState('');
  const [made, setMade] = useState<Made | null>(null);
  const connect = useAct('POST /:mode/shops', { refreshes: [['shops']] });
  const isCommerce = platform === 'coinbase-commerce';
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const webhook = isCommerce && webhookUrl.trim() !== '' ? webhookUrl.trim() : null;
    connect.mutate({ body: { platform, name: name.trim(), webhook_url: webhook } }, { onSuccess: setMade });
  };
  if (made !== null) return <ShowShopKey made={made} platform={platform} onClose={onClose} />;
  return (
    <Dialog open onClose={onClose} title={mode === 'test' ? 'Connect a shop in test mode' : 'Connect a shop'}>
      <form onSubmit={submit} className="grid gap-4">
        <p className="text-sm text-soft">
          Many plugins can connect without this step: enter this address as the address of BTCPay Server and choose “Generate API key”.
        </p>
        <Choice
          label="Platform"
          hint={PLATFORM_STEPS[platform]}
          options={CONNECTABLE.map((value) => ({ value, label: PLATFORM_WORDS[value] }))}
          value={platform}
          onChange={(event) => setPlatform(CONNECTABLE.find((known) => known === event.target.value) ?? 'woocommerce')}
        />
        <Field
          label="Name"
          hint="Such as the address of your shop."
          maxLength={60}
          required
          pattern=".*\S.*"
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
        {isCommerce && (
          <Field
            label="Webhook URL"
            hint="Copy it from the settings of the plugin. Without it, the shop isn’t notified."
            type="url"
            maxLength={2000}
            placeholder="https://shop.example/?wc-api=WC_Gateway_Coinbase"
            value={webhookUrl}
            onChange={(event) => setWebhookUrl(event.target.value)}
          />
        )}
        <Foot onBack={onClose}>
          <Button type="submit" look="main" busy={connect.isPending}>
            Create key
          </Button>
        </Foot>
      </form>
    </Dialog>
  );
}

type Shown = Pick<Made, 'url' | 'api_key' | 'store_id' | 'not_granted'> & Partial<Pick<Made, 'webhook_secret'>>;
export function ShowShopKey({ made, platform, onClose }: { made: Shown; platform: Connectable | null; onClose: () => void }) {
  const isCommerce = platform === 'coinbase-commerce';
  return (
    <Dialog open onClose={onClose} title="Enter this in your shop">
      {platform !== null && <p className="text-sm text-soft">{PLATFORM_STEPS[platform]}</p>}
      <div className="grid gap-3 text-sm">
        <div className="grid gap-1">
          <span className="font-medium">{isCommerce ? 'API address' : 'Address of BTCPay Server'}</span>
          <Code text={made.url} label="Copy the address" />
        </div>
        <div className="grid gap-1">
          <span className="font-medium">API key</span>
          <Code text={made.api_key} label="Copy the API key" />
        </div>
        {isCommerce ? (
          made.webhook_secret && (
            <div className="grid gap-1">
              <span className="font-medium">Webhook secret</span>
              <Code text={made.webhook_secret} label="Copy the webhook secret" />
            </div>
          )
        ) : (
          <div className="grid gap-1">
            <span className="font-medium">Store ID</span>
            <Code text={made.store_id} label="Copy the store ID" />
          </div>
        )}
      </div>
      {made.not_granted.length > 0 && (
        <p className="text-sm text-warn">
          Your role can’t give the shop everything that its plugin expects, such as refunds or decisions about late money. If the plugin
          refuses this key, ask an owner or admin to connect the shop.
        </p>
      )}
      <p className="text-sm text-soft">Copy this now: you won’t see the key{made.webhook_secret && ' or the secret'} again.</p>
      <Button look="main" onClick={onClose}>
        Done
      </Button>
    </Dialog>
  );
}

const ENDS = [
  { value: 'now', label: 'Now' },
  { value: 'hour', label: 'In 1 hour' },
  { value: 'day', label: 'In 1 day' },
  { value: 'week', label: 'In 7 days' },
] as const;

/** Replaces the key of a shop, whose webhooks stay as they are. */
export function RollKey({ shop, onClose }: { shop: Shop; onClose: () => void }) {
  const [ends, setEnds] = useState<(typeof ENDS)[number]['value']>('day');
  const roll = useAct('POST /:mode/shops/:id/roll', { refreshes: [['shops']] });
  if (roll.data) {
    const platform = CONNECTABLE.find((known) => known === shop.platform) ?? null;
    return <ShowShopKey made={roll.data} platform={platform} onClose={onClose} />;
  }
  return (
    <Dialog open onClose={onClose} title={`Replace the key of ${shop.name}`}>
      <p className="text-sm text-soft">
        You get a new key to enter in your shop. Its webhooks keep their secrets, so it is notified about every payment, also about those
        that are open now.
      </p>
      <Choice
        label="Old key ends"
        options={ENDS}
        value={ends}
        onChange={(event) => setEnds(ENDS.find(({ value }) => value === event.target.value)?.value ?? 'day')}
      />
      <Foot onBack={onClose}>
        <Button look="main" busy={roll.isPending} onClick={() => roll.mutate({ params: { id: shop.id }, body: { ends } })}>
          Replace key
        </Button>
      </Foot>
    </Dialog>
  );
}

export function Disconnect({ shop, onClose }: { shop: Shop; onClose: () => void }) {
  const end = useAct('POST /:mode/shops/:id/disconnect', { refreshes: [['shops']], done: 'Shop disconnected.' });
  return (
    <Dialog open onClose={onClose} title={`Disconnect ${shop.name}?`}>
      <p className="text-sm text-soft">
        Its key stops working within a second, so the shop can’t create payments anymore. Payments that it created stay, but its webhooks
        are disabled, so it is no longer notified about them.
      </p>
      <Foot onBack={onClose}>
        <Button
          look="danger"
          busy={end.isPending}
          onClick={() => end.mutate({ params: { id: shop.id }, body: {} }, { onSuccess: onClose })}
        >
          Disconnect
        </Button>
      </Foot>
    </Dialog>
  );
}
