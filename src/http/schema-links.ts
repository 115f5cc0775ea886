/** Schemas of payment links. */
import Type from 'typebox';
import { WarningSchema } from './schema.ts';
import {
  Amount,
  CountField,
  Decimal,
  FiatCode,
  Flag,
  HasMore,
  Limit,
  ModeField,
  OneOf,
  OrNull,
  PaymentId,
  StartingAfter,
  Success,
  Text,
  Time,
} from './schema-fields.ts';

const EXAMPLE = 'lnk_Ye4fTq0ZcJb8sWn2LxR7vKd1';
const Terms = {
  amount: Type.Optional(
    OrNull(Amount('An amount.'), 'Price of each payment, in `currency`. Null, or absent for a new link: the customer chooses the amount.'),
  ),
  currency: Type.Optional(FiatCode('Currency of the amount. Defaults to USD.')),
  reusable: Type.Optional(
    Flag(
      'Whether any number of customers can pay. False: everyone who opens the link sees the same payment until it is paid. Defaults to true.',
      true,
    ),
  ),
  return_url: Type.Optional(
    OrNull(
      Text('A URL.', 'https://shop.example/thanks', { maxLength: 2_000 }),
      'Where customers go afterwards: an https URL. Null for none.',
    ),
  ),
  ask_email: Type.Optional(Flag('Whether customers must enter an email address, which makes them a customer of yours.', false)),
};
const Name = Text('What it is for. Customers see this.', 'Two mugs', { minLength: 1, maxLength: 200 });

export const CreateLink = Type.Object({ name: Name, ...Terms });
export const UpdateLink = Type.Object({
  name: Type.Optional(Name),
  ...Terms,
  state: Type.Optional(OneOf('LinkState', '`archived`: the link creates no more payments. `active`: it does again.', 'archived')),
});

export const LinkItem = Type.Object(
  {
    id: Text('Identifier of the link.', EXAMPLE),
    mode: ModeField,
    name: Name,
    amount: OrNull(Decimal('An amount.', '25.50'), 'Price of each payment, in `currency`. Null when the customer chooses the amount.'),
    currency: FiatCode('Currency of the amount.'),
    reusable: Flag('Whether any number of customers can pay.', true),
    return_url: OrNull(Text('A URL.', 'https://shop.example/thanks'), 'Where customers go afterwards. Null for none.'),
    ask_email: Flag('Whether customers must enter an email address.', false),
    state: OneOf('LinkState', 'An archived link creates no more payments.', 'active'),
    payments: CountField('How many payments were created through the link.', 3),
    payment_id: OrNull(
      PaymentId('Identifier of a payment.'),
      'The newest payment that was created through the link. Null when there is none.',
    ),
    url: Text('The page to share. It creates a payment when a customer continues.', `https://pay.example/link/${EXAMPLE}`),
    created_at: Time('When the link was created.'),
  },
  { description: 'A page that creates a payment for each customer who opens it.' },
);
export const LinkReply = Type.Object({ success: Success, ...LinkItem.properties });
export const LinkCreated = Type.Object({
  ...LinkReply.properties,
  warnings: Type.Array(WarningSchema, { description: 'Why customers could not pay now, if so.' }),
});
export const LinkList = Type.Object({
  success: Success,
  data: Type.Array(LinkItem, { description: 'The links, newest first.' }),
  has_more: HasMore,
});
export const LinksQuery = Type.Object({
  limit: Limit,
  starting_after: StartingAfter(EXAMPLE),
  state: Type.Optional(OneOf('LinkState', 'Only links in this state.', 'active')),
});
