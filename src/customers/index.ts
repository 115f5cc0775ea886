/** Customers: who payments are for. */
export {
  type Customer,
  type CustomerRow,
  checkPayerEmail,
  customerOf,
  customersCte,
  deleteCustomers,
  getCustomer,
  identified,
  listCustomers,
  type NamedCustomer,
  readCustomer,
  readCustomersOf,
} from './customers.ts';
