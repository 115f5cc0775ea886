/** One line of doctor. */

/** `ok` is false when the operator has to act; when `ok` is true, a `fix` is advice. */
export type Finding = { check: string; ok: boolean; detail: string; fix: string | null };
export const good = (check: string, detail: string, advice: string | null = null): Finding => ({ check, ok: true, detail, fix: advice });
export const bad = (check: string, detail: string, fix: string): Finding => ({ check, ok: false, detail, fix });
