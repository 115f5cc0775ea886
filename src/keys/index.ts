/** API keys, and the log of the requests made with them. */
export {
  addApiKey,
  endApiKey,
  getApiKey,
  type Key,
  listApiKeys,
  ROLL_ENDS,
  type RollEnds,
  readApiKeyCalls,
  rollApiKey,
} from './key-ring.ts';
export { createApiKey, findApiKey, isOrigin, type KeyKind, type KeyOwner, keyChecksum, revokeApiKey } from './keys.ts';
export {
  forgetRequests,
  getRequest,
  type LoggedRequest,
  listRequests,
  noteRequest,
  readAgent,
  readRequestPulse,
  requestLogCounts,
  startRequestLog,
} from './requests.ts';
