/** The database handle: values are read back as they were written. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { testDatabase } from '../../test/kit/database.ts';
import { OID } from './db.ts';

test('arrays of every type in use are read back as they were written', async () => {
  const database = await testDatabase();
  const { sql } = database.db;
  try {
    const text = fc.option(
      fc.oneof(fc.string({ unit: 'grapheme' }), fc.constantFrom('', 'NULL', 'null', '{}', 'a,b', '"', '\\', '\\"', '\n')),
    );
    const storable = text.map((t) => t?.replaceAll('\0', '') ?? null);
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          texts: fc.array(storable),
          longs: fc.array(fc.option(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }))),
          wide: fc.array(fc.bigInt({ min: 0n, max: 10n ** 38n - 1n })),
          ints: fc.array(fc.integer()),
          flags: fc.array(fc.option(fc.boolean())),
          bytes: fc.array(fc.option(fc.uint8Array())),
          dates: fc.array(fc.option(fc.date({ min: new Date('1970-01-01'), max: new Date('9999-12-31'), noInvalidDate: true }))),
        }),
        async ({ texts, longs, wide, ints, flags, bytes, dates }) => {
          const [row] = await sql`
            select ${texts as string[]}::text[] as texts, ${sql.array(longs as bigint[], OID.int8)}::bigint[] as longs,
              ${wide.map(String)}::numeric[] as wide, ${ints}::int[] as ints, ${sql.array(flags as boolean[], OID.bool)}::boolean[] as flags,
              ${sql.array(bytes.map((b) => b && Buffer.from(b)) as Buffer[], OID.bytea)}::bytea[] as bytes,
              ${sql.array(dates as Date[], OID.timestamptz)}::timestamptz[] as dates`;
          assert.deepEqual({ ...row }, { texts, longs, wide, ints, flags, bytes: bytes.map((b) => b && Buffer.from(b)), dates });
        },
      ),
      { numRuns: 300 },
    );
  } finally {
    await database.drop();
  }
});
