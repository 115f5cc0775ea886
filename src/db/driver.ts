/**
 * postgres.js, patched while it is loaded. In the published version (3.4.9), a connection that ends inside a transaction throws an
 * uncatchable error, and later statements of the transaction run on the next connection, outside of any transaction or inside
 * another one (porsager/postgres issues 1208, 1133 and 1216). Under load, a transaction may share its connection with others. Each of
 * these is tested by driver.test.ts. The version is pinned, and a release with different source text is refused at startup instead of
 * running unpatched. See docs/decisions/driver.md.
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
    // A closed connection leaves nothing behind for the next one: no half-written bytes, no timer, no query, no error.
    [
      "    !hadError && (query || sent.length) && error(Errors.connection('CONNECTION_CLOSED', options, socket))\n",
      `    chunk = nextWriteTimer = null
    ;(query || sent.length) && error(Errors.connection('CONNECTION_CLOSED', options))
    query = results = errorResponse = null
    result = new Result()
`,
    ],
  ],
  '/postgres/src/index.js': [
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
