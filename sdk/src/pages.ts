/** Lists: the first page when awaited, every row when iterated. */

export type PageOf<Row> = { data: Row[]; has_more: boolean };
/** `await` gives the first page; `for await` walks all rows, page by page; `toArray` collects them up to a bound. */
export type Listing<Page extends PageOf<unknown>> = Promise<Page> & {
  [Symbol.asyncIterator](): AsyncIterator<Page['data'][number]>;
  toArray(options: { limit: number }): Promise<Page['data'][number][]>;
};
/** Most rows are identified by their id. */
export const byId = (row: { id: string }): string => row.id;
type Cursors = { starting_after?: string | undefined; ending_before?: string | undefined };

/** A list that gets its pages with `ask`; each starts after the row whose cursor is `cursorOf(row)`. With `ending_before`, rows come in the opposite order, away from the cursor. */
export function listing<Row, Page extends PageOf<Row>, Params extends Cursors>(
  params: Params,
  ask: (params: Params) => Promise<Page>,
  cursorOf: (row: Page['data'][number]) => string,
): Listing<Page> {
  const first = ask(params);
  async function* rows(): AsyncGenerator<Row> {
    let page = await first;
    const back = params.ending_before !== undefined;
    for (;;) {
      const data = back ? [...page.data].reverse() : page.data;
      yield* data;
      const last = data.at(-1);
      if (!page.has_more || !last) return;
      page = await ask({ ...params, [back ? 'ending_before' : 'starting_after']: cursorOf(last) });
    }
  }
  return Object.assign(first, {
    [Symbol.asyncIterator]: rows,
    toArray: async ({ limit }: { limit: number }) => {
      const all: Row[] = [];
      for await (const row of rows()) {
        if (all.length >= limit) break;
        all.push(row);
      }
      return all;
    },
  }) as Listing<Page>;
}
