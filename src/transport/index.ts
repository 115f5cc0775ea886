/** What every HTTP server here shares: bodies, headers, exact JSON, limits, and the guard of the event loop. */
export { checkBody, collect, type ReadingsOf, readBody, together } from './body.ts';
export {
  createClientReader,
  FOR_PAGES,
  limitHeaders,
  type PackedBody,
  packOnce,
  type ReadClient,
  readPacked,
  SpelledResponse,
  sendPacked,
  sendText,
  setHeaders,
  usedUp,
  withoutLimit,
  writePacked,
} from './headers.ts';
export { canonicalJson, EMPTY_BODY, exactJson, type JsonValue, type ParsedBody, parseJson, writtenAt } from './json.ts';
export { type Limits, openLimits } from './limits.ts';
export { excessOf, excessOfPairs, type Histogram, readLoop, startLoopGuard } from './loop-guard.ts';
