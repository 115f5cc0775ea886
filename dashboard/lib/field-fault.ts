/** A refusal of the API as the reader of a form knows it: by the label of the field, not by the name of the parameter. */

/** "rate_lock_minutes is invalid: …" as "Rate lock is invalid: …". Messages that begin with a word of their own stay as they are. */
export const withLabel = (fault: string, label: string): string =>
  fault.replace(/^[a-z][a-z0-9_]*(\[\d+\])?(\.[a-z_]+)?(?= (is|are|must|has|does|cannot|needs)\b)/, label.replace(/ \(optional\)$/, ''));
