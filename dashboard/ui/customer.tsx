/** A customer in a list or on a page, by the best-known text. */
import type { Reply } from '../lib/api.ts';
import { ModeLink } from './link.tsx';
import { Marked } from './marked.tsx';

type Customer = Pick<Reply<'GET /:mode/customers/:id'>['customer'], 'id' | 'name' | 'email' | 'reference'>;
export const customerName = ({ name, email, reference, id }: Customer): string => name ?? email ?? reference ?? id;

/** Leads to the page of the customer. */
export const CustomerLink = ({ customer }: { customer: Customer | null }) =>
  customer === null ? (
    <span>–</span>
  ) : (
    <ModeLink to={`customers/${customer.id}`} className="wrap-anywhere hover:underline sm:block sm:min-w-32">
      <Marked text={customerName(customer)} />
    </ModeLink>
  );
