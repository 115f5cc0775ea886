/** Schemas of errors, and of the log of requests. */
import Type from 'typebox';
import { PROBLEM_TYPES } from '#core/problem';
import {
  CountField,
  Flag,
  HasMore,
  KeyId,
  Limit,
  literals,
  ModeField,
  OrNull,
  RequestId,
  StartingAfter,
  Success,
  Text,
  Time,
} from './schema-fields.ts';

const fault = {
  type: literals(PROBLEM_TYPES, { description: 'Kind of error, for coarse handling.', examples: ['invalid_request'] }),
  message: Text('What went wrong and what to do, for people. The wording may change: do not parse it.', 'Amount must be greater than 0'),
  param: OrNull(
    Text('A parameter.', 'amount_usd'),
    'The parameter at fault, such as `items[2].quantity`. Null when no single parameter is.',
  ),
  code: Text('The exact error, for your code. All codes are listed at /docs/errors.', 'amount_invalid'),
};
export const ErrorItem = Type.Object(fault, { description: 'One of several faults of a request.' });
export const ErrorDetail = Type.Object(
  {
    ...fault,
    doc_url: Text('Page that explains this code.', 'https://pay.example/docs/errors#amount_invalid'),
    request_id: RequestId('Identifies the request in your request log and in support questions.'),
    errors: Type.Optional(
      Type.Array(ErrorItem, { description: 'All faults of the request, the gravest first. Only when there are several.' }),
    ),
  },
  { description: 'Why a request failed.' },
);
export const ErrorReply = Type.Object({ error: ErrorDetail }, { description: 'The body of every failed request.' });

export const RequestsQuery = Type.Object({
  limit: Limit,
  starting_after: StartingAfter('req_7vKd1Ye4fTq0ZcJb8sWn2LxR'),
  outcome: Type.Optional(Type.Literal('failed', { description: 'Only requests that failed.', examples: ['failed'] })),
  status: Type.Optional(CountField('Only requests that were answered with this HTTP status.', 400, { minimum: 100, maximum: 599 })),
  path: Type.Optional(Text('Only requests whose path contains this text.', '/api/payment/create')),
  key_id: Type.Optional(KeyId('Only requests made with this API key.')),
  request_id: Type.Optional(RequestId('Only this request.')),
});
export const RequestEntry = Type.Object(
  {
    id: RequestId('Identifier of the request, as in its X-Request-Id header.'),
    mode: ModeField,
    created_at: Time('When it was answered.'),
    method: Text('HTTP method.', 'POST'),
    path: Text('Path, without the query.', '/api/payment/create/simple'),
    query: OrNull(Text('A query.', 'limit=10'), 'Query, without the question mark. Null when there was none.'),
    status: CountField('HTTP status of the answer.', 400),
    error_code: OrNull(Text('A code.', 'amount_invalid'), 'Code of the error. Null when the request succeeded.'),
    key_id: KeyId('API key that was used.'),
    duration_ms: CountField('How long it took, in milliseconds.', 4),
    has_idempotency_key: Flag('Whether it carried an Idempotency-Key.', false),
    ip: Text('Address that it came from.', '203.0.113.7'),
    request_body: OrNull(
      Text('A text.', '{"amount_usd":0}'),
      'Body that was sent, without secrets; the first 2048 characters. Null when there was none.',
    ),
    response_body: OrNull(
      Text('A text.', '{"success":true}'),
      'Body that was returned, without secrets; the first 2048 characters. Null when the request failed.',
    ),
    ignored_parameters: Type.Array(Text('Name of a parameter.', 'color'), {
      description: 'Parameters that the request does not take and that were ignored; at most 20.',
    }),
    omitted: CountField('Number of further requests with the same key in the same second that were counted but not kept.', 0),
  },
  { description: 'A request made with one of your API keys. Kept for 30 days.' },
);
export const RequestList = Type.Object({
  success: Success,
  data: Type.Array(RequestEntry, { description: 'The requests, newest first.' }),
  has_more: HasMore,
});
