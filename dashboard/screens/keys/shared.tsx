/** What the key screens share: the status of a key, and the code samples of the quick start. */
import { KEY_PERMISSIONS, type KeyPermission } from '../../generated/api.ts';
import type { Reply } from '../../lib/api.ts';
import { useMode } from '../../lib/hooks.ts';
import { CodeTabs } from '../../ui/code.tsx';
import { Badge, type Tone } from '../../ui/values.tsx';

export type ShownKey = Reply<'POST /:mode/keys'>;
export type Key = ShownKey['key'];

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

export const PERMISSION_WORDS: Readonly<Record<KeyPermission, string>> = {
  payments: 'Payments',
  resolve: 'Decisions about payments',
  refunds: 'Refunds',
  payouts: 'Payouts',
  webhooks: 'Webhooks',
  lookups: 'Prices and lookups',
};
/** What a secret key can do, in a few words. */
export function permissionWords({ permissions, read_only }: Key): string {
  const all = permissions === null || permissions.length === KEY_PERMISSIONS.length;
  const words = all ? 'Everything' : permissions.map((name) => PERMISSION_WORDS[name]).join(', ');
  return read_only ? `Read only: ${all ? 'everything' : words}` : words;
}

/** 12345 as 12,345. */

/** Creates a payment, in four languages. */
export function QuickStart() {
  const mode = useMode();
  const url = `${location.origin}/api/payment/create/simple`;
  const body = '{"amount_usd":"25.00","return_url":"https://shop.example/thanks"}';
  return (
    <div className="grid gap-3 p-4">
      <p className="text-sm text-soft">
        Set <code>FLORIN_API_KEY</code> to a {mode} secret key. Send your customer to the <code>payment_url</code> in the response.
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
