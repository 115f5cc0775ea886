/** Customers: who payments are for. */
export {
  type CustomerRow,
  checkPayerEmail,
  customerOf,
  customersCte,
  deleteCustomers,
  getCustomer,
  identified,
  listCustomers,
  readCustomer,
  readCustomersOf,
} from './customers.ts';
