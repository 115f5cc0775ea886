/** The sources of a chain as the guard stored them: written with the version of their form, read field by field with defaults. */
import type { SourceState } from '../chains/chain.ts';
import { asList, asObject, asText, asWhole, oneOf, type StoredJson } from '../core/stored-json.ts';
import type { Trust } from '../core/trust.ts';

/** One source as the guard last found it. */
export type StoredSource = {
  name: string;
  trust: Trust;
  state: SourceState['state'];
  reason: string | null;
  height: number | null;
  /** The highest block that was read and that this source has; null: not known. */
  through: number | null;
  software: string | null;
};

/** Grows when the meaning of a field changes. Entries without a version have the first form. */
const VERSION = 1;
const TRUSTS: readonly Trust[] = ['own', 'proven', 'claimed'];
const STATES: readonly SourceState['state'][] = ['ok', 'syncing', 'behind', 'unproven', 'down', 'wrong_network'];

export const sourcesToJson = (sources: readonly StoredSource[]): readonly StoredJson[] =>
  sources.map((source) => ({ v: VERSION, ...source }));

/** A source without a name is omitted. A trust or a state that this version does not know becomes the weakest one. */
export const sourcesFromJson = (value: unknown): StoredSource[] =>
  asList(value).flatMap((entry) => {
    const stored = asObject(entry);
    const name = asText(stored.name);
    if (name === null) return [];
    return {
      name,
      trust: oneOf(TRUSTS, stored.trust) ?? 'claimed',
      state: oneOf(STATES, stored.state) ?? 'down',
      reason: asText(stored.reason),
      height: asWhole(stored.height),
      through: asWhole(stored.through),
      software: asText(stored.software),
    };
  });
