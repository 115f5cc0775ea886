/**
 * postgres.js, patched while it is loaded. In the published version (3.4.9), a connection that ends inside a transaction throws an
 * uncatchable error, and later statements of the transaction run on the next connection, outside of any transaction or inside
 * another one (porsager/postgres issues 1208, 1133 and 1216). Under load, a transaction may share its connection with others. A server
 * that stops answering is waited for without end, and so are several hosts of which none is a primary. Each of these is tested by
 * driver.test.ts. The version is pinned, and a release with different source text is refused at startup instead of running unpatched.
 * See docs/decisions/driver.md.
 */
import { registerHooks } from 'node:module';

const MENDS: Readonly<Record<string, readonly (readonly [from: string, to: string])[]>> = {
  '/postgres/src/connection.js': [
    // A transaction gets the connection on which it begins, also when that connection takes no more statements for now.
    [
      `      return write(toBuffer(q))
        && !q.describeFirst
        && !q.cursorFn
        && sent.length < max_pipeline
        && (!q.options.onexecute || q.options.onexecute(connection))
    } catch (error) {
`,
      `      const more = write(toBuffer(q))
      q.options.onexecute && q.options.onexecute(connection)
      return more
        && !q.describeFirst
        && !q.cursorFn
        && sent.length < max_pipeline
        && !q.options.onexecute
    } catch (error) {
      // A statement that could not be written fails alone, not the one that is answered next.
      if (query !== q) {
        sent.remove(q)
        queryError(q, error)
        return true
      }
`,
    ],
    // A written buffer does not make a connection free that belongs to a transaction.
    ['    !query && onopen(connection)\n', '    !query && !connection.reserved && onopen(connection)\n'],
    // A write after the end rejects its query instead of throwing from a timer.
    [
      '  function nextWrite(fn) {\n',
      `  function nextWrite(fn) {
    if (socket === null) {
      chunk = nextWriteTimer = null
      error(Errors.connection('CONNECTION_CLOSED', options))
      query = null
      return true
    }
`,
    ],
    // A reservation gets the connection that was opened for it, even without a query for array types.
    [
      `      initial && !initial.reserve && execute(initial)
      options.shared.retries = retries = 0
      initial = null
      return
`,
      `      const { reserve } = initial
      reserve || execute(initial)
      options.shared.retries = retries = 0
      initial = null
      if (!reserve)
        return
`,
    ],
    // All connections can be ended at once, and one whose server owes a reply and stays silent for too long ends.
    [
      '  queues.closed && queues.closed.push(connection)\n',
      `  const quiet = { timer: null, heard: 0, paused: false }
  queues.closed && queues.closed.push(connection)
  queues.closed && options.shared.hangUps && options.shared.hangUps.push(hangUp)
`,
    ],
    [
      '  async function createSocket() {\n',
      `  function hangUp() {
    const e = Errors.connection('CONNECTION_CLOSED', options)
    initial && fail(e)
    socket && socket.destroy()
    if (!socket && reconnecting) {
      clearTimeout(reconnecting)
      reconnecting = null
      onclose(connection, e)
    }
  }

  function fail(err) {
    const q = initial
    initial = null
    queryError(q, err)
  }

  // A reply may wait in the socket while this process was busy, so it gets one more second.
  function expect() {
    const { silenceMs } = options.shared
    if (!silenceMs || !silenceMs())
      return
    quiet.timer ? quiet.timer.refresh() : (quiet.timer = setTimeout(() => {
      const { heard } = quiet
      setTimeout(() => quiet.heard === heard && !quiet.paused && (query || sent.length) && socket && socket.destroy(), 1000).unref()
    }, silenceMs()).unref())
  }

  async function createSocket() {
`,
    ],
    ['      build(q)\n', '      build(q)\n      expect()\n'],
    ['  function data(x) {\n', '  function data(x) {\n    quiet.heard++\n    expect()\n'],
    // A cursor whose rows are still being used owes nothing.
    [
      '      const x = await Promise.resolve(query.cursorFn(result))\n',
      `      quiet.paused = true
      const x = await Promise.resolve(query.cursorFn(result)).finally(() => (quiet.paused = false))
`,
    ],
    // Each host is tried, for a limited time. Then the query fails with the reason, instead of waiting for a primary without end.
    [
      '      initial = query\n      reconnect()\n',
      '      initial = query\n      tried = 0\n      began = performance.now()\n      reconnect()\n',
    ],
    [
      '    , retries = 0\n',
      '    , retries = 0\n    , tried = 0\n    , began = 0\n    , refusal = null\n    , reconnecting = null\n    , isSetUp = false\n',
    ],
    [
      '    if (connection.queue === queues.connecting && options.host[retries + 1])\n      return\n',
      `    if (options.host.length > 1 && initial && mayTryAgain()) {
      refusal = err
      return
    }
`,
    ],
    [
      "    errored(Errors.connection('CONNECT_TIMEOUT', options, socket))\n",
      "    error(Errors.connection('CONNECT_TIMEOUT', options, socket))\n",
    ],
    [
      '  function reconnect() {\n    setTimeout(connect, closedTime ? Math.max(0, closedTime + delay - performance.now()) : 0)\n',
      `  function mayTryAgain() {
    return !ending && (tried < options.host.length || performance.now() - began < (options.shared.patienceMs || 0))
  }

  function reconnect() {
    const pause = closedTime ? Math.max(0, closedTime + delay - performance.now()) : 0
    reconnecting = setTimeout(() => (reconnecting = null, connect()), tried === 0 ? pause : tried < options.host.length ? 0 : 100)
    tried++
`,
    ],
    [
      '    if (initial)\n      return reconnect()\n',
      `    isSetUp = false
    if (initial) {
      if (mayTryAgain())
        return reconnect()
      fail(refusal || Errors.connection('CONNECTION_CLOSED', options))
    }
`,
    ],
    [
      '          return terminate()\n      }\n',
      `{
          const no = Object.assign(new Error(NOT_PRIMARY), { code: 'CONNECTION_NOT_PRIMARY' })
          options.host.length > 1 && mayTryAgain() || fail(no)
          terminate()
          refusal = no
          return
        }
      }

      if (options.shared.onopen && !isSetUp)
        return setUp()
`,
    ],
    [
      'export default Connection\n',
      `export default Connection

const NOT_PRIMARY = 'The database server is a standby, and accepts no writes. Connect to the primary, or list all servers in DATABASE_URL'
`,
    ],
    // Settings are made after connecting, because poolers refuse them as startup parameters.
    [
      '  function fetchState() {\n',
      `  function setUp() {
    isSetUp = true
    new Query([options.shared.onopen], [], execute, null, { simple: true }).catch(noop)
  }

  function fetchState() {
`,
    ],
    // The question whether a server is a primary may remain unanswered like any other.
    ['    query.execute()\n  }\n', '    query.catch(noop)\n  }\n'],
    [
      '      errorResponse = Errors.postgres(parseError(x))\n',
      `      errorResponse = Errors.postgres(parseError(x))
      options.shared.failed && options.shared.failed(errorResponse.code)
`,
    ],
    // A closed connection leaves nothing behind for the next one: no half-written bytes, no timer, no query, no error.
    // A statement whose error arrived fails with that error, although the server then closed the connection.
    [
      "    !hadError && (query || sent.length) && error(Errors.connection('CONNECTION_CLOSED', options, socket))\n",
      `    chunk = nextWriteTimer = null
    query && errorResponse && queryError(query, errorResponse)
    ;(query || sent.length) && error(Errors.connection('CONNECTION_CLOSED', options))
    query = results = errorResponse = null
    result = new Result()
`,
    ],
  ],
  '/postgres/src/index.js': [
    // What the connections of several pools have in common is passed as `joint`, because `shared` marks options that were read before.
    ['    shared          : { retries: 0, typeArrayMap: {} },\n', '    shared          : { retries: 0, typeArrayMap: {}, ...o.joint },\n'],
    // While the database is away, a query fails instead of waiting for a connection.
    [
      "      return query.reject(Errors.connection('CONNECTION_ENDED', options, options))\n\n    if (open.length)\n",
      `      return query.reject(Errors.connection('CONNECTION_ENDED', options, options))

    if (options.shared.isAway && options.shared.isAway())
      return query.reject(Errors.connection('CONNECTION_AWAY', options))

    if (open.length)
`,
    ],
    [
      '  const sql = Sql(handler)\n\n  Object.assign(sql, {\n    get parameters',
      `  options.shared.hangUps && options.shared.hangUps.unshift(() => {
    while (queries.length)
      queries.shift().reject(Errors.connection('CONNECTION_CLOSED', options))
  })

  const sql = Sql(handler)

  Object.assign(sql, {
    get parameters`,
    ],
    // A listener waits for the next server, also while the database is away.
    [
      '      fetch_types: false,\n      onclose() {\n',
      '      fetch_types: false,\n      shared: { ...options.shared, isAway: null },\n      onclose() {\n',
    ],
    // The connection that was used last comes first: it has parsed and planned the statements that are sent again and again.
    ['      return go(open.shift(), query)\n', '      return go(open.pop(), query)\n'],
    // A transaction does nothing more after its connection closed.
    ['    let savepoints = 0\n', '    let gone = null\n    let savepoints = 0\n'],
    ['connection.onclose = reject)', 'connection.onclose = e => (gone = e, reject(e)))'],
    [
      '        q.catch(e => uncaughtError || (uncaughtError = e))\n',
      '        q.catch(e => uncaughtError || (uncaughtError = e))\n        if (gone)\n          return q.reject(gone)\n',
    ],
    // Neither does a reservation. Releasing it later must not hand out a connection that others use.
    ['    c.reserved.release = true\n', '    c.reserved.release = true\n    let gone = null\n    c.onclose = e => gone = e\n'],
    ['    sql.release = () => {\n', '    sql.release = () => {\n      if (gone)\n        return\n      c.onclose = null\n'],
    [
      '    function handler(q) {\n      c.queue === full\n        ? queue.push(q)',
      '    function handler(q) {\n      if (gone)\n        return q.reject(gone)\n      c.queue === full\n        ? queue.push(q)',
    ],
  ],
  '/postgres/src/queue.js': [
    [
      '    push: (x) => (xs.push(x), x),\n',
      `    push: (x) => (xs.push(x), x),
    pop: () => {
      const out = xs.pop()

      if (index === xs.length) {
        index = 0
        xs = []
      }

      return out
    },
`,
    ],
  ],
};

const hooks = registerHooks({
  load(url, context, next) {
    const loaded = next(url, context);
    const mends = Object.entries(MENDS).find(([file]) => url.endsWith(file))?.[1];
    if (!mends) return loaded;
    let source = String(loaded.source);
    for (const [from, to] of mends) {
      if (source.split(from).length !== 2) throw new Error(`This release of postgres.js is not known (${url}): install the pinned one.`);
      source = source.replace(from, () => to);
    }
    return { ...loaded, source };
  },
});
const { default: postgres } = await import('postgres');
hooks.deregister();
export default postgres;
