/** What the screens of keys share: how a key is shown that one time, and the first three lines that use it. */
import { useState } from 'react';
import type { Reply } from '../../lib/api.ts';
import { useMode } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { CodeTabs } from '../../ui/code.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Icon } from '../../ui/icon.tsx';
import { Badge, type Tone } from '../../ui/values.tsx';

export type Shown = Reply<'POST /:mode/keys'>;
export type Key = Shown['key'];

export const stateOf = (key: Key): { word: string; tone: Tone; icon: 'check' | 'clock' | 'cross' } => {
  if (key.is_active && key.replaced_by !== null) return { word: 'Rolled', tone: 'warn', icon: 'clock' };
  if (key.is_active) return { word: 'Active', tone: 'good', icon: 'check' };
  return key.revoked_at === null ? { word: 'Expired', tone: 'calm', icon: 'clock' } : { word: 'Revoked', tone: 'calm', icon: 'cross' };
};
export const KeyState = ({ of }: { of: Key }) => {
  const { word, tone, icon } = stateOf(of);
  return (
    <Badge tone={tone} icon={icon}>
      {word}
    </Badge>
  );
};

/** The new key, once; it closes only when somebody says that it is stored. */
export function ShowKey({ shown, onClose }: { shown: Shown; onClose: () => void }) {
  const [stored, setStored] = useState(false);
  const [reminded, setReminded] = useState(false);
  const { key, text } = shown;
  const close = () => (stored ? onClose() : setReminded(true));
  const curl =
    key.kind === 'secret'
      ? `curl ${location.origin}/api/payments \\\n  -H 'Authorization: Bearer ${text}'`
      : `curl ${location.origin}/api/payment/create/simple \\\n  -H 'Authorization: Bearer ${text}' \\\n  -H 'Content-Type: application/json' \\\n  -d '{"amount_usd":"25.00","return_url":"https://shop.example/thanks"}'`;
  return (
    <Dialog open onClose={close} title={key.kind === 'secret' ? 'Your new secret key' : 'Your new public key'}>
      <p className="flex items-start gap-2 text-sm text-soft">
        <Icon name="alert" className="mt-0.5 size-4 text-warn" />
        <span>
          This is the only time that <strong className="font-medium text-ink">{key.name}</strong> is shown. Put it where your{' '}
          {key.kind === 'secret' ? 'server keeps its secrets' : 'page can read it'}.
        </span>
      </p>
      <CodeTabs
        label="How to keep it"
        tabs={[
          { name: 'Key', text },
          { name: '.env', text: `FLORIN_API_KEY=${text}` },
          { name: 'curl', text: curl },
        ]}
      />
      <label className="flex items-center gap-2.5 text-sm">
        <input type="checkbox" className="size-4 accent-accent" checked={stored} onChange={(event) => setStored(event.target.checked)} />I
        have stored it
      </label>
      {reminded && !stored && (
        <p role="alert" className="text-sm text-bad">
          Store the key first, then say so: it cannot be shown again.
        </p>
      )}
      <Button look="main" onClick={close}>
        Done
      </Button>
    </Dialog>
  );
}

/** Three lines in four languages. */
export function QuickStart() {
  const mode = useMode();
  const url = `${location.origin}/api/payment/create/simple`;
  const body = '{"amount_usd":"25.00","return_url":"https://shop.example/thanks"}';
  return (
    <div className="grid gap-3 p-4">
      <p className="text-sm text-soft">
        Set <code>FLORIN_API_KEY</code> to a {mode} secret key. The reply holds the address of the payment page.
      </p>
      <CodeTabs
        label="Language"
        tabs={[
          {
            name: 'curl',
            text: `curl ${url} -H "Authorization: Bearer $FLORIN_API_KEY" \\\n  -H 'Content-Type: application/json' \\\n  -d '${body}'`,
          },
          {
            name: 'Node',
            text: `import { createClient } from 'florin';\nconst florin = createClient({ url: '${location.origin}', key: process.env.FLORIN_API_KEY });\nconst { payment_url } = await florin.payments.createSimple({ amount_usd: '25.00', return_url: 'https://shop.example/thanks' });`,
          },
          {
            name: 'Python',
            text: `import os, requests\nreply = requests.post("${url}", headers={"Authorization": "Bearer " + os.environ["FLORIN_API_KEY"]}, json={"amount_usd": "25.00", "return_url": "https://shop.example/thanks"})\nprint(reply.json()["payment_url"])`,
          },
          {
            name: 'PHP',
            text: `$http = ["method" => "POST", "header" => ["Authorization: Bearer " . getenv("FLORIN_API_KEY"), "Content-Type: application/json"], "content" => '${body}'];\n$reply = json_decode(file_get_contents("${url}", false, stream_context_create(["http" => $http])));\necho $reply->payment_url;`,
          },
        ]}
      />
    </div>
  );
}
