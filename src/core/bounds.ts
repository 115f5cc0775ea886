/**
 * The bounds of what others write: request lines, headers, bodies, and what of them is searched or logged. What exceeds a bound is refused
 * before anything is done with it, or cut before it is read. Each bound is far above what honest clients send, and low enough that the
 * worst text within it costs a few milliseconds.
 */

// Bodies of JSON
/** Bytes of a body, unless a route takes files. A hundred order lines take 40 kB. */
export const MOST_BODY_BYTES = 65_536;
/** Levels of lists and objects. The deepest documented body has three. */
export const MOST_JSON_DEPTH = 20;
/** Values in a body, with those inside of others. A hundred order lines have 500. Each costs memory many times its text. */
export const MOST_JSON_VALUES = 5_000;
/** Characters of a name. V8 hashes texts above 16,383 characters by their length, so that all of them collide. */
export const LONGEST_JSON_NAME = 200;
/** Characters of the path to a value, such as `items[2].unit_price`, which errors and hints contain. */
export const LONGEST_JSON_PATH = 1_000;

// Request lines, headers and forms
/** Characters of a path with its query. Node already limits all header lines together to 16 kB. */
export const LONGEST_URL = 8_000;
/** Parameters of a query or of a form. No route takes more than thirty. */
export const MOST_PARAMETERS = 100;
/** Characters of the name of a query parameter. */
export const LONGEST_PARAMETER_NAME = 200;
/** Header lines. Browsers send about 20, and proxies add as many. */
export const MOST_HEADERS = 100;
/** Bytes of a form of the payment pages. The longest field is a return address. */
export const MOST_FORM_BYTES = 8_192;
/** Characters of a quoted Idempotency-Key: each of its 255 may be escaped. */
export const LONGEST_IDEMPOTENCY_HEADER = 512;
/** Characters of an origin: a host name has at most 253. */
export const LONGEST_ORIGIN = 300;

// Files
/** Cells of a CSV file, empty ones and blank lines included: a thousand rows of fifty. */
export const MOST_CSV_CELLS = 50_000;

// Logs
/** Characters of a body that the request log looks at, twice what it keeps: a secret is found whole before the text is cut. */
export const MOST_LOGGED_READ = 4_096;
/** Characters of a text in a line of the process log, and entries of a list or an object. */
export const LONGEST_LOG_TEXT = 4_000;
export const MOST_LOG_ENTRIES = 50;
