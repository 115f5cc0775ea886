/** What an entry of the audit log changed, as its row keeps it: written with the version of its form, read with defaults. */
import { asObject, type StoredJson } from '../core/stored-json.ts';

/** Grows when the meaning of a field changes. Entries without a version have the first form. */
const VERSION = 1;

/** The fields that changed, by the names that the dashboard shows. The version is not one of them. */
export const changeToJson = (change: object): StoredJson => ({ ...change, v: VERSION });

/** Null: nothing was stored. What is not an object has no fields. */
export function changeFromJson(value: unknown): StoredJson | null {
  if (value === null || value === undefined) return null;
  const { v: _, ...fields } = asObject(value);
  return fields;
}
