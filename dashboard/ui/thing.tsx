/** Shared by the pages of one object: a payment, an event, a key. */
import { ModeLink } from './link.tsx';
import { Pending } from './states.tsx';

/** A link to the list that contains the object. */
export const Back = ({ to: [to, name] }: { to: readonly [to: string, name: string] }) => (
  <p className="text-sm">
    <ModeLink to={to}>{name}</ModeLink>
  </p>
);

/** Where an object of an event is shown, by the prefix of its ID. */
const SCREENS: Readonly<Record<string, string>> = { pay: 'payments/', ref: 'refunds?refund=', po: 'payouts?payout=' };
/** What an event is about: a payment, a refund or a payout. */
export const ObjectLink = ({ id }: { id: string | null }) => {
  const screen = SCREENS[id?.split('_')[0] ?? ''];
  if (id === null || screen === undefined) return '–';
  return (
    <ModeLink to={screen + id} className="font-mono text-xs break-all hover:underline">
      {id}
    </ModeLink>
  );
};

/** Such a page while it loads. The heading is there from the start. */
export const PendingPage = ({
  of,
  title,
  back,
}: {
  of: Parameters<typeof Pending>[0]['of'];
  title: string;
  back: readonly [to: string, name: string];
}) => (
  <div className="grid gap-6">
    <Back to={back} />
    <h1>{title}</h1>
    <Pending of={of} lines={12} />
  </div>
);
