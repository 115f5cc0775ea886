/** The page that the plugin of a shop opens: a member lets the shop connect, and the browser takes the key there. */
import { useEffect, useRef, useState } from 'react';
import type { Reply } from '../../lib/api.ts';
import { useAct, useFilters, useMay, useMode, useTitle } from '../../lib/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Segments } from '../../ui/form.tsx';
import { Card, ErrorCard, Skeleton } from '../../ui/states.tsx';
import { ShowShopKey } from './connect.tsx';

type Asked = Reply<'POST /:mode/shops/asked'>;
type Paired = Reply<'POST /:mode/shops/pair'>;

/** In the order in which they are shown. */
const MAY = [
  ['cancreateinvoice', 'Create payments'],
  ['canviewinvoices', 'See the payments of your shops'],
  ['canmodifyinvoices', 'Cancel payments of your shops, and accept or reject money that arrived late'],
  ['canviewstoresettings', 'See the name of your business and the coins you accept'],
  ['canmodifywebhooks', 'Be notified about payments of your shops'],
  ['pullpayments', 'Ask you to refund a customer. You send refunds yourself.'],
] as const;

const wordsOf = (permissions: readonly string[]): string[] =>
  MAY.filter(([name]) => permissions.some((permission) => permission.endsWith(name))).map(([, words]) => words);

/** What the plugin asks for and the member may not give. */
function NotGrantable({ permissions }: { permissions: readonly string[] }) {
  return (
    <>
      <span className="pt-2 font-medium">Not available with your role</span>
      <ul className="grid list-disc gap-1 pl-5 text-soft">
        {wordsOf(permissions).map((words) => (
          <li key={words}>{words}</li>
        ))}
      </ul>
      <p className="text-soft">
        The plugin asks for this too, and may refuse a key without it. To give the shop everything, ask an owner or admin to connect it.
      </p>
    </>
  );
}

export function Screen() {
  useTitle('Connect a shop');
  const mode = useMode();
  const { filters } = useFilters(['ask']);
  const mayManage = useMay('keys.manage');
  const read = useAct('POST /:mode/shops/asked', { quiet: true });
  const pair = useAct('POST /:mode/shops/pair', { quiet: true });
  const [asked, setAsked] = useState<Asked | null>(null);
  const [paired, setPaired] = useState<Paired | null>(null);
  const begin = useRef(read.mutate);
  useEffect(() => begin.current({ body: { ask: filters.ask } }, { onSuccess: setAsked }), [filters.ask]);
  if (read.error) return <ErrorCard error={read.error} />;
  if (asked === null) return <Skeleton lines={6} />;
  const isComplete = asked.unknown.length === 0 && asked.permissions.length > 0;
  const possible = isComplete && asked.not_grantable.length < asked.permissions.length;
  return (
    <div className="mx-auto grid w-full max-w-xl gap-5">
      <h1>Connect a shop</h1>
      <Card>
        <div className="grid gap-4 p-5">
          <p>
            <strong className="font-medium">{asked.name}</strong>
            {asked.site !== null && (
              <>
                {' '}
                at <strong className="font-medium break-all">{asked.site}</strong>
              </>
            )}{' '}
            wants to take payments for <strong className="font-medium">{asked.business}</strong>.
          </p>
          <Segments
            label="Mode"
            value={mode}
            options={[
              { value: 'live', label: 'Live' },
              { value: 'test', label: 'Test' },
            ]}
            onChange={(chosen) => location.assign(`/dashboard/${chosen}/shops/authorize?ask=${filters.ask}`)}
          />
          <p className="text-sm text-soft">
            {mode === 'test' ? 'Test payments move no money.' : 'Customers of this shop pay with real money.'}
          </p>
          {isComplete ? (
            <div className="grid gap-1.5 text-sm">
              <span className="font-medium">The shop can</span>
              <ul className="grid list-disc gap-1 pl-5">
                {wordsOf(asked.permissions.filter((permission) => !asked.not_grantable.includes(permission))).map((words) => (
                  <li key={words}>{words}</li>
                ))}
              </ul>
              {asked.not_grantable.length > 0 && <NotGrantable permissions={asked.not_grantable} />}
              <p className="text-soft">It can’t move money, see other payments or change your settings.</p>
            </div>
          ) : (
            <p role="alert" className="text-sm text-bad">
              {asked.unknown.length > 0
                ? `This plugin asks for permissions that Florin doesn’t have: ${asked.unknown.join(', ')}.`
                : 'The link of this plugin is not complete. Start again in the settings of your shop.'}
            </p>
          )}
          {asked.unprotected && (
            <p role="alert" className="text-sm text-bad">
              This shop uses plain http. Anyone on the network between you and the shop can read the key and use it. Turn on https for the
              shop, and start again in its settings.
            </p>
          )}
          {!asked.on_plan && (
            <p role="alert" className="text-sm text-bad">
              Your plan doesn’t include webhooks, so the shop wouldn’t be notified about payments. Ask your operator to change the plan
              first.
            </p>
          )}
          {pair.error && (
            <p role="alert" className="text-sm text-bad">
              {pair.error.message}
            </p>
          )}
          {mayManage ? (
            <Button
              look="main"
              busy={pair.isPending}
              disabled={!possible}
              onClick={() => pair.mutate({ body: { ask: filters.ask } }, { onSuccess: setPaired })}
            >
              {asked.site === null ? 'Create key' : 'Connect'}
            </Button>
          ) : (
            <p className="text-sm">Ask an owner, admin or developer of your team to connect the shop.</p>
          )}
        </div>
      </Card>
      {paired !== null && <Handover paired={paired} />}
    </div>
  );
}

/** Sends the key to the shop in a form, or shows it when the plugin named no address. */
function Handover({ paired }: { paired: Paired }) {
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => form.current?.submit(), []);
  if (paired.redirect === null)
    return <ShowShopKey made={paired} platform={null} onClose={() => location.assign(location.pathname.replace('/authorize', ''))} />;
  return (
    <form ref={form} method="post" action={paired.redirect} className="grid gap-2">
      <input type="hidden" name="apiKey" value={paired.api_key} />
      <input type="hidden" name="userId" value={paired.user_id} />
      {paired.permissions.map((permission) => (
        <input key={permission} type="hidden" name="permissions[]" value={permission} />
      ))}
      <Button type="submit">Continue to the shop</Button>
    </form>
  );
}
